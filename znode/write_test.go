package znode

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// step is one operation of a table, with the code of its result and, if it creates, the path.
type step struct {
	run  func(k *client) Result
	want jute.Code
	path string
}

func create(path string, flags jute.CreateMode) func(*client) Result {
	return func(k *client) Result { return k.create(path, flags) }
}

func del(path string, version int32) func(*client) Result {
	return func(k *client) Result { return k.delete(path, version) }
}

func set(path string, version int32) func(*client) Result {
	return func(k *client) Result { return k.setData(path, "y", version) }
}

func ttl(path string, flags jute.CreateMode, ms int64) func(*client) Result {
	return func(k *client) Result { return k.createTTL(path, flags, ms) }
}

func raw(op jute.Op, body []byte) func(*client) Result {
	return func(k *client) Result { return k.do(op, body) }
}

// Each step takes exactly one zxid, failing or not.
func TestWrites(t *testing.T) {
	open := jute.OpenACL
	tests := []struct {
		name  string // with the numbers of the conformance cases
		steps []step
	}{
		{"100 no children of ephemerals", []step{
			{create("/e", 1), 0, "/e"},
			{create("/e/c", 0), -108, ""},
			{create("/e/c", 1), -108, ""},
			{create("/e/c", 2), -108, ""},
			{create("/e/c", 3), -108, ""},
		}},
		{"112 113 114 115 116", []step{
			{create("/a", 0), 0, "/a"},
			{create("/a", 0), -110, ""},
			{create("/no/child", 0), -101, ""},
			{create("/", 0), -110, ""},
			{create("", 0), -8, ""},
			{create("a", 0), -8, ""},
		}},
		{"117 null path", []step{
			{raw(jute.OpCreate, jute.CreateRequest{ACL: open}.Append(nil)), -5, ""},
			{raw(jute.OpDelete, jute.DeleteRequest{}.Append(nil)), -5, ""},
			{raw(jute.OpSetData, jute.SetDataRequest{}.Append(nil)), -8, ""},
			{raw(jute.OpSetACL, jute.SetACLRequest{ACL: open}.Append(nil)), -8, ""},
		}},
		{"118 119 120 trailing slash", []step{
			{create("/x/", 0), -101, ""}, {create("/x", 0), 0, "/x"}, {create("/x/", 0), -8, ""}, {create("/x/", 2), 0, "/x/0000000000"},
		}},
		{"121 122 123", []step{
			{create("//", 0), -8, ""},
			{create("/x", 0), 0, "/x"},
			{create("/x//y", 0), -101, ""},
			{create("/x/../y", 0), -101, ""},
			{create("/x/./y", 0), -101, ""},
			{create("/.", 0), -8, ""},
			{create("/..", 0), -8, ""},
			{create("/x/.", 0), -8, ""},
		}},
		{"124 127 odd but allowed", []step{
			{create("/...", 0), 0, "/..."},
			{create("/.a", 0), 0, "/.a"},
			{create("/a.", 0), 0, "/a."},
			{create("/a..b", 0), 0, "/a..b"},
			{create("/x y", 0), 0, "/x y"},
			{create("/q\u00e9", 0), 0, "/q\u00e9"},
			{create("/\u00a0", 0), 0, "/\u00a0"},
			{create("/\uf900", 0), 0, "/\uf900"},
			{create("/漢字", 0), 0, "/漢字"},
		}},
		{"125 126 characters", []step{
			{create("/a\x00b", 0), -8, ""},
			{create("/\x01", 0), -8, ""},
			{create("/\x1f", 0), -8, ""},
			{create("/\x7f", 0), -8, ""},
			{create("/\u009f", 0), -8, ""},
			{create("/\xed\xa0\x80", 0), -8, ""},
			{create("/\ue000", 0), -8, ""},
			{create("/\uf8ff", 0), -8, ""},
			{create("/\ufff0", 0), -8, ""},
			{create("/a\nb", 0), -8, ""},
			{create("/\U0001f600", 0), -8, ""},
			{create("/\xff", 0), -8, ""},
		}},
		{"130 131 no acl", []step{
			{func(k *client) Result { return k.createACL("/a", 0, nil) }, -114, ""},
			{func(k *client) Result { return k.createACL("/a", 0, []jute.ACL{}) }, -114, ""},
			{func(k *client) Result { return k.createACL("/no/child", 0, []jute.ACL{}) }, -114, ""},
		}},
		{"132 285 flags", []step{
			{create("/f", -1), -8, ""},
			{create("/f", 7), -8, ""},
			{create("/f", 100), -8, ""},
			{create("/f", 5), -8, ""},
			{create("/f", 6), -8, ""},
			{create("/f", 4), 0, "/f"},
			{raw(jute.OpCreate2, createOp("/g", "", 9, open).Append(nil)), -8, ""},
		}},
		{"134 built-in nodes stay", []step{
			{del("/", anyVersion), -8, ""},
			{del("/zookeeper", anyVersion), -8, ""},
			{del("/zookeeper/quota", anyVersion), -8, ""},
			{del("/zookeeper/config", anyVersion), -8, ""},
			{del("", anyVersion), -8, ""},
		}},
		{"135 paths of setData and delete", []step{
			{set("", anyVersion), -8, ""},
			{set("a", anyVersion), -8, ""},
			{create("/x", 0), 0, "/x"},
			{set("/x/", anyVersion), -8, ""},
			{del("/x/", anyVersion), -101, ""},
			{del("//", anyVersion), -101, ""},
			{del("/x\x00", anyVersion), -8, ""},
			{del("/no/x", anyVersion), -101, ""},
		}},
		{"140 sequence", []step{
			{create("/q", 0), 0, "/q"}, {create("/q/n-", 2), 0, "/q/n-0000000000"}, {create("/q/n-", 2), 0, "/q/n-0000000001"}, {create("/q/n-", 2), 0, "/q/n-0000000002"},
		}},
		{"141 143 one counter for all children", []step{
			{create("/q", 0), 0, "/q"}, {create("/q/x", 0), 0, "/q/x"}, {create("/q/a-", 2), 0, "/q/a-0000000001"}, {create("/q/b-", 3), 0, "/q/b-0000000002"},
		}},
		{"142 numbers are not used again", []step{
			{create("/q", 0), 0, "/q"}, {create("/q/n-", 2), 0, "/q/n-0000000000"}, {del("/q/n-0000000000", anyVersion), 0, ""}, {create("/q/n-", 2), 0, "/q/n-0000000001"},
		}},
		{"144 a failure does not count", []step{
			{create("/q", 0), 0, "/q"}, {create("/q/x", 0), 0, "/q/x"}, {create("/q/x", 0), -110, ""}, {create("/q/n-", 2), 0, "/q/n-0000000001"},
		}},
		{"145 collision", []step{
			{create("/q", 0), 0, "/q"},
			{create("/q/n-0000000001", 0), 0, "/q/n-0000000001"},
			{create("/q/n-", 2), -110, ""},
			{create("/q/n-", 2), -110, ""},
			{create("/q/other", 0), 0, "/q/other"},
			{create("/q/n-", 2), 0, "/q/n-0000000002"},
		}},
		{"146 a new parent starts again", []step{
			{create("/q", 0), 0, "/q"},
			{create("/q/n-", 2), 0, "/q/n-0000000000"},
			{del("/q/n-0000000000", anyVersion), 0, ""},
			{del("/q", anyVersion), 0, ""},
			{create("/q", 0), 0, "/q"},
			{create("/q/n-", 2), 0, "/q/n-0000000000"},
		}},
		{"157 158 versions of data", []step{
			{create("/s", 0), 0, "/s"}, {set("/s", anyVersion), 0, ""}, {set("/s", 0), -103, ""}, {set("/s", 1), 0, ""}, {set("/s", anyVersion), 0, ""}, {set("/s", -2), -103, ""},
		}},
		{"159 versions of the acl", []step{
			{create("/s", 0), 0, "/s"},
			{func(k *client) Result { return k.setACL("/s", open, 5) }, -103, ""},
			{func(k *client) Result { return k.setACL("/s", open, 0) }, 0, ""},
			{func(k *client) Result { return k.setACL("/s", open, 0) }, -103, ""},
		}},
		{"160 161 162 163", []step{
			{set("/s", 7), -101, ""},
			{create("/s", 0), 0, "/s"},
			{del("/s", 3), -103, ""},
			{del("/s", 0), 0, ""},
			{del("/s", 0), -101, ""},
			{create("/s", 0), 0, "/s"},
			{create("/s/c", 0), 0, "/s/c"},
			{del("/s", anyVersion), -111, ""},
			{del("/s", 5), -103, ""},
		}},
		{"186 187", []step{
			{create("/s", 0), 0, "/s"},
			{func(k *client) Result { return k.setACL("/s", nil, anyVersion) }, -114, ""},
			{func(k *client) Result { return k.setACL("/no", []jute.ACL{}, anyVersion) }, -114, ""},
			{func(k *client) Result { return k.setACL("/no", open, anyVersion) }, -101, ""},
		}},
		{"282 283 285 modes and times to live", []step{
			{ttl("/t", 5, 0), -8, ""},
			{ttl("/t", 5, -1), -8, ""},
			{ttl("/t", 5, jute.MaxTTL+1), -8, ""},
			{ttl("/t", 5, jute.MaxTTL), 0, "/t"},
			{ttl("/t-", 6, 1), 0, "/t-0000000001"},
			{ttl("/t", 0, 100), -8, ""},
			{ttl("/t", 0, -1), -8, ""},
			{ttl("/t", 4, -1), -8, ""},
			{ttl("/t", 9, 5), -8, ""},
			{create("/c", 5), -8, ""},
			{create("/c", 6), -8, ""},
			{create("/c", 7), -8, ""},
			{raw(jute.OpCreate2, createOp("/c", "", 5, open).Append(nil)), -8, ""},
			{raw(jute.OpCreateContainer, createOp("/c", "", 5, open).Append(nil)), -8, ""},
			{raw(jute.OpCreateContainer, createOp("/c-", "", 3, open).Append(nil)), 0, "/c-0000000002"},
		}},
		{"100 other kinds have children of all kinds", []step{
			{raw(jute.OpCreateContainer, createOp("/c", "", 1, open).Append(nil)), 0, "/c"},
			{create("/c/e", 1), 0, "/c/e"},
			{ttl("/c/t", 5, 9), 0, "/c/t"},
			{create("/c/t/e", 1), 0, "/c/t/e"},
			{ttl("/c/t/e/x", 5, 9), -108, ""},
			{raw(jute.OpCreateContainer, createOp("/c/t/e/x", "", 4, open).Append(nil)), -108, ""},
		}},
		{"272 not for clients", []step{
			{raw(jute.OpCheck, nil), -6, ""}, {raw(jute.OpExpire, nil), -6, ""}, {raw(jute.OpReap, nil), -6, ""}, {raw(jute.OpDeleteContainer, nil), -6, ""},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			for i, s := range tt.steps {
				before := w.s().Zxid()
				r := s.run(k)
				if r.Code != s.want || r.Path != s.path {
					t.Errorf("step %d: %v (%d) path %q, want %d path %q", i, r.Code, r.Code, r.Path, s.want, s.path)
				}
				if r.Zxid != before+1 || w.s().Zxid() != before+1 {
					t.Errorf("step %d: zxid %#x after %#x", i, r.Zxid, before)
				}
			}
			checkInvariants(t, w.s())
		})
	}
}

// Cases 128, 129 and 139: null and empty data differ. A body that is cut short takes no zxid.
func TestBodies(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.do(jute.OpCreate, jute.CreateRequest{Path: []byte("/null"), ACL: jute.OpenACL}.Append(nil)))
	k.must(k.do(jute.OpCreate, jute.CreateRequest{Path: []byte("/empty"), Data: []byte{}, ACL: jute.OpenACL}.Append(nil)))
	for path, null := range map[string]bool{"/null": true, "/empty": false} {
		data, st, code := w.s().GetData([]byte(path), nil, nil)
		if code != jute.OK || (data == nil) != null || len(data) != 0 || st.DataLength != 0 {
			t.Errorf("%s: %v null %t %+v", path, code, data == nil, st)
		}
	}
	body := createOp("/kept", "data", 0, aclOf(31, "digest", "u:p")).Append(nil)
	k.must(k.do(jute.OpCreate, body))
	clear(body) // the state keeps no part of a transaction's memory
	if data, _, _ := w.s().GetData([]byte("/kept"), []*proto.Identity{{Scheme: "digest", Id: "u:p"}}, nil); string(data) != "data" {
		t.Errorf("%q", data)
	}
	before := encode(t, w.s().Snapshot())
	whole := createOp("/a", "data", 0, jute.OpenACL).Append(nil)
	for _, op := range []jute.Op{jute.OpCreate, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpCreateSession, jute.OpAttach} {
		if r := k.do(op, whole[:5]); r.Code != jute.MarshallingError || r.Zxid != w.s().Zxid() {
			t.Errorf("%v: %v", op, r.Code)
		}
	}
	state := w.replicated()
	state.lastIndex, state.timeMs, state.members[1].lastSeq = state.lastIndex-6, state.timeMs-6, state.members[1].lastSeq-6
	state.latestMs = state.timeMs
	if !slices.Equal(before, encode(t, w.s().Snapshot())) {
		t.Error("a body that cannot be decoded changed more than the cursor")
	}
}

// Cases 99, 150 to 156 and 166: how writes to a node and below it change its Stat.
func TestStat(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	z := func() int64 { return w.s().Zxid() }
	same := func(path string, want jute.Stat) {
		t.Helper()
		if got := k.stat(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	root := k.stat("/")
	if root.Cversion != -1 || root.NumChildren != 1 || root.Czxid != 0 || root.Mtime != 0 {
		t.Errorf("164: %+v", root)
	}
	if st := k.stat("/zookeeper"); st.Cversion != -2 || st.NumChildren != 2 {
		t.Errorf("165: %+v", st)
	}
	if st := k.stat("/zookeeper/config"); st.Aversion != -1 || st.Version != 0 {
		t.Errorf("297: %+v", st)
	}

	r := k.must(k.create("/s", 0))
	s := jute.Stat{Czxid: z(), Mzxid: z(), Pzxid: z(), Ctime: w.now, Mtime: w.now, DataLength: 1}
	if r.Stat != s {
		t.Errorf("133: %+v, want %+v", r.Stat, s)
	}
	same("/s", s)
	k.must(k.create("/s/c", 1))
	s.Cversion, s.NumChildren, s.Pzxid = 1, 1, z()
	same("/s", s)
	same("/s/c", jute.Stat{Czxid: z(), Mzxid: z(), Pzxid: z(), Ctime: w.now, Mtime: w.now, DataLength: 1, EphemeralOwner: k.id})
	k.must(k.delete("/s/c", 0))
	s.Cversion, s.NumChildren, s.Pzxid = 2, 0, z()
	same("/s", s)
	r = k.must(k.setData("/s", "0123456789", 0))
	s.Version, s.Mzxid, s.Mtime, s.DataLength = 1, z(), w.now, 10
	same("/s", s)
	if r.Stat != s {
		t.Errorf("156: %+v, want %+v", r.Stat, s)
	}
	r = k.must(k.setACL("/s", jute.OpenACL, 0))
	s.Aversion = 1
	same("/s", s)
	if r.Stat != s {
		t.Errorf("159: %+v, want %+v", r.Stat, s)
	}
	for i := range 10 {
		k.must(k.create(fmt.Sprintf("/s/%d", i), 0))
	}
	s.Cversion, s.NumChildren, s.Pzxid = 12, 10, z()
	same("/s", s)
	k.must(k.create("/s/1/x", 0)) // case 155
	same("/s", s)
	for i := 5; i < 8; i++ {
		k.must(k.delete(fmt.Sprintf("/s/%d", i), -1))
	}
	s.Cversion, s.NumChildren, s.Pzxid = 15, 7, z()
	same("/s", s)
}

// Cases 164, 165 and 297: the nodes that are always there, as a client finds them, and after a
// client has created a child.
func TestBuiltinNodes(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	tests := []struct {
		path     string
		stat     jute.Stat
		below    int32 // cversion when there is one child more
		children []string
		perms    jute.Perm
	}{
		{rootPath, jute.Stat{Cversion: -1, NumChildren: 1}, 0, []string{"zookeeper"}, jute.PermAll},
		{zkPath, jute.Stat{Cversion: -2, NumChildren: 2}, -1, []string{"config", "quota"}, jute.PermAll},
		{quotaPath, jute.Stat{}, 1, []string{}, jute.PermAll},
		{ConfigPath, jute.Stat{Aversion: -1}, 0, []string{}, jute.PermRead},
	}
	for _, tt := range tests {
		data, st, code := w.s().GetData([]byte(tt.path), k.ids, nil)
		if code != jute.OK || data == nil || len(data) != 0 || st != tt.stat {
			t.Errorf("%s: %v %q %+v, want %+v", tt.path, code, data, st, tt.stat)
		}
		if got := k.children(tt.path); !slices.Equal(got, tt.children) {
			t.Errorf("%s: children %q, want %q", tt.path, got, tt.children)
		}
		list, _, _ := w.s().GetACL([]byte(tt.path), k.ids)
		if len(list) != 1 || list[0].Perms != tt.perms || string(list[0].ID.Scheme) != "world" {
			t.Errorf("%s: %+v", tt.path, list)
		}
		if r := k.delete(tt.path, -1); r.Code != jute.BadArguments {
			t.Errorf("delete %s: %v", tt.path, r.Code)
		}
		if tt.perms&jute.PermCreate == 0 {
			continue
		}
		k.must(k.create(strings.TrimSuffix(tt.path, "/")+"/x", 0))
		st = k.stat(tt.path)
		want := jute.Stat{Cversion: tt.below, NumChildren: tt.stat.NumChildren + 1, Pzxid: w.s().Zxid()}
		if st != want {
			t.Errorf("%s with a child: %+v, want %+v", tt.path, st, want)
		}
		k.must(k.delete(strings.TrimSuffix(tt.path, "/")+"/x", 0))
	}
	if r := k.setData(ConfigPath, "mine", -1); r.Code != jute.NoAuth {
		t.Errorf("%v", r.Code)
	}
}

// setCreated sets the number of children that were ever created in the node at path.
func (w *world) setCreated(path string, n int64) {
	for _, s := range w.states {
		parent := editedNode(s, s.gen.Load(), path)
		parent.ensureOwnExtra().createCount = n
		s.replicated.tree.addHash(parent)
		s.replicated.tree.noteCreated(parent)
	}
}

// The count of creates stays at the end of its range.
func TestSequenceEnds(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/q", 0))
	w.setCreated("/q", math.MaxInt32)
	if r := k.create("/q/n-", 2); r.Path != "/q/n-2147483647" {
		t.Errorf("created %q, %v", r.Path, r.Code)
	}
	if r := k.create("/q/n-", 2); r.Code != jute.NodeExists {
		t.Errorf("%v", r.Code)
	}
	if r := k.create("/q/m-", 2); r.Path != "/q/m-2147483647" {
		t.Errorf("created %q, %v", r.Path, r.Code)
	}
	if got, want := w.s().MostCreated(), (ChildCount{"/q", MaxCreated}); got != want {
		t.Errorf("most created: %+v, want %+v", got, want)
	}
}

// With the rule LongNames, numbers continue after 2147483647. Only the term decides whether a count may pass it, and a
// count that has passed continues in any term. All states, restored ones too, stay equal.
func TestLongNames(t *testing.T) {
	w := newWorld(t, New(Config{}))
	k := w.connect()
	k.must(k.create("/q", 0))
	long := func(allowed bool) { w.rule(Rules{LongNames: allowed}) }
	next := func(want string) {
		t.Helper()
		r := k.create("/q/n-", jute.PersistentSequential)
		if got := strings.TrimPrefix(r.Path, "/q/n-"); got != want || (r.Code == jute.OK) != (want != "") ||
			want == "" && r.Code != jute.NodeExists {
			t.Errorf("created %q, %v, want %q", got, r.Code, want)
		}
	}
	w.setCreated("/q", MaxCreated-1)
	next("2147483646")
	next("2147483647")
	next("")
	long(true)
	next("2147483648")
	long(false)
	next("2147483649")
	k.must(k.create("/q/other", 0))
	next("2147483651")

	w.setCreated("/q", 8_999_999_998)
	next("8999999998")
	next("8999999999")
	multi := k.multi(
		jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte("/q/n-"), ACL: jute.OpenACL, Flags: jute.PersistentSequential}},
		jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte("/none"), Version: -1}},
	)
	if multi.Multi[1].Code != jute.NoNode {
		t.Errorf("%+v", multi)
	}
	next("9000000009000000000") // the multi has given it back
	next("9000000009000000001")
	names := k.children("/q")
	if !slices.IsSorted(names) || names[len(names)-2] != "n-9000000009000000001" {
		t.Errorf("the names are %q", names)
	}
	if got, want := k.stat("/q").Cversion, int32(2*int64(9_000_000_002)-int64(len(names))); got != want {
		t.Errorf("cversion %d, want %d", got, want)
	}
	again := restored(t, encode(t, w.s().Snapshot()))
	for _, s := range []*State{w.states[1], again} {
		if diff := Diff(w.s(), s); diff != "" {
			t.Error(diff)
		}
	}

	// A new leader of the rule skips the last number, which may have been given, and continues.
	k.must(k.create("/r", 0))
	long(true)
	w.setCreated("/r", MaxCreated-1)
	for _, want := range []string{"2147483646", "2147483648"} {
		if r := k.create("/r/", jute.EphemeralSequential); r.Path != "/r/"+want {
			t.Errorf("created %q, %v, want %s", r.Path, r.Code, want)
		}
	}
}

// A count stays at the highest number that a name can have, so that snapshots of it can be read.
func TestLongNamesEnd(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/q", 0))
	w.rule(Rules{LongNames: true})
	w.setCreated("/q", jute.MaxSequence-1)
	for _, want := range []string{"/q/n-9223372036854775806", "/q/n-9223372036854775807", ""} {
		if r := k.create("/q/n-", jute.PersistentSequential); r.Path != want || want == "" && r.Code != jute.NodeExists {
			t.Errorf("created %q, %v, want %q", r.Path, r.Code, want)
		}
	}
	k.must(k.create("/q/other", 0))
	if got := w.nodeAt("/q").numCreated(); got != jute.MaxSequence {
		t.Errorf("the count is %d", got)
	}
	if diff := Diff(w.s(), restored(t, encode(t, w.s().Snapshot()))); diff != "" {
		t.Error(diff)
	}
}

// MostCreated is the parent with the most creates, after a restore, too. After that parent was deleted or has passed the
// last number of ZooKeeper, it is another one, also one whose creates are rejected.
func TestMostCreated(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/p", 0))
	k.must(k.create("/q", 0))
	for range 5 {
		k.must(k.create("/q/n-", 2))
	}
	check := func(s *State, want ChildCount) {
		t.Helper()
		if got := s.MostCreated(); got != want {
			t.Errorf("most created: %+v, want %+v", got, want)
		}
	}
	check(w.s(), ChildCount{"/q", 5})
	check(restored(t, encode(t, w.s().Snapshot())), ChildCount{"/q", 5})
	for i := range 5 {
		k.must(k.delete(fmt.Sprintf("/q/n-%010d", i), -1))
	}
	k.must(k.delete("/q", -1))
	k.must(k.create("/p/a", 0))
	check(w.s(), ChildCount{"/p", 1})

	k.must(k.create("/r", 0))
	w.setCreated("/r", MaxCreated)
	k.must(k.create("/r/n-", 2))
	w.setCreated("/p", MaxCreated)
	check(w.s(), ChildCount{"/r", MaxCreated})
	w.rule(Rules{LongNames: true})
	k.must(k.create("/r/n-", 2))
	check(w.s(), ChildCount{})
	check(restored(t, encode(t, w.s().Snapshot())), ChildCount{"/p", MaxCreated})
	w.rule(Rules{})
	k.must(k.create("/r/n-", 2))
	check(w.s(), ChildCount{})
	k.must(k.create("/p/n-", 2))
	check(w.s(), ChildCount{"/p", MaxCreated})

	w.setCreated("/", MaxCreated)
	k.must(k.create("/n-", 2))
	k.must(k.delete("/p/n-2147483647", -1))
	k.must(k.delete("/p/a", -1))
	k.must(k.delete("/p", -1))
	check(w.s(), ChildCount{})
	if r := k.create("/n-", 2); r.Code != jute.NodeExists {
		t.Errorf("%v", r.Code)
	}
	check(w.s(), ChildCount{"/", MaxCreated})
}

// Case 296: in an ensemble, /zookeeper/config holds the ensemble's text. A client that may write
// the node can replace it.
func TestConfigNode(t *testing.T) {
	text := "server.1=a:2888:3888:participant\nversion=0"
	w := newWorld(t)
	s := New(Config{EnsembleText: []byte(text)})
	w.rules.SkipACL = true
	w.states = append(w.states[:0], s)
	w.index, w.seq[1] = 0, 0
	w.startTerm(1, 7)
	w.announce(1, 0, bootOf(1))
	read := func(s *State) (string, int32) {
		data, st, code := s.GetData([]byte(ConfigPath), nil, nil)
		if code != jute.OK || int(st.DataLength) != len(data) {
			t.Errorf("%v, %+v", code, st)
		}
		return string(data), st.Version
	}
	if got, v := read(s); got != text || v != -1 {
		t.Errorf("%q version %d", got, v)
	}
	restored := New(Config{EnsembleText: []byte("other")})
	if err := restored.RestoreSnapshot(strings.NewReader(string(encode(t, s.Snapshot())))); err != nil {
		t.Fatal(err)
	}
	if got, v := read(restored); got != "other" || v != -1 ||
		restored.TreeView().DataSize() != s.TreeView().DataSize()+int64(len("other")-len(text)) {
		t.Errorf("%q version %d", got, v)
	}
	k := w.connectUnchecked()
	k.setData(ConfigPath, "mine", -1)
	if got, v := read(s); got != "mine" || v != 0 {
		t.Errorf("%q version %d", got, v)
	}
	if err := restored.RestoreSnapshot(strings.NewReader(string(encode(t, s.Snapshot())))); err != nil {
		t.Fatal(err)
	}
	if got, v := read(restored); got != "mine" || v != 0 {
		t.Errorf("%q version %d", got, v)
	}
}

// A term that lasts for more than 2^32 transactions continues: zxids grow by one beyond the lower 32 bits, survive a
// snapshot, and the next term, whose first zxid is below, begins after them.
func TestZxidsBeyondTheLower32Bits(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 0))
	const last = int64(1)<<32 | 0xffffffff
	w.replicated().zxid = last - 1
	for i := range int64(4) {
		k.must(k.setData("/a", "x", -1))
		if got := w.s().Zxid(); got != last+i {
			t.Fatalf("zxid %#x, want %#x", got, last+i)
		}
	}
	if s := restored(t, encode(t, w.s().Snapshot())); s.Zxid() != last+3 || s.replicated.tree.nodeAt("/a").mzxid != last+3 {
		t.Errorf("restored: zxid %#x, mzxid %#x", s.Zxid(), s.replicated.tree.nodeAt("/a").mzxid)
	}
	w.startTerm(2, 8)
	k.must(k.setData("/a", "y", -1))
	if got := w.s().Zxid(); got != last+4 {
		t.Errorf("in the next term: zxid %#x, want %#x", got, last+4)
	}
	w.startTerm(9, 9)
	k.must(k.setData("/a", "z", -1))
	if got := w.s().Zxid(); got != 9<<32 {
		t.Errorf("in a later term: zxid %#x, want %#x", got, int64(9)<<32)
	}
}
