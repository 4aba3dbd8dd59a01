package wire

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A server without a vote in the latest configuration of the leader's log gets committed entries only. If it had others
// and the leader died, it could block the ensemble for ever: it does not stand for election, because its configuration
// gives it no vote, and as a voter of a newer one it would deny its vote to all candidates with shorter logs. So raft
// gets no pipeline to such a server, and each request to it waits until its entries are committed, and reports that
// commit. This causes no delay, because a server applies only committed entries.
//
// A server with a vote there gets everything, also the configurations in which it had none. They are committed, because
// raft begins a change only when the one before is committed; a leader that was restarted does not know that.

// commitWaitsPerElection is the number of requests per election timeout to a server without a vote that are
// sent without their uncommitted entries, so that raft sees that the server is reachable.
const commitWaitsPerElection = 10

// errNotVoter ends a pipeline to a server that lost its vote.
var errNotVoter = errors.New("quorum: the server has no vote, and gets committed entries only")

// broadcast wakes all goroutines that wait for an event. The zero value is ready to use.
type broadcast struct {
	mu       sync.Mutex
	nextFire chan struct{}
}

// nextFired returns a channel that is closed at the next fire.
func (s *broadcast) nextFired() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextFire == nil {
		s.nextFire = make(chan struct{})
	}
	return s.nextFire
}

func (s *broadcast) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextFire != nil {
		close(s.nextFire)
		s.nextFire = nil
	}
}

// committedIndex returns the index up to which entries are committed and settled, as the leader of term.
// It returns 0 once raft is in another term: the commit may then be another leader's, of entries that
// contradict the ones to be sent.
func (t *Transport) committedIndex(term uint64) uint64 {
	r := t.cfg.Raft()
	if r == nil {
		return 0
	}
	index := t.cfg.Durability.LimitToSettled(r.CommitIndex())
	if r.CurrentTerm() != term { // read last: see logPosition
		return 0
	}
	return index
}

// mayReceive reports whether a server may receive the entries of a request: it votes in the latest configuration of this
// leader's log, or they are committed. raft takes over a configuration that it proposes only after the entry can be sent,
// so an uncommitted one of this term is the latest. Other configurations are not later than raft's.
func (t *Transport) mayReceive(id raft.ServerID, req *raft.AppendEntriesRequest) bool {
	r := t.cfg.Raft()
	if r == nil || len(req.Entries) == 0 {
		return true
	}
	votes, commit := isVoter(r.GetConfiguration().Configuration(), id), t.committedIndex(req.Term)
	if r.CurrentTerm() != req.Term { // read last: the configuration may be another leader's
		return false
	}
	for _, e := range req.Entries {
		if e.Type == raft.LogConfiguration && e.Term == req.Term && e.Index > commit {
			votes = isVoter(raft.DecodeConfiguration(e.Data), id)
		}
	}
	return votes || req.Entries[len(req.Entries)-1].Index <= commit
}

func isVoter(c raft.Configuration, id raft.ServerID) bool {
	for _, s := range c.Servers {
		if s.ID == id {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}

// awaitThenTrimUncommitted waits briefly until a server may receive the entries of a request. Then it removes the
// uncommitted entries, which raft sends again.
func (t *Transport) awaitThenTrimUncommitted(id raft.ServerID, req *raft.AppendEntriesRequest) {
	if t.mayReceive(id, req) {
		return
	}
	timer := time.NewTimer(t.cfg.ElectionTimeout / commitWaitsPerElection)
	defer timer.Stop()
	for waits := true; waits; {
		next := t.commitBroadcast.nextFired()
		if t.mayReceive(id, req) {
			break
		}
		select {
		case <-next:
		case <-timer.C:
			waits = false
		case <-t.closed:
			waits = false
		}
	}
	commit, n := t.committedIndex(req.Term), 0
	for n < len(req.Entries) && req.Entries[n].Index <= commit {
		n++
	}
	req.Entries, req.LeaderCommitIndex = req.Entries[:n], max(req.LeaderCommitIndex, commit)
}
