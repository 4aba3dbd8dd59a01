package wire

import (
	"fmt"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// checkRequest returns an error for a request that raft would panic at, or whose entries its log
// would not take.
func checkRequest(command any) error {
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		for i, e := range req.Entries {
			if err := checkEntry(e, req.PrevLogEntry+1+uint64(i), req.Term); err != nil {
				return err
			}
		}
	case *raft.InstallSnapshotRequest:
		if req.SnapshotVersion != raft.SnapshotVersionMax {
			return fmt.Errorf("%w: a snapshot of version %d, this member takes %d", errNotRaftRequest, req.SnapshotVersion, raft.SnapshotVersionMax)
		}
		return checkConfiguration(req.Configuration)
	}
	return nil
}

// maxTermStep is how far a term may be above this member's own. Each election raises the term by one, and
// a recovery by some ten thousand, so no ensemble comes near it. But a member that claims the highest term
// that there is would end all elections for ever, and no recovery helps then. In steps of this size it
// takes 2^32 requests, each of which waits for a disk.
const maxTermStep = 1 << 32

// checkTerm returns an error for a term that no election has reached. own is this member's term.
func checkTerm(term, own uint64) error {
	if term > own && term-own > maxTermStep {
		return fmt.Errorf("%w: term %d, which is too far above this member's term, %d", errNotRaftRequest, term, own)
	}
	return nil
}

// termOf returns the term of a request of raft's, or 0 if it has none.
func termOf(command any) uint64 {
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		return req.Term
	case *raft.InstallSnapshotRequest:
		return req.Term
	case *raft.RequestVoteRequest:
		return req.Term
	case *raft.RequestPreVoteRequest:
		return req.Term
	}
	return 0
}

// checkEntry checks an entry that should have index, in a request of term. Its own term is never above
// that. Members vote by the term of the last entry, so one of a term that is never reached would end all
// elections, as an impossible term does.
func checkEntry(e *raft.Log, index, term uint64) error {
	switch {
	case e == nil:
		return fmt.Errorf("%w: entry %d is nil", errNotRaftRequest, index)
	case e.Index != index:
		return fmt.Errorf("%w: entry %d where entry %d is due", errNotRaftRequest, e.Index, index)
	case e.Term > term:
		return fmt.Errorf("%w: entry %d of term %d in a request of term %d", errNotRaftRequest, index, e.Term, term)
	}
	switch e.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
	case raft.LogConfiguration:
		if err := checkConfiguration(e.Data); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: entry %d of type %d", errNotRaftRequest, index, e.Type)
	}
	return disk.CheckEntrySize(e)
}

// checkConfiguration checks that raft can decode a configuration.
func checkConfiguration(b []byte) (err error) {
	if err := checkBounds(b, configurationBounds); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: configuration: %v", errNotRaftRequest, p)
		}
	}()
	raft.DecodeConfiguration(b) // panics at bytes that it cannot decode
	return nil
}
