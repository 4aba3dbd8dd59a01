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

// maxScannedTerms limits the terms that a new leader reads in the part of its log that it has not applied. Each took an election, and
// costs some 20 reads, mostly of memory. If there are more, it waits as for the longest lease.
const maxScannedTerms = 1024

// maxScannedEntries limits the entries that it reads of each term: one entry of raft's, and empty ones, come before the TermStart.
const maxScannedEntries = 16

// ReadLeases are the leases for reads that a node grants while it leads. Make them with ReadLeasesOf.
type ReadLeases struct{ node *Node }

// ReadLeasesOf returns the leases of a node. It may be called at any time after Open.
func ReadLeasesOf(n *Node) ReadLeases { return ReadLeases{n} }

// Grant gives a member with a disk a lease for reads as the leader of a term: see readlease.Roster.Grant. The caller has proved, since the
// member asked, that this member leads in the term. ok is false if the member gets none. It never blocks.
func (l ReadLeases) Grant(term uint64, member uint32, of disk.ID, request readlease.Request, lease time.Duration) (index uint64, ok bool) {
	server := l.serverOf(member, of)
	if !l.hasCommittedVoter(server) {
		return 0, false
	}
	index, ok = l.node.fsm.roster.Grant(term, server, request, lease)
	return index, ok && l.hasCommittedVoter(server) // it may have left meanwhile, before the lease was known
}

// hasCommittedVoter reports whether a server is a voter of the latest configuration, and that is committed.
func (l ReadLeases) hasCommittedVoter(server raft.ServerID) bool {
	r := l.node.status.raft.Load()
	return r != nil && slices.Contains(voterServers(r), server) && l.node.status.configurationCommitted()
}

// Return ends the lease of a member that has given it back to the leader of a term: see readlease.Roster.Return.
func (l ReadLeases) Return(term uint64, member uint32, of disk.ID, last readlease.Request) {
	l.node.fsm.roster.Return(term, l.serverOf(member, of), last)
}

// serverOf returns the server of a member. Its disk is not needed if it is this one.
func (l ReadLeases) serverOf(member uint32, of disk.ID) raft.ServerID {
	if member == l.node.cfg.MemberID {
		return l.node.status.selfPeer().ServerID()
	}
	return wire.Peer{ID: member, DiskID: of}.ServerID()
}

func (l ReadLeases) rosterConfig() readlease.Config {
	return readlease.Config{
		Clock: l.node.cfg.Monotonic, Self: l.node.cfg.AddressBook.Self().ServerID(), LeadingTerm: l.node.status.leadingTerm,
		Voters: func() []raft.ServerID {
			if r := l.node.status.raft.Load(); r != nil {
				return voterServers(r)
			}
			return nil
		},
		LastIndex: l.node.status.LastIndex, EarlierLease: l.earlierLease, Lease: l.node.cfg.StateMachine.OwnReadLease(),
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

// earlierLease returns the longest lease that a leader of an earlier term may have granted, and that of the last TermStart in the log. A
// leader grants some only once the entry that says so is applied there, so it is committed and in this log: it is the latest one that is
// applied, or above that.
func (l ReadLeases) earlierLease() (longest, last time.Duration) {
	applied, index := l.node.cfg.StateMachine.ReadLease()
	return longestLease(applied, index+1, l.node.status.LastIndex(), l.cachedEntry, l.node.cfg.StateMachine.ReadLeaseOf)
}

// cachedEntry returns an entry of this member's log, from memory if it is one of the last, or nil if the log does not have it.
func (l ReadLeases) cachedEntry(index uint64) *raft.Log {
	entry := new(raft.Log)
	if l.node.status.logCache.GetLog(index, entry) != nil {
		return nil
	}
	return entry
}

// longestLease returns the longest lease of the terms that begin in a part of a log, and of the term before, whose lease is before; and the
// lease of the last one. It reads the beginnings of terms alone: the first entry with data of a term is its TermStart, or the term has begun
// before. If something cannot be read, it returns the longest lease of all, and 0.
func longestLease(before time.Duration, first, last uint64, stored func(index uint64) *raft.Log,
	leaseOf func(data []byte) (time.Duration, bool),
) (longest, newest time.Duration) {
	longest, newest = before, before
	for terms := 0; first <= last; terms++ {
		entry := stored(first)
		if entry == nil || terms == maxScannedTerms {
			return readlease.MaxLease, 0
		}
		lease, begins, ok := leaseOfTerm(first, last, stored, leaseOf)
		if !ok {
			return readlease.MaxLease, 0
		}
		if begins {
			longest, newest = max(longest, lease), lease
		}
		first += uint64(sort.Search(int(last+1-first), func(i int) bool {
			e := stored(first + uint64(i))
			return e == nil || e.Term > entry.Term
		}))
	}
	return longest, newest
}

// leaseOfTerm returns the lease of the TermStart at the beginning of the term of first, and whether there is one: not if the term has begun
// before. ok is false if it cannot tell.
func leaseOfTerm(first, last uint64, stored func(index uint64) *raft.Log,
	leaseOf func(data []byte) (time.Duration, bool),
) (lease time.Duration, begins, ok bool) {
	var term uint64
	for index := first; index <= last; index++ {
		entry := stored(index)
		switch {
		case entry == nil || index-first == maxScannedEntries:
			return 0, false, false
		case term != 0 && entry.Term != term:
			return 0, false, true
		case entry.Type == raft.LogCommand && len(entry.Data) > 0:
			lease, begins = leaseOf(entry.Data)
			return lease, begins, true
		}
		term = entry.Term
	}
	return 0, false, true
}

// awaitLeaseEnd waits until a voter that is to leave has no lease for reads. undo lets it have leases again.
func (l ReadLeases) awaitLeaseEnd(ctx context.Context, server raft.ServerID) (undo func(), err error) {
	term := l.node.status.leadingTerm()
	if term == 0 {
		return nil, errNotLeading
	}
	return l.node.fsm.roster.AwaitEnd(ctx, term, server)
}

var errNotLeading = errors.New("quorum: this member does not lead")
