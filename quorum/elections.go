package quorum

import (
	"github.com/hashicorp/raft"
)

// elections implements wire.Elections.
type elections struct{ node *Node }

func (e elections) MayStand() error            { return e.node.mayStand() }
func (e elections) MayLead() error             { return e.node.mayLead() }
func (e elections) MayAcceptLeadership() error { return e.node.transfer.mayAcceptLeadership() }

func (e elections) IsStableLeader(term uint64) bool { return e.node.transfer.isStableLeaderIn(term) }

func (e elections) AwaitBacklog() bool { return e.node.silenceWatch.awaitBacklog() }

func (e elections) NoteDeclined(by raft.ServerID, why error) { e.node.transfer.noteRejection(by, why) }

func (e elections) NoteConnectionLost(server raft.ServerID) {
	e.node.failureDetector.queueLossIfLeader(server)
}

func (e elections) NoteShorterCandidate() { e.node.failureDetector.noteShorterCandidate() }
