package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// The keys of raft's term and vote.
var (
	keyTerm          = []byte("CurrentTerm")
	keyVoteTerm      = []byte("LastVoteTerm")
	keyVoteCandidate = []byte("LastVoteCand")
)

// keyVote is the key of the vote in the store: its term, of voteTermSize bytes, and the candidate. raft writes one after
// the other. As one value they need one transaction, with two syncs, and a crash cannot leave the term of one vote with
// the candidate of another.
var keyVote = []byte("RollcallVote")

const voteTermSize = 8

// Stable is a member's stable store, with raft's term and vote and other values that must not be forgotten, and
// with the guard of its Data. A missing key is not an error for raft, which expects the text "not found" or a
// zero.
type Stable struct {
	raft.StableStore
	storeGuard
	drainQueueOrExit func() // waits until the entries before a write are durable; see logQueue
	pendingVoteTerm  []byte // term of a vote whose candidate is not set yet; nil: none. Only raft's main loop uses it
}

// Value returns the value of a key, or nil if there is none.
func (s *Stable) Value(k []byte) ([]byte, error) {
	switch v, err := s.Get(k); {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("quorum: read state: %w", err)
	default:
		return v, nil
	}
}

// SetValue stores a value, and names the failed operation in its error.
func (s *Stable) SetValue(k, v []byte) error {
	if err := s.Set(k, v); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// Term returns raft's current term, or 0 if there is none.
func (s *Stable) Term() (uint64, error) { return s.GetUint64(keyTerm) }

// SetTerm stores raft's current term. raft must not be running.
func (s *Stable) SetTerm(term uint64) error { return s.SetUint64(keyTerm, term) }

// Set implements raft.StableStore, as do SetUint64, Get and GetUint64. It stores a vote's candidate together with its
// term, which must have been set just before.
func (s *Stable) Set(k, v []byte) error {
	if bytes.Equal(k, keyVoteCandidate) {
		if s.pendingVoteTerm == nil {
			return s.endMemberOnError("write a vote", errors.New("its term is not set"))
		}
		k, v = keyVote, append(s.pendingVoteTerm, v...)
		s.pendingVoteTerm = nil
	}
	return s.writeAfterQueue(k, func() error { return s.StableStore.Set(k, v) })
}

// SetUint64 stores a number. It keeps a vote's term in memory until its candidate is set.
func (s *Stable) SetUint64(k []byte, v uint64) error {
	if bytes.Equal(k, keyVoteTerm) {
		s.pendingVoteTerm = binary.BigEndian.AppendUint64(nil, v)
		return nil
	}
	return s.writeAfterQueue(k, func() error { return s.StableStore.SetUint64(k, v) })
}

// writeAfterQueue performs the write of a key once the queued entries are durable. In a later term this member reports to
// the others that it holds these entries, and votes accordingly.
func (s *Stable) writeAfterQueue(k []byte, do func() error) error {
	s.drainQueueOrExit()
	return s.endMemberOnError("write "+nameOf(k), s.runTracked("writing "+nameOf(k), do))
}

// nameOf returns what is stored under a key, for operators.
func nameOf(k []byte) string {
	switch string(k) {
	case string(keyTerm):
		return "a term"
	case string(keyVote), string(keyVoteTerm), string(keyVoteCandidate):
		return "a vote"
	}
	return string(k)
}

// Get returns a value; for raft's key of a vote's candidate, that of the stored vote.
func (s *Stable) Get(k []byte) (v []byte, err error) {
	if bytes.Equal(k, keyVoteCandidate) {
		_, v, err = s.vote()
	} else {
		v, err = s.StableStore.Get(k)
	}
	if isNotFound(err) {
		return nil, err
	}
	return v, s.endMemberOnError("read "+nameOf(k), err)
}

// GetUint64 returns a number; for raft's key of a vote's term, that of the stored vote.
func (s *Stable) GetUint64(k []byte) (v uint64, err error) {
	if bytes.Equal(k, keyVoteTerm) {
		v, _, err = s.vote()
	} else {
		v, err = s.StableStore.GetUint64(k)
	}
	if isNotFound(err) {
		return 0, nil
	}
	return v, s.endMemberOnError("read "+nameOf(k), err)
}

// vote returns the vote that is stored, or zeros.
func (s *Stable) vote() (term uint64, candidate []byte, err error) {
	switch b, err := s.StableStore.Get(keyVote); {
	case err != nil:
		return 0, nil, err
	case len(b) < voteTermSize:
		return 0, nil, fmt.Errorf("%w: a vote of %d bytes", ErrDamaged, len(b))
	default:
		return binary.BigEndian.Uint64(b), b[voteTermSize:], nil
	}
}

// isNotFound compares the text, as raft does: raft's stores have no common error.
func isNotFound(err error) bool {
	return err != nil && (errors.Is(err, raftboltdb.ErrKeyNotFound) || err.Error() == "not found")
}
