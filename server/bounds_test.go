package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// listOf returns a list of so many entries for users of the scheme digest.
func listOf(entries int) (list []jute.ACL) {
	for i := range entries {
		list = append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: fmt.Appendf(nil, "user%d:x", i)}})
	}
	return list
}

// ownList is a list for all identities of the client, with entries of scheme auth that differ in their permissions.
func ownList(entries int) (list []jute.ACL) {
	for i := range entries {
		list = append(list, jute.ACL{Perms: jute.PermAll + jute.Perm(i), ID: jute.ID{Scheme: []byte("auth")}})
	}
	return list
}

func node(path string, list []jute.ACL) jute.CreateRequest {
	return jute.CreateRequest{Path: []byte(path), ACL: list}
}

func multiOf(requests ...jute.CreateRequest) raw {
	var ops []jute.MultiOp
	for _, r := range requests {
		ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: r})
	}
	return jute.AppendMulti(nil, ops)
}

// many returns n requests that make returns.
func many(n int, make func(i int) jute.CreateRequest) (requests []jute.CreateRequest) {
	for i := range n {
		requests = append(requests, make(i))
	}
	return requests
}

// levels returns a multi of together checks. Their paths share no node, and each has each levels. The reply's header is
// OK, because an operation fails.
func levels(together, each int) raw {
	var ops []jute.MultiOp
	for i := range together / each {
		path := fmt.Sprintf("/%c%c%s", 'a'+i%26, 'A'+i/26, strings.Repeat("/x", each-1))
		ops = append(ops, jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte(path), Version: -1}})
	}
	return jute.AppendMulti(nil, ops)
}

// samePath returns a multi of so many checks of one path.
func samePath(n int) raw {
	path := []byte(strings.Repeat("/x", maxLevels))
	check := jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: path, Version: -1}}
	return jute.AppendMulti(nil, slices.Repeat([]jute.MultiOp{check}, n))
}

const identitiesInTest = 40 // of 36 bytes each, with their schemes

// The cost of a write is bounded before it enters the log: a rejected write takes no zxid. For each bound, a request
// that is just within it succeeds.
func TestBoundsOfWrites(t *testing.T) {
	deep := strings.Repeat("/x", maxLevels)
	long := "/" + strings.Repeat("x", DefaultMaxPath-1)
	own := func(i int) jute.CreateRequest { return node(fmt.Sprint("/own", i), ownList(1)) }
	mixed := func(i int) jute.CreateRequest {
		return node(fmt.Sprint("/mixed", i), slices.Concat(ownList(1), listOf(i + 1)[i:]))
	}
	quota := func(of, name string) jute.CreateRequest {
		return node("/zookeeper/quota/"+of+"/zookeeper_"+name, jute.OpenACL)
	}
	address := func(i int) jute.CreateRequest {
		return node(fmt.Sprint("/address", i), []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: fmt.Appendf(nil, "::%x", i)}}})
	}
	for _, tt := range []struct {
		name string
		op   jute.Op
		body record
		want jute.Code
	}{
		{"list as long as allowed", jute.OpCreate, node("/a", listOf(DefaultMaxACL)), jute.OK},
		{"longer list", jute.OpCreate, node("/b", listOf(DefaultMaxACL+1)), jute.InvalidACL},
		{"longer list in setACL", jute.OpSetACL, jute.SetACLRequest{Path: []byte("/"), ACL: listOf(DefaultMaxACL + 1), Version: -1}, jute.InvalidACL},
		{"longer list in a container", jute.OpCreateContainer, jute.CreateRequest{Path: []byte("/b"), ACL: listOf(DefaultMaxACL + 1), Flags: jute.Container}, jute.InvalidACL},
		{"longer list in a multi", jute.OpMulti, multiOf(node("/c", jute.OpenACL), node("/d", listOf(DefaultMaxACL+1))), jute.InvalidACL},
		{"as many entries in two lists", jute.OpMulti, multiOf(node("/e", listOf(600)), node("/f", listOf(601))), jute.OK},
		{"identities again and again", jute.OpCreate, node("/g", ownList(DefaultMaxACL/identitiesInTest)), jute.InvalidACL}, // 36 KB of lists for a request of 2 KB
		{"identities once", jute.OpCreate, node("/h", ownList(1)), jute.OK},
		{"identities in equal lists", jute.OpMulti, multiOf(many(500, own)...), jute.OK},
		{"identities in different lists", jute.OpMulti, multiOf(many(500, mixed)...), jute.InvalidACL},
		{"path as long as allowed", jute.OpCreate, node(long, jute.OpenACL), jute.OK},
		{"longer path", jute.OpCreate, node(long+"x", jute.OpenACL), jute.BadArguments},
		{"as many levels as allowed", jute.OpCreate, node(deep, jute.OpenACL), jute.NoNode},
		{"more levels", jute.OpCreate, node(deep+"/x", jute.OpenACL), jute.BadArguments},
		{"few levels of a long path", jute.OpCreate, node(strings.Repeat("/"+strings.Repeat("x", DefaultMaxPath/freeLevels-1), freeLevels), jute.OpenACL), jute.NoNode},
		{"more levels of a long path", jute.OpCreate, node(strings.Repeat("/"+strings.Repeat("x", 12_000), freeLevels+1), jute.OpenACL), jute.BadArguments},
		{"as many levels together as allowed", jute.OpMulti, levels(maxNewLevels-64, 64), jute.OK},
		{"more levels together", jute.OpMulti, levels(maxNewLevels+64, 64), jute.BadArguments},
		{"as many levels of one path", jute.OpMulti, samePath(maxAllLevels / maxLevels), jute.OK},
		{"more levels of one path", jute.OpMulti, samePath(maxAllLevels/maxLevels + 1), jute.BadArguments},
		{"as many lists as allowed", jute.OpMulti, multiOf(many(12, address)...), jute.OK},
		{"a list of its own for each node", jute.OpMulti, multiOf(many(1000, address)...), jute.InvalidACL},
		{"more levels in a multi", jute.OpMulti, multiOf(node(deep+"/x", jute.OpenACL)), jute.BadArguments},
		{"two quotas", jute.OpMulti, multiOf(node("/zookeeper/quota/r", jute.OpenACL), quota("r", "limits"), quota("r", "stats"), quota("r/s", "stats")), jute.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, false, nil)
			c := w.connect()
			for i := range identitiesInTest - 1 {
				c.must(jute.OpAuth, auth("digest", fmt.Sprintf("u%d:p", i)))
			}
			before := w.zxid()
			h, _ := c.call(tt.op, tt.body)
			if h.Err != tt.want {
				t.Errorf("%v, want %v", h.Err, tt.want)
			}
			if refused := tt.want != jute.OK && tt.want != jute.NoNode; refused != (w.zxid() == before) {
				t.Errorf("zxid %#x after %#x", w.zxid(), before)
			}
			c.must(jute.OpPing) // the connection goes on
		})
	}
}

// A watch is rejected on a path at which no node may be created.
func TestWatchesOfLongPaths(t *testing.T) {
	w := newWorld(t, false, func(c *Config) { c.Limits.MaxPath = 1 << 10 })
	c := w.connect()
	path := []byte("/" + strings.Repeat("x", 1<<10-1))
	again := func(path []byte) jute.SetWatches2 {
		list := [][]byte{[]byte("/"), path}
		return jute.SetWatches2{Data: [][]byte{}, Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: list}
	}
	for _, tt := range []struct {
		op   jute.Op
		body func(path []byte) record
		want [2]jute.Code // of a path that is as long as allowed, and of a longer one
	}{
		{jute.OpExists, func(path []byte) record { return jute.ExistsRequest{Path: path} }, [2]jute.Code{jute.NoNode, jute.NoNode}},
		{jute.OpExists, func(path []byte) record { return jute.ExistsRequest{Path: path, Watch: true} }, [2]jute.Code{jute.NoNode, jute.BadArguments}},
		{jute.OpAddWatch, func(path []byte) record { return jute.AddWatchRequest{Path: path, Mode: jute.AddWatchPersistent} }, [2]jute.Code{jute.OK, jute.BadArguments}},
		{jute.OpSetWatches2, func(path []byte) record { return again(path) }, [2]jute.Code{jute.OK, jute.BadArguments}},
	} {
		for i, path := range [][]byte{path, append(slices.Clone(path), 'x')} {
			if h, _ := c.call(tt.op, tt.body(path)); h.Err != tt.want[i] {
				t.Errorf("%v of a path of %d bytes: %v, want %v", tt.op, len(path), h.Err, tt.want[i])
			}
		}
	}
	w.state.RLock()
	defer w.state.RUnlock()
	if n := w.state.Watches().WatchCount(); n != 3 { // on the node at the path, on its children, and on the root
		t.Errorf("%d watches", n)
	}
}

// A short request that stores long lists weighs as much as its lists, because its transaction has their lengths.
func TestWritesWeighTheirLists(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	for i := range identitiesInTest - 1 {
		c.must(jute.OpAuth, auth("digest", fmt.Sprintf("u%d:p", i)))
	}
	c.must(jute.OpSetData, setData("/", "")) // after it the record of the session has the identities
	w.hold()
	c.request(jute.OpCreate, node("/own", ownList(1)))
	c.request(jute.OpCreate, node("/open", jute.OpenACL))
	c.request(jute.OpMulti, multiOf(node("/first", ownList(1)), node("/second", ownList(2)[1:])))
	c.expectSilence(10 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) != 3 {
		t.Fatalf("%d writes wait, want 3", len(w.pending))
	}
	const entry = 4 + 4 + 6 + 4 + 30 // permissions, digest, and a name with its hash, at least
	if got := w.pending[0].AclBytes; got < (identitiesInTest-1)*entry {
		t.Errorf("a create that stores %d entries has %d bytes of lists", identitiesInTest-1, got)
	}
	if got := w.pending[1].AclBytes; got != 0 {
		t.Errorf("a create with a list of its own has %d bytes of lists beyond its body", got)
	}
	if got, one := w.pending[2].AclBytes, w.pending[0].AclBytes; got != 2*one {
		t.Errorf("a multi that stores two different lists of %d bytes has %d bytes of lists", one, got)
	}
}
