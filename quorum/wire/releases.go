package wire

import "github.com/hashicorp/raft"

// Releases decides which committed entries may be applied, while members read by leases: see package readlease. Its methods may be called by
// any goroutine.
type Releases interface {
	// Limit returns index, or the last index that this leader of a term has released, if that is lower.
	Limit(term, index uint64) uint64
	// LimitEarlyCommit does the same for the leader's word to a server.
	LimitEarlyCommit(to raft.ServerID, term, index uint64) uint64
	// MayHaveLease returns the servers other than this leader of a term that may have a lease for reads. It returns false if nothing of the term may
	// be released yet, or this member does not lead in the term.
	MayHaveLease(term uint64) (servers []raft.ServerID, ok bool)
	// NoteHeld records that a server holds this leader's entries up to an index, by its reply in the term.
	NoteHeld(server raft.ServerID, term, index uint64)
	// NoteTold records the two commit indexes of a request that this member has accepted from the leader of a term.
	NoteTold(term, commit, majority uint64)
}

// allReleased releases everything.
type allReleased struct{}

func (allReleased) Limit(_, index uint64) uint64                             { return index }
func (allReleased) LimitEarlyCommit(_ raft.ServerID, _, index uint64) uint64 { return index }
func (allReleased) MayHaveLease(uint64) ([]raft.ServerID, bool)              { return nil, true }
func (allReleased) NoteHeld(raft.ServerID, uint64, uint64)                   {}
func (allReleased) NoteTold(_, _, _ uint64)                                  {}
