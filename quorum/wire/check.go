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
			if err := checkEntry(e, req.PrevLogEntry+1+uint64(i)); err != nil {
				return err
			}
		}
	case *raft.InstallSnapshotRequest:
		if req.SnapshotVersion != raft.SnapshotVersionMax {
			return fmt.Errorf("%w: a snapshot of version %d, this member takes %d", errBounds, req.SnapshotVersion, raft.SnapshotVersionMax)
		}
		return checkConfiguration(req.Configuration)
	}
	return nil
}

// checkEntry checks an entry that should have index.
func checkEntry(e *raft.Log, index uint64) error {
	switch {
	case e == nil:
		return fmt.Errorf("%w: entry %d is nil", errBounds, index)
	case e.Index != index:
		return fmt.Errorf("%w: entry %d where entry %d is due", errBounds, e.Index, index)
	}
	switch e.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
	case raft.LogConfiguration:
		if err := checkConfiguration(e.Data); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: entry %d of type %d", errBounds, index, e.Type)
	}
	return disk.CheckSize(e)
}

// checkConfiguration checks that raft can decode a configuration.
func checkConfiguration(b []byte) (err error) {
	if err := checkBounds(b, configurationBounds); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: configuration: %v", errBounds, p)
		}
	}()
	raft.DecodeConfiguration(b) // panics at bytes that it cannot decode
	return nil
}
