package member_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// A member may learn only from a snapshot that it has been announced. That is so if the leader made
// the snapshot after the announcement, and before the member had the log up to there. The member
// serves then.
func TestAnnouncedInSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.SnapCount = 50 }})
		leader := e.Ready()
		behind := e.Followers()[0]
		for _, id := range e.IDs() {
			e.Disk(id).KeepLog(4)
		}
		c := e.Connect(20*time.Second, leader)
		fill := func(n int) {
			t.Helper()
			for i := range n {
				if _, err := c.Create("/n-", fmt.Append(nil, i), jute.PersistentSequential); err != nil {
					t.Fatal(err)
				}
			}
		}
		snapshots := func(ids ...uint32) {
			t.Helper()
			before := map[uint32]int{}
			for _, id := range ids {
				before[id] = e.Disk(id).Snapshots()
			}
			fill(100)
			for _, id := range ids {
				e.Wait("a snapshot", time.Minute, func() bool { return e.Disk(id).Snapshots() > before[id] })
			}
		}
		snapshots(leader, behind) // knows the term from its own, when it starts
		old := boot(e, leader, behind)
		e.Kill(behind)
		e.BlockLog(leader, behind)
		e.Boot(behind)
		e.Wait("the announcement", time.Minute, func() bool { return boot(e, leader, behind) != old })
		snapshots(leader)
		fill(20)
		installs := e.Disk(behind).Installs()
		e.UnblockLog(leader, behind)
		e.Ready()
		if e.Disk(behind).Installs() == installs {
			t.Error("no snapshot was installed: this test has shown nothing")
		}
		if got := e.Member(behind).Role(); got != "follower" {
			t.Errorf("role %q", got)
		}
		e.Equal()
	})
}

// boot returns the current run of member of, as applied by member at.
func boot(e *cluster.Ensemble, at, of uint32) uint64 {
	s := e.Member(at).State()
	s.RLock()
	defer s.RUnlock()
	b, _ := s.MemberIncarnation(of)
	return b
}
