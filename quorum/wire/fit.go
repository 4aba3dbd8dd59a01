package wire

import (
	"github.com/hashicorp/raft"
)

// maxAppendBytes limits the entries of one AppendEntries: no entry is added once they reach it. A slow link
// carries that within the time limit, and the follower's heartbeats do not wait long.
const maxAppendBytes = 512 << 10

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
