package wire

import (
	"testing"

	"github.com/hashicorp/raft"
)

// The last leader is the one whose entries were accepted in the latest term, until this member votes for another one in a
// later term. A response of an earlier term that is noted late changes nothing.
func TestLastLeader(t *testing.T) {
	type entries = raft.AppendEntriesRequest
	type appended = raft.AppendEntriesResponse
	type vote = raft.RequestVoteRequest
	type voted = raft.RequestVoteResponse
	var l lastLeader
	for _, step := range []struct {
		name              string
		from              raft.ServerID
		request, response any
		leader            raft.ServerID
		term              uint64
	}{
		{"entries", "1", &entries{Term: 8}, &appended{Term: 8}, "1", 8},
		{"entries of an earlier term", "2", &entries{Term: 7}, &appended{Term: 8}, "1", 8},
		{"a vote that is not granted", "2", &vote{Term: 9}, &voted{Term: 9}, "1", 8},
		{"a vote", "2", &vote{Term: 10}, &voted{Term: 10, Granted: true}, "", 10},
		{"the earlier leader's entries, noted late", "1", &entries{Term: 8}, &appended{Term: 8}, "", 10},
		{"the elected one's entries", "2", &entries{Term: 10}, &appended{Term: 10}, "2", 10},
		{"the same vote, noted late", "2", &vote{Term: 10}, &voted{Term: 10, Granted: true}, "2", 10},
		{"entries without a response", "3", &entries{Term: 11}, nil, "2", 10},
	} {
		l.note(step.from, step.request, step.response)
		if l.server != step.leader || l.term != step.term {
			t.Errorf("%s: leader %q in term %d, want %q in term %d", step.name, l.server, l.term, step.leader, step.term)
		}
	}
}
