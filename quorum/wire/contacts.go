package wire

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// serverReplies records when each server last answered a request of this leader. Heartbeats are sent
// whatever else is under way, so a member that has not answered several of them is out of reach.
// The zero value is ready to use. It is safe for concurrent use.
type serverReplies struct {
	mu          sync.Mutex
	lastReplies map[raft.ServerID]serverReply
}

// serverReply is a member's last answer.
type serverReply struct {
	receivedAt time.Time
	lastIndex  uint64 // index at the end of its log
}

// maxRepliedServers bounds the servers that are remembered: two disks of each member. Each wiped disk leaves one behind.
const maxRepliedServers = 2 * maxMemberID

// recordReply records that a member has answered, and where its log ends.
func (c *serverReplies) recordReply(id raft.ServerID, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastReplies == nil {
		c.lastReplies = make(map[raft.ServerID]serverReply)
	}
	if _, known := c.lastReplies[id]; !known && len(c.lastReplies) >= maxRepliedServers {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.lastReplies)), func(a, b raft.ServerID) int { return c.lastReplies[a].receivedAt.Compare(c.lastReplies[b].receivedAt) })
		delete(c.lastReplies, oldest)
	}
	c.lastReplies[id] = serverReply{time.Now(), last}
}

// lastReplyAt returns when a server last answered, or the zero time.
func (c *serverReplies) lastReplyAt(id raft.ServerID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReplies[id].receivedAt
}

// repliedWithin returns the servers that have answered within d, in order of their names.
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

// longestLogs returns those of the same servers whose logs reach an index, those with the longest logs first, and
// of those with the same the one that answered last.
func (c *serverReplies) longestLogs(d time.Duration, index uint64) []raft.ServerID {
	ids := c.repliedWithin(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	ids = slices.DeleteFunc(ids, func(id raft.ServerID) bool { return c.lastReplies[id].lastIndex < index })
	slices.SortFunc(ids, func(a, b raft.ServerID) int {
		return cmp.Or(cmp.Compare(c.lastReplies[b].lastIndex, c.lastReplies[a].lastIndex), c.lastReplies[b].receivedAt.Compare(c.lastReplies[a].receivedAt))
	})
	return ids
}
