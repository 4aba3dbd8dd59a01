package wire

import (
	"time"

	"github.com/hashicorp/raft"
)

// probesPerElection is the number of attempts per election timeout to reach an unreachable member. The member
// should catch up as soon as it listens, and an attempt costs almost nothing.
const probesPerElection = 10

// isHeartbeat reports whether req is one of raft's heartbeats, which are repeated anyway.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

// heartbeatUntilReachable waits until a member replies to a heartbeat of the leader of term, and reports whether it
// did. It returns false when the term or this process ends, when the member has another address in raft's
// configuration, or during a leadership transfer, because raft may then wait for its requests.
//
// raft sleeps between two requests to an unreachable member, eventually for 10.24 s, and nothing wakes it. So
// a failed request waits here until the member replies to a heartbeat. Only then does it fail, and raft
// immediately sends a new one with all entries added meanwhile.
func (t *Transport) heartbeatUntilReachable(id raft.ServerID, to raft.ServerAddress, header raft.RPCHeader,
	term uint64,
) bool {
	beat := &raft.AppendEntriesRequest{RPCHeader: header, Term: term}
	for t.cfg.Elections.IsStableLeader(term) && t.isConfiguredAt(id, to) {
		if t.cfg.Elections.MayLead() == nil && t.dialer.call(to, requestAppend, beat, 0, new(raft.AppendEntriesResponse)) == nil {
			return true
		}
		select {
		case <-time.After(t.cfg.ElectionTimeout / probesPerElection):
		case <-t.closed:
			return false
		}
	}
	return false
}

// isConfiguredAt reports whether a server has this address in raft's latest configuration.
func (t *Transport) isConfiguredAt(id raft.ServerID, addr raft.ServerAddress) bool {
	now, known := t.addressOf(id)
	return known && now == addr || t.cfg.Raft() == nil
}
