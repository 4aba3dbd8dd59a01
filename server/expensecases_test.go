package server

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// These are the most expensive requests that are known. Each took longer, or added more, before a bound for its product was made.
func TestKnownExpenses(t *testing.T) {
	for name, play := range map[string]func(e *expenses, c *spender){
		"children of a node with 1 MB of data": childrenOfLongData,
		"two nodes with 1 MB of data by turns": turnsOfLongData,
		"lists of addresses and watchers":      addressesAndWatchers,
		"long paths and watchers":              longPathsAndWatchers,
		"deep paths that share no node":        deepPaths,
		"deep paths beside a thousand quotas":  deepPathsBesideQuotas,
		"deep ephemeral nodes of a session":    deepEphemerals,
		"a list of its own for each node":      manyLists,
		"quotas of a large subtree":            quotasOfMany,
		"watches of nodes with long lists":     watchesOfLongLists,
		"a request full of checks":             fullOf(jute.OpCheck),
		"a request full of creates":            fullOf(jute.OpCreate),
		"a request full of data":               fullOf(jute.OpSetData),
		"as many deletes as may be":            fullOf(jute.OpDelete),
	} {
		t.Run(name, func(t *testing.T) {
			checkExpenses(t, func() *expenses {
				e := newExpenses(t, &proto.TermStart{EnforceQuota: true, Sasl: true})
				play(e, e.client(identities(0, DefaultMaxIdentities, "digest", "%d-%d:0123456789012345678901234567")))
				return e
			})
		})
	}
}

func (e *expenses) fill(c *spender, path string) {
	_ = e.request(c, jute.OpSetData, jute.SetDataRequest{Path: []byte(path), Data: bytes.Repeat([]byte(path), 1_000_000/len(path)), Version: -1})
}

// childrenOfLongData: a create changes the parent, whose data are part of its hash.
func childrenOfLongData(e *expenses, c *spender) {
	parent := e.chain(c, "", 1, 1)
	e.fill(c, parent)
	var ops []jute.MultiOp
	for range e.ops {
		ops = append(ops, createOp(parent+"/"+e.name(1)))
	}
	_ = e.multi(c, ops)
}

// fullOf: a multi of one kind of the shortest operations has as many as fit the request, or as may be. Then it is sent with a last
// operation that fails, so that all are undone.
func fullOf(kind jute.Op) func(e *expenses, c *spender) {
	return func(e *expenses, c *spender) {
		e.watch("/", jute.AddWatchPersistentRecursive, c.ids)
		most := min(e.ops, (e.longest-e.longest/100)/len(jute.AppendMulti(nil, []jute.MultiOp{shortOp(kind, 0)})), znode.MaxMultiSteps/znode.MultiOpSteps(kind, len(c.ids))-1)
		var nodes, ops []jute.MultiOp
		for i := range most {
			ops = append(ops, shortOp(kind, i))
			if nodes = append(nodes, shortOp(jute.OpCreate, i)); kind != jute.OpCreate && (len(nodes) == 10_000 || i == most-1) {
				_ = e.multi(c, nodes)
				nodes = nil
			}
		}
		missing := jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte("/none"), Version: -1}}
		_ = e.multi(c, append(ops, missing))
		_ = e.multi(c, ops)
	}
}

// shortOp returns an operation on a node with a short name, one for each i.
func shortOp(kind jute.Op, i int) jute.MultiOp {
	path := fmt.Appendf(nil, "/%s", strconv.FormatInt(int64(i), 36))
	switch kind {
	case jute.OpCreate:
		return createOp(string(path))
	case jute.OpDelete:
		return jute.MultiOp{Op: kind, Delete: jute.DeleteRequest{Path: path, Version: -1}}
	case jute.OpSetData:
		return setDataOp(string(path))
	}
	return jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: path, Version: -1}}
}

func turnsOfLongData(e *expenses, c *spender) {
	a, b := e.chain(c, "", 1, 1), e.chain(c, "", 1, 1)
	e.fill(c, a)
	e.fill(c, b)
	var ops []jute.MultiOp
	for range e.ops / 2 {
		ops = append(ops, createOp(a+"/"+e.name(1)), createOp(b+"/"+e.name(1)))
	}
	_ = e.multi(c, append(ops[:len(ops)-1], jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/none")}})) // so that all is undone
	_ = e.multi(c, ops)
}

// addressesAndWatchers: an address is searched in a list once for each number of bits that counts there.
func addressesAndWatchers(e *expenses, c *spender) {
	list := []jute.ACL{{Perms: jute.PermWrite, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}}}
	for bits := 1; bits <= 128; bits++ {
		id := fmt.Sprintf("ffff:%x::/%d", bits, bits)
		if bits <= 32 {
			id = fmt.Sprintf("250.%d.0.0/%d", bits, bits)
		}
		list = append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: []byte(id)}})
	}
	_ = e.request(c, jute.OpCreate, node("/p", list))
	var ops []jute.MultiOp
	for range e.ops {
		ops = append(ops, setDataOp("/p"))
	}
	for _, address := range []string{"192.0.2.1", "2001:db8::1"} {
		for range 200 {
			e.watch("/", jute.AddWatchPersistentRecursive, []*proto.Identity{newIdentity("ip", address)})
		}
		_ = e.multi(c, ops)
	}
}

// longPathsAndWatchers: each event has the path.
func longPathsAndWatchers(e *expenses, c *spender) {
	path := e.chain(c, "", 1, DefaultMaxPath-2)
	for range 2000 {
		e.watch("/", jute.AddWatchPersistentRecursive, c.ids)
	}
	_ = e.multi(c, []jute.MultiOp{setDataOp(path), setDataOp(path), setDataOp(path), setDataOp(path), setDataOp(path), setDataOp(path), setDataOp(path), setDataOp(path)})
}

// deepPaths: while a quota is enforced, a multi copies each node above those that it changes.
func deepPaths(e *expenses, c *spender) {
	e.quota(c, "/q")
	var ops []jute.MultiOp
	for range 600 {
		ops = append(ops, setDataOp(e.chain(c, "", maxLevels-2, 1)))
	}
	for n := len(ops); n > 50; n = n * 9 / 10 {
		if e.multi(c, ops[:n]) {
			break
		}
	}
}

// deepPathsBesideQuotas: each level of a path is compared with the paths of quotas.
func deepPathsBesideQuotas(e *expenses, c *spender) {
	parts := strings.Repeat("/x", maxLevels-4)
	for i := 2; i <= len(parts); i += 2 {
		_ = e.request(c, jute.OpCreate, node(parts[:i], jute.OpenACL))
		if i < len(parts)-6 {
			_ = e.request(c, jute.OpCreate, node("/zookeeper/quota"+parts[:i], jute.OpenACL))
		}
	}
	for i := range 1000 {
		e.quotaAt(c, fmt.Sprintf("/zookeeper/quota%s/%d", parts[:len(parts)-8], i))
	}
	e.watch(parts, jute.AddWatchPersistentRecursive, c.ids)
	var ops []jute.MultiOp
	for i := range 3700 {
		op := setDataOp(parts)
		op.SetData.Data = make([]byte, i%2) // so that all nodes above have more or less below them
		ops = append(ops, op)
	}
	for n := len(ops); n > 50; n = n * 9 / 10 {
		if e.multi(c, ops[:n]) {
			break
		}
	}
}

// deepEphemerals: the end of a session removes its nodes, and copies each node above them after a snapshot.
func deepEphemerals(e *expenses, c *spender) {
	e.quota(c, "/q")
	for range 1000 {
		path := e.chain(c, "", maxLevels-2, 1)
		_ = e.request(c, jute.OpCreate, jute.CreateRequest{Path: []byte(path + "/" + e.name(1)), ACL: jute.OpenACL, Flags: jute.Ephemeral})
	}
	for i := range 20 {
		e.watch(fmt.Sprint("/w", i), jute.AddWatchPersistentRecursive, c.ids)
	}
	_ = e.multi(c, []jute.MultiOp{setDataOp("/")}) // starts a new generation, as a snapshot does
	e.end(c)
}

// manyLists: a list takes memory beside its text.
func manyLists(e *expenses, c *spender) {
	for n := e.ops; n > 0; n /= 2 {
		var ops []jute.MultiOp
		for i := range n {
			list := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: fmt.Appendf(nil, "::%x:%x", n, i)}}}
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: node("/"+e.name(1), list)})
		}
		_ = e.multi(c, ops)
	}
}

// quotasOfMany: when one of a quota's two nodes is created, the usage of the whole subtree is counted.
func quotasOfMany(e *expenses, c *spender) {
	parent := e.chain(c, "", 1, 1)
	for range 5 {
		var ops []jute.MultiOp
		for range e.ops {
			ops = append(ops, createOp(parent+"/"+e.name(1)))
		}
		_ = e.multi(c, ops)
	}
	on := "/zookeeper/quota" + parent
	_ = e.request(c, jute.OpCreate, node(on, jute.OpenACL))
	_ = e.request(c, jute.OpCreate, node(on+"/zookeeper_stats", jute.OpenACL))
	var ops []jute.MultiOp
	for range e.ops / 2 {
		limits := on + "/zookeeper_limits"
		ops = append(ops, createOp(limits), jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(limits), Version: -1}})
	}
	_ = e.multi(c, ops)
}

// watchesOfLongLists: apply serves the requests behind a write, as many as a connection may have. Each setWatches compares the client with
// the lists of its nodes.
func watchesOfLongLists(e *expenses, c *spender) {
	const nodes = 700 // more paths than a setWatches has that is not long
	list := addresses(128)
	var paths []string
	for i := range nodes {
		own := jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("digest"), ID: fmt.Appendf(nil, "%d:x", i)}}
		paths = append(paths, fmt.Sprintf("/%x", i))
		_ = e.request(c, jute.OpCreate, node(paths[i], append(list[:len(list):len(list)], own)))
	}
	watcher := &spender{ids: append(c.ids[1:len(c.ids):len(c.ids)], newIdentity("ip", "2001:db8::1"))}
	r, req := &request{op: jute.OpSetWatches2}, jute.SetWatches2{}
	slow := e.srv.operations.of(r.op).tooSlowForApply
	for n := 1; n <= nodes; n++ { // the most that apply serves
		next := jute.SetWatches2{Data: pathList(paths[:n]), Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
		if r.body = next.Append(nil); slow(&session{}, r) {
			break
		}
		req = next
	}
	e.member.state.RLock()
	defer e.member.state.RUnlock()
	began := threadTime(e.tb)
	for range DefaultMaxInFlight - 1 {
		if code := e.member.state.SetWatches(&req, watcher, watcher.missed); code != jute.OK {
			e.tb.Fatal(code)
		}
	}
	what := fmt.Sprintf("%d setWatches of %d paths", DefaultMaxInFlight-1, len(req.Data))
	e.costs = append(e.costs, cost{what: what, took: threadTime(e.tb) - began})
}

func (c *spender) missed(_ jute.EventType, path []byte) { c.told += len(path) }

// addresses is a list that no address below is in, with each number of bits that an address of version 6 may have.
func addresses(bits int) (list []jute.ACL) {
	for n := 1; n <= bits; n++ {
		list = append(list, jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("ip"), ID: fmt.Appendf(nil, "ffff:%x::/%d", n, n)}})
	}
	return list
}

// What a request adds takes little more memory than the state counts.
func TestMemoryOfExpenses(t *testing.T) {
	tiny := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: []byte("::")}}}
	long := listOf(900)
	own := func(i int) []jute.ACL {
		return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}, {Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("ip"), ID: fmt.Appendf(nil, "::%x", i)}}}
	}
	for name, make := range map[string]func(i int) jute.MultiOp{
		"nodes":      func(i int) jute.MultiOp { return createOp(fmt.Sprintf("/%x", i)) },
		"ephemerals": func(i int) jute.MultiOp { return made(fmt.Sprintf("/%x", i), tiny, jute.Ephemeral) },
		"containers": func(i int) jute.MultiOp { return made(fmt.Sprintf("/%x", i), tiny, jute.Container) },
		"sequential": func(int) jute.MultiOp { return made("/", tiny, jute.EphemeralSequential) },
		"pairs": func(i int) jute.MultiOp {
			return createOp([]string{fmt.Sprintf("/%x", i), fmt.Sprintf("/%x/1", i-1)}[i%2])
		},
		"lists":      func(i int) jute.MultiOp { return made(fmt.Sprintf("/%x", i), own(i), 0) },
		"long lists": func(i int) jute.MultiOp { return made(fmt.Sprintf("/%x", i), append(own(i), long...), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newExpenses(t, &proto.TermStart{})
			c := e.client(identities(0, DefaultMaxIdentities, "digest", "%d-%d:0123456789012345678901234567"))
			var filling []jute.MultiOp
			for range e.ops {
				filling = append(filling, createOp("/"+e.name(8)))
			}
			atOnce := znode.MaxMultiSteps / znode.MultiOpSteps(jute.OpCreate, len(c.ids))
			for part := range slices.Chunk(filling, atOnce) {
				_ = e.multi(c, part)
			}
			// The index of nodes has its least size by now.
			var grown, paid int64
			ops := 0
			for n := atOnce; n > 0 && paid == 0; n /= 2 { // the largest multi of this kind that is allowed
				var all []jute.MultiOp
				for i := range n {
					all = append(all, make(i))
				}
				e.forget(c)
				before := heap()
				if e.multi(c, all) {
					cost := e.costs[len(e.costs)-1]
					paid, ops = int64(cost.paid), cost.ops
					e.forget(c)
					grown = heap() - before
				}
				runtime.KeepAlive(all)
			}
			t.Logf("%d bytes of memory for a request of %d with %d operations", grown, paid, ops)
			if most := mostMemory*paid + freeMemory; paid == 0 || grown > most {
				t.Errorf("%d bytes of memory for a request of %d, want at most %d", grown, paid, most)
			}
			runtime.KeepAlive(e)
		})
	}
}

// forget makes the state and the server forget the last large multi, which they keep until later ones.
func (e *expenses) forget(c *spender) {
	gone := jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/gone"), Version: -1}}
	for range 2 {
		_ = e.multi(c, []jute.MultiOp{createOp("/gone"), gone})
	}
}

func made(path string, list []jute.ACL, flags jute.CreateMode) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte(path), ACL: list, Flags: flags}}
}

// heap returns the number of bytes of memory in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one has found to be weakly referenced
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
