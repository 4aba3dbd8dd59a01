package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A list of servers is taken only if a majority of its voters could vote at once (Present). A server that comes in or
// moves must therefore be there before the list names it. It shows that in one of two ways: it asks this member and
// says its address, or an operator names it, and it answers at the address of its new line (Meet).

const (
	// metFor is how long a member that was met counts as present. A member that waits asks each askInterval, or each
	// askTimeout if others do not answer.
	metFor = 2*askTimeout + askInterval
	// presenceWait is how long the members that a change names may take to be there. One that has just been started
	// listens after a fraction of a second. An operator waits, so it is a few rounds of questions.
	presenceWait = 6 * askInterval
	// maxAddress bounds the address that a member says it has: a name of 253 bytes, a port, and two brackets.
	maxAddress = 264
)

// presence has the processes that this member has met lately. It is safe for concurrent use. Ids are at most 255, and what is
// older than metFor is forgotten.
type presence struct {
	mu sync.Mutex
	of map[process]meeting
}

// process is a member with one disk.
type process struct {
	id   uint32
	disk disk.ID
}

// Meeting is what another process says of itself.
type Meeting struct {
	wire.Peer                 // its id, its disk, and the address of its raft
	Ensemble  wire.EnsembleID // zero: it knows none
	HasData   bool
}

type meeting struct {
	Meeting
	first, at time.Time // when it was first and last met
}

// Met records that another member is there: it has asked this one and said where its raft is reached, or it has
// answered at the address that an operator has named. If its disk is not in raft's configuration, the leader looks for it.
func (n *Node) Met(m Meeting) {
	if len(m.Addr) > maxAddress {
		return
	}
	n.presence.note(m, time.Now())
	if n.Leading() && m.Disk != 0 && !n.hasServer(m.Peer) {
		n.WantedChanged()
	}
}

func (p *presence) note(m Meeting, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[process]meeting{}
	}
	maps.DeleteFunc(p.of, func(_ process, last meeting) bool { return now.Sub(last.at) > metFor })
	met := meeting{m, now, now}
	if last, again := p.of[process{m.ID, m.Disk}]; again {
		met.first = last.first
	}
	p.of[process{m.ID, m.Disk}] = met
}

// hasServer reports whether raft's latest configuration has a disk.
func (n *Node) hasServer(p wire.Peer) bool {
	return slices.ContainsFunc(n.Servers(), func(s wire.Peer) bool { return s.ServerID() == p.ServerID() })
}

// lately returns the processes of a member that were met lately.
func (p *presence) lately(id uint32) (all []meeting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.of {
		if m.ID == id && time.Since(m.at) <= metFor {
			all = append(all, m)
		}
	}
	return all
}

// has reports whether a member was met lately at its address.
func (p *presence) has(peer wire.Peer) bool {
	return slices.ContainsFunc(p.lately(peer.ID), func(m meeting) bool { return m.Addr == peer.Addr })
}

// ensembles returns the ensembles of the members with data that were met lately.
func (p *presence) ensembles() map[wire.EnsembleID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[wire.EnsembleID]bool{}
	for _, m := range p.of {
		if m.HasData && m.Ensemble != (wire.EnsembleID{}) && time.Since(m.at) <= metFor {
			all[m.Ensemble] = true
		}
	}
	return all
}

// rivalGrace is how much later than a process first says hello another one with its number must be heard by raft, so that
// both run, and how lately the process must have said hello. An answer of one that has ended may be that old.
const rivalGrace = time.Second

// Rival returns what there is to say to both of two processes with a member's number, or "". Raft hears one of them here, or this
// member has no data, and has met both.
func (n *Node) Rival(id uint32) string {
	lately, servers := n.presence.lately(id), n.Servers()
	for _, met := range lately {
		for _, s := range servers {
			if s.ID == id && met.Disk != 0 && s.Disk != met.Disk && time.Since(met.at) <= rivalGrace && n.heard(s).Sub(met.first) > rivalGrace {
				return rivals(s, met.Peer)
			}
		}
		if i := slices.IndexFunc(lately, func(o meeting) bool { return o.Disk < met.Disk }); i >= 0 && !n.HasData() { // both may begin
			return rivals(lately[i].Peer, met.Peer)
		}
	}
	return ""
}

func rivals(one, other wire.Peer) string {
	return fmt.Sprintf("member %d runs with the disk %v at %s, and another process with the disk %v at %s", one.ID, one.Disk, one.Addr, other.Disk, other.Addr)
}

// heard returns when raft last heard a server, or the zero time: a leader hears those that answer it, and the others hear the
// leader, which a second process with its number does not ask.
func (n *Node) heard(s wire.Peer) time.Time {
	r := n.raft.Load()
	switch {
	case r != nil && n.Leading() && n.reaches(s):
		return n.trans.Heard(s.ServerID())
	case r != nil && n.leader() == s.ServerID():
		return r.LastContact()
	}
	return time.Time{}
}

// Present returns the ids of those members of a list, in its order, that could vote now at the addresses that it gives
// them. A member whose address in the configuration is that one must answer raft while this member leads. The others
// must have been met there lately.
func (n *Node) Present(list []wire.Peer) (ids []uint32) {
	have, reached := n.Configuration(), append(n.trans.Reached(n.election), n.self().ServerID())
	for _, p := range list {
		h, in := find(have, p.ID)
		there := p.ID == n.cfg.Self && p.Addr == n.self().Addr || n.presence.has(p)
		if in && h.Addr == p.Addr {
			there = slices.Contains(reached, h.ServerID())
		}
		if there {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Meet looks for the voters of a list that are not present, until most of its voters are, or presenceWait is over.
// ask sends a Hello to a member of the list at its address there. If some voters are not found, Meet logs why.
func (n *Node) Meet(ctx context.Context, list []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) {
	ctx, cancel := context.WithTimeout(ctx, presenceWait)
	defer cancel()
	for {
		absent := n.absent(list)
		if 2*len(absent) < len(wire.Voters(list)) {
			return
		}
		found, why := n.look(ctx, absent, ask)
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			n.logger.Info("too few voters of a new server list are there", "absent", wire.Canonical(absent), "reason", why)
			return
		case <-time.After(askInterval):
		}
	}
}

// absent returns the voters of a list that are not present.
func (n *Node) absent(list []wire.Peer) []wire.Peer {
	present := n.Present(list)
	return slices.DeleteFunc(slices.Clone(list), func(p wire.Peer) bool { return p.Observer || slices.Contains(present, p.ID) })
}

// look asks those of some members that the configuration does not have at their addresses, all at the same time. It
// reports whether one of them is there, and otherwise returns why not. raft says who is there of the others.
func (n *Node) look(ctx context.Context, absent []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) (found bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	have := n.Configuration()
	outcomes := make([]error, len(absent))
	var all sync.WaitGroup
	for i, p := range absent {
		if h, in := find(have, p.ID); in && h.Addr == p.Addr {
			outcomes[i] = fmt.Errorf("member %d does not answer raft", p.ID)
			continue
		}
		all.Go(func() {
			reply, err := ask(ctx, p.ID)
			if err == nil {
				err = n.checkReply(p, reply)
			}
			if err == nil {
				p.Disk = disk.ID(reply.GetDisk())
				n.Met(Meeting{Peer: p, Ensemble: ensembleOf(reply), HasData: reply.GetHasData()})
			}
			outcomes[i] = err
		})
	}
	all.Wait()
	return slices.Contains(outcomes, nil), errors.Join(outcomes...)
}
