package quorum

import (
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Ready returns a channel that is closed when raft runs.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Leadership returns a channel with every gain (true) and loss (false) of leadership, in order and
// without omissions. The caller must keep reading it: raft waits if 1,024 changes are unread. It is
// closed when Run returns, unless raft hangs in a disk.
func (n *Node) Leadership() <-chan bool { return n.leadership }

// HasData reports whether this member has a snapshot or a log entry.
func (n *Node) HasData() bool { return n.disk.HasData() }

// Disk returns the id of this member's disk.
func (n *Node) Disk() disk.ID { return n.disk.ID() }

// Joining reports whether this member is coming into an ensemble: it began without data, and has not yet all that its leader
// had in this term; or its disk is not in raft's configuration; or it has data, and raft does not run yet. It has no vote then,
// and must answer no proof round. An observer that has come in is not joining, and neither is a member that waits for its vote.
func (n *Node) Joining() bool {
	if n.joining.Load() {
		return !n.hasCome()
	}
	return n.HasData() && (n.raft.Load() == nil || !n.configured())
}

// Reached returns the ids of the other voting members that have answered this member's raft as a
// leader within d, in order. It returns none before raft runs.
func (n *Node) Reached(d time.Duration) []uint32 {
	r := n.raft.Load()
	if r == nil {
		return nil
	}
	voting := voters(r)
	reached := slices.DeleteFunc(n.trans.Reached(d), func(id raft.ServerID) bool {
		return id == n.self().ServerID() || !slices.Contains(voting, id)
	})
	return slices.Sorted(slices.Values(memberIDs(reached)))
}

// Term returns raft's current term, or 0 before raft runs.
func (n *Node) Term() uint64 { return n.raftValue(0, (*raft.Raft).CurrentTerm) }

// CommitIndex returns the last index that is known to be committed, or 0 before raft runs. On a leader
// raft may know a higher one, for which it has counted a copy that is not on this disk yet.
func (n *Node) CommitIndex() uint64 {
	return n.disk.Durable(n.raftValue(0, (*raft.Raft).CommitIndex))
}

// LastIndex returns the last index of log or snapshot, or 0 before raft runs.
func (n *Node) LastIndex() uint64 { return n.raftValue(0, (*raft.Raft).LastIndex) }

// LastTerm returns the term of the entry at LastIndex, or 0.
func (n *Node) LastTerm() uint64 {
	return n.raftValue(0, func(r *raft.Raft) uint64 {
		term, _ := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64) // raft writes a number
		return term
	})
}

// AppliedIndex returns the last index that Machine.Apply has applied in this process. It is 0 if
// there is none, even after a snapshot was restored.
func (n *Node) AppliedIndex() uint64 { return n.fsm.index.Load() }

func (n *Node) raftValue(none uint64, f func(*raft.Raft) uint64) uint64 {
	if r := n.raft.Load(); r != nil {
		return f(r)
	}
	return none
}

// Leading reports whether raft takes itself for the leader. That may be out of date; see
// Leadership.
func (n *Node) Leading() bool {
	r := n.raft.Load()
	return r != nil && r.State() == raft.Leader
}

// onlyVoter reports whether this disk is the only voter.
func (n *Node) onlyVoter(r *raft.Raft) bool {
	return slices.Equal(voters(r), []raft.ServerID{n.self().ServerID()})
}

// leadsIn reports whether raft leads in term and is not handing leadership over.
func (n *Node) leadsIn(term uint64) bool {
	r := n.raft.Load()
	return r != nil && n.handing.Load() == 0 && r.State() == raft.Leader && r.CurrentTerm() == term
}

// LeaderID returns the member that raft takes for the leader, or 0 if there is none.
func (n *Node) LeaderID() uint32 { return wire.MemberID(n.leader()) }

// leader returns the server that raft takes for the leader, or "" if there is none.
func (n *Node) leader() raft.ServerID {
	r := n.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return id
}
