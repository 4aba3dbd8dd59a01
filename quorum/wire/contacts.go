package wire

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts records when each member last answered a request of this leader. Heartbeats are sent
// whatever else is under way, so a member that has not answered several of them is out of reach.
// The zero value is ready to use. It is safe for concurrent use.
type contacts struct {
	mu sync.Mutex
	at map[raft.ServerID]time.Time
}

// note records that a member has answered.
func (c *contacts) note(id raft.ServerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = make(map[raft.ServerID]time.Time)
	}
	c.at[id] = time.Now()
}

// within returns the members that have answered within d, in order of id.
func (c *contacts) within(d time.Duration) []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []uint32
	for id, at := range c.at {
		if time.Since(at) <= d {
			ids = append(ids, MemberID(id))
		}
	}
	slices.Sort(ids)
	return ids
}
