package disk

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// setVote stores a vote as raft does.
func setVote(s *Stable, term uint64, candidate string) error {
	return errors.Join(s.SetUint64(keyVoteTerm, term), s.Set(keyVoteCandidate, []byte(candidate)))
}

// vote reads a vote as raft does.
func vote(t *testing.T, s *Stable) (term uint64, candidate string) {
	t.Helper()
	term, err := s.GetUint64(keyVoteTerm)
	b, berr := s.Get(keyVoteCandidate)
	if err != nil || berr != nil && !isNotFound(berr) {
		t.Fatal(err, berr)
	}
	return term, string(b)
}

// A vote is one write, and a term without a candidate is not a vote.
func TestVotes(t *testing.T) {
	q := newQueued(t)
	if term, candidate := vote(t, q.Stable()); term != 0 || candidate != "" {
		t.Errorf("a new store has voted for %q in term %d", candidate, term)
	}
	for _, want := range []struct {
		term      uint64
		candidate string
	}{{0, "1.m1:1"}, {7, "3.m3:1"}, {8, "2.m2:1"}} {
		if err := setVote(q.Stable(), want.term, want.candidate); err != nil {
			t.Fatal(err)
		}
		if got, candidate := vote(t, q.Stable()); got != want.term || candidate != want.candidate {
			t.Errorf("the vote is for %q in term %d, want %q in term %d", candidate, got, want.candidate, want.term)
		}
		if wrote := strings.Join(q.store.written(), ", "); wrote != string(keyVote) {
			t.Errorf("a vote wrote %s, want one value", wrote)
		}
	}
	if err := q.Stable().SetUint64(keyVoteTerm, 9); err != nil {
		t.Fatal(err)
	}
	if term, _ := vote(t, q.Stable()); term != 8 {
		t.Errorf("the vote is in term %d before its candidate is set, want 8", term)
	}
	next := &Stable{StableStore: q.store, storeGuard: q.Stable().storeGuard} // of the next process
	if term, candidate := vote(t, next); term != 8 || candidate != "2.m2:1" {
		t.Errorf("the next process finds a vote for %q in term %d, want term 8", candidate, term)
	}
}

// A candidate without a term, and a value that is too short for a term, are errors.
func TestVoteWithoutTerm(t *testing.T) {
	store := raft.NewInmemStore()
	s := &Stable{StableStore: store, storeGuard: storeGuard{raftRunning: func() bool { return false }, operations: new(operations)}, drainQueueOrExit: func() {}}
	if err := s.Set(keyVoteCandidate, []byte("2.m2:1")); err == nil || !strings.Contains(err.Error(), "term") {
		t.Errorf("a candidate without a term: %v", err)
	}
	if err := setVote(s, 3, "2.m2:1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(keyVoteCandidate, []byte("3.m3:1")); err == nil { // the term of the former vote does not count again
		t.Error("a second candidate was stored in the term of the first one")
	}
	if err := store.Set(keyVote, make([]byte, voteTermSize-1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetUint64(keyVoteTerm); !errors.Is(err, ErrDamaged) {
		t.Errorf("a vote of 7 bytes: %v", err)
	}
}
