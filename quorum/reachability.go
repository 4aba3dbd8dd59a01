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

// A server list is accepted only if a majority of its voters could vote at once (PresentMembers). A server that
// joins or moves must therefore run before the list names it. It proves that in one of two ways: it sends this
// member a Hello with its address, or an operator names it, and it replies at its new address (ProbeUntilMajority).

const (
	// contactLifetime is the time for which a member counts as present after its last Hello. A waiting member
	// sends one each helloInterval, or each helloTimeout if others do not reply.
	contactLifetime = 2*helloTimeout + helloInterval
	// maxPresenceWait limits the time that a change waits for the members that it names. A member that has just
	// been started listens after a fraction of a second. An operator waits for the change, so the limit is a few
	// rounds of Hellos.
	maxPresenceWait = 6 * helloInterval
	// maxContacts limits the recent processes of one member: its two disks, and those that an operator has wiped
	// or started beside them. A malicious member may have any number of disks. It only evicts its own processes.
	maxContacts = 16
	// maxAddressLength limits the address in a Hello: a name of 253 bytes, a port, and two brackets.
	maxAddressLength = 264
)

// Reachability knows the members that can be reached: they reply to raft, or have contacted this member recently.
// It is safe for concurrent use.
type Reachability struct {
	status          *Status
	transport       *wire.Transport
	serverList      *serverList
	hellos          *hellos
	contact         *Contact
	electionTimeout time.Duration
	logger          *slog.Logger
	recentPeers     recentPeers
}

// Contact returns what is known about this member's connection with the leader.
func (a *Reachability) Contact() *Contact { return a.contact }

// recentPeers has the processes that have contacted this member recently: at most maxContacts of each of 255
// members, none for longer than contactLifetime. It is safe for concurrent use.
type recentPeers struct {
	mu       sync.Mutex
	contacts map[memberProcess]datedContact
}

// memberProcess is a member with one disk.
type memberProcess struct {
	memberID uint32
	diskID   disk.ID
}

// PeerContact is a process as it describes itself.
type PeerContact struct {
	wire.Peer                  // its id, its disk, and the address of its raft
	EnsembleID wire.EnsembleID // zero: it knows none
	HasData    bool
}

type datedContact struct {
	PeerContact
	firstSeen, lastSeen time.Time
}

// RecordContact records that another member is present: it has sent this one a Hello with its raft address, or it
// has replied at the address that an operator has given. If its disk is not in raft's configuration, the leader
// takes the next step at once.
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
	maps.DeleteFunc(p.contacts, func(_ memberProcess,
		last datedContact,
	) bool {
		return now.Sub(last.lastSeen) > contactLifetime
	})
	contact := datedContact{m, now, now}
	if last, again := p.contacts[memberProcess{m.ID, m.DiskID}]; again {
		contact.firstSeen = last.firstSeen
	} else {
		p.evictIfFull(m.ID)
	}
	p.contacts[memberProcess{m.ID, m.DiskID}] = contact
}

// evictIfFull removes the least recent process of a member if there are maxContacts. The caller holds mu.
func (p *recentPeers) evictIfFull(id uint32) {
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

// contactsOf returns the recent processes of a member.
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

// isAtAddress reports whether there was a recent contact with a member at its address.
func (p *recentPeers) isAtAddress(peer wire.Peer) bool {
	return slices.ContainsFunc(p.contactsOf(peer.ID), func(m datedContact) bool { return m.Addr == peer.Addr })
}

// ensemblesWithData returns the ensembles of the recent members with data.
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

// rivalGracePeriod limits the time in which a message of an ended process may still be read. Two processes run
// with one member's number if raft has heard the first one more than rivalGracePeriod after the second one's first
// Hello, and the second one has sent a Hello within rivalGracePeriod.
const rivalGracePeriod = time.Second

// DescribeRivals describes two processes that run with a member's number: raft hears one of them here, or this
// member has no data and both have contacted it. It returns "" if there is no second process.
func (a *Reachability) DescribeRivals(id uint32) string {
	contacts, servers := a.recentPeers.contactsOf(id), a.status.Servers()
	for _, contact := range contacts {
		for _, s := range servers {
			if s.ID == id && contact.DiskID != 0 && s.DiskID != contact.DiskID &&
				time.Since(contact.lastSeen) <= rivalGracePeriod && a.lastHeard(s).Sub(contact.firstSeen) > rivalGracePeriod {
				return describeRivals(s, contact.Peer)
			}
		}
		if i := slices.IndexFunc(contacts, func(o datedContact) bool { return o.DiskID < contact.DiskID }); i >= 0 &&
			!a.hellos.hasData() {
			// both may begin
			return describeRivals(contacts[i].Peer, contact.Peer)
		}
	}
	return ""
}

// HasRival reports whether another member has reported lately that another process has this member's number.
func (a *Reachability) HasRival() bool { return a.hellos.hasRival() }

func describeRivals(one, other wire.Peer) string {
	return fmt.Sprintf("member %d runs with the disk %v at %s, and another process with the disk %v at %s", one.ID,
		one.DiskID, one.Addr, other.DiskID, other.Addr)
}

// lastHeard returns the time at which raft last heard a server, or zero. A leader hears replies, and the others
// hear the leader, which does not get replies from a second process with its number.
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

// PresentMembers returns the ids of the members of a list, in its order, that could vote now at their addresses in
// the list. A member that the configuration has at that address must reply to raft while this member leads. The
// others must have contacted this member recently from there.
func (a *Reachability) PresentMembers(list []wire.Peer) (ids []uint32) {
	have, reached := a.status.ConfiguredMembers(),
		append(a.transport.RepliedWithin(a.electionTimeout), a.status.selfPeer().ServerID())
	for _, p := range list {
		h, in := findPeer(have, p.ID)
		present := p.ID == a.status.selfPeer().ID && p.Addr == a.status.selfPeer().Addr || a.recentPeers.isAtAddress(p)
		if in && h.Addr == p.Addr {
			present = slices.Contains(reached, h.ServerID())
		}
		if present {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// ProbeUntilMajority contacts the absent voters of a list until most of its voters are present, or maxPresenceWait is
// over. ask sends a Hello to a member of the list at its address there. If too few voters are found, ProbeUntilMajority
// logs the reason.
func (a *Reachability) ProbeUntilMajority(ctx context.Context, list []wire.Peer,
	ask func(ctx context.Context, id uint32) (*proto.HelloReply, error),
) {
	ctx, cancel := context.WithTimeout(ctx, maxPresenceWait)
	defer cancel()
	for {
		absent := a.absentVoters(list)
		if 2*len(absent) < len(wire.VoterIDs(list)) {
			return
		}
		found, reason := a.probeVoters(ctx, absent, ask)
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			a.logger.Info("too few voters of a new server list are present", "absent", wire.CanonicalLines(absent), "reason",
				reason)
			return
		case <-time.After(helloInterval):
		}
	}
}

// absentVoters returns the voters of a list that are not present.
func (a *Reachability) absentVoters(list []wire.Peer) []wire.Peer {
	present := a.PresentMembers(list)
	return slices.DeleteFunc(slices.Clone(list),
		func(p wire.Peer) bool { return p.Observer || slices.Contains(present, p.ID) })
}

// probeVoters sends a Hello to each of the absent members that the configuration does not have at its address, all
// at the same time. It reports whether one of them has replied, and otherwise returns the error. raft detects the
// other members.
func (a *Reachability) probeVoters(ctx context.Context, absent []wire.Peer,
	ask func(ctx context.Context, id uint32) (*proto.HelloReply, error),
) (found bool, reason error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	have := a.status.ConfiguredMembers()
	outcomes := make([]error, len(absent))
	var all sync.WaitGroup
	for i, p := range absent {
		if h, in := findPeer(have, p.ID); in && h.Addr == p.Addr {
			outcomes[i] = fmt.Errorf("member %d does not reply to raft", p.ID)
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

// VotersRepliedWithin returns the ids of the other voters that have replied to this leader's raft within d, in
// order. It returns none before raft runs.
func (a *Reachability) VotersRepliedWithin(d time.Duration) []uint32 {
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

// hasUnknownDisk reports whether a member has recently used a disk that the configuration does not have.
func (a *Reachability) hasUnknownDisk(have []wire.Peer) bool {
	return slices.ContainsFunc(have, func(h wire.Peer) bool {
		return slices.ContainsFunc(a.recentPeers.contactsOf(h.ID), func(m datedContact) bool {
			return m.DiskID != 0 && !slices.ContainsFunc(have, func(o wire.Peer) bool { return o.ServerID() == m.ServerID() })
		})
	})
}

// reachedServers returns this server and those that have replied to this leader within two election timeouts.
func (a *Reachability) reachedServers() []raft.ServerID {
	return append(a.transport.RepliedWithin(2*a.electionTimeout), a.status.selfPeer().ServerID())
}

func (a *Reachability) isReached(s wire.Peer) bool {
	return slices.Contains(a.reachedServers(), s.ServerID())
}
