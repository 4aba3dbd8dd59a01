package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// minEvidenceLife is the least time for which a refused dial proves that a member's process has ended. Another process
// may listen there after that. It is longer than the time between two checks of a member that has no contact.
const minEvidenceLife = time.Second

// Contact is what this member knows about its connection with the leader, and about the others while it has none. It is
// safe for concurrent use.
type Contact struct {
	status          *Status
	transport       *wire.Transport
	acknowledged    *wire.Acknowledged
	leadTimes       *wire.LeadTimes
	electionTimeout time.Duration

	mu      sync.Mutex
	refused map[raft.ServerID]time.Time // when a voter's port last refused a dial; at most one for each voter
}

// LastProof returns the last time at which this member is known to have been connected with a leader: now if it leads,
// and otherwise when it sent the last thing that the leader which it knows has received. It is zero if it knows no leader.
// raft ends its own lead when it has heard no majority for an election timeout.
func (c *Contact) LastProof() time.Time {
	if c.status.IsLeader() {
		return time.Now()
	}
	leader := c.status.leaderServer()
	if leader == "" {
		return time.Time{}
	}
	return c.acknowledged.LastReceived(leader)
}

// LastLead returns the last time at which the leader of a term is known to have led, or the zero time: see wire.LeadTimes.
func (c *Contact) LastLead(term uint64) time.Time {
	r := c.status.raft.Load()
	if r == nil {
		return time.Time{}
	}
	return c.leadTimes.Last(term, voterServers(r), c.status.selfPeer().ServerID())
}

// OthersMayLead reports whether the other voters could have a leader without this member: a majority of the latest
// configuration is left without this member and those that are known to be dead. It is always true while that
// configuration is not known to be committed, because the one before counts, too.
//
// A voter is known to be dead if its port has refused a dial within the last second, and no connection from it is left.
// One that is silent, or cannot be reached, is not.
func (c *Contact) OthersMayLead() bool {
	r := c.status.raft.Load()
	if r == nil || !c.status.configurationCommitted() {
		return true
	}
	voters := voterServers(r)
	left := slices.DeleteFunc(slices.Clone(voters), func(id raft.ServerID) bool {
		return id == c.status.selfPeer().ServerID() || c.isKnownDead(id)
	})
	return len(left) > len(voters)/2
}

func (c *Contact) isKnownDead(server raft.ServerID) bool {
	c.mu.Lock()
	at, refused := c.refused[server]
	c.mu.Unlock()
	return refused && time.Since(at) <= max(minEvidenceLife, c.electionTimeout) && !c.transport.HasConnectionFrom(server)
}

// ProbeOthers dials the ports of the other voters, all at the same time, so that OthersMayLead knows the dead ones. It
// returns after two election timeouts at most.
func (c *Contact) ProbeOthers() {
	r := c.status.raft.Load()
	if r == nil {
		return
	}
	voters := voterServers(r)
	c.forgetOthersThan(voters)
	var all sync.WaitGroup
	for _, id := range voters {
		if id != c.status.selfPeer().ServerID() {
			all.Go(func() { c.recordProbe(id, c.transport.Probe(id)) })
		}
	}
	all.Wait()
}

func (c *Contact) recordProbe(server raft.ServerID, result wire.ProbeResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if result == wire.ProbeRefused {
		c.refused[server] = time.Now()
	} else {
		delete(c.refused, server)
	}
}

func (c *Contact) forgetOthersThan(voters []raft.ServerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.refused {
		if !slices.Contains(voters, id) {
			delete(c.refused, id)
		}
	}
}
