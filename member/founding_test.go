package member_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
)

// A new ensemble serves nobody before most voters of the server lines vote, so that a client never sees a write that only one disk has.
func TestServesOnceMostVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.BlockLog(1, 2)
		e.BlockLog(1, 3)
		time.Sleep(time.Minute)
		if !e.Member(1).Leading() {
			t.Fatal("member 1 has not begun the ensemble")
		}
		for _, id := range e.IDs() {
			m := e.Member(id)
			m.State().RLock()
			_, listed := m.State().ServerList()
			m.State().RUnlock()
			if m.Role() != "" || listed {
				t.Errorf("member %d: role %q, its state has a list: %t, and one of three disks votes", id, m.Role(), listed)
			}
		}
		e.UnblockLog(1, 2)
		e.Wait("two of three to vote", time.Minute, func() bool { return e.Member(1).Role() == "leader" && e.Member(2).Role() == "follower" })
		if role := e.Member(3).Role(); role != "" {
			t.Errorf("member 3 has no log, and its role is %q", role)
		}
		e.UnblockLog(1, 3)
		e.Ready()
	})
}
