package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"

	"github.com/hashicorp/raft"
)

// A list of servers is taken only if a majority of its voters could vote at once (Present). A server that comes in or
// moves must therefore run before the list names it. It shows that in one of two ways: it sends this member a Hello with its
// address, or an operator names it, and it replies at the address of its new line (Meet).

const (
	// contactLifetime is the time for which a member counts as present after its last Hello. A member that waits sends one each askInterval, or
	// each askTimeout if others do not reply.
	contactLifetime = 2*helloTimeout + helloInterval
	// maxPresenceWait is the longest that a change waits for the members that it names. A member that has just been started
	// listens after a fraction of a second. An operator waits for the change, so it is a few rounds of requests.
	maxPresenceWait = 6 * helloInterval
	// maxContacts limits the processes of one member that are remembered: its two disks, and those that an operator has wiped or
	// started beside them. A member that lies may have any number of disks. It pushes out its own processes, and no others.
	maxContacts = 16
	// maxAddressLength bounds the address that a member gives as its own: a name of 253 bytes, a port, and two brackets.
	maxAddressLength = 264
)

// Reachability knows which other members can be reached: those that answer raft, and those that this member has met lately. It is
// safe for concurrent use.
type Reachability struct {
	status          *Status
	transport       *wire.Transport
	serverList      *serverList
	hellos          *hellos
	electionTimeout time.Duration
	logger          *slog.Logger
	recentPeers     recentPeers
}

// recentPeers has the processes that this member has met lately: at most maxMeetings of each of 255 members, none for longer than
// metFor. It is safe for concurrent use.
type recentPeers struct {
	mu       sync.Mutex
	contacts map[memberProcess]datedContact
}

// memberProcess is a member with one disk.
type memberProcess struct {
	memberID uint32
	diskID   disk.ID
}

// PeerContact is another process's description of itself.
type PeerContact struct {
	wire.Peer                  // its id, its disk, and the address of its raft
	EnsembleID wire.EnsembleID // zero: it knows none
	HasData    bool
}

type datedContact struct {
	PeerContact
	firstSeen, lastSeen time.Time // when it was first and last met
}

// RecordContact records that another member is present: it has sent this one a Hello with the address of its raft, or it has replied at
// the address that an operator has given. If its disk is not in raft's configuration, the leader takes the next step at once.
func (a *Reachability) RecordContact(m PeerContact) {
	if len(m.Addr) > maxAddressLength {
		return
	}
	a.recentPeers.record(m, time.Now())
	if a.status.IsLeader() && m.DiskID != 0 && !a.status.hasServer(m.Peer) {
		a.serverList.notifyChanged()
	}
}

func (p *recentPeers) record(m PeerContact, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.contacts == nil {
		p.contacts = map[memberProcess]datedContact{}
	}
	maps.DeleteFunc(p.contacts, func(_ memberProcess, last datedContact) bool { return now.Sub(last.lastSeen) > contactLifetime })
	met := datedContact{m, now, now}
	if last, again := p.contacts[memberProcess{m.ID, m.DiskID}]; again {
		met.firstSeen = last.firstSeen
	} else {
		p.evictOldest(m.ID)
	}
	p.contacts[memberProcess{m.ID, m.DiskID}] = met
}

// evictOldest forgets the process of a member that was met the longest ago, if maxMeetings are remembered. The caller holds mu.
func (p *recentPeers) evictOldest(id uint32) {
	var oldest datedContact
	known := 0
	for _, m := range p.contacts {
		if m.ID != id {
			continue
		}
		if known++; oldest.lastSeen.IsZero() || m.lastSeen.Before(oldest.lastSeen) {
			oldest = m
		}
	}
	if known >= maxContacts {
		delete(p.contacts, memberProcess{id, oldest.DiskID})
	}
}

// contactsOf returns the processes of a member that were met lately.
func (p *recentPeers) contactsOf(id uint32) (all []datedContact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.contacts {
		if m.ID == id && time.Since(m.lastSeen) <= contactLifetime {
			all = append(all, m)
		}
	}
	return all
}

// isAtAddress reports whether a member was met lately at its address.
func (p *recentPeers) isAtAddress(peer wire.Peer) bool {
	return slices.ContainsFunc(p.contactsOf(peer.ID), func(m datedContact) bool { return m.Addr == peer.Addr })
}

// ensemblesWithData returns the ensembles of the members with data that were met lately.
func (p *recentPeers) ensemblesWithData() map[wire.EnsembleID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[wire.EnsembleID]bool{}
	for _, m := range p.contacts {
		if m.HasData && m.EnsembleID != (wire.EnsembleID{}) && time.Since(m.lastSeen) <= contactLifetime {
			all[m.EnsembleID] = true
		}
	}
	return all
}

// rivalGracePeriod bounds the time in which a message of a process that has ended may still be read. Two processes with one number run
// if raft has heard the first one more than rivalGrace after the second one's first hello, and the second one has said hello within
// rivalGrace.
const rivalGracePeriod = time.Second

// Rival describes two processes that run with a member's number: raft hears one of them here, or this member has no data and has
// met both. It returns "" if this member knows no second process.
func (a *Reachability) Rival(id uint32) string {
	lately, servers := a.recentPeers.contactsOf(id), a.status.Servers()
	for _, met := range lately {
		for _, s := range servers {
			if s.ID == id && met.DiskID != 0 && s.DiskID != met.DiskID && time.Since(met.lastSeen) <= rivalGracePeriod && a.lastHeard(s).Sub(met.firstSeen) > rivalGracePeriod {
				return describeRivals(s, met.Peer)
			}
		}
		if i := slices.IndexFunc(lately, func(o datedContact) bool { return o.DiskID < met.DiskID }); i >= 0 && !a.hellos.hasData() { // both may begin
			return describeRivals(lately[i].Peer, met.Peer)
		}
	}
	return ""
}

func describeRivals(one, other wire.Peer) string {
	return fmt.Sprintf("member %d runs with the disk %v at %s, and another process with the disk %v at %s", one.ID, one.DiskID, one.Addr, other.DiskID, other.Addr)
}

// lastHeard returns when raft last heard a server, or the zero time: a leader hears those that answer it, and the others hear the
// leader, which does not get replies from a second process with its number.
func (a *Reachability) lastHeard(s wire.Peer) time.Time {
	r := a.status.raft.Load()
	switch {
	case r != nil && a.status.IsLeader() && a.isReached(s):
		return a.transport.LastReplyAt(s.ServerID())
	case r != nil && a.status.leaderServer() == s.ServerID():
		return r.LastContact()
	}
	return time.Time{}
}

// PresentMembers returns the ids of those members of a list, in its order, that could vote now at the addresses that it gives
// them. A member whose address in the configuration is that one must answer raft while this member leads. The others
// must have been met there lately.
func (a *Reachability) PresentMembers(list []wire.Peer) (ids []uint32) {
	have, reached := a.status.ConfiguredMembers(), append(a.transport.RepliedWithin(a.electionTimeout), a.status.selfPeer().ServerID())
	for _, p := range list {
		h, in := findPeer(have, p.ID)
		there := p.ID == a.status.selfPeer().ID && p.Addr == a.status.selfPeer().Addr || a.recentPeers.isAtAddress(p)
		if in && h.Addr == p.Addr {
			there = slices.Contains(reached, h.ServerID())
		}
		if there {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// AwaitMajority contacts the voters of a list that are not present, until most of its voters are, or presenceWait is over.
// ask sends a Hello to a member of the list at its address there. If some voters are not found, Meet logs why.
func (a *Reachability) AwaitMajority(ctx context.Context, list []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) {
	ctx, cancel := context.WithTimeout(ctx, maxPresenceWait)
	defer cancel()
	for {
		absent := a.absentVoters(list)
		if 2*len(absent) < len(wire.VoterIDs(list)) {
			return
		}
		found, why := a.probeVoters(ctx, absent, ask)
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			a.logger.Info("too few voters of a new server list are there", "absent", wire.CanonicalLines(absent), "reason", why)
			return
		case <-time.After(helloInterval):
		}
	}
}

// absentVoters returns the voters of a list that are not present.
func (a *Reachability) absentVoters(list []wire.Peer) []wire.Peer {
	present := a.PresentMembers(list)
	return slices.DeleteFunc(slices.Clone(list), func(p wire.Peer) bool { return p.Observer || slices.Contains(present, p.ID) })
}

// probeVoters sends a Hello to each of the absent members that the configuration does not have at its address, all at the same time. It
// reports whether one of them has replied, and otherwise returns the error. raft shows which of the others are present.
func (a *Reachability) probeVoters(ctx context.Context, absent []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) (found bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	have := a.status.ConfiguredMembers()
	outcomes := make([]error, len(absent))
	var all sync.WaitGroup
	for i, p := range absent {
		if h, in := findPeer(have, p.ID); in && h.Addr == p.Addr {
			outcomes[i] = fmt.Errorf("member %d does not answer raft", p.ID)
			continue
		}
		all.Go(func() {
			reply, err := ask(ctx, p.ID)
			if err == nil {
				err = a.hellos.checkReply(p, reply)
			}
			if err == nil {
				p.DiskID = disk.ID(reply.GetDisk())
				a.RecordContact(PeerContact{Peer: p, EnsembleID: replyEnsemble(reply), HasData: reply.GetHasData()})
			}
			outcomes[i] = err
		})
	}
	all.Wait()
	return slices.Contains(outcomes, nil), errors.Join(outcomes...)
}

// ReachedVoters returns the ids of the other voting members that have answered this member's raft as a
// leader within d, in order. It returns none before raft runs.
func (a *Reachability) ReachedVoters(d time.Duration) []uint32 {
	r := a.status.raft.Load()
	if r == nil {
		return nil
	}
	voting := voterServers(r)
	reached := slices.DeleteFunc(a.transport.RepliedWithin(d), func(id raft.ServerID) bool {
		return id == a.status.selfPeer().ServerID() || !slices.Contains(voting, id)
	})
	return slices.Sorted(slices.Values(memberIDs(reached)))
}

// hasUnknownDisk reports whether a member was met lately with a disk that the configuration does not have.
func (a *Reachability) hasUnknownDisk(have []wire.Peer) bool {
	return slices.ContainsFunc(have, func(h wire.Peer) bool {
		return slices.ContainsFunc(a.recentPeers.contactsOf(h.ID), func(m datedContact) bool {
			return m.DiskID != 0 && !slices.ContainsFunc(have, func(o wire.Peer) bool { return o.ServerID() == m.ServerID() })
		})
	})
}

// reachedServers returns the servers that have answered this leader within two election timeouts, and this one.
func (a *Reachability) reachedServers() []raft.ServerID {
	return append(a.transport.RepliedWithin(2*a.electionTimeout), a.status.selfPeer().ServerID())
}

// isReached reports whether a server has answered this leader lately.
func (a *Reachability) isReached(s wire.Peer) bool {
	return slices.Contains(a.reachedServers(), s.ServerID())
}
