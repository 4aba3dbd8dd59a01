package wire

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// serverReplies records each server's last reply to this leader. Heartbeats are sent independently of other
// requests, so a member that misses several of them is unreachable. The zero value is ready to use. It is
// safe for concurrent use.
type serverReplies struct {
	mu          sync.Mutex
	lastReplies map[raft.ServerID]serverReply
}

type serverReply struct {
	receivedAt time.Time
	lastIndex  uint64 // of its log
	// accepted is the last request with its entries that the server has accepted outside a pipeline, as continueAfter
	// returns it.
	accepted raft.AppendEntriesRequest
}

// maxRepliedServers allows two disks of each member, because each wiped disk leaves an entry.
const maxRepliedServers = 2 * maxMemberID

func (c *serverReplies) recordReply(id raft.ServerID, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastReplies == nil {
		c.lastReplies = make(map[raft.ServerID]serverReply)
	}
	reply, known := c.lastReplies[id]
	if !known && len(c.lastReplies) >= maxRepliedServers {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.lastReplies)),
			func(a, b raft.ServerID) int { return c.lastReplies[a].receivedAt.Compare(c.lastReplies[b].receivedAt) })
		delete(c.lastReplies, oldest)
	}
	reply.receivedAt, reply.lastIndex = time.Now(), last
	c.lastReplies[id] = reply
}

// recordAccepted records a request that a server has accepted, after recordReply.
func (c *serverReplies) recordAccepted(id raft.ServerID, req *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := c.lastReplies[id]
	reply.accepted = continueAfter(req)
	c.lastReplies[id] = reply
}

// lastAccepted returns the last request that recordAccepted has recorded, or the zero request.
func (c *serverReplies) lastAccepted(id raft.ServerID) raft.AppendEntriesRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReplies[id].accepted
}

// lastReplyAt returns the time of a server's last reply, or the zero time.
func (c *serverReplies) lastReplyAt(id raft.ServerID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReplies[id].receivedAt
}

// repliedWithin returns the servers that replied within d, in order of their names.
func (c *serverReplies) repliedWithin(d time.Duration) []raft.ServerID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []raft.ServerID
	for id, answer := range c.lastReplies {
		if time.Since(answer.receivedAt) <= d {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// longestLogs returns the servers that replied within d and whose logs reach index. Longer logs come first;
// among equals, the latest reply.
func (c *serverReplies) longestLogs(d time.Duration, index uint64) []raft.ServerID {
	ids := c.repliedWithin(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	ids = slices.DeleteFunc(ids, func(id raft.ServerID) bool { return c.lastReplies[id].lastIndex < index })
	slices.SortFunc(ids, func(a, b raft.ServerID) int {
		return cmp.Or(cmp.Compare(c.lastReplies[b].lastIndex, c.lastReplies[a].lastIndex),
			c.lastReplies[b].receivedAt.Compare(c.lastReplies[a].receivedAt))
	})
	return ids
}
