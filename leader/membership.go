package leader

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"
)

// Member is a server of raft's latest configuration.
type Member struct {
	ID    uint32
	Disk  uint64 // whose proofs count
	Voter bool   // otherwise an observer, or a member that is still joining: it counts in no majority
}

// membership is raft's configuration, and this leader's links to the members in it. It is safe for concurrent
// use.
type membership struct {
	cfg   *Config
	links atomic.Pointer[links] // replaced by renewLinks
}

// links are the links to all members that a leader pings, by id. It does not change.
type links struct {
	members map[uint32]*link // in raft's configuration
	// parting are the members that have left it within Config.PartingTime. Such a member has clients until it
	// closes their connections, and their touches count. It counts for nothing else.
	parting map[uint32]*link
}

func (s *links) all() iter.Seq[*link] {
	return func(yield func(*link) bool) {
		for _, of := range []map[uint32]*link{s.members, s.parting} {
			for _, m := range of {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// presentLinks returns the links to the members of raft's configuration, by id. The caller must not change
// the map.
func (m *membership) presentLinks() map[uint32]*link { return m.links.Load().members }

// wakeAll wakes the senders of every link.
func (m *membership) wakeAll() {
	for l := range m.links.Load().all() {
		l.wake()
	}
}

// renewLinks makes a link for each new member, and drops the links of members that have been gone for
// Config.PartingTime. A member that comes back before gets another link. Only New and memberLoop call it.
func (m *membership) renewLinks(now time.Time) {
	old := m.links.Load()
	if old == nil {
		old = &links{}
	}
	next := &links{members: map[uint32]*link{}, parting: map[uint32]*link{}}
	for _, s := range m.cfg.Raft.Members() {
		if next.members[s.ID] = old.members[s.ID]; next.members[s.ID] == nil {
			routes := m.cfg.Routes
			if s.ID == m.cfg.Self {
				routes = 1 // in memory
			}
			next.members[s.ID] = newLink(s.ID, routes, now, m.cfg.Tick)
		}
	}
	for l := range old.all() {
		if next.members[l.id] == nil && now.Sub(l.markLeft(now)) < m.cfg.PartingTime {
			next.parting[l.id] = l
		}
	}
	m.links.Store(next)
}

func (m *membership) isMember(id uint32) bool {
	return slices.ContainsFunc(m.cfg.Raft.Members(), func(s Member) bool { return s.ID == id })
}

func (m *membership) voterIDs() (ids []uint32) {
	for _, s := range m.cfg.Raft.Members() {
		if s.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// isMajorityWith reports whether this member and another one, whose vote is a disk's, are a majority of the voters, and
// raft is in our term. Otherwise only a proof round tells.
func (m *membership) isMajorityWith(other Member) bool {
	voters, both := 0, 0
	for _, s := range m.countedMembers() {
		if !s.Voter {
			continue
		}
		voters++
		if s.ID == m.cfg.Self && s.Disk == m.cfg.Raft.DiskID() || s.ID == other.ID && s.Disk == other.Disk {
			both++
		}
	}
	return both > voters/2
}

// countedMembers returns the members whose replies count, or none if raft is in a later term. It is called under
// the lock of proofs, so that the configuration is not older than the round.
func (m *membership) countedMembers() []Member {
	members := m.cfg.Raft.Members()
	if m.cfg.Raft.Term() != m.cfg.Term { // after the configuration was read: see proofs
		return nil
	}
	return members
}
