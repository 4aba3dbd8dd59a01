package quorum

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/quorum/wire"
)

// standalone makes a member a server that no other ever joins.
func (e *ensemble) standalone(id uint32) {
	e.members[id].adjust = func(c *Config) { c.SendHello, c.Peers = nil, []wire.Peer{e.peers[id-1]} }
}

// A standalone server draws the id of an ensemble of one. If it is configured as a member of a running ensemble, it
// keeps its data, and that ensemble continues without it.
func TestStandaloneDataAreNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.standalone(3)
		e.start(3)
		e.propose("mine", 3)
		own, known := e.members[3].node.record.EnsembleID()
		e.stop(3)
		e.members[3].adjust = nil
		for _, id := range []uint32{1, 2} {
			e.members[id].adjust = func(c *Config) { c.FoundByMajority = true }
		}
		e.start(1, 2)
		e.propose("theirs", 1, 2)
		e.start(3)
		for i := range 30 {
			time.Sleep(time.Second)
			e.propose(fmt.Sprint("w", i), 1, 2)
		}
		e.mustRun(1, 2, 3)
		if got, _ := e.members[3].node.record.EnsembleID(); !known || got != own {
			t.Errorf("the ensemble %x, known %t, became %x", own[:4], known, got[:4])
		}
		e.stop(3)
		e.awaitApplied([]string{"mine"}, 3)
	})
}

// A standalone server that grows keeps its id, and those that join it get it.
func TestStandaloneGrowsWithItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 1, 3)
		adjust := e.members[1].adjust
		e.standalone(1)
		e.start(1)
		e.propose("alone", 1)
		own, _ := e.members[1].node.record.EnsembleID()
		e.stop(1)
		e.members[1].adjust = adjust
		e.start(1, 2, 3)
		e.propose(listPrefix+"1 2 3", 1)
		e.follows(1, "1 2 3")
		for _, id := range e.ids() {
			e.awaitJoined(id)
			if got, known := e.members[id].node.record.EnsembleID(); !known || got != own {
				t.Errorf("member %d is of ensemble %x, want %x", id, got[:4], own[:4])
			}
		}
	})
}
