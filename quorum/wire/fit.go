package wire

import (
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// maxAppendBytes limits the entries of one AppendEntries: no entry is added once they reach it. A slow link
// carries that within the time limit, and the follower's heartbeats do not wait long.
const maxAppendBytes = 512 << 10

// addLaterEntries adds those entries to a request that follow in this member's log, as many as fit. raft puts few entries into a
// request, so that it has few large ones in memory. While a server catches up, raft sends one request in each round trip, and
// on links with a delay few small entries in each would take long.
//
// raft never changes a log in a term in which its server leads, so the added entries are what raft would send next.
func addLaterEntries(cfg *Config, req *raft.AppendEntriesRequest) {
	r, all := cfg.Raft(), req.Entries
	if r == nil || len(all) < disk.MaxAppendEntries { // raft has no later ones
		return
	}
	last, bytes := r.LastIndex(), entriesBytes(all)
	for next := all[len(all)-1].Index + 1; next <= last && bytes < maxAppendBytes && len(all) < maxElements; next++ {
		e := cfg.StoredEntry(next)
		if e == nil {
			break
		}
		all, bytes = append(all, e), bytes+entryBytes(e)
	}
	if r.CurrentTerm() == req.Term { // read last: the log was this leader's until now
		req.Entries = all
	}
}

// fittingCount returns the number of entries that go into one request: at least one, if there is any.
func fittingCount(entries []*raft.Log) int {
	bytes := 0
	for i, e := range entries {
		if bytes >= maxAppendBytes {
			return i
		}
		bytes += entryBytes(e)
	}
	return len(entries)
}

func entryBytes(e *raft.Log) int { return len(e.Data) + len(e.Extensions) }

func entriesBytes(entries []*raft.Log) (bytes int) {
	for _, e := range entries {
		bytes += entryBytes(e)
	}
	return bytes
}
