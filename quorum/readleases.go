package quorum

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/readlease"
	"rollcall/quorum/wire"
)

// maxScannedTerms limits the terms that a new leader reads in the part of its log that it has not applied. Each takes an election and, in memory, some 20 reads. If there
// are more, it waits as for the longest lease.
const maxScannedTerms = 1024

// maxScannedEntries limits the entries that it reads of each term: one entry of raft's, and empty ones, come before the TermStart.
const maxScannedEntries = 16

// GrantRead gives a member with a disk a lease for reads as the leader of a term: see readlease.Roster.Grant. The caller has proved, since the
// member asked, that this member leads in the term. ok is false if the member gets none. It never blocks.
func (n *Node) GrantRead(term uint64, member uint32, of disk.ID, request readlease.Request, lease time.Duration) (index uint64, ok bool) {
	server := n.serverOf(member, of)
	if !n.hasCommittedVoter(server) {
		return 0, false
	}
	index, ok = n.fsm.roster.Grant(term, server, request, lease)
	return index, ok && n.hasCommittedVoter(server) // it may have left meanwhile, before the lease was known
}

// hasCommittedVoter reports whether a server is a voter of the latest configuration, and that is committed.
func (n *Node) hasCommittedVoter(server raft.ServerID) bool {
	r := n.status.raft.Load()
	return r != nil && slices.Contains(voterServers(r), server) && n.status.configurationCommitted()
}

// ReturnRead ends the lease of a member that has given it back to the leader of a term: see readlease.Roster.Return.
func (n *Node) ReturnRead(term uint64, member uint32, of disk.ID, last readlease.Request) {
	n.fsm.roster.Return(term, n.serverOf(member, of), last)
}

// serverOf returns the server of a member. Its disk is not needed if it is this one.
func (n *Node) serverOf(member uint32, of disk.ID) raft.ServerID {
	if member == n.cfg.MemberID {
		return n.status.selfPeer().ServerID()
	}
	return wire.Peer{ID: member, DiskID: of}.ServerID()
}

func (n *Node) rosterConfig() readlease.Config {
	return readlease.Config{
		Clock: n.cfg.Monotonic, Self: n.cfg.AddressBook.Self().ServerID(), LeadingTerm: n.status.leadingTerm,
		Voters: func() []raft.ServerID {
			if r := n.status.raft.Load(); r != nil {
				return voterServers(r)
			}
			return nil
		},
		LastIndex: n.status.LastIndex, EarlierLease: n.earlierLease, Lease: n.cfg.StateMachine.OwnReadLease(),
	}
}

// leadingTerm returns the term in which raft leads, or 0.
func (s *Status) leadingTerm() uint64 {
	r := s.raft.Load()
	if r == nil {
		return 0
	}
	term := r.CurrentTerm()
	if r.State() != raft.Leader || r.CurrentTerm() != term {
		return 0
	}
	return term
}

// earlierLease returns the longest lease that a leader of an earlier term may have granted. A leader grants some only once the entry that says
// so is applied there, so it is committed and in this log: it is the latest one that is applied, or above that.
func (n *Node) earlierLease() time.Duration {
	lease, index := n.cfg.StateMachine.ReadLease()
	return max(lease, longestLease(index+1, n.status.LastIndex(), n.cachedEntry, n.cfg.StateMachine.ReadLeaseOf))
}

// cachedEntry returns an entry of this member's log, from memory if it is one of the last, or nil if the log does not have it.
func (n *Node) cachedEntry(index uint64) *raft.Log {
	entry := new(raft.Log)
	if n.status.logCache.GetLog(index, entry) != nil {
		return nil
	}
	return entry
}

// longestLease returns the longest lease of the terms that begin in a part of a log. It reads the beginnings of terms alone: the first entry
// with data of a term is its TermStart, or the term has begun before. What cannot be read counts as the longest lease.
func longestLease(first, last uint64, stored func(index uint64) *raft.Log, leaseOf func(data []byte) (time.Duration, bool)) (longest time.Duration) {
	for terms := 0; first <= last; terms++ {
		entry := stored(first)
		if entry == nil || terms == maxScannedTerms {
			return readlease.MaxLease
		}
		lease, ok := leaseOfTerm(first, last, stored, leaseOf)
		if !ok {
			return readlease.MaxLease
		}
		longest = max(longest, lease)
		first += uint64(sort.Search(int(last+1-first), func(i int) bool {
			e := stored(first + uint64(i))
			return e == nil || e.Term > entry.Term
		}))
	}
	return longest
}

// leaseOfTerm returns the lease of the term that begins at first. It returns 0 if the term has begun before, and false if it cannot tell.
func leaseOfTerm(first, last uint64, stored func(index uint64) *raft.Log, leaseOf func(data []byte) (time.Duration, bool)) (lease time.Duration, ok bool) {
	var term uint64
	for index := first; index <= last; index++ {
		entry := stored(index)
		switch {
		case entry == nil || index-first == maxScannedEntries:
			return 0, false
		case term != 0 && entry.Term != term:
			return 0, true
		case entry.Type == raft.LogCommand && len(entry.Data) > 0:
			lease, _ = leaseOf(entry.Data)
			return lease, true
		}
		term = entry.Term
	}
	return 0, true
}

// awaitLeaseEnd waits until a voter that is to leave has no lease for reads. undo lets it have leases again.
func (n *Node) awaitLeaseEnd(ctx context.Context, server raft.ServerID) (undo func(), err error) {
	term := n.status.leadingTerm()
	if term == 0 {
		return nil, errNotLeading
	}
	return n.fsm.roster.AwaitEnd(ctx, term, server)
}

var errNotLeading = errors.New("quorum: this member does not lead")
