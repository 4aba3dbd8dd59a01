package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/quorum/wire"
)

// A second process has the number of a member, and another disk. It says hello to all others. Whichever member it is, also the one
// that leads, somebody tells it.
func TestEveryRivalIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		leader := e.leader(1, 2, 3)
		for id := range e.members {
			told := false
			for range 20 {
				time.Sleep(askInterval)
				for _, other := range others(id) {
					n := e.members[other].node
					n.Met(Meeting{Peer: wire.Peer{ID: id, Disk: 99, Addr: "elsewhere:1"}})
					told = told || n.Rival(id) != ""
				}
			}
			if !told {
				t.Errorf("nobody tells a second member %d that there is another one; member %d leads", id, leader)
			}
		}
	})
}
