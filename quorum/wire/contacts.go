package wire

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts records when each server last answered a request of this leader. Heartbeats are sent
// whatever else is under way, so a member that has not answered several of them is out of reach.
// The zero value is ready to use. It is safe for concurrent use.
type contacts struct {
	mu sync.Mutex
	of map[raft.ServerID]contact
}

// contact is a member's last answer.
type contact struct {
	at   time.Time
	last uint64 // index at the end of its log
}

// maxContacts bounds the servers that are remembered: two disks of each member. Each wiped disk leaves one behind.
const maxContacts = 2 * maxMember

// note records that a member has answered, and where its log ends.
func (c *contacts) note(id raft.ServerID, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[raft.ServerID]contact)
	}
	if _, known := c.of[id]; !known && len(c.of) >= maxContacts {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.of)), func(a, b raft.ServerID) int { return c.of[a].at.Compare(c.of[b].at) })
		delete(c.of, oldest)
	}
	c.of[id] = contact{time.Now(), last}
}

// last returns when a server last answered, or the zero time.
func (c *contacts) last(id raft.ServerID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id].at
}

// within returns the servers that have answered within d, in order of their names.
func (c *contacts) within(d time.Duration) []raft.ServerID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []raft.ServerID
	for id, answer := range c.of {
		if time.Since(answer.at) <= d {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// longest returns those of the same servers whose logs reach an index, those with the longest logs first, and
// of those with the same the one that answered last.
func (c *contacts) longest(d time.Duration, index uint64) []raft.ServerID {
	ids := c.within(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	ids = slices.DeleteFunc(ids, func(id raft.ServerID) bool { return c.of[id].last < index })
	slices.SortFunc(ids, func(a, b raft.ServerID) int {
		return cmp.Or(cmp.Compare(c.of[b].last, c.of[a].last), c.of[b].at.Compare(c.of[a].at))
	})
	return ids
}
