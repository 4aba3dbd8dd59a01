package wire

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A leader led when this member replied to its request before the last heartbeat of its term, and this member itself led when it sent the
// heartbeat to which a majority has replied. Each of the latest terms has its own time.
func TestLeadTimes(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	voters := []raft.ServerID{"1", "2", "3", "4", "5"}
	var l LeadTimes
	expect := func(what string, term uint64, voters []raft.ServerID, want time.Time) {
		t.Helper()
		if got := l.Last(term, voters, "1"); !got.Equal(want) {
			t.Errorf("%s: the leader of term %d led at %v, want %v", what, term, got.Sub(base), want.Sub(base))
		}
	}
	l.noteHeartbeat(5, at(10))
	l.noteHeartbeat(5, at(12))
	l.noteHeartbeat(5, at(11)) // on another connection
	expect("followed", 5, voters, at(12))
	expect("no leader", 4, voters, time.Time{})

	l.noteReply("2", 7, at(21))
	l.noteReply("9", 7, at(29)) // it has no vote
	expect("two of five", 7, voters, time.Time{})
	expect("two of three", 7, []raft.ServerID{"1", "2", "3"}, at(21))
	l.noteReply("3", 7, at(25))
	l.noteReply("3", 7, at(24)) // noted late
	expect("three of five", 7, voters, at(21))
	l.noteReply("4", 7, at(23))
	expect("four of five", 7, voters, at(23))
	expect("without a vote", 7, voters[1:4], at(23))
	expect("the only voter", 7, voters[:1], time.Time{})
	expect("the leader before", 5, voters, at(12))

	l.noteHeartbeat(9, at(40))
	l.noteHeartbeat(8, at(30)) // noted late
	expect("noted late", 8, voters, at(30))
	l.noteHeartbeat(11, at(50))
	expect("too old", 5, voters, time.Time{})
	l.noteHeartbeat(5, at(60))
	l.noteReply("2", 5, at(60))
	expect("too old to be noted", 5, voters, time.Time{})
	for term, want := range map[uint64]time.Time{7: at(23), 8: at(30), 9: at(40), 11: at(50)} {
		expect("kept", term, voters, want)
	}
}

// Only heartbeats that raft has accepted in their own term count, from the time of the reply before.
func TestHeartbeatsShowThatALeaderLed(t *testing.T) {
	base := time.Now()
	times := new(LeadTimes)
	rc := &receiver{cfg: &Config{LeaderCauses: NewLeaderCauses(2), LeadTimes: times}}
	note := func(s int, request *raft.AppendEntriesRequest, response any) {
		now := base.Add(time.Duration(s) * time.Second)
		rc.noteResponse(&inConn{peerID: 1, serverID: "1", requestBegun: now.Add(time.Hour), lastSent: now}, request, response)
	}
	note(1, &raft.AppendEntriesRequest{Term: 5}, &raft.AppendEntriesResponse{Term: 5})
	note(2, &raft.AppendEntriesRequest{Term: 5}, &raft.AppendEntriesResponse{Term: 6})
	note(3, &raft.AppendEntriesRequest{Term: 5, LeaderCommitIndex: 8}, &raft.AppendEntriesResponse{Term: 5})
	note(4, &raft.AppendEntriesRequest{Term: 5}, nil)
	if got := times.Last(5, nil, "2"); !got.Equal(base.Add(time.Second)) {
		t.Errorf("the leader led %v after the beginning, want 1s", got.Sub(base))
	}
}
