package member_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// starts counts the terms that are opened in a member's log.
type starts struct {
	member.NoHooks
	applied atomic.Int64
}

func (s *starts) TermStarted(znode.Term, znode.LeaderCause) { s.applied.Add(1) }

// A member whose disk stalls while raft leads opens no term until the disk responds: nobody takes over, so raft leads on, and each term
// that was begun meanwhile would be opened in the log one after the other.
func TestNoTermWhileTheDiskStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s starts
		e := one(t, cluster.Options{Adjust: func(cfg *member.Config) { cfg.Hooks = &s }})
		c := e.Connect(20*time.Second, 1)
		before := s.applied.Load()
		e.Disk(1).Stall()
		stuck := c.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/stuck"), ACL: jute.OpenACL})
		time.Sleep(20 * time.Second)
		if role := e.Member(1).Role(); role != "" || !e.Member(1).Leading() {
			t.Errorf("the stalled member says it is a %q; raft leads: %t", role, e.Member(1).Leading())
		}
		e.Disk(1).Release()
		_, _ = stuck.Wait() // its connection is lost, or it is done: both are right
		e.Ready()
		time.Sleep(10 * time.Second)
		if opened := s.applied.Load() - before; opened != 1 {
			t.Errorf("%d terms were opened after the stall, want 1", opened)
		}
		if _, err := c.Create("/after", nil, jute.Persistent); err != nil {
			t.Error(err)
		}
	})
}

// A disk stalls in the moment in which raft elects its member, before the member's term is opened. The others' disks are enough: the
// member leads, and no client is disturbed.
func TestDiskStallsWhenElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		old := e.Ready()
		e.Joined()
		next := e.Followers()[0]
		own := e.Connect(20*time.Second, next)
		others := e.Connect(20*time.Second, old, e.Followers()[1])
		e.Disk(next).SetLatency(20 * time.Millisecond) // so that the term is not opened at once
		if err := e.Member(old).HandOverTo(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		for !e.Member(next).Leading() {
			time.Sleep(time.Millisecond)
		}
		e.Disk(next).Stall()
		e.Disk(next).SetLatency(0)
		written := make(chan error, 1)
		go func() {
			_, err := others.Create("/meanwhile", nil, jute.Persistent)
			written <- err
		}()
		begun := time.Now()
		if err := <-written; err != nil || others.Disconnects() > 0 || time.Since(begun) > 100*time.Millisecond {
			t.Errorf("a write by a client of another member: %v after %v, %d disconnects", err, time.Since(begun), others.Disconnects())
		}
		time.Sleep(10 * time.Second)
		if n := own.Disconnects(); n > 0 {
			t.Errorf("%d disconnects of a client of the stalled member", n)
		}
		if leader := e.Leader(); leader != next || !e.Disk(next).IsStalled() {
			t.Errorf("member %d leads", leader)
		}
		e.Disk(next).Release()
		e.Equal()
	})
}
