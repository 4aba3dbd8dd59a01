package wire

import (
	"github.com/hashicorp/raft"
)

// maxAppendBytes limits the entries of one AppendEntries: when they have this many bytes, no more are
// added. A slow link carries that within the time for a request, and the follower's heartbeats do
// not wait long for it.
const maxAppendBytes = 512 << 10

// fittingCount returns how many of entries go into one request: at least one, if there is any.
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
