package member_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
)

// A new ensemble serves nobody before most voters of the server lines vote, and most of those other than the founder: of three, all. So
// a client never sees a write that only one disk has, and two founders with one number never both serve.
func TestServesOnceMostVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.BlockLog(1, 2)
		e.BlockLog(1, 3)
		for voting := 1; voting <= 2; voting++ {
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
					t.Errorf("member %d: role %q, its state has a list: %t, and %d of three disks vote", id, m.Role(), listed, voting)
				}
			}
			e.UnblockLog(1, uint32(voting+1))
		}
		e.Ready()
	})
}

// With --new-ensemble, most voters of the server lines are enough.
func TestServesOnceMostVoteIfToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(c *member.Config) { c.NewEnsemble = true }})
		e.BlockLog(1, 3)
		e.Wait("two of three to serve", time.Minute, func() bool { return e.Member(1).Role() == "leader" && e.Member(2).Role() == "follower" })
		if role := e.Member(3).Role(); role != "" {
			t.Errorf("member 3 has no log, and its role is %q", role)
		}
		e.UnblockLog(1, 3)
		e.Ready()
	})
}
