package integration

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

// A session with many ephemeral nodes ends at once, and its nodes are deleted in steps. Whatever happens to the members
// meanwhile, the steps continue and no member differs.

// slowly is the duration of a disk's write, so that time passes between two steps.
const slowly = 2 * time.Millisecond

// own creates n ephemeral nodes below /own.
func own(t *testing.T, c *wire.Conn, n int) {
	t.Helper()
	if code := create(t, c, 1, "/own", jute.Persistent); code != jute.OK {
		t.Fatal(code)
	}
	var ops []jute.MultiOp
	for i := range n {
		ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: fmt.Appendf(nil, "/own/%06d", i), ACL: jute.OpenACL, Flags: jute.Ephemeral}})
	}
	for part := range slices.Chunk(ops, 500) {
		if r, _, err := c.Call(2, jute.OpMulti, raw(jute.AppendMulti(nil, part))); err != nil || r.Err != jute.OK {
			t.Fatalf("%v, %v", r, err)
		}
	}
}

// raw is a record that is encoded already.
type raw []byte

func (r raw) Append(b []byte) []byte { return append(b, r...) }

// left returns the number of ephemeral nodes of a member, and whether an ended session has nodes left.
func left(e *cluster.Ensemble, member uint32) (nodes int, unswept bool) {
	s := e.Member(member).State()
	s.RLock()
	defer s.RUnlock()
	return s.TreeView().EphemeralCount(), s.HasUnswept()
}

// sweptTo waits until at most n nodes of an ended session are left on a member, but not none.
func sweptTo(t *testing.T, e *cluster.Ensemble, member uint32, n int) {
	t.Helper()
	for range 10_000 {
		if nodes, unswept := left(e, member); unswept && nodes <= n {
			return
		}
		time.Sleep(slowly / 2)
	}
	t.Fatal("nothing is swept")
}

// The leader dies in the middle, and the next one continues. The client that closed the session gets its reply when the
// last node is gone everywhere. The session cannot be resumed meanwhile.
func TestSweepGoesOnUnderTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 12_000
		e := cluster.Start(t, 3, cluster.Options{Write: slowly})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		c, session := e.Open(a, 20*tick)
		own(t, c, nodes)
		watcher := e.Connect(20*tick, b)
		last := fmt.Sprintf("/own/%06d", nodes-1)
		if _, err := watcher.Exists(last, true); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(3, jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		sweptTo(t, e, leader, nodes*3/4)
		again, err := e.Dial(b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Resume(session, 0); err != nil || got.SessionID != 0 {
			t.Errorf("resumed as %v, %v", got.SessionID, err)
		}
		for _, id := range e.Followers() {
			e.Gate(id).Hold() // the next leader waits until everything has been checked
		}
		e.Kill(leader)
		e.Leader()
		if n, unswept := left(e, b); n == 0 || !unswept {
			t.Fatalf("%d nodes, unswept %t: the leader died too late", n, unswept)
		}
		if st, err := watcher.Exists(last, false); err != nil || st.EphemeralOwner != session.SessionID {
			t.Errorf("a node not yet swept: %+v, %v", st, err)
		}
		e.Gate(a).Release()
		e.Gate(b).Release()
		if err := c.SetReadDeadline(time.Now().Add(20 * tick)); err != nil {
			t.Fatal(err)
		}
		reply, err := c.Recv()
		if err != nil || reply.Xid != 3 || reply.Err != jute.OK {
			t.Fatalf("the close: %v, %v", reply, err)
		}
		if n, unswept := left(e, a); n != 0 || unswept {
			t.Errorf("%d nodes, unswept %t when the close is answered", n, unswept)
		}
		if err := watcher.Sync(); err != nil {
			t.Fatal(err)
		}
		events := watcher.Events()
		if len(events) != 1 || events[0].Type != jute.EventNodeDeleted || string(events[0].Path) != last {
			t.Errorf("events %v", events)
		}
		st, err := watcher.Exists("/own", false)
		if err != nil || st.NumChildren != 0 || st.Cversion != 2*nodes || st.Pzxid != reply.Zxid {
			t.Errorf("parent %+v, %v; the close was answered at %#x", st, err, reply.Zxid)
		}
		e.Boot(leader)
		e.Ready()
		e.Equal()
	})
}

// A member that lagged is sent a snapshot in the middle. Then all members are killed and started again, and continue
// with the nodes that are left.
func TestSnapshotInMidSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, most = 70_000, 10_000
		e := cluster.Start(t, 3, cluster.Options{Write: slowly, Adjust: func(cfg *member.Config) { cfg.SnapCount = 20 }})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		for _, id := range e.IDs() {
			e.Disk(id).KeepLog(4)
		}
		c, _ := e.Open(a, 20*tick)
		own(t, c, nodes)
		e.Equal()
		e.BlockLog(leader, b)
		if err := c.Send(3, jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		sweptTo(t, e, leader, most) // by more entries than raft keeps in memory
		e.Gate(leader).Hold()
		taken := e.Disk(leader).Snapshots()
		e.Wait("a snapshot", 60*tick, func() bool { return e.Disk(leader).Snapshots() > taken })
		e.UnblockLog(leader, b)
		e.Wait("the snapshot to be installed", 60*tick, func() bool { n, _ := left(e, b); return e.Disk(b).Installs() > 0 && n < nodes })
		if n, unswept := left(e, b); !unswept || n == 0 {
			t.Fatalf("%d nodes, unswept %t when the snapshot is installed", n, unswept)
		}
		for _, id := range e.IDs() {
			e.Kill(id)
		}
		for _, id := range e.IDs() {
			e.Boot(id)
		}
		e.Ready()
		e.Wait("the end of the sweep", 60*tick, func() bool { n, unswept := left(e, e.Leader()); return n == 0 && !unswept })
		e.Equal()
	})
}
