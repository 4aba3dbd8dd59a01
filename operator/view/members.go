package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
)

// Ensemble is one member's view of the ensemble's servers.
type Ensemble struct {
	ID          string // in hexadecimal digits; "": it is not known yet
	Version     int64  // of the list
	List        serverlist.List
	RaftServers []RaftServer // raft's latest configuration, committed or not
}

// RaftServer is a server in raft's configuration.
type RaftServer struct {
	MemberID        uint32
	DiskID          uint64 // the id of its disk; 0: not known
	ElectionAddress string // host:port of its port for the log
	IsVoter         bool
}

// Members has the ensemble's servers with their status.
type Members struct {
	Ensemble
	Leader         uint32   // that this member knows; 0: none
	CommittedIndex uint64   // index of the last log entry that the leader knows to be committed
	LeaderReplied  bool     // CommittedIndex and the lags are known
	Servers        []Server // of the list and of raft's configuration, by id
	Silent         []api.Silence
}

// Server is a server of the ensemble.
type Server struct {
	api.Server
	ListEntry  serverlist.Server // its line; its ID is 0 if the list does not have it
	HasReplied bool
	WantsVote  bool // it came in by itself, its own server line is a participant's, and it has had no vote since
	Leaves     bool // it leaves by itself, and its vote is to go to another member first
	LostDisk   bool // its former disk has a vote in raft's configuration, and it runs with another one
}

// APIRow returns the members as they are sent.
func (m *Members) APIRow() api.Members {
	row := api.Members{
		EnsembleID: m.ID, Version: ZxidText(m.Version), LeaderID: m.Leader, IsSettled: m.IsSettled(),
		Items: make([]api.Server, len(m.Servers)), Silent: append([]api.Silence{}, m.Silent...),
	}
	if m.LeaderReplied {
		row.CommittedIndex = &m.CommittedIndex
	}
	for i := range m.Servers {
		row.Items[i] = m.Servers[i].Server
	}
	return row
}

// Members returns the servers with their status.
func (c *Collector) Members(ctx context.Context) (Members, error) {
	rows, silent, err := c.queryStatuses(ctx)
	if err != nil {
		return Members{}, err
	}
	return c.joinMembers(c.cfg.ServerList(), c.cfg.Leader(), rows, silent), nil
}

// joinMembers combines this member's view with the members' replies.
func (c *Collector) joinMembers(e Ensemble, leader uint32, rows []memberStatus, silent []api.Silence) Members {
	m := Members{Ensemble: e, Leader: leader, Silent: silent}
	said := map[uint32]memberStatus{}
	for _, s := range rows {
		said[s.Member.MemberID] = s
		if s.Member.MemberID == leader {
			m.CommittedIndex, m.LeaderReplied = s.CommittedIndex, true
		}
	}
	for _, id := range e.memberIDs(c.cfg.Self) {
		m.Servers = append(m.Servers, m.serverStatus(id, said))
	}
	m.markNeededVoters()
	return m
}

// markNeededVoters marks the voters without which the majority would be lost.
func (m *Members) markNeededVoters() {
	voters, alive := 0, 0
	for _, s := range m.Servers {
		if s.IsVoter || s.LostDisk {
			voters++
		}
		if s.IsVoter && s.isAlive() {
			alive++
		}
	}
	for i := range m.Servers {
		s := &m.Servers[i]
		s.NeededForMajority = s.IsVoter && s.isAlive() && alive-1 < voters/2+1
	}
}

// isAlive reports whether a server counts for a majority, as far as this member sees.
func (s *Server) isAlive() bool { return s.HasReplied && !s.LostDisk && s.State != api.StateNotServing }

// memberIDs returns the ids of self and of the servers in the list and in raft's configuration.
func (e Ensemble) memberIDs(self uint32) []uint32 {
	all := []uint32{self}
	for _, s := range e.List {
		all = append(all, s.ID)
	}
	for _, s := range e.RaftServers {
		all = append(all, s.MemberID)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (e Ensemble) findConfigured(id uint32) (RaftServer, bool) {
	i := slices.IndexFunc(e.RaftServers, func(s RaftServer) bool { return s.MemberID == id })
	if i < 0 {
		return RaftServer{}, false
	}
	return e.RaftServers[i], true
}

// serverStatus returns the status of a server.
func (m *Members) serverStatus(id uint32, said map[uint32]memberStatus) Server {
	in, configured := m.findConfigured(id)
	listed, isListed := m.List.Find(id)
	status, answered := said[id]
	s := Server{ListEntry: listed, HasReplied: answered, WantsVote: status.wantsVote, Leaves: status.leaves, Server: api.Server{
		MemberID: id, ElectionAddress: in.ElectionAddress, RaftAddress: in.ElectionAddress, IsVoter: in.IsVoter,
		AppliedIndex: status.AppliedIndex, Lag: status.Lag, IsDrained: status.IsDrained,
	}}
	if isListed {
		s.Role = "participant"
		if listed.Observer {
			s.Role = "observer"
		}
		s.ElectionAddress = listed.ElectionAddr()
	}
	if listed.Host != "" { // a standalone server has no ports for members
		s.Server.ListLine, s.QuorumAddress, s.ClientAddress = listed.String(), listed.QuorumAddr(), listed.ClientAddr()
	}
	if in.IsVoter && answered && status.diskID != in.DiskID {
		s.IsVoter, s.LostDisk = false, true
	}
	switch {
	case !isListed && !configured:
		s.State = api.StateRemoved
	case !answered:
		s.State, s.Detail = api.StateSilent, m.silenceReason(id)
	case !isListed:
		s.State = api.StateLeaving
	case !configured:
		s.State = api.StateJoining
	case s.LostDisk:
		s.State, s.Detail = api.StateCatchingUp,
			"it runs with a new disk, which votes in place of the former one once it has the log"
	case status.IsJoining || !in.IsVoter && !listed.Observer:
		s.State = api.StateCatchingUp
	case status.Role == "":
		s.State, s.Detail = api.StateNotServing, cmp.Or(status.StallReason, status.DamageReason, status.NotServing)
	default:
		s.State = status.Role
	}
	return s
}

// silenceReason returns the reason for a member's silence.
func (m *Members) silenceReason(id uint32) string {
	for _, s := range m.Silent {
		if s.MemberID == id {
			return strings.TrimSuffix(s.Reason+": "+s.Detail, ": ")
		}
	}
	return "this member has no connection to it yet"
}

// IsSettled reports whether raft's configuration matches the list. A silent server does not join, move or become
// a voter, so IsSettled ignores it there. It leaves and stops voting even while silent.
func (m *Members) IsSettled() bool {
	for _, s := range m.Servers {
		in, configured := m.findConfigured(s.MemberID)
		listed := s.ListEntry.ID != 0
		switch {
		case configured && !listed, configured && in.IsVoter && s.ListEntry.Observer:
			return false
		case !configured && listed && s.HasReplied:
			return false
		case configured && listed && s.HasReplied &&
			(!s.IsVoter && !s.ListEntry.Observer || in.ElectionAddress != s.ListEntry.ElectionAddr()):
			return false
		}
	}
	return true
}

// CheckLivingMajority returns an error if the list next would have no majority of living voters. A server that the
// ensemble does not have yet counts as alive, because only the leader knows whether it is reachable.
func (m *Members) CheckLivingMajority(next serverlist.List) error {
	voters := next.Voters()
	var silent []uint32
	for _, id := range voters {
		i := slices.IndexFunc(m.Servers, func(s Server) bool { return s.MemberID == id })
		if i >= 0 && !m.Servers[i].isAlive() {
			silent = append(silent, id)
		}
	}
	alive, need := len(voters)-len(silent), len(voters)/2+1
	if alive >= need {
		return nil
	}
	return fmt.Errorf("too few voters would be alive, so the ensemble would stop: the list would have the voters %s, "+
		"of which %s do not serve; alive: %d, needed for a majority: %d",
		idText(voters), idText(silent), alive, need)
}

func idText(ids []uint32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}
