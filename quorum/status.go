package quorum

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Status reads the state of this member's raft, and never waits. Before raft runs, its numbers are 0 and its lists
// are empty, unless a method says otherwise.
type Status struct {
	raft            atomic.Pointer[raft.Raft]
	logCache        *logCache // raft's; set before raft is
	addressBook     *wire.AddressBook
	configuredPeers []wire.Peer
	disk            *disk.Data
	fsm             *fsm
	lastServers     atomic.Pointer[configuredServers] // see Servers
	waitingFor      atomic.Pointer[string]            // see WaitingFor; nil: nothing
	lastAtStart     atomic.Uint64                     // index at the end of the log when raft began to run
	appliedAtStart  atomic.Uint64                     // index up to which a snapshot was restored then
}

// configuredServers are the servers of a configuration, which raft never changes.
type configuredServers struct {
	configuration []raft.Server
	servers       []wire.Peer
}

func (s *Status) Term() uint64 { return s.raftValue((*raft.Raft).CurrentTerm) }

// WaitingFor returns the condition without which this member can neither join an ensemble nor get a leader, as far as it
// knows, or "". It changes with each round of Hellos.
func (s *Status) WaitingFor() string {
	if condition := s.waitingFor.Load(); condition != nil {
		return *condition
	}
	return ""
}

func (s *Status) setWaitingFor(condition string) { s.waitingFor.Store(&condition) }

// CommitIndex returns the last index that is known to be committed. raft may know a higher one, for which it has counted a
// copy that is not on this disk yet.
func (s *Status) CommitIndex() uint64 {
	return s.disk.Durability().LimitToSettled(s.raftValue((*raft.Raft).CommitIndex))
}

// SettledIndex returns the last index that is on this disk, or known to be on those of a majority. On a leader no member has
// committed more in its term: a follower may commit by its own copy and the leader's (wire.Transport), before the leader
// has counted both.
func (s *Status) SettledIndex() uint64 { return s.disk.Durability().LimitToSettled(s.LastIndex()) }

// LastIndex returns the last index of log or snapshot.
func (s *Status) LastIndex() uint64 { return s.raftValue((*raft.Raft).LastIndex) }

// LastTerm returns the term of the entry at LastIndex.
func (s *Status) LastTerm() uint64 {
	return s.raftValue(func(r *raft.Raft) uint64 {
		term, _ := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64) // raft writes a number
		return term
	})
}

// AppliedIndex returns the last index that StateMachine.Apply has applied in this process. It is 0 if there is
// none, even after a snapshot was restored.
func (s *Status) AppliedIndex() uint64 { return s.fsm.appliedIndex.Load() }

func (s *Status) raftValue(get func(*raft.Raft) uint64) uint64 {
	if r := s.raft.Load(); r != nil {
		return get(r)
	}
	return 0
}

// IsReadingData reports whether this member has data, and has not read them yet: raft does not run.
func (s *Status) IsReadingData() bool { return s.raft.Load() == nil && s.disk.HasData() }

// IsLeader reports whether raft considers itself the leader. That may be out of date; see Node.LeadershipChanges.
func (s *Status) IsLeader() bool {
	r := s.raft.Load()
	return r != nil && r.State() == raft.Leader
}

func (s *Status) isLeaderIn(term uint64) bool { return s.IsLeader() && s.Term() == term }

// LeaderID returns the id of the member that raft considers the leader, or 0.
func (s *Status) LeaderID() uint32 { return wire.MemberID(s.leaderServer()) }

// leaderServer returns the server that raft considers the leader, or "".
func (s *Status) leaderServer() raft.ServerID {
	r := s.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return id
}

// Servers returns the servers in raft's latest configuration, by id and disk. It may not be committed. While a new
// disk replaces an old one, the list has both.
func (s *Status) Servers() []wire.Peer {
	r := s.raft.Load()
	if r == nil {
		return nil
	}
	c := r.GetConfiguration().Configuration() // does not wait
	if len(c.Servers) == 0 {
		return nil
	}
	last := s.lastServers.Load()
	if last == nil || &last.configuration[0] != &c.Servers[0] { // raft has another one
		last = &configuredServers{c.Servers, wire.PeersIn(c)}
		s.lastServers.Store(last)
	}
	return slices.Clone(last.servers)
}

// ConfiguredMembers returns the members in raft's latest configuration, by id, each once: with the disk that
// votes, if one does. It may not be committed. Before raft has a configuration, it returns the configured list.
func (s *Status) ConfiguredMembers() []wire.Peer {
	if servers := s.Servers(); len(servers) > 0 {
		return onePerMember(servers)
	}
	return wire.SortedByID(s.configuredPeers)
}

func onePerMember(servers []wire.Peer) (members []wire.Peer) {
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
	return s.raft.Load() != nil && s.logCache.lastConfigurationIndex() <= s.CommitIndex()
}

// VoterIDs returns the ids of the voters in raft's latest configuration, in order.
func (s *Status) VoterIDs() []uint32 { return wire.VoterIDs(s.Servers()) }

// HasFoundingMajority reports whether an ensemble whose state has no list may serve, by its server lines and raft's latest
// configuration: see hasFoundingMajority.
func (s *Status) HasFoundingMajority(lines []wire.Peer, foundedByAll bool) bool {
	return hasFoundingMajority(wire.VoterIDs(wire.SortedByID(lines)), s.VoterIDs(), foundedByAll)
}

// hasFoundingMajority reports whether most of the listed voters vote, and, if all members had to reply before the ensemble was
// founded, also most of those other than the founder, which has the lowest id. Two processes may have that id, and found two
// ensembles. Two majorities of the others share a member, and its disk is in one ensemble only, so only one of the two serves.
func hasFoundingMajority(listed, voting []uint32, foundedByAll bool) bool {
	return hasMajorityOf(listed, voting) && (!foundedByAll || len(listed) == 1 || hasMajorityOf(listed[1:], voting))
}

// hasMajorityOf reports whether most of the ids are in another list.
func hasMajorityOf(ids, in []uint32) bool {
	present := slices.DeleteFunc(slices.Clone(ids), func(id uint32) bool { return !slices.Contains(in, id) })
	return len(present) > len(ids)/2
}

// selfPeer returns this server. Its disk is known once the data directory has been read.
func (s *Status) selfPeer() wire.Peer { return s.addressBook.Self() }

// hasServer reports whether raft's latest configuration has p's disk.
func (s *Status) hasServer(p wire.Peer) bool {
	return slices.ContainsFunc(s.Servers(), func(o wire.Peer) bool { return o.ServerID() == p.ServerID() })
}

// isConfigured reports whether this disk is in its own latest configuration, with or without a vote.
func (s *Status) isConfigured() bool { return s.hasServer(s.selfPeer()) }

// isVoter reports whether this disk votes in its own latest configuration.
func (s *Status) isVoter() bool {
	r := s.raft.Load()
	return r != nil && slices.Contains(voterServers(r), s.selfPeer().ServerID())
}

func (s *Status) isOnlyVoter() bool {
	r := s.raft.Load()
	return r != nil && slices.Equal(voterServers(r), []raft.ServerID{s.selfPeer().ServerID()})
}

// hasCaughtUp reports whether this disk is in the configuration, and has all entries that its leader had when the
// term began.
func (s *Status) hasCaughtUp() bool {
	r := s.raft.Load()
	return r != nil && s.leaderServer() != "" && s.fsm.appliedTerm.Load() == r.CurrentTerm() && s.isConfigured()
}

func voterServers(r *raft.Raft) (ids []raft.ServerID) {
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
