package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
	"rollcall/proto"
)

// listOf returns a list of servers: a number for a participant, and one with a minus for an observer.
func listOf(ids ...int) (list serverlist.List) {
	for _, id := range ids {
		s := serverlist.Server{ID: uint32(max(id, -id)), QuorumPort: 1, ElectionPort: 2, Observer: id < 0, ClientHost: "0.0.0.0", ClientPort: 3}
		s.Host = fmt.Sprintf("zoo%d", s.ID)
		list = append(list, s)
	}
	return list
}

// inRaft returns raft's configuration of these servers: a minus is a server without a vote.
func inRaft(ids ...int) (all []RaftServer) {
	for _, s := range listOf(ids...) {
		all = append(all, RaftServer{MemberID: s.ID, DiskID: 10 + uint64(s.ID), ElectionAddress: s.ElectionAddr(), IsVoter: !s.Observer})
	}
	return all
}

// Each server has a row with what the list, raft's configuration and the server itself say.
func TestMembers(t *testing.T) {
	f := newFake(t, 9)
	say := func(id uint32, change func(*proto.MemberStatus)) {
		honest := f.peers[id].answer
		f.peers[id].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			reply, err := honest(ctx, r)
			change(reply.GetStatus())
			return reply, err
		}
	}
	for id := uint32(1); id <= 9; id++ {
		say(id, func(s *proto.MemberStatus) { s.Role, s.Disk = "follower", 10+uint64(id) })
	}
	say(2, func(s *proto.MemberStatus) { s.Role = "leader" })
	say(4, func(s *proto.MemberStatus) { s.Role = "observer" })
	say(5, func(s *proto.MemberStatus) { s.Role, s.Joining = "", true })
	say(8, func(s *proto.MemberStatus) { s.Role, s.Stalled = "", "the disk hangs" })
	f.peers[3].answer = func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
		return nil, errors.New("connection refused")
	}
	f.ensemble = Ensemble{ID: "ab", Version: 7, List: listOf(1, 2, 3, -4, 5, 6, 8, 9), RaftServers: inRaft(1, 2, 3, -4, -5, 7, 8, -9)}
	m, err := f.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 follower voter true", "2 leader voter true", "3 silent voter true: down: connection refused", "4 observer voter false", "5 catching up voter false",
		"6 joining voter false", "7 leaving voter true", "8 not serving voter true: the disk hangs", "9 catching up voter false",
	}
	var got []string
	for _, s := range m.Servers {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%d %s voter %t: %s", s.MemberID, s.State, s.IsVoter, s.Detail), ": "))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the servers are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m.Version != 7 || m.ID != "ab" || m.Leader != 2 || !m.LeaderReplied || m.CommittedIndex != 102 || len(m.Silent) != 1 {
		t.Errorf("%+v", m)
	}
	if first := m.Servers[0]; !first.HasReplied || first.AppliedIndex != 99 || *first.Lag != 3 || first.ListEntry.Host != "zoo1" || first.ElectionAddress != "zoo1:2" {
		t.Errorf("%+v", first)
	}
	if seventh := m.Servers[6]; seventh.ListEntry.ID != 0 || seventh.ElectionAddress != "zoo7:2" {
		t.Errorf("%+v", seventh)
	}

	// A voter that reads its data at the start counts for no majority.
	say(1, func(s *proto.MemberStatus) {
		s.Role, s.NotServing = "", "this member has started: it reads its log, 40 %"
	})
	if m, err = f.Members(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first := m.Servers[0]; first.State != api.StateNotServing || first.Detail != "this member has started: it reads its log, 40 %" || first.NeededForMajority {
		t.Errorf("%+v", first)
	}

	// A member that is in neither says so of itself.
	f.leader, f.ensemble = 9, Ensemble{List: listOf(2, 3), RaftServers: inRaft(2, 3)}
	if m, err = f.Members(t.Context()); err != nil || len(m.Servers) != 3 || m.Servers[0].State != api.StateRemoved {
		t.Errorf("%+v, %v", m.Servers, err)
	}
}

// said is what a member has answered.
func said(member uint32, disk uint64, role string) memberStatus {
	return memberStatus{diskID: disk, Member: api.Member{MemberID: member, Role: role}}
}

// A member whose disk was lost does not vote with its new one before raft's configuration has that. Its former disk counts among
// the voters, and is not alive.
func TestLostDisk(t *testing.T) {
	joined := func(disk uint64) Members {
		c := &Collector{cfg: Config{Self: 1}}
		return c.joinMembers(Ensemble{List: listOf(1, 2, 3, 4), RaftServers: inRaft(1, 2, 3, 4)}, 1, []memberStatus{
			said(1, 11, "leader"), said(2, 12, "follower"), said(3, disk, "follower"), said(4, 14, "follower"),
		}, nil)
	}
	for _, tt := range []struct {
		disk uint64
		lost bool
	}{{13, false}, {99, true}} {
		m := joined(tt.disk)
		s, state := m.Servers[2], map[bool]string{false: "follower", true: api.StateCatchingUp}[tt.lost]
		if s.IsVoter == tt.lost || s.LostDisk != tt.lost || s.State != state || (s.Detail != "") != tt.lost {
			t.Errorf("with disk %d: %+v", tt.disk, s)
		}
		if m.Servers[0].NeededForMajority != tt.lost || m.Servers[1].NeededForMajority != tt.lost || s.NeededForMajority {
			t.Errorf("with disk %d, these are needed: %+v", tt.disk, m.Servers)
		}
		if m.IsSettled() == tt.lost || (m.CheckLivingMajority(listOf(1, 3)) != nil) != tt.lost {
			t.Errorf("with disk %d: settled %t, without member 2: %v", tt.disk, m.IsSettled(), m.CheckLivingMajority(listOf(1, 3)))
		}
	}
}

// Raft's configuration has followed the list if it is as the list says. Servers that must answer first are not waited for.
func TestSettled(t *testing.T) {
	moved := inRaft(1, 2)
	moved[1].ElectionAddress = "elsewhere:2"
	for _, tt := range []struct {
		name   string
		list   serverlist.List
		raft   []RaftServer
		silent uint32
		want   bool
	}{
		{"equal", listOf(1, 2, -3), inRaft(1, 2, -3), 0, true},
		{"not added", listOf(1, 2), inRaft(1), 0, false},
		{"not added, and silent", listOf(1, 2), inRaft(1), 2, true},
		{"not promoted", listOf(1, 2), inRaft(1, -2), 0, false},
		{"not promoted, and silent", listOf(1, 2), inRaft(1, -2), 2, true},
		{"not demoted", listOf(1, -2), inRaft(1, 2), 0, false},
		{"not demoted, and silent", listOf(1, -2), inRaft(1, 2), 2, false},
		{"not moved", listOf(1, 2), moved, 0, false},
		{"not removed", listOf(1), inRaft(1, 2), 0, false},
		{"not removed, and silent", listOf(1), inRaft(1, 2), 2, false},
	} {
		c := &Collector{cfg: Config{Self: 1}}
		var rows []memberStatus
		for id := uint32(1); id <= 3; id++ {
			if id != tt.silent {
				rows = append(rows, said(id, 10+uint64(id), ""))
			}
		}
		m := c.joinMembers(Ensemble{List: tt.list, RaftServers: tt.raft}, 1, rows, nil)
		if got := m.IsSettled(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// A list of which too few voters are alive would stop the ensemble. Observers do not count, and servers that are
// new count as alive.
func TestOutage(t *testing.T) {
	for _, tt := range []struct {
		name string
		down []uint32
		next serverlist.List
		want string // a part of the error
	}{
		{"all are alive", nil, listOf(1, 2), ""},
		{"one of three is down", []uint32{3}, listOf(1, 2, 3), ""},
		{"a live one goes", []uint32{3}, listOf(1, 3), "the voters 1, 3, of which 3 do not serve; alive: 1, needed for a majority: 2"},
		{"the one that is down goes", []uint32{3}, listOf(1, 2), ""},
		{"two of four", []uint32{2, 3}, listOf(1, 2, 3, 4), "the voters 1, 2, 3, 4, of which 2, 3 do not serve; alive: 2, needed for a majority: 3"},
		{"new ones", []uint32{3}, listOf(1, 3, 7), ""},
		{"an observer", []uint32{3}, listOf(1, -3), ""},
		{"one down of one", []uint32{2, 3}, listOf(3), "the voters 3, of which 3 do not serve; alive: 0, needed for a majority: 1"},
	} {
		c := &Collector{cfg: Config{Self: 1}}
		var rows []memberStatus
		for id := uint32(1); id <= 4; id++ {
			if !isSilent(silentOf(tt.down...), id) {
				rows = append(rows, said(id, 10+uint64(id), "follower"))
			}
		}
		m := c.joinMembers(Ensemble{List: listOf(1, 2, 3, 4), RaftServers: inRaft(1, 2, 3, 4)}, 1, rows, nil)
		if err := m.CheckLivingMajority(tt.next); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// A voter is needed if no majority of the voters would be alive without it.
func TestNeeded(t *testing.T) {
	for _, tt := range []struct {
		raft []RaftServer
		down []uint32
		want []uint32
	}{
		{inRaft(1), nil, []uint32{1}},
		{inRaft(1, 2), nil, []uint32{1, 2}},
		{inRaft(1, 2, 3), nil, nil},
		{inRaft(1, 2, 3), []uint32{3}, []uint32{1, 2}},
		{inRaft(1, 2, 3, -4), []uint32{4}, nil},
		{inRaft(1, 2, 3, 4), nil, nil},
		{inRaft(1, 2, 3, 4), []uint32{2}, []uint32{1, 3, 4}},
	} {
		c := &Collector{cfg: Config{Self: 1}}
		var rows []memberStatus
		list := make(serverlist.List, 0, len(tt.raft))
		for _, s := range tt.raft {
			list = append(list, serverlist.Server{ID: s.MemberID, Observer: !s.IsVoter})
			if !slices.Contains(tt.down, s.MemberID) {
				rows = append(rows, said(s.MemberID, s.DiskID, "follower"))
			}
		}
		var got []uint32
		for _, s := range c.joinMembers(Ensemble{List: list, RaftServers: tt.raft}, 1, rows, nil).Servers {
			if s.NeededForMajority {
				got = append(got, s.MemberID)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("of %v without %v, %v are needed, want %v", tt.raft, tt.down, got, tt.want)
		}
	}
}

func silentOf(ids ...uint32) (all []api.Silence) {
	for _, id := range ids {
		all = append(all, api.Silence{MemberID: id})
	}
	return all
}
