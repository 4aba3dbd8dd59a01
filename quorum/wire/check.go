package wire

import (
	"cmp"
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

const (
	// maxTermStep bounds the distance of a term above this member's own. Each election raises the term by one and
	// a recovery by about ten thousand, so no ensemble comes near it. A member that claimed the highest possible
	// term would end all elections for ever, even after a recovery. In steps of this size that takes 2^32
	// requests, each of which waits for a disk.
	maxTermStep = 1 << 32
	// maxIndexStep bounds the distance of an index above the end of this member's log. A new member's log is empty, so
	// it is more than any ensemble writes: a million entries in a second make as many in nine years. What is added to
	// an index is a number of entries. So no sum of what this member accepts passes 2^64 in less than 2^15 snapshots.
	maxIndexStep = 1 << 48
)

// logEnd is the end of a member's log, or of a part of it, and the member's term.
type logEnd struct{ term, index uint64 }

// checkReachable returns an error for a term or an index in a request that no ensemble can have reached, or a term of an
// entry that is above the request's. own is this member's. Members vote by the term of the last entry, so an impossible
// one would end all elections. It is the first check of a request: nothing is added to a number before it, and no lock taken.
func checkReachable(command any, own logEnd) error {
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		return cmp.Or(own.checkTerm(req.Term), own.checkIndex("an entry before it", req.PrevLogEntry),
			checkTermOfEntry(req.PrevLogEntry, req.PrevLogTerm, req.Term), own.checkIndex("a commit", req.LeaderCommitIndex))
	case *raft.InstallSnapshotRequest:
		return cmp.Or(own.checkTerm(req.Term), own.checkIndex("a snapshot", req.LastLogIndex),
			checkTermOfEntry(req.LastLogIndex, req.LastLogTerm, req.Term), own.checkIndex("a configuration", req.ConfigurationIndex))
	case *raft.RequestVoteRequest:
		return cmp.Or(own.checkTerm(req.Term), own.checkIndex("the end of a log", req.LastLogIndex),
			checkTermOfEntry(req.LastLogIndex, req.LastLogTerm, req.Term))
	case *raft.RequestPreVoteRequest:
		return cmp.Or(own.checkTerm(req.Term), own.checkIndex("the end of a log", req.LastLogIndex),
			checkTermOfEntry(req.LastLogIndex, req.LastLogTerm, req.Term))
	case *copyReport:
		return cmp.Or(own.checkTerm(req.term), own.checkIndex("a copy", req.index))
	}
	return nil
}

// checkReply returns an error for a term or an index in the reply to a request for entries that the other member cannot have
// reached.
func checkReply(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := logEnd{term: req.Term, index: req.PrevLogEntry + uint64(len(req.Entries))}
	return cmp.Or(sent.checkTerm(resp.Term), sent.checkIndex("the end of a log", resp.LastLog))
}

// checkTerm returns an error for a term that no election can have reached.
func (own logEnd) checkTerm(term uint64) error {
	if term > own.term && term-own.term > maxTermStep {
		return fmt.Errorf("%w: term %d, which is too far above this member's term, %d", errNotRaftRequest, term, own.term)
	}
	return nil
}

// checkIndex returns an error for an index that no log can have reached.
func (own logEnd) checkIndex(what string, index uint64) error {
	if index > own.index && index-own.index > maxIndexStep {
		return fmt.Errorf("%w: %s at index %d, which is too far above the end of this member's log, %d", errNotRaftRequest, what,
			index, own.index)
	}
	return nil
}

// checkTermOfEntry returns an error for an entry whose term is above that of the request.
func checkTermOfEntry(index, term, request uint64) error {
	if term > request {
		return fmt.Errorf("%w: entry %d of term %d in a request of term %d", errNotRaftRequest, index, term, request)
	}
	return nil
}

// checkEntry checks an entry that should have index, in a request of term.
func checkEntry(e *raft.Log, index, term uint64) error {
	switch {
	case e == nil:
		return fmt.Errorf("%w: entry %d is nil", errNotRaftRequest, index)
	case e.Index != index:
		return fmt.Errorf("%w: entry %d where entry %d is due", errNotRaftRequest, e.Index, index)
	}
	if err := checkTermOfEntry(index, e.Term, term); err != nil {
		return err
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
