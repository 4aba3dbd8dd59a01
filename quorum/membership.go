package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// raft's configuration is the list of disks to which the leader sends the log, and of those that vote. It follows the server list
// (Config.Wanted) one change at a time. Nothing is stored about a change that is under way: the leader
// compares the two, and a new leader does the same. raft takes a change only after the one before is
// committed in the leader's own term, and majorities of configurations that are one change apart share a disk.
//
// The list has members, and the configuration has disks. If a member runs with a disk that the configuration does not have, and
// the disk that it has does not answer, then the new disk is added without a vote, copies the log, and takes the place of the old
// one. The old one leaves first: it does not answer, and without it no more of the other voters must answer than before.

const (
	// membershipInterval is the time after which a leader compares its configuration with the server list again.
	membershipInterval = helloInterval
	// replacementWait is the longest that a voter that is to leave stays so that its replacement can come in first. A
	// member that runs comes in within a few rounds. One that cannot reach the leaving one comes in only after it.
	replacementWait = 5 * helloTimeout
	// departureTransferTries is the number of election timeouts for which a leader that is to leave tries to hand over, before
	// it compares the lists again.
	departureTransferTries = 10
)

// membership changes raft's configuration towards the server list while this member leads. One goroutine uses it.
type membership struct {
	raft            *raft.Raft
	status          *Status
	transport       *wire.Transport
	serverList      *serverList
	hellos          *hellos
	reachability    *Reachability
	transfer        *Transfer
	electionTimeout time.Duration
	logger          *slog.Logger

	newVoterCatchingUp bool              // at the last step a member was catching up that is to vote
	loggedReason       string            // the last reason for waiting that was logged
	loggedRivals       map[uint32]string // by member: the last reason that was logged about two processes with its number
	lastWanted         []wire.Peer       // the list at the last step

	leavingVoterWaitsSince time.Time // when a voter that is to leave began to wait for another one; zero: none waits

	sampledLogEnds [2]uint64 // where this member's log ended at the last two samples, which are half an election timeout apart
	sampledAt      time.Time // time of the last sample
}

// run compares the configuration with the list until ctx ends.
func (m *membership) run(ctx context.Context) {
	ticker := time.NewTicker(membershipInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.serverList.changed:
		}
		for m.raft.State() == raft.Leader && ctx.Err() == nil && m.takeStep(ctx) { // each step is one change
		}
		if m.newVoterCatchingUp { // a member is catching up: the next step comes soon
			ticker.Reset(min(membershipInterval, m.electionTimeout/2))
		} else {
			ticker.Reset(membershipInterval)
		}
	}
}

// takeStep makes one change, if there is one to make that is possible now. It reports whether it did.
func (m *membership) takeStep(ctx context.Context) bool {
	m.newVoterCatchingUp = false
	if m.matchesServerList() {
		m.loggedReason, m.leavingVoterWaitsSince = "", time.Time{}
		return false
	}
	if !m.serverListIsCurrent(ctx, m.raft.CurrentTerm()) {
		return false
	}
	index := m.status.logCache.lastConfigurationIndex() // read before the configuration: raft refuses a change of another one
	have, want := m.status.Servers(), m.serverList.wantedServers()
	if !slices.Equal(want, m.lastWanted) {
		m.lastWanted, m.leavingVoterWaitsSince = want, time.Time{}
	}
	s := leaderView{self: m.status.selfPeer(), configured: have, wanted: want, configurationIndex: index, replies: m.hellos.sendAll(ctx).replies, caughtUp: m.caughtUpServers(), reachedServers: m.reachability.reachedServers()}
	m.logRivals(want)
	m.newVoterCatchingUp = s.hasNewVoterCatchingUp()
	next := m.nextChange(s)
	if next.waitingFor != "" && next.waitingFor != m.loggedReason {
		m.loggedReason = next.waitingFor
		m.logger.Info("the configuration does not follow the server list yet", "waiting", next.waitingFor)
	}
	if next.apply == nil {
		return false
	}
	if err := next.apply(ctx); err != nil {
		m.logger.Info("a step towards the server list was not made; this member will try again", "step", next.description, "err", err)
		return false
	}
	m.leavingVoterWaitsSince = time.Time{}
	m.logger.Info("a step towards the server list was made", "step", next.description)
	return true
}

// logRivals logs once which members of a list have two processes.
func (m *membership) logRivals(list []wire.Peer) {
	for _, p := range list {
		rival := m.reachability.Rival(p.ID)
		if rival != "" && rival != m.loggedRivals[p.ID] {
			m.logger.Error("two processes run with one member's number; stop one of them", "peer", p.ID, "reason", rival)
		}
		m.loggedRivals[p.ID] = rival
	}
}

// matchesServerList reports whether raft's configuration matches the list, and all servers reply with their disks. A server that does not reply
// may have lost its disk, and its member may know no present member of the ensemble. The leader contacts it.
func (m *membership) matchesServerList() bool {
	have, want, reached := m.status.Servers(), m.serverList.wantedServers(), m.reachability.reachedServers()
	silent := func(h wire.Peer) bool { return !slices.Contains(reached, h.ServerID()) }
	return slices.EqualFunc(have, want, func(h, w wire.Peer) bool { return h.WithoutDisk() == w }) && !slices.ContainsFunc(have, silent) && !m.reachability.hasUnknownDisk(have)
}

// serverListIsCurrent reports whether the server list is not an old one: an entry of this term has been applied. As long as the state has
// no list, no such entry comes from above, so this member proposes an empty one.
func (m *membership) serverListIsCurrent(ctx context.Context, term uint64) bool {
	if m.serverList.stateList == nil || m.status.fsm.appliedTerm.Load() == term {
		return true
	}
	return !m.serverList.stateHasList() && awaitFuture(ctx, func() raft.Future { return m.raft.Apply(nil, m.electionTimeout) }) == nil && m.status.fsm.appliedTerm.Load() == term
}

// leaderView is the leader's knowledge when it chooses the next change.
type leaderView struct {
	self               wire.Peer
	configured, wanted []wire.Peer                  // raft's configuration and the list
	configurationIndex uint64                       // of the entry of have in the log; 0: not known
	replies            map[uint32]*proto.HelloReply // of this round, by member
	caughtUp           []raft.ServerID              // the servers whose logs go as far as the leader's did a moment ago
	reachedServers     []raft.ServerID              // the servers that have answered the leader's raft lately
}

func (s *leaderView) isReached(p wire.Peer) bool {
	return slices.Contains(s.reachedServers, p.ServerID())
}

// repliedDisk returns the disk with which a member has replied, or 0 if it has not.
func (s *leaderView) repliedDisk(id uint32) disk.ID {
	if id == s.self.ID {
		return s.self.DiskID
	}
	return disk.ID(s.replies[id].GetDisk())
}

// hasNewVoterCatchingUp reports whether a server that is to vote runs and has no vote yet. Right after it has come in, it may not have
// answered raft.
func (s *leaderView) hasNewVoterCatchingUp() bool {
	return slices.ContainsFunc(s.configured, func(h wire.Peer) bool {
		w, in := findPeer(s.wanted, h.ID)
		return in && h.Observer && !w.Observer && s.repliedDisk(h.ID) == h.DiskID
	})
}

// serversOf returns the servers of a member in the configuration.
func (s *leaderView) serversOf(id uint32) (servers []wire.Peer) {
	for _, h := range s.configured {
		if h.ID == id {
			servers = append(servers, h)
		}
	}
	return servers
}

// hasMajorityWithout reports whether most of the voters other than without are present: they have answered raft lately, and replied a moment
// ago with the disks that vote. If one of them was lost just before a change that counts on it, raft could neither commit the
// change nor go back.
func (s *leaderView) hasMajorityWithout(without wire.Peer) bool {
	voters, there := 0, 0
	for _, h := range s.configured {
		if h.Observer || h.ServerID() == without.ServerID() {
			continue
		}
		voters++
		if s.isReached(h) && s.repliedDisk(h.ID) == h.DiskID {
			there++
		}
	}
	return there > voters/2
}

// mayShrinkVoters reports whether a voter may leave although no other one votes in its place yet: the one that is to come needs its
// address, or has not come for replacementWait. Even then, more than half of the voters of the list must remain, so that one disk
// never has alone what three should have. In a list of two, one is not more than half, and it may remain alone.
func (m *membership) mayShrinkVoters(s leaderView, leaving wire.Peer) bool {
	remain, all := len(wire.VoterIDs(s.configured))-1, len(wire.VoterIDs(s.wanted))
	return (all <= 2 || remain > all/2) && (addressOwner(s.wanted, leaving) != 0 || m.waitedForVoters())
}

// waitedForVoters reports whether a voter that is to leave has waited for replacementWait. The first call begins the wait.
func (m *membership) waitedForVoters() bool {
	if m.leavingVoterWaitsSince.IsZero() {
		m.leavingVoterWaitsSince = time.Now()
	}
	return time.Since(m.leavingVoterWaitsSince) >= replacementWait
}

// caughtUpServers returns the servers that have answered raft lately, and whose logs go as far as this
// member's did at least half an election timeout ago: members answer heartbeats several times in that time, and the
// log of a busy ensemble goes on meanwhile.
func (m *membership) caughtUpServers() []raft.ServerID {
	now, ends := time.Now(), m.status.LastIndex()
	if now.Sub(m.sampledAt) > contactLifetime { // from before this leadership, or before there was anything to do
		m.sampledLogEnds[0], m.sampledLogEnds[1], m.sampledAt = ends, ends, now
	} else if now.Sub(m.sampledAt) >= m.electionTimeout/2 {
		m.sampledLogEnds[0], m.sampledLogEnds[1], m.sampledAt = m.sampledLogEnds[1], ends, now
	}
	return m.transport.LongestLogs(m.electionTimeout, m.sampledLogEnds[0])
}

// configurationChange is the next change of the configuration. waits names what this change, or a later one, waits for; "" if none waits.
type configurationChange struct {
	description string
	apply       func(ctx context.Context) error // nil: there is none now
	waitingFor  string
}

// nextChange returns the first possible change, in this order:
//
//  1. A lost disk without a vote leaves.
//  2. A disk that replies comes in, without a vote.
//  3. An address changes. That takes nobody's vote, so it does not wait for a copy of the log.
//  4. A disk that has the log gets a vote.
//  5. A member stops voting, or leaves.
//
// No voter leaves unless most of the other voters are present.
func (m *membership) nextChange(s leaderView) configurationChange {
	var waits string
	for _, kind := range []func(leaderView) (configurationChange, bool){m.lostDiskRemoval, m.diskAddition, m.addressChange, m.voterPromotion, m.memberDeparture} {
		next, continues := kind(s)
		if waits == "" {
			waits = next.waitingFor
		}
		if next.apply != nil || !continues {
			next.waitingFor = waits
			return next
		}
	}
	return configurationChange{waitingFor: waits}
}

// lostDiskRemoval removes a server without a vote that does not answer, while its member replies with another disk.
func (m *membership) lostDiskRemoval(s leaderView) (next configurationChange, continues bool) {
	for _, h := range s.configured {
		if now := s.repliedDisk(h.ID); h.Observer && now != 0 && now != h.DiskID && !s.isReached(h) {
			return m.serverRemoval(s, fmt.Sprintf("the lost disk %v of member %d, which had no vote, leaves", h.DiskID, h.ID), h), true
		}
	}
	return next, true
}

// diskAddition adds, without a vote, a disk that replies and that has data of this ensemble or none. A disk that answers raft
// keeps its place. Another disk with its member's number waits, and an operator must stop one of the two.
func (m *membership) diskAddition(s leaderView) (next configurationChange, continues bool) {
	for _, p := range s.wanted {
		p.DiskID = s.repliedDisk(p.ID)
		mine := s.serversOf(p.ID)
		switch {
		case p.DiskID == 0 || slices.ContainsFunc(mine, func(h wire.Peer) bool { return h.DiskID == p.DiskID }):
			continue
		case slices.ContainsFunc(mine, s.isReached):
			next.waitingFor = fmt.Sprintf("the disk %v of member %d, which answers, or did a moment ago: the disk %v wants its place", mine[0].DiskID, p.ID, p.DiskID)
			continue
		}
		p.Observer = true
		return m.serverUpdate(s, fmt.Sprintf("member %d comes in with the disk %v", p.ID, p.DiskID), p), true
	}
	return next, true
}

// addressOwner returns the other member that has the address of p in a list, or 0.
func addressOwner(list []wire.Peer, p wire.Peer) uint32 {
	for _, h := range list {
		if h.Addr == p.Addr && h.ID != p.ID {
			return h.ID
		}
	}
	return 0
}

// voterPromotion gives a vote to a server that has the log. If the member has another disk, which votes and does not answer, that
// disk leaves first.
func (m *membership) voterPromotion(s leaderView) (next configurationChange, continues bool) {
	var ready []wire.Peer
	for _, h := range s.configured {
		switch p, in := findPeer(s.wanted, h.ID); {
		case !in || p.Observer || !h.Observer || s.repliedDisk(h.ID) != h.DiskID:
		case !slices.Contains(s.caughtUp, h.ServerID()):
			next.waitingFor = fmt.Sprintf("member %d, which is catching up", h.ID)
		default:
			ready = append(ready, h)
		}
	}
	if voters := wire.VoterIDs(s.wanted); !m.serverList.stateHasList() && len(wire.VoterIDs(s.configured)) == 1 && 1+len(ready) <= len(voters)/2 {
		return next, next.waitingFor == "" // less than a majority of the list's voters is less safe than the only one that there is
	}
	for _, h := range ready {
		i := slices.IndexFunc(s.configured, func(o wire.Peer) bool { return o.ID == h.ID && !o.Observer })
		switch {
		case i < 0:
			h.Observer = false
			return m.serverUpdate(s, fmt.Sprintf("member %d votes", h.ID), h), true
		case s.isReached(s.configured[i]):
		case !s.hasMajorityWithout(s.configured[i]):
			next.waitingFor = fmt.Sprintf("a majority without the lost disk of member %d", h.ID)
		default:
			return m.serverRemoval(s, fmt.Sprintf("the lost disk %v of member %d leaves", s.configured[i].DiskID, h.ID), s.configured[i]), true
		}
	}
	return next, next.waitingFor == "" // while a new voter is catching up, no voter leaves
}

// addressChange changes the address of a server. The process at the new address must have replied with the server's disk.
func (m *membership) addressChange(s leaderView) (next configurationChange, continues bool) {
	for _, h := range s.configured {
		p, in := findPeer(s.wanted, h.ID)
		switch {
		case !in || h.Addr == p.Addr && h.GRPCAddr == p.GRPCAddr:
		case s.repliedDisk(h.ID) != h.DiskID:
			if next.waitingFor == "" {
				next.waitingFor = fmt.Sprintf("member %d at %s, which does not answer there with its disk", p.ID, p.Addr)
			}
		default:
			h.Addr, h.GRPCAddr = p.Addr, p.GRPCAddr
			return m.serverUpdate(s, fmt.Sprintf("member %d is at %s", p.ID, p.Addr), h), true
		}
	}
	return next, true
}

// memberDeparture makes a member stop voting, or removes it. This member hands leadership over before that.
func (m *membership) memberDeparture(s leaderView) (next configurationChange, continues bool) {
	for _, h := range s.configured {
		w, stays := findPeer(s.wanted, h.ID)
		if stays && (h.Observer || !w.Observer) {
			continue
		}
		switch {
		case h.Observer:
		case !s.hasMajorityWithout(h):
			next.waitingFor = fmt.Sprintf("a majority without member %d", h.ID)
			continue
		case len(wire.VoterIDs(s.configured)) <= len(wire.VoterIDs(s.wanted)) && !m.mayShrinkVoters(s, h):
			next.waitingFor = fmt.Sprintf("a voter in place of member %d", h.ID)
			continue
		}
		if h.ID == s.self.ID && !h.Observer {
			return configurationChange{description: fmt.Sprintf("member %d hands leadership over before it leaves or stops voting", h.ID), apply: func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, departureTransferTries*m.electionTimeout)
				defer cancel()
				return m.transfer.ToAny(ctx)
			}}, true
		}
		if !stays {
			return m.serverRemoval(s, fmt.Sprintf("member %d leaves", h.ID), h), true
		}
		return configurationChange{description: fmt.Sprintf("member %d votes no more", h.ID), apply: func(ctx context.Context) error {
			return awaitFuture(ctx, func() raft.Future { return m.raft.DemoteVoter(h.ServerID(), s.configurationIndex, m.electionTimeout) })
		}}, true
	}
	return next, true
}

// serverRemoval returns the change that removes a server.
func (m *membership) serverRemoval(s leaderView, what string, p wire.Peer) configurationChange {
	return configurationChange{description: what, apply: func(ctx context.Context) error {
		return awaitFuture(ctx, func() raft.Future { return m.raft.RemoveServer(p.ServerID(), s.configurationIndex, m.electionTimeout) })
	}}
}

// serverUpdate returns the change that gives a server in the configuration its role and address.
func (m *membership) serverUpdate(s leaderView, what string, p wire.Peer) configurationChange {
	return configurationChange{description: what, apply: func(ctx context.Context) error {
		add := m.raft.AddVoter
		if p.Observer {
			add = m.raft.AddNonvoter
		}
		return awaitFuture(ctx, func() raft.Future {
			return add(p.ServerID(), p.ServerAddress(), s.configurationIndex, m.electionTimeout)
		})
	}}
}

func findPeer(peers []wire.Peer, id uint32) (wire.Peer, bool) {
	i := slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == id })
	if i < 0 {
		return wire.Peer{}, false
	}
	return peers[i], true
}

// awaitFuture makes one change and waits for its outcome.
func awaitFuture(ctx context.Context, change func() raft.Future) error {
	outcome := make(chan error, 1)
	go func() { outcome <- change().Error() }() // raft ends it with the term, or when it stops
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func configurationFollows(have, want []wire.Peer, present []uint32) bool {
	for _, h := range have {
		if w, stays := findPeer(want, h.ID); !stays || w.Observer && !h.Observer {
			return false
		}
	}
	for _, w := range want {
		if h, in := findPeer(have, w.ID); (!in || h.WithoutDisk() != w) && slices.Contains(present, w.ID) {
			return false
		}
	}
	return true
}
