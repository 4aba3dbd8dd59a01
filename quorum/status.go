package quorum

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Status reads the state of this member's raft, and never waits. Before raft runs, its numbers are 0 and its lists are empty,
// unless a method says otherwise.
type Status struct {
	raft  atomic.Pointer[raft.Raft]
	log   *logCache // raft's; set before raft is
	book  *wire.Book
	peers []wire.Peer // the configured server list
	disk  *disk.Data
	fsm   *fsm
}

// Term returns raft's current term.
func (s *Status) Term() uint64 { return s.value((*raft.Raft).CurrentTerm) }

// CommitIndex returns the last index that is known to be committed. On a leader
// raft may know a higher one, for which it has counted a copy that is not on this disk yet.
func (s *Status) CommitIndex() uint64 {
	return s.disk.Durable(s.value((*raft.Raft).CommitIndex))
}

// LastIndex returns the last index of log or snapshot.
func (s *Status) LastIndex() uint64 { return s.value((*raft.Raft).LastIndex) }

// LastTerm returns the term of the entry at LastIndex.
func (s *Status) LastTerm() uint64 {
	return s.value(func(r *raft.Raft) uint64 {
		term, _ := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64) // raft writes a number
		return term
	})
}

// AppliedIndex returns the last index that Machine.Apply has applied in this process. It is 0 if
// there is none, even after a snapshot was restored.
func (s *Status) AppliedIndex() uint64 { return s.fsm.index.Load() }

func (s *Status) value(get func(*raft.Raft) uint64) uint64 {
	if r := s.raft.Load(); r != nil {
		return get(r)
	}
	return 0
}

// Leading reports whether raft considers itself the leader. That may be out of date; see
// Node.Leadership.
func (s *Status) Leading() bool {
	r := s.raft.Load()
	return r != nil && r.State() == raft.Leader
}

// leadsIn reports whether raft leads in term.
func (s *Status) leadsIn(term uint64) bool { return s.Leading() && s.Term() == term }

// LeaderID returns the id of the member that raft considers the leader, or 0 if there is none.
func (s *Status) LeaderID() uint32 { return wire.MemberID(s.leader()) }

// leader returns the server that raft considers the leader, or "" if there is none.
func (s *Status) leader() raft.ServerID {
	r := s.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return id
}

// Servers returns the servers in raft's latest configuration, by id and disk. It may not be committed. While a new disk takes
// the place of an old one, the list has both.
func (s *Status) Servers() []wire.Peer {
	r := s.raft.Load()
	if r == nil {
		return nil
	}
	return wire.Peers(r.GetConfiguration().Configuration()) // does not wait
}

// Configuration returns the members in raft's latest configuration, by id, each once: with the disk that votes, if one does. It
// may not be committed. Before raft runs, and before raft has a configuration, it returns the configured list.
func (s *Status) Configuration() []wire.Peer {
	if servers := s.Servers(); len(servers) > 0 {
		return byMember(servers)
	}
	return wire.Sorted(s.peers)
}

func byMember(servers []wire.Peer) (members []wire.Peer) {
	for _, s := range servers {
		switch last := len(members) - 1; {
		case last < 0 || members[last].ID != s.ID:
			members = append(members, s)
		case members[last].Observer:
			members[last] = s
		}
	}
	return members
}

// configurationCommitted reports whether raft's latest configuration is committed, as far as this member knows.
func (s *Status) configurationCommitted() bool {
	return s.raft.Load() != nil && s.log.lastChange() <= s.CommitIndex()
}

// Voters returns the ids of the voters in raft's latest configuration, in order.
func (s *Status) Voters() []uint32 { return wire.Voters(s.Servers()) }

// Founded reports whether most voters of a list vote in raft's latest configuration.
func (s *Status) Founded(list []wire.Peer) bool {
	voters := wire.Voters(list)
	voting := slices.DeleteFunc(s.Voters(), func(id uint32) bool { return !slices.Contains(voters, id) })
	return len(voting) > len(voters)/2
}

// self returns this server. Its disk is known once the data directory has been read.
func (s *Status) self() wire.Peer { return s.book.Self() }

// hasServer reports whether raft's latest configuration has a disk.
func (s *Status) hasServer(p wire.Peer) bool {
	return slices.ContainsFunc(s.Servers(), func(o wire.Peer) bool { return o.ServerID() == p.ServerID() })
}

// configured reports whether this disk is in its own latest configuration, as a voter or not.
func (s *Status) configured() bool { return s.hasServer(s.self()) }

// votes reports whether this disk is a voter of its own latest configuration.
func (s *Status) votes() bool {
	r := s.raft.Load()
	return r != nil && slices.Contains(voters(r), s.self().ServerID())
}

// onlyVoter reports whether this disk is the only voter.
func (s *Status) onlyVoter() bool {
	r := s.raft.Load()
	return r != nil && slices.Equal(voters(r), []raft.ServerID{s.self().ServerID()})
}

// hasJoined reports whether this disk is in the configuration, and has all that its leader had when the term began.
func (s *Status) hasJoined() bool {
	r := s.raft.Load()
	return r != nil && s.leader() != "" && s.fsm.term.Load() == r.CurrentTerm() && s.configured()
}

// voters returns the voters in raft's latest configuration.
func voters(r *raft.Raft) (ids []raft.ServerID) {
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.Suffrage == raft.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func memberIDs(servers []raft.ServerID) (ids []uint32) {
	for _, id := range servers {
		ids = append(ids, wire.MemberID(id))
	}
	return ids
}
