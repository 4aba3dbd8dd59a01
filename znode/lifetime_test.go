package znode

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// reap applies the leader's transaction that reaps path. No state may reject the entry.
func (w *world) reap(path string, neverUsedMs int64) {
	w.t.Helper()
	w.entry(&proto.Txn{Op: int32(jute.OpReap), Body: message(&proto.Reap{Path: path, NeverUsedMs: neverUsedMs})})
}

// dueNodes returns the paths that DueReapCandidates lists, two at a time.
func (w *world) dueNodes(now, neverUsedMs int64) []string {
	paths := []string{}
	var last ReapCandidate
	for {
		page := w.s().DueReapCandidates(now, neverUsedMs, last, 2)
		if len(page) == 0 {
			return paths
		}
		for _, c := range page {
			paths = append(paths, c.Path)
		}
		last = page[len(page)-1]
	}
}

func (w *world) wantDue(now, neverUsedMs int64, want ...string) {
	w.t.Helper()
	if got := w.dueNodes(now, neverUsedMs); !slices.Equal(got, want) {
		w.t.Errorf("due at %d: %q, want %q", now, got, want)
	}
	checkInvariants(w.t, w.s())
}

// wantGone reaps path and checks whether that removes the node. Only a reap that removes it takes a
// zxid.
func (w *world) wantGone(path string, neverUsedMs int64, gone bool) {
	w.t.Helper()
	_, before := w.s().Exists([]byte(path), nil, nil)
	zxid := w.s().Zxid()
	w.reap(path, neverUsedMs)
	_, code := w.s().Exists([]byte(path), nil, nil)
	if (before == jute.OK && code == jute.NoNode) != gone || (w.s().Zxid() == zxid+1) != gone {
		w.t.Errorf("reap %s: %v, then %v; zxid %#x after %#x", path, before, code, w.s().Zxid(), zxid)
	}
	checkInvariants(w.t, w.s())
}

// Cases 273 to 278: a container is removed once it has had children and has none left.
func TestContainers(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	if r := k.must(k.container("/c")); r.Stat.EphemeralOwner != 0 || r.Path != "/c" {
		t.Errorf("%+v", r)
	}
	w.wantDue(w.now+1e12, 0)
	w.wantGone("/c", 0, false)
	k.must(k.container("/c/d"))
	k.must(k.create("/c/d/x", 0))
	k.must(k.create("/c/d/y", 0))
	k.must(k.delete("/c/d/x", -1))
	w.wantGone("/c/d", 0, false)
	k.must(k.delete("/c/d/y", -1))
	w.wantDue(0, 0, "/c/d")
	w.wantGone("/c", 0, false)
	w.states = append(w.states, restored(t, encode(t, w.s().Snapshot())))
	_ = k.watchExists("/c/d")
	_ = k.watchChildren("/c")
	w.wantGone("/c/d", 0, true)
	k.wantEvents("Deleted(/c/d)", "Children(/c)")
	w.wantDue(0, 0, "/c")
	w.wantGone("/c", 0, true)
	w.wantDue(0, 0)
	if d := Diff(w.s(), w.states[1]); d != "" {
		t.Error(d)
	}
	e := w.connect()
	k.must(k.container("/c"))
	k.must(e.create("/c/e", 1))
	w.wantDue(0, 0)
	e.must(e.close())
	w.wantDue(0, 0, "/c")
	for _, path := range []string{"/", "", "/none", "/zookeeper", quotaPath} {
		w.wantGone(path, 1, false)
	}
}

// A container that was never used is removed after the leader's interval, if the leader has one.
func TestUnusedContainers(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.container("/c"))
	made := w.now
	k.must(k.container("/d"))
	k.must(k.createTTL("/t", 5, 3))
	w.wantDue(made+100, 100, "/t")
	w.wantDue(made+101, 100, "/t", "/c")
	w.wantDue(made+102, 100, "/t", "/c", "/d")
	w.wantDue(1<<62, 0, "/t")
	w.wantGone("/c", 100, false)
	w.now = made + 99
	w.wantGone("/c", 100, false) // at made + 100
	w.wantGone("/c", 100, true)
}

// Cases 279 to 281: a node with a TTL is removed when its TTL has passed since its last change,
// unless it has children.
func TestTTL(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	if r := k.must(k.createTTL("/t", 5, 100)); r.Stat.EphemeralOwner != 0 {
		t.Errorf("%+v", r.Stat)
	}
	made := w.now
	w.wantDue(made+99, 0)
	w.wantDue(made+100, 0, "/t")
	w.now = made + 49
	k.must(k.setData("/t", "y", -1)) // at made + 50
	w.wantDue(made+149, 0)
	w.wantDue(made+150, 0, "/t")
	w.now = made + 148
	w.wantGone("/t", 0, false) // at made + 149
	k.must(k.create("/t/x", 0))
	w.wantDue(made+1000, 0)
	w.now = made + 999
	w.wantGone("/t", 0, false)
	k.must(k.setACL("/t", jute.OpenACL, -1))
	k.must(k.delete("/t/x", -1))
	w.wantDue(made+150, 0, "/t")
	k.must(k.createTTL("/u", 5, jute.MaxTTL))
	w.wantDue(made+1000, 0, "/t")
	w.wantGone("/u", 0, false)
	w.wantGone("/t", 0, true)
	plain := w.connect()
	plain.must(plain.create("/p", 0))
	plain.must(plain.create("/e", 1))
	w.now += 1 << 50
	w.wantGone("/p", 1, false)
	w.wantGone("/e", 1, false)
}

// A node that was made or changed while the leader's clock was a year ahead seems younger than it
// is. It stays until that time and its TTL have come. If it is changed again under a right clock,
// only its TTL counts from then on. A node that was made under a clock a year behind seems a year
// old.
func TestTTLAfterAWrongClock(t *testing.T) {
	const year = int64(365 * 24 * 3600 * 1000)
	w := newWorld(t)
	w.states = append(w.states, restored(t, encode(t, w.s().Snapshot())))
	k := w.connect()
	right := w.now
	w.now = right + year
	k.must(k.createTTL("/ahead", 5, 100))
	k.must(k.createTTL("/mended", 5, 100))
	k.must(k.container("/c"))
	ahead := k.stat("/ahead").Mtime
	w.now = right - year
	k.must(k.createTTL("/behind", 5, 100))
	w.now = right
	k.must(k.createTTL("/right", 5, 100))
	k.must(k.setData("/mended", "y", -1))
	mended := w.now
	w.wantDue(mended+100, 50, "/behind", "/right", "/mended")
	w.now = mended + 100
	w.wantGone("/ahead", 50, false)
	w.wantGone("/c", 50, false)
	w.wantGone("/behind", 50, true)
	w.wantGone("/right", 50, true)
	w.wantGone("/mended", 50, true)
	w.wantDue(ahead+99, 0)
	w.wantDue(ahead+100, 0, "/ahead")
	w.now = ahead + 98
	w.wantGone("/ahead", 50, false) // at ahead + 99
	w.wantGone("/ahead", 50, true)
	w.wantGone("/c", 50, true)
	if d := Diff(w.s(), w.states[1]); d != "" {
		t.Error(d)
	}
}

// Case 284: if nodes with a TTL are switched off, creates with a TTL are rejected, and nothing else
// is.
func TestTTLSwitchedOff(t *testing.T) {
	w := newWorld(t)
	w.rule(Rules{})
	k := w.connect()
	for _, mode := range []jute.CreateMode{5, 6} {
		for _, op := range []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL} {
			body := jute.CreateTTLRequest{CreateRequest: createOp("/t", "", mode, jute.OpenACL), TTL: -1}.Append(nil)
			before := w.s().Zxid()
			if r := k.do(op, body); r.Code != jute.Unimplemented || r.Zxid != before+1 {
				t.Errorf("%v of mode %v: %v", op, mode, r.Code)
			}
		}
	}
	if r := k.createTTL("/t", 9, 5); r.Code != jute.BadArguments {
		t.Errorf("%v", r.Code)
	}
	k.must(k.container("/c"))
	r := k.multi(mk("/a", 0), jute.MultiOp{Op: jute.OpCreateTTL, Create: createOp("/t", "", 5, jute.OpenACL), TTL: 5}, mk("/b", 0))
	if got := outcome(r); !slices.Equal(got, []string{"-1/0", "-1/-6", "-1/-2"}) {
		t.Errorf("%q", got)
	}
}

// Case 254: the kinds of nodes that creates in a multi make, and the types of their results.
func TestKindsInMulti(t *testing.T) {
	plain, container, session, timed := lifetime{}, lifetime{isContainer: true}, lifetime{owner: 1<<56 + 1}, lifetime{ttlMs: 7}
	tests := []struct {
		op     jute.Op
		mode   jute.CreateMode
		result jute.Op
		want   lifetime
	}{
		{jute.OpCreate, 0, 1, plain},
		{jute.OpCreate, 1, 1, session},
		{jute.OpCreate, 4, 15, container},
		{jute.OpCreate2, 0, 15, plain},
		{jute.OpCreate2, 1, 15, session},
		{jute.OpCreate2, 4, 15, container},
		{jute.OpCreateContainer, 0, 15, container},
		{jute.OpCreateContainer, 1, 15, container},
		{jute.OpCreateContainer, 2, 15, container},
		{jute.OpCreateContainer, 4, 15, container},
		{jute.OpCreateTTL, 0, 1, plain},
		{jute.OpCreateTTL, 1, 1, session},
		{jute.OpCreateTTL, 3, 1, session},
		{jute.OpCreateTTL, 4, 15, container},
		{jute.OpCreateTTL, 5, 15, timed},
		{jute.OpCreateTTL, 6, 15, timed},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v %v", tt.op, tt.mode), func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			r := k.must(k.multi(jute.MultiOp{Op: tt.op, Create: createOp("/n", "", tt.mode, jute.OpenACL), TTL: 7}))
			got := r.Multi[0]
			if n := w.nodeAt(got.Path); got.Op != tt.result || n == nil || n.lifetime() != tt.want || got.Stat.EphemeralOwner != tt.want.owner {
				t.Errorf("%+v, %+v", got, n)
			}
		})
	}
	w := newWorld(t)
	k := w.connect()
	for _, ttl := range []int64{0, -1, jute.MaxTTL + 1} {
		r := k.multi(mk("/a", 0), jute.MultiOp{Op: jute.OpCreateTTL, Create: createOp("/n", "", 5, jute.OpenACL), TTL: ttl})
		if got := outcome(r); !slices.Equal(got, []string{"-1/0", "-1/-8"}) {
			t.Errorf("%d: %q", ttl, got)
		}
	}
	r := k.multi(jute.MultiOp{Op: jute.OpCreateTTL, Create: createOp("/n", "", 5, nil), TTL: 5})
	if got := outcome(r); !slices.Equal(got, []string{"-1/-114"}) {
		t.Errorf("null list: %q", got)
	}
}

// A multi that fails leaves the reaper's candidates as they were.
func TestCandidatesAfterFailedMulti(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.container("/unused"))
	k.must(k.container("/used"))
	k.must(k.create("/used/x", 0))
	k.must(k.createTTL("/t", 5, 100))
	k.must(k.createTTL("/u", 5, 100))
	made := w.now
	before := encode(t, w.s().Snapshot())
	w.now += 50
	timed := jute.MultiOp{Op: jute.OpCreateTTL, Create: createOp("/new", "", 5, jute.OpenACL), TTL: 5}
	r := k.multi(mk("/unused/x", 0), rm("/unused/x", -1), rm("/used/x", -1), put("/t", -1), mk("/t/x", 0), rm("/u", -1), timed, put("/new", -1), check("/none", -1))
	if got := outcome(r); got[len(got)-1] != "-1/-101" {
		t.Fatalf("%q", got)
	}
	w.wantDue(made+100, 0, "/t", "/u")
	w.wantDue(made+100, 1, "/t", "/u", "/unused")
	if s := restored(t, before); !bytes.Equal(nodesOf(t, s), nodesOf(t, w.s())) {
		t.Error("the tree has changed")
	}
}

// nodesOf returns the part of a snapshot that describes the tree.
func nodesOf(t *testing.T, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	out := newSectionWriter(&b, &ImageHead{})
	s.replicated.tree.walk(func(n *node) bool { out.writeNode(n); return true })
	if err := out.writeSnapshotEnd(0); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Only a leader reaps, by a transaction that can be read. A delete without a session does nothing.
func TestReapIsTheLeadersOwn(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.container("/c"))
	k.must(k.create("/c/x", 0))
	k.must(k.delete("/c/x", -1))
	if r := k.do(jute.OpReap, message(&proto.Reap{Path: "/c"})); r.Code != jute.Unimplemented {
		t.Errorf("%v", r.Code)
	}
	w.entry(&proto.Txn{Op: int32(jute.OpReap), Body: []byte{0xff}})
	w.entry(&proto.Txn{Op: int32(jute.OpDelete), Body: jute.DeleteRequest{Path: []byte("/c"), Version: -1}.Append(nil)})
	k.stat("/c")
}
