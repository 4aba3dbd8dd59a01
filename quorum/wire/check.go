package wire

import (
	"fmt"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// checkSafeForRaft returns an error for a request that would make raft panic, or whose entries its log would
// reject.
func checkSafeForRaft(command any) error {
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		for i, e := range req.Entries {
			if err := checkEntry(e, req.PrevLogEntry+1+uint64(i), req.Term); err != nil {
				return err
			}
		}
	case *raft.InstallSnapshotRequest:
		if req.SnapshotVersion != raft.SnapshotVersionMax {
			return fmt.Errorf("%w: a snapshot of version %d, this member takes %d", errNotRaftRequest, req.SnapshotVersion,
				raft.SnapshotVersionMax)
		}
		return checkConfigurationDecodes(req.Configuration)
	}
	return nil
}

// maxTermStep bounds the distance of a term above this member's own. Each election raises the term by one and
// a recovery by about ten thousand, so no ensemble comes near it. A member that claimed the highest possible
// term would end all elections for ever, even after a recovery. In steps of this size that takes 2^32
// requests, each of which waits for a disk.
const maxTermStep = 1 << 32

// checkTermReachable returns an error for a term that no election can have reached. own is this member's term.
func checkTermReachable(term, own uint64) error {
	if term > own && term-own > maxTermStep {
		return fmt.Errorf("%w: term %d, which is too far above this member's term, %d", errNotRaftRequest, term, own)
	}
	return nil
}

// termOf returns the term of a request, or 0 if it has none.
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

// checkEntry checks an entry that should have index, in a request of term. Its own term must not be higher:
// members vote by the term of the last entry, so an impossible one would end all elections.
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
		if err := checkConfigurationDecodes(e.Data); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: entry %d of type %d", errNotRaftRequest, index, e.Type)
	}
	return disk.CheckEntrySize(e)
}

// checkConfigurationDecodes checks that raft can decode a configuration.
func checkConfigurationDecodes(b []byte) (err error) {
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
