package wire

import (
	"github.com/hashicorp/raft"
)

// appendBytes limits the entries of one AppendEntries: when they have this many bytes, no more are
// added. A slow link carries that within the time for a request, and the follower's heartbeats do
// not wait long for it.
const appendBytes = 512 << 10

// fitting returns how many of entries go into one request: at least one, if there is any.
func fitting(entries []*raft.Log) int {
	bytes := 0
	for i, e := range entries {
		if bytes >= appendBytes {
			return i
		}
		bytes += entryBytes(e)
	}
	return len(entries)
}

func entryBytes(e *raft.Log) int { return len(e.Data) + len(e.Extensions) }

func size(entries []*raft.Log) (bytes int) {
	for _, e := range entries {
		bytes += entryBytes(e)
	}
	return bytes
}
