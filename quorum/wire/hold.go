package wire

import (
	"time"

	"github.com/hashicorp/raft"
)

// holdsPerElection is how often in one election timeout a member that is out of reach is
// tried: it is to be caught up as soon as it listens, and an attempt costs almost nothing.
const holdsPerElection = 10

// heartbeat reports whether req is one of raft's heartbeats, which come again anyway.
func heartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

// reach is how a leader waits for a member that is out of reach. raft would sleep between
// two requests to such a member, in the end for 10.24 s, and nothing wakes it. So a request
// that fails is held until the member answers a heartbeat, and fails only then: raft makes it
// anew at once, with all that has come meanwhile.
//
// reach waits until a member answers a heartbeat of the leader of term, and reports whether
// it did. It returns false when the term ends, this process does, or leadership is handed
// over, for which raft may wait for its requests.
func (t *Transport) reach(id raft.ServerID, to raft.ServerAddress, header raft.RPCHeader, term uint64) bool {
	beat := &raft.AppendEntriesRequest{RPCHeader: header, Term: term}
	for t.cfg.Leads(term) {
		if t.cfg.Stalled() == nil && t.inner.AppendEntries(id, to, beat, new(raft.AppendEntriesResponse)) == nil {
			return true
		}
		select {
		case <-time.After(t.cfg.Election / holdsPerElection):
		case <-t.closed:
			return false
		}
	}
	return false
}
