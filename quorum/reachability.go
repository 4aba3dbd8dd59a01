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
	// metFor is the time for which a member counts as present after its last Hello. A member that waits sends one each askInterval, or
	// each askTimeout if others do not reply.
	metFor = 2*askTimeout + askInterval
	// presenceWait is the longest that a change waits for the members that it names. A member that has just been started
	// listens after a fraction of a second. An operator waits for the change, so it is a few rounds of requests.
	presenceWait = 6 * askInterval
	// maxMeetings limits the processes of one member that are remembered: its two disks, and those that an operator has wiped or
	// started beside them. A member that lies may have any number of disks. It pushes out its own processes, and no others.
	maxMeetings = 16
	// maxAddress bounds the address that a member gives as its own: a name of 253 bytes, a port, and two brackets.
	maxAddress = 264
)

// Reachability knows which other members can be reached: those that answer raft, and those that this member has met lately. It is
// safe for concurrent use.
type Reachability struct {
	status   *Status
	trans    *wire.Transport
	list     *serverList
	hellos   *hellos
	election time.Duration
	logger   *slog.Logger
	recent   recentPeers
}

// recentPeers has the processes that this member has met lately: at most maxMeetings of each of 255 members, none for longer than
// metFor. It is safe for concurrent use.
type recentPeers struct {
	mu sync.Mutex
	of map[process]meeting
}

// process is a member with one disk.
type process struct {
	id   uint32
	disk disk.ID
}

// Meeting is another process's description of itself.
type Meeting struct {
	wire.Peer                 // its id, its disk, and the address of its raft
	Ensemble  wire.EnsembleID // zero: it knows none
	HasData   bool
}

type meeting struct {
	Meeting
	first, at time.Time // when it was first and last met
}

// Met records that another member is present: it has sent this one a Hello with the address of its raft, or it has replied at
// the address that an operator has given. If its disk is not in raft's configuration, the leader takes the next step at once.
func (a *Reachability) Met(m Meeting) {
	if len(m.Addr) > maxAddress {
		return
	}
	a.recent.note(m, time.Now())
	if a.status.Leading() && m.Disk != 0 && !a.status.hasServer(m.Peer) {
		a.list.notify()
	}
}

func (p *recentPeers) note(m Meeting, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[process]meeting{}
	}
	maps.DeleteFunc(p.of, func(_ process, last meeting) bool { return now.Sub(last.at) > metFor })
	met := meeting{m, now, now}
	if last, again := p.of[process{m.ID, m.Disk}]; again {
		met.first = last.first
	} else {
		p.makeRoom(m.ID)
	}
	p.of[process{m.ID, m.Disk}] = met
}

// makeRoom forgets the process of a member that was met the longest ago, if maxMeetings are remembered. The caller holds mu.
func (p *recentPeers) makeRoom(id uint32) {
	var oldest meeting
	known := 0
	for _, m := range p.of {
		if m.ID != id {
			continue
		}
		if known++; oldest.at.IsZero() || m.at.Before(oldest.at) {
			oldest = m
		}
	}
	if known >= maxMeetings {
		delete(p.of, process{id, oldest.Disk})
	}
}

// lately returns the processes of a member that were met lately.
func (p *recentPeers) lately(id uint32) (all []meeting) {
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
func (p *recentPeers) has(peer wire.Peer) bool {
	return slices.ContainsFunc(p.lately(peer.ID), func(m meeting) bool { return m.Addr == peer.Addr })
}

// ensembles returns the ensembles of the members with data that were met lately.
func (p *recentPeers) ensembles() map[wire.EnsembleID]bool {
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

// rivalGrace bounds the time in which a message of a process that has ended may still be read. Two processes with one number run
// if raft has heard the first one more than rivalGrace after the second one's first hello, and the second one has said hello within
// rivalGrace.
const rivalGrace = time.Second

// Rival describes two processes that run with a member's number: raft hears one of them here, or this member has no data and has
// met both. It returns "" if this member knows no second process.
func (a *Reachability) Rival(id uint32) string {
	lately, servers := a.recent.lately(id), a.status.Servers()
	for _, met := range lately {
		for _, s := range servers {
			if s.ID == id && met.Disk != 0 && s.Disk != met.Disk && time.Since(met.at) <= rivalGrace && a.heard(s).Sub(met.first) > rivalGrace {
				return rivals(s, met.Peer)
			}
		}
		if i := slices.IndexFunc(lately, func(o meeting) bool { return o.Disk < met.Disk }); i >= 0 && !a.hellos.hasData() { // both may begin
			return rivals(lately[i].Peer, met.Peer)
		}
	}
	return ""
}

func rivals(one, other wire.Peer) string {
	return fmt.Sprintf("member %d runs with the disk %v at %s, and another process with the disk %v at %s", one.ID, one.Disk, one.Addr, other.Disk, other.Addr)
}

// heard returns when raft last heard a server, or the zero time: a leader hears those that answer it, and the others hear the
// leader, which does not get replies from a second process with its number.
func (a *Reachability) heard(s wire.Peer) time.Time {
	r := a.status.raft.Load()
	switch {
	case r != nil && a.status.Leading() && a.reaches(s):
		return a.trans.Heard(s.ServerID())
	case r != nil && a.status.leader() == s.ServerID():
		return r.LastContact()
	}
	return time.Time{}
}

// Present returns the ids of those members of a list, in its order, that could vote now at the addresses that it gives
// them. A member whose address in the configuration is that one must answer raft while this member leads. The others
// must have been met there lately.
func (a *Reachability) Present(list []wire.Peer) (ids []uint32) {
	have, reached := a.status.Configuration(), append(a.trans.Reached(a.election), a.status.self().ServerID())
	for _, p := range list {
		h, in := find(have, p.ID)
		there := p.ID == a.status.self().ID && p.Addr == a.status.self().Addr || a.recent.has(p)
		if in && h.Addr == p.Addr {
			there = slices.Contains(reached, h.ServerID())
		}
		if there {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Meet contacts the voters of a list that are not present, until most of its voters are, or presenceWait is over.
// ask sends a Hello to a member of the list at its address there. If some voters are not found, Meet logs why.
func (a *Reachability) Meet(ctx context.Context, list []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) {
	ctx, cancel := context.WithTimeout(ctx, presenceWait)
	defer cancel()
	for {
		absent := a.absent(list)
		if 2*len(absent) < len(wire.Voters(list)) {
			return
		}
		found, why := a.probe(ctx, absent, ask)
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			a.logger.Info("too few voters of a new server list are there", "absent", wire.Canonical(absent), "reason", why)
			return
		case <-time.After(askInterval):
		}
	}
}

// absent returns the voters of a list that are not present.
func (a *Reachability) absent(list []wire.Peer) []wire.Peer {
	present := a.Present(list)
	return slices.DeleteFunc(slices.Clone(list), func(p wire.Peer) bool { return p.Observer || slices.Contains(present, p.ID) })
}

// probe sends a Hello to each of the absent members that the configuration does not have at its address, all at the same time. It
// reports whether one of them has replied, and otherwise returns the error. raft shows which of the others are present.
func (a *Reachability) probe(ctx context.Context, absent []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) (found bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	have := a.status.Configuration()
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
				err = a.hellos.check(p, reply)
			}
			if err == nil {
				p.Disk = disk.ID(reply.GetDisk())
				a.Met(Meeting{Peer: p, Ensemble: ensembleOf(reply), HasData: reply.GetHasData()})
			}
			outcomes[i] = err
		})
	}
	all.Wait()
	return slices.Contains(outcomes, nil), errors.Join(outcomes...)
}

// Reached returns the ids of the other voting members that have answered this member's raft as a
// leader within d, in order. It returns none before raft runs.
func (a *Reachability) Reached(d time.Duration) []uint32 {
	r := a.status.raft.Load()
	if r == nil {
		return nil
	}
	voting := voters(r)
	reached := slices.DeleteFunc(a.trans.Reached(d), func(id raft.ServerID) bool {
		return id == a.status.self().ServerID() || !slices.Contains(voting, id)
	})
	return slices.Sorted(slices.Values(memberIDs(reached)))
}

// hasStrangers reports whether a member was met lately with a disk that the configuration does not have.
func (a *Reachability) hasStrangers(have []wire.Peer) bool {
	return slices.ContainsFunc(have, func(h wire.Peer) bool {
		return slices.ContainsFunc(a.recent.lately(h.ID), func(m meeting) bool {
			return m.Disk != 0 && !slices.ContainsFunc(have, func(o wire.Peer) bool { return o.ServerID() == m.ServerID() })
		})
	})
}

// servers returns the servers that have answered this leader within two election timeouts, and this one.
func (a *Reachability) servers() []raft.ServerID {
	return append(a.trans.Reached(2*a.election), a.status.self().ServerID())
}

// reaches reports whether a server has answered this leader lately.
func (a *Reachability) reaches(s wire.Peer) bool { return slices.Contains(a.servers(), s.ServerID()) }
