package wire

import (
	"cmp"
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
	of map[raft.ServerID]contact
}

// contact is a member's last answer.
type contact struct {
	at   time.Time
	last uint64 // index at the end of its log
}

// note records that a member has answered, and where its log ends.
func (c *contacts) note(id raft.ServerID, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[raft.ServerID]contact)
	}
	c.of[id] = contact{time.Now(), last}
}

// within returns the members that have answered within d, in order of id.
func (c *contacts) within(d time.Duration) []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []uint32
	for id, answer := range c.of {
		if time.Since(answer.at) <= d {
			ids = append(ids, MemberID(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// longest returns those of the same members whose logs reach an index, those with the longest logs first, and
// of those with the same the one that answered last.
func (c *contacts) longest(d time.Duration, index uint64) []uint32 {
	ids := c.within(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := map[uint32]contact{}
	for id, answer := range c.of {
		answers[MemberID(id)] = answer
	}
	ids = slices.DeleteFunc(ids, func(id uint32) bool { return answers[id].last < index })
	slices.SortFunc(ids, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(answers[b].last, answers[a].last), answers[b].at.Compare(answers[a].at))
	})
	return ids
}
