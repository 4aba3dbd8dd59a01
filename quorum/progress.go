package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Progress describes what this member still has to do before it takes part: it reads its data, copies a snapshot, or
// applies entries of the log. It returns "" if nothing of it is left. Once raft runs, it also returns "" while no leader is
// known, because the leader decides which entries are applied.
func (n *Node) Progress() string {
	if received, size, ok := n.transport.SnapshotBeingReceived(); ok {
		return fmt.Sprintf("copies a snapshot of the leader, %s of %s", mebibytes(received), mebibytes(size))
	}
	s := n.status
	r := s.raft.Load()
	switch {
	case s.IsReadingData():
		return describeStartReads(n.disk.StartReads())
	case r == nil:
		return ""
	case s.leaderServer() == "":
		return ""
	}
	return describeLog(s.AppliedIndex(), s.CommitIndex(), s.appliedAtStart.Load(), s.lastAtStart.Load(), s.hasCaughtUp())
}

// describeLog describes the progress of applying the log. first is the index up to which a snapshot was restored when raft
// began to run, and last that at the end of the log then.
func describeLog(applied, committed, first, last uint64, caughtUp bool) string {
	applied = max(applied, first)
	own := min(last, committed)
	switch {
	case applied+1 < own: // the last one may be raft's own, which is not applied
		return fmt.Sprintf("applies its log, %d %%", 100*(applied-first)/(own-first))
	case caughtUp:
		return ""
	}
	return fmt.Sprintf("copies the leader's log, applied up to entry %d of %d that it knows to be committed", applied,
		max(applied, committed))
}

// describeStartReads describes the progress of reading the data before raft runs.
func describeStartReads(r disk.StartReads) string {
	switch {
	case r.AllEntries > 0:
		return fmt.Sprintf("reads its log, %d %%", 100*r.Entries/r.AllEntries)
	case r.SnapshotSize > 0:
		return fmt.Sprintf("reads its snapshot, %d %%", 100*min(r.SnapshotBytes, r.SnapshotSize)/r.SnapshotSize)
	}
	return "reads its data"
}

// mebibytes rounds up: a copy that has begun is not at 0.
func mebibytes(n int64) string { return strconv.FormatInt((n+1<<20-1)>>20, 10) + " MiB" }

// silentVoters describes the voters without a usable reply, if a leader needs one of them, or returns "".
func (b *bootstrap) silentVoters(r helloRound) string {
	voters := 0
	var silent []uint32
	for _, s := range b.newestConfiguration(r) {
		if s.Observer {
			continue
		}
		voters++
		if _, replied := r.replies[s.ID]; !replied && s.ID != b.status.selfPeer().ID {
			silent = append(silent, s.ID)
		}
	}
	if voters-len(silent) > voters/2 {
		return ""
	}
	return describeSilent(silent, r.failures)
}

// describeSilent names members with the reasons of their silence. Members with the same reason are named together.
func describeSilent(silent []uint32, failures map[uint32]error) string {
	byReason := map[string][]string{}
	for _, id := range slices.Sorted(slices.Values(silent)) {
		reason := silenceReason(failures[id])
		byReason[reason] = append(byReason[reason], strconv.FormatUint(uint64(id), 10))
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		ids := byReason[reason]
		last := len(ids) - 1
		named := "member " + ids[last]
		if last > 0 {
			named = "members " + strings.Join(ids[:last], ", ") + " and " + ids[last]
		}
		parts = append(parts, named+": "+reason)
	}
	return strings.Join(parts, "; ")
}

// silenceReason returns the reason why a Hello had no usable reply, without the texts of gRPC and the member's address.
func silenceReason(err error) string {
	switch {
	case err == nil:
		return errHelloPending.Error()
	case errors.Is(err, wire.ErrOtherEnsemble), errors.Is(err, wire.ErrTwins):
		return err.Error()
	case errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "DeadlineExceeded"):
		return fmt.Sprintf("no reply within %v", helloTimeout)
	}
	text := strings.TrimRight(err.Error(), `"`)
	if _, dialed, ok := strings.Cut(text, "Error while dialing: "); ok {
		text = dialed
	}
	if _, connected, ok := strings.Cut(text, "quorum: connect to member "); ok {
		_, text, _ = strings.Cut(connected, ": ") // the name and the address of the member
	}
	if strings.HasPrefix(text, "dial ") {
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	return strings.TrimSpace(text)
}
