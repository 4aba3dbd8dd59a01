package znode

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// sweep applies a sweep by the leader for the given number of nodes.
func (w *world) sweep(nodes int) {
	w.t.Helper()
	w.entry(&proto.Txn{Op: int32(jute.OpSweep), Body: message(&proto.Sweep{Nodes: uint32(nodes)})})
}

// A session with more ephemeral nodes than may go at once ends with its close. Its nodes are
// removed in steps, in order, and each step takes a zxid. Watchers, parents and quotas see each
// node deleted.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	w.s().allow(3)
	k, other := w.connect(), w.connect()
	other.must(other.create("/p", 0))
	other.must(other.create("/q", 0))
	other.setQuota("/p", "count=100,bytes=100")
	usage := w.usage("/p")
	others := recount(w.replicated()).nodes
	for _, path := range []string{"/q/1", "/p/2", "/p/1", "/p/4", "/p/3"} {
		k.must(k.create(path, 1))
	}
	swept := []string{"/p/1", "/p/2", "/p/3", "/p/4", "/q/1"}
	for _, path := range swept {
		_ = other.watchData(path)
	}
	_ = other.watchChildren("/p")
	_ = other.watchChildren("/q")
	w.heard.log = nil
	r := k.must(k.close())
	if !r.NodesLeft {
		t.Error("the close is answered before its nodes are gone")
	}
	w.wantLog(fmt.Sprintf("closed %v of {1 %d} ephemerals 5", k.id, k.conn), "applied closeSession 0", "end")
	other.wantEvents()
	if _, ok := w.s().Session(k.id); ok || w.s().SessionCount() != 1 || !w.s().HasUnswept() || w.ephemeralCount() != 5 {
		t.Errorf("session there: %t; unswept %t, %d ephemerals", ok, w.s().HasUnswept(), w.ephemeralCount())
	}
	if st := other.stat("/p/1"); st.EphemeralOwner != k.id {
		t.Errorf("owner %v", st.EphemeralOwner)
	}
	checkInvariants(t, w.s())

	w.sweep(2)
	w.wantLog(fmt.Sprintf("swept %v last false", k.id), "end")
	other.wantEvents("Deleted(/p/1)", "Children(/p)", "Deleted(/p/2)")
	if st := other.stat("/p"); st.NumChildren != 2 || st.Cversion != 6 || st.Pzxid != w.s().Zxid() || w.s().Zxid() != r.Zxid+1 {
		t.Errorf("%+v at %#x", st, w.s().Zxid())
	}
	other.must(other.setData("/p/3", "more", 0))                         // it is as any node until its turn
	other.must(other.delete("/p/4", -1))                                 // before its turn
	other.must(other.createACL("/p/1", 0, aclOf(31, "world", "anyone"))) // the name is free again
	other.wantEvents("Changed(/p/3)", "Deleted(/p/4)")
	_ = other.watchData("/p/3")
	other.must(other.delete("/p/1", -1))
	w.heard.log, other.noted = nil, true
	w.sweep(2)
	other.noted = false
	w.wantLog("event", "event", "event", fmt.Sprintf("swept %v last true", k.id), "end")
	other.wantEvents("Deleted(/p/3)", "Deleted(/q/1)", "Children(/q)")
	if w.s().HasUnswept() || w.ephemeralCount() != 0 {
		t.Errorf("unswept %t, %d ephemerals", w.s().HasUnswept(), w.ephemeralCount())
	}
	if got := w.usage("/p"); got != usage {
		t.Errorf("usage %q, want %q", got, usage)
	}
	if recount(w.replicated()).nodes == others {
		t.Error("the parents do not show that children came and went")
	}
	checkInvariants(t, w.s())
	zxid := w.s().Zxid()
	w.sweep(2)
	w.wantLog("end")
	if w.s().Zxid() != zxid {
		t.Errorf("a sweep of nothing took zxid %#x", w.s().Zxid())
	}
}

// usage returns the data of the usage node of path.
func (w *world) usage(path string) string {
	return string(w.nodeAt(quotaPath + path + usageSuffix).data.bytes())
}

// A session whose nodes are removed in steps is over before the first step. Requests on its own
// connection fail, and no client can resume it or open another session with its id.
func TestUnsweptSessionIsOver(t *testing.T) {
	for name, end := range map[string]func(w *world, k *client){
		"closed":  func(_ *world, k *client) { k.must(k.close()) },
		"expired": func(w *world, k *client) { w.expire(k.id, w.index) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.s().allow(1)
			k, other := w.connect(), w.connect()
			k.must(k.create("/1", 1))
			k.must(k.create("/2", 1))
			since := k.since()
			end(w, k)
			if !w.s().HasUnswept() {
				t.Fatal("no nodes are left to sweep")
			}
			for what, r := range map[string]Result{
				"create": k.create("/3", 1), "setData": k.setData("/1", "", -1), "delete": k.delete("/2", -1),
				"close": k.close(),
			} {
				if r.Code != jute.SessionExpired || r.NodesLeft {
					t.Errorf("%s: %v, later %t", what, r.Code, r.NodesLeft)
				}
			}
			if r := k.multi(jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/1"), Version: -1}}); r.Multi[0].Code != jute.SessionExpired {
				t.Errorf("multi: %+v", r.Multi)
			}
			if _, r := k.attach(1, since, password(k.id)); r.Code != jute.SessionExpired {
				t.Errorf("resumed here: %v", r.Code)
			}
			if _, r := k.attach(2, 0, password(k.id)); r.Code == jute.OK {
				t.Errorf("resumed elsewhere: %v", r.Code)
			}
			if r := k.open(); r.Code != jute.NodeExists {
				t.Errorf("opened again: %v", r.Code)
			}
			w.expire(k.id, w.index) // a second time
			if n := len(w.replicated().unsweptIDs()); n != 1 || w.ephemeralCount() != 2 {
				t.Errorf("%d sessions, %d nodes to sweep", n, w.ephemeralCount())
			}
			other.stat("/1")
			checkInvariants(t, w.s())
		})
	}
}

// A state that is restored from a snapshot between two steps continues as the others do.
func TestSnapshotOfUnswept(t *testing.T) {
	for steps := range 6 {
		late := newStepping()
		w := newWorld(t)
		w.s().allow(1)
		for i := range 2 {
			k := w.connect()
			for j := range 3 {
				k.must(k.create(fmt.Sprintf("/%d-%d", j, i), 1))
			}
			k.must(k.close())
		}
		for range steps {
			w.sweep(1)
		}
		if err := late.RestoreSnapshot(bytes.NewReader(encode(t, w.s().Snapshot()))); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, late)
		w.states = append(w.states, late)
		for left := 6 - steps; ; left-- {
			if d := Diff(w.s(), late); d != "" {
				t.Fatal(d)
			}
			if n := late.TreeView().EphemeralCount(); n != left || late.HasUnswept() != (left > 0) {
				t.Fatalf("%d nodes, want %d; unswept %t", n, left, late.HasUnswept())
			}
			if left == 0 {
				break
			}
			w.sweep(1)
		}
	}
}

// ephemerals opens a session with n ephemeral nodes: /prefix-0 and so on.
func (w *world) ephemerals(prefix string, n int) *client {
	w.t.Helper()
	k := w.connect()
	for i := range n {
		k.must(k.create(fmt.Sprintf("/%s-%d", prefix, i), 1))
	}
	return k
}

func (w *world) expiryOf(k *client) *proto.Txn {
	return &proto.Txn{Session: int64(k.id), Op: int32(jute.OpExpire), Body: message(&proto.Expire{OwnerIndex: w.index})}
}

func sweepOf(nodes uint32) *proto.Txn {
	return &proto.Txn{Op: int32(jute.OpSweep), Body: message(&proto.Sweep{Nodes: nodes})}
}

// All sessions that end in one entry, by a close or an expiry, share one budget of nodes, in the
// order of the log. A session with nodes that do not fit leaves all of them. A later session with
// nodes that fit takes them with it. The next entry has a budget of its own.
func TestSessionsOfAnEntryShareABudget(t *testing.T) {
	w := newWorld(t)
	w.s().allow(5)
	a, b, c, d, e, f := w.ephemerals("a", 2), w.ephemerals("b", 2), w.ephemerals("c", 2), w.ephemerals("d", 1), w.ephemerals("e", 0), w.ephemerals("f", 5)
	w.entry(w.next(1, a.txn(jute.OpCloseSession, nil)), w.expiryOf(b), w.expiryOf(c), w.next(1, d.txn(jute.OpCloseSession, nil)), w.expiryOf(e))
	if got := w.replicated().unsweptIDs(); !slices.Equal(got, []jute.SessionID{c.id}) || w.ephemeralCount() != 2+5 ||
		w.s().SessionCount() != 1 {
		t.Errorf("unswept %v, %d nodes, %d sessions; want %v alone to be left with its 2", got, w.ephemeralCount(), w.s().SessionCount(), c.id)
	}
	w.entry(w.next(1, f.txn(jute.OpCloseSession, nil)))
	if n := w.ephemeralCount(); n != 2 {
		t.Errorf("%d nodes are left, want 2: the next entry has a budget of its own", n)
	}
	checkInvariants(t, w.s())
}

// A sweep removes nodes of as many sessions as it has room for, in the order of their ids, at one
// zxid. It reports each session. The nodes count against the budget of its entry.
func TestSweepOfManySessions(t *testing.T) {
	w := newWorld(t)
	w.s().allow(0)
	a, b, c, d := w.ephemerals("a", 1), w.ephemerals("b", 2), w.ephemerals("c", 2), w.ephemerals("d", 2)
	for _, k := range []*client{a, b, c} {
		if r := k.must(k.close()); !r.NodesLeft {
			t.Fatal("the close is answered before its nodes are gone")
		}
	}
	w.s().allow(5)
	w.heard.log = nil
	zxid := w.s().Zxid()
	w.entry(sweepOf(4), w.next(1, d.txn(jute.OpCloseSession, nil)))
	w.wantLog(fmt.Sprintf("swept %v last true", a.id), fmt.Sprintf("swept %v last true", b.id), fmt.Sprintf("swept %v last false", c.id),
		fmt.Sprintf("closed %v of {1 %d} ephemerals 2", d.id, d.conn), "applied closeSession 0", "end")
	if w.s().Zxid() != zxid+2 {
		t.Errorf("zxid %#x after a sweep and a close, was %#x", w.s().Zxid(), zxid)
	}
	if got := w.replicated().unsweptIDs(); !slices.Equal(got, []jute.SessionID{c.id, d.id}) || w.ephemeralCount() != 3 {
		t.Errorf("unswept %v, %d nodes; want a sweep of 4 to leave the close room for 1 of 2", got, w.ephemeralCount())
	}
	w.s().allow(1)
	w.heard.log = nil
	w.entry(sweepOf(4))
	w.wantLog(fmt.Sprintf("swept %v last true", c.id), "end")
	if n := w.ephemeralCount(); n != 2 {
		t.Errorf("%d nodes, want a sweep that asks for more than the entry has left to remove 1 of 3", n)
	}
	checkInvariants(t, w.s())
}

// A sweep also counts sessions with nodes that others have deleted. It therefore visits a limited number of sessions.
func TestSweepOfSessionsWithoutNodes(t *testing.T) {
	w := newWorld(t)
	w.s().allow(0)
	other := w.connect()
	for i := range 4 {
		k := w.ephemerals(fmt.Sprint(i), 1)
		k.must(k.close())
		other.must(other.delete(fmt.Sprintf("/%d-0", i), -1))
	}
	w.s().allow(3)
	w.sweep(5)
	if n := len(w.replicated().unsweptIDs()); n != 1 {
		t.Errorf("%d sessions left of 4 after a sweep with a budget of 3", n)
	}
	w.sweep(5)
	if w.s().HasUnswept() {
		t.Error("the last session without nodes is not forgotten")
	}
}

// Only a leader sweeps, by a transaction that can be read.
func TestSweepRefused(t *testing.T) {
	w := newWorld(t)
	w.s().allow(0)
	k, other := w.connect(), w.connect()
	k.must(k.create("/1", 1))
	k.must(k.close())
	if r := other.do(jute.OpSweep, message(&proto.Sweep{Nodes: 1})); r.Code != jute.Unimplemented {
		t.Errorf("%v", r.Code)
	}
	zxid := w.s().Zxid()
	w.entry(&proto.Txn{Op: int32(jute.OpSweep), Body: []byte{0xff}})
	if got := w.replicated().unsweptIDs(); !slices.Equal(got, []jute.SessionID{k.id}) || w.ephemeralCount() != 1 || w.s().Zxid() != zxid {
		t.Errorf("unswept %v, %d nodes", got, w.ephemeralCount())
	}
}

// A budget charges what fits, and nothing else.
func TestRemovalBudget(t *testing.T) {
	b := removalBudget{entryLimit: 5}
	for entry := range 2 {
		b.refill()
		if got := [4]bool{b.trySpend(3), b.trySpend(3), b.trySpend(2), b.trySpend(1)}; got != [4]bool{true, false, true, false} ||
			b.remaining != 0 {
			t.Errorf("entry %d: took %t, %d left", entry, got, b.remaining)
		}
	}
}

// The removal of a node at a deep path costs more, so a sweep removes fewer. It begins one more node while anything of
// its limit is left, so that it makes progress whatever the limit is.
func TestSweepOfDeepNodes(t *testing.T) {
	w := newWorld(t)
	w.s().allow(5)
	k, other := w.connect(), w.connect()
	folder := ""
	for range 2 * levelsPerRemoval {
		folder += "/d"
		other.must(other.create(folder, 0))
	}
	for _, name := range []string{"/a", "/b", "/c", "/e"} {
		k.must(k.create(folder+name, jute.Ephemeral))
	}
	k.must(k.close())
	for _, tt := range []struct{ limit, left int }{{5, 2}, {2, 1}, {1, 0}} {
		w.sweep(tt.limit) // each node counts three
		if n := w.ephemeralCount(); n != tt.left {
			t.Errorf("a sweep of %d leaves %d nodes, want %d", tt.limit, n, tt.left)
		}
	}
	checkInvariants(t, w.s())
}
