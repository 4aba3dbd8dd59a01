package quorum

import (
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// Ready returns a channel that is closed when raft runs.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Leadership returns a channel with every gain (true) and loss (false) of leadership, in order and
// without omissions. The caller must keep reading it: raft waits if 1,024 changes are unread. It is
// closed when Run returns, unless raft hangs in a disk.
func (n *Node) Leadership() <-chan bool { return n.leadership }

// HasData reports whether this member has a snapshot, or any log entry beyond the
// bootstrap entry.
func (n *Node) HasData() bool { return n.disk.HasData() }

// Joining reports whether this member still has to catch up, or is not in raft's configuration. A member has
// to catch up if it lost its data, or if it is new among members that have data. An observer that has caught
// up is not joining, and neither is a member that waits to become a voter.
//
// While it is joining it takes part in no election and must answer no proof round. There is one
// exception: with only two members it votes for the other one, because no third member could elect
// that one. A member with data also counts as joining until raft runs and its configuration is
// known.
func (n *Node) Joining() bool {
	if n.joining.Load() || !n.HasData() {
		return n.joining.Load()
	}
	r := n.raft.Load()
	return r == nil || !n.configured()
}

// Reached returns the ids of the other voting members that have answered this member's raft as a
// leader within d, in order. It returns none before raft runs.
func (n *Node) Reached(d time.Duration) []uint32 {
	r := n.raft.Load()
	if r == nil {
		return nil
	}
	voting := voters(r)
	return slices.DeleteFunc(n.trans.Reached(d), func(id uint32) bool {
		return id == n.cfg.Self || !slices.ContainsFunc(voting, func(v raft.ServerID) bool { return wire.MemberID(v) == id })
	})
}

// Term returns raft's current term, or 0 before raft runs.
func (n *Node) Term() uint64 { return n.raftValue(0, (*raft.Raft).CurrentTerm) }

// CommitIndex returns the last index that is known to be committed, or 0 before raft runs. On a leader
// raft may know a higher one, for which it has counted a copy that is not on this disk yet.
func (n *Node) CommitIndex() uint64 {
	return n.disk.Durable(n.raftValue(0, (*raft.Raft).CommitIndex))
}

// LastIndex returns the last index of log or snapshot. Before raft runs it returns 0, or the index of
// the planted state if this member has nothing else.
func (n *Node) LastIndex() uint64 { return n.raftValue(n.planted.index, (*raft.Raft).LastIndex) }

// LastTerm returns the term of the entry at LastIndex, or 0.
func (n *Node) LastTerm() uint64 {
	return n.raftValue(n.planted.term, func(r *raft.Raft) uint64 {
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

// leadsMany reports whether this member leads, and may send an entry before its own disk has it. With two voters it may
// not, because the other voter must never have an entry that this member's disk may lose. If the other voter has lost its disk
// and joins, it does not stand for election, and votes only for a log that is no shorter than its own (otherOfTwo). So the two
// would elect nobody.
func (n *Node) leadsMany() bool { return n.Leading() && len(wire.Voters(n.Latest())) != 2 }

// leadsIn reports whether raft leads in term and is not handing leadership over.
func (n *Node) leadsIn(term uint64) bool {
	r := n.raft.Load()
	return r != nil && n.handing.Load() == 0 && r.State() == raft.Leader && r.CurrentTerm() == term
}

// LeaderID returns the member that raft takes for the leader, or 0 if there is none.
func (n *Node) LeaderID() uint32 {
	r := n.raft.Load()
	if r == nil {
		return 0
	}
	_, id := r.LeaderWithID()
	return wire.MemberID(id)
}
