package wire

import (
	"sync"

	"github.com/hashicorp/raft"
)

// lastLeader is the leader that this member has followed last, whether or not it led itself since. raft forgets it at a
// candidate's request, which may come before the end of the dead leader's connections.
type lastLeader struct {
	mu     sync.Mutex
	server raft.ServerID // "" after a vote for another candidate
	term   uint64        // of the server, or of the vote
}

// note updates the leader after a request and raft's response: entries and heartbeats of raft's present term name it, and a
// granted vote ends it. The responses may be noted in another order than raft gave them, so a request of an earlier term
// changes nothing.
func (l *lastLeader) note(from raft.ServerID, request, response any) {
	switch req := request.(type) {
	case *raft.AppendEntriesRequest:
		if resp, ok := response.(*raft.AppendEntriesResponse); ok && resp.Term == req.Term {
			l.set(from, req.Term)
		}
	case *raft.RequestVoteRequest:
		if resp, ok := response.(*raft.RequestVoteResponse); ok && resp.Granted {
			l.endBefore(req.Term)
		}
	}
}

func (l *lastLeader) set(server raft.ServerID, term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term >= l.term {
		l.server, l.term = server, term
	}
}

// endBefore ends a leader of a term before the given one.
func (l *lastLeader) endBefore(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term > l.term {
		l.server, l.term = "", term
	}
}

// LastLeader returns the leader that this member has followed last, and its term. The server is "" if there was none since
// the start, or if this member has voted for another candidate since.
func (t *Transport) LastLeader() (server raft.ServerID, term uint64) {
	l := &t.receiver.lastLeader
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.server, l.term
}
