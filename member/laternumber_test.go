package member_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
)

// A member whose number is above those of its server lines, as members.line gives it one, begins no ensemble: not when all others have lost
// their disks and are down, not with --new-ensemble, and not when one that has a higher number than others is all that it reaches. When the
// voter with the lowest number begins an ensemble, it joins that.
func TestLaterNumbersBeginNoEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, comingByThemselves(t, func(cfg *member.Config) { cfg.NewEnsemble = cfg.ID > 3 }))
		e.Ready()
		e.Add(4)
		e.Add(5)
		for id := uint32(1); id <= 3; id++ {
			e.Kill(id)
			e.Wipe(id)
		}
		e.Boot(4)
		e.Boot(5)
		begins := func(step string, ids ...uint32) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			for _, id := range ids {
				m := e.Member(id)
				m.State().RLock()
				_, hasList := m.State().ServerList()
				m.State().RUnlock()
				if text, _ := m.Health().StatusText(); m.Role() != "" || m.Leading() || hasList || !strings.Contains(text, "member 1 ") {
					t.Errorf("%s, member %d: role %q, leads: %t, its state has a list: %t: %s", step, id, m.Role(), m.Leading(), hasList, text)
				}
			}
		}
		begins("alone", 4, 5)
		e.Boot(3)
		e.Boot(2)
		begins("without the first one", 2, 3, 4, 5)
		e.Boot(1)
		awaitVoters(t, e, 1, 2, 3, 4, 5)
	})
}
