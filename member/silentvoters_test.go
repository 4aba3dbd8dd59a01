package member_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
)

// A voter that has been dead for a minute is named by every other member, the leader too, with the command that removes it. A member that
// restarts, an observer and a member that was removed are not named, and a member without a leader names nobody.
func TestMembersNameDeadVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 5, cluster.Options{Observers: 1})
		e.Ready()
		problems := func(id uint32) []string { return e.Member(id).Shown().SilentVoters }
		observer, leader := uint32(5), e.Leader()
		dead := slices.DeleteFunc(e.Followers(), func(id uint32) bool { return id == observer })[0]
		alive := slices.DeleteFunc([]uint32{1, 2, 3, 4}, func(id uint32) bool { return id == dead })
		e.Kill(observer)
		e.Kill(dead)
		time.Sleep(50 * time.Second)
		for _, id := range alive {
			if got := problems(id); len(got) != 0 {
				t.Errorf("member %d names %q after less than a minute", id, got)
			}
		}
		time.Sleep(20 * time.Second)
		for _, id := range alive {
			got := problems(id)
			if len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf("the leader has not heard voter %d for 1m", dead)) ||
				!strings.HasSuffix(got[0], fmt.Sprintf("run rollcall members remove %d", dead)) {
				t.Errorf("member %d (leader %d) names %q, want voter %d", id, leader, got, dead)
			}
		}
		if err := changeList(t, e, leader, serverlist.Change{Leaving: fmt.Sprint(dead)}); err != nil {
			t.Fatal(err)
		}
		e.Wait("nobody to be named", time.Minute, func() bool {
			return !slices.ContainsFunc(alive, func(id uint32) bool { return len(problems(id)) > 0 })
		})
		e.Kill(alive[0])
		e.Wait("a voter to be named", 2*time.Minute, func() bool { return len(problems(alive[2])) == 1 })
		e.Kill(alive[1])
		time.Sleep(time.Minute)
		if got := problems(alive[2]); len(got) != 0 {
			t.Errorf("member %d has no leader, and names %q", alive[2], got)
		}
	})
}
