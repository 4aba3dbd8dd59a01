package wire

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// Any majority of disks commits. raft counts the leader's own copy when it is queued for the disk, so the leader must not
// show raft's commit index C. Let D be the last index on its disk, and S the greatest index that a majority of the latest
// configuration has on its disks, by what the servers acknowledged in this term and by D. The leader shows
// min(C, max(D, S)):
//
//   - min(C, D) counts the leader's copy, which is on its disk up to D.
//   - min(C, S) is raft's own condition: copies of a majority, and an entry of the leader's term. Only entries of this term
//     are counted, so S is such an entry's index or D.
//
// So a leader whose disk is slow, or hangs, shows what the others have, and waits for nobody if all others are well. The
// model in integration/model finds a loss if an acknowledgement comes before the disk, or if one of an earlier term or of
// a removed voter counts.

// durableAcks records how far each server has acknowledged the entries of this leader's term. It is safe for concurrent
// use. The zero value is ready.
type durableAcks struct {
	mu   sync.Mutex
	term uint64
	last map[raft.ServerID]uint64 // index of the last entry, of a term
}

// note records that a server has accepted a request, and reports whether that is news about entries of the request's term.
func (a *durableAcks) note(id raft.ServerID, req *raft.AppendEntriesRequest) bool {
	last := continueAfter(req)
	if len(req.Entries) == 0 || last.PrevLogTerm != req.Term {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if req.Term > a.term {
		a.term, a.last = req.Term, map[raft.ServerID]uint64{}
	}
	if req.Term < a.term || last.PrevLogEntry <= a.last[id] {
		return false
	}
	a.last[id] = last.PrevLogEntry
	return true
}

// majorityIndex returns the greatest index that a majority of the voters has acknowledged in a term, or 0. Server self has the
// entries up to own. The configuration is read when no acknowledgement can follow: the majority of an older one does not count.
func (a *durableAcks) majorityIndex(term uint64, latest func() raft.Configuration, self raft.ServerID, own uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term != a.term {
		return 0
	}
	var has []uint64
	for _, s := range latest().Servers {
		switch {
		case s.Suffrage != raft.Voter:
		case s.ID == self:
			has = append(has, own)
		default:
			has = append(has, a.last[s.ID])
		}
	}
	if len(has) == 0 {
		return 0
	}
	slices.Sort(has)
	return has[(len(has)-1)/2] // so many and one more voters have at least this
}

// noteAccepted records that a server has accepted a request of this leader, so that its entries are on that server's disk, or
// committed.
func (a *durableAcks) noteAccepted(cfg *Config, id raft.ServerID, req *raft.AppendEntriesRequest) {
	r := cfg.Raft()
	if r == nil || !a.note(id, req) {
		return
	}
	cfg.Releases.NoteHeld(id, req.Term, continueAfter(req).PrevLogEntry)
	own := cfg.Durability.LimitToDurable(r.LastIndex())
	latest := func() raft.Configuration { return r.GetConfiguration().Configuration() } // does not wait
	index := a.majorityIndex(req.Term, latest, cfg.LocalServer.ServerID(), own)
	if r.CurrentTerm() == req.Term { // read last: log and configuration were this leader's
		cfg.Durability.NoteCommitted(index)
	}
}
