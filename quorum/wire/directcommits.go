package wire

import (
	"sync"

	"github.com/hashicorp/raft"
)

// directCommits is what a follower knows of the copies of others: the leader's last word, and the last direct message of each server. It is
// safe for concurrent use. The zero value is ready.
type directCommits struct {
	mu          sync.Mutex
	told        map[raft.ServerID]copyReport
	earlyCommit directPart
	from        raft.RPCHeader // the leader that has given the word
	term        uint64         // of that leader
	passed      uint64         // the last index passed to raft, which is committed whoever leads
}

// noteCopy records a direct message of a server. It returns the notice to pass to raft, or nil.
func (d *directCommits) noteCopy(server raft.ServerID, report copyReport) *raft.AppendEntriesRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.told[server]
	if !report.isAfter(before) {
		return nil
	}
	if !known && len(d.told) >= maxRepliedServers || d.told == nil {
		d.told = map[raft.ServerID]copyReport{} // each wiped disk leaves an entry
	}
	d.told[server] = report
	return d.nextNotice()
}

// noteEarlyCommit records the word in a request that raft has accepted, with all of its entries up to the word. It returns the notice to pass to
// raft, or nil.
func (d *directCommits) noteEarlyCommit(req *raft.AppendEntriesRequest, early *directPart) *raft.AppendEntriesRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if req.Term < d.term {
		return nil
	}
	d.from, d.term, d.earlyCommit = req.RPCHeader, req.Term, *early
	return d.nextNotice()
}

// nextNotice returns a notice as the leader would send it if it knew what this member knows, or nil if there is nothing new. The caller
// holds mu.
func (d *directCommits) nextNotice() *raft.AppendEntriesRequest {
	if d.earlyCommit.index <= d.passed {
		return nil
	}
	index := d.earlyCommit.limit(func(server raft.ServerID) uint64 {
		if told := d.told[server]; told.term == d.term {
			return told.index
		}
		return 0
	})
	if index <= d.passed {
		return nil
	}
	d.passed = index
	return &raft.AppendEntriesRequest{RPCHeader: d.from, Term: d.term, PrevLogEntry: index, PrevLogTerm: d.term, LeaderCommitIndex: index}
}

// noteDirectEarlyCommit handles the direct part of a request that raft has accepted.
func (rc *receiver) noteDirectEarlyCommit(r *raft.Raft, req *raft.AppendEntriesRequest, d *directPart) {
	if d != nil && d.index != 0 {
		rc.commitDirectly(r, rc.directCommits.noteEarlyCommit(req, d))
	}
}

// receiveCopy handles a direct message. It waits for raft's main loop if this member commits by it.
func (rc *receiver) receiveCopy(r *raft.Raft, from raft.ServerID, report copyReport) {
	if r != nil && from != "" {
		rc.commitDirectly(r, rc.directCommits.noteCopy(from, report))
	}
}

// commitDirectly passes a notice to raft, unless raft knows of the commit or does not follow the leader of the notice any more: raft takes
// a notice for a sign of life of its leader. It also takes none once the leader's connections have ended, because this member may be about
// to stand.
func (rc *receiver) commitDirectly(r *raft.Raft, notice *raft.AppendEntriesRequest) {
	if notice == nil || notice.LeaderCommitIndex <= r.CommitIndex() {
		return
	}
	_, leader := r.LeaderWithID()
	if string(leader) != string(notice.ID) || !rc.peerConns.hasConnFrom(leader) {
		return
	}
	resp, err := rc.handleRequest(r, leader, notice)
	if err == nil && acceptedAppend(notice, resp) != nil {
		rc.cfg.Releases.NoteTold(notice.Term, notice.LeaderCommitIndex, 0)
		rc.recordCommit(r)
	}
}
