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

// raft's configuration lists the disks that receive the log, with or without a vote. It follows the server list
// (Config.WantedServers) one change at a time. Nothing is stored about a change in progress: the leader
// compares the two, and a new leader does the same. raft takes a change only after the one before is committed
// in the leader's own term, and majorities of configurations that are one change apart share a disk.
//
// The list has members, and the configuration has disks. If a member runs with a disk that the configuration
// does not have, and the configured disk does not reply, then the new disk is added without a vote, copies the
// log, and takes the place of the old one. The old one leaves first: it does not reply, and without it no more
// of the other voters must reply than before.

const (
	// membershipInterval is the interval at which a leader compares its configuration with the server list.
	membershipInterval = helloInterval
	// replacementWait limits the time that a leaving voter stays so that its replacement can join first. A
	// running member joins within a few rounds. One that cannot reach the leaving one joins only after it.
	replacementWait = 5 * helloTimeout
	// departureTransferTries is the number of election timeouts for which a leaving leader tries to hand over,
	// before it compares the lists again.
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
	awaitLeaseEnd   func(context.Context, raft.ServerID) (mayStay func(), err error) // see ReadLeases.awaitLeaseEnd
	electionTimeout time.Duration
	logger          *slog.Logger

	newVoterCatchingUp bool              // at the last step
	loggedReason       string            // for waiting
	loggedRivals       map[uint32]string // by member: the last description of two processes with its number
	lastWanted         []wire.Peer       // the server list at the last step

	leavingVoterWaitsSince time.Time // zero: none waits

	sampledLogEnds [2]uint64 // of this member, half an election timeout apart
	sampledAt      time.Time // of the last one
}

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
		for m.raft.State() == raft.Leader && ctx.Err() == nil && m.tryNextChange(ctx) { // each step is one change
		}
		if m.newVoterCatchingUp { // a member is catching up: the next step comes soon
			ticker.Reset(min(membershipInterval, m.electionTimeout/2))
		} else {
			ticker.Reset(membershipInterval)
		}
	}
}

// tryNextChange makes one change if one is possible now, and reports whether it did.
func (m *membership) tryNextChange(ctx context.Context) bool {
	m.newVoterCatchingUp = false
	if m.needsNoChange() {
		m.loggedReason, m.leavingVoterWaitsSince = "", time.Time{}
		return false
	}
	if !m.ensureListIsCurrent(ctx, m.raft.CurrentTerm()) {
		return false
	}
	// read before the configuration: raft rejects a change of another one
	index := m.status.logCache.lastConfigurationIndex()
	have, want := m.status.Servers(), m.serverList.wantedServers()
	if !slices.Equal(want, m.lastWanted) {
		m.lastWanted, m.leavingVoterWaitsSince = want, time.Time{}
	}
	s := leaderView{
		self: m.status.selfPeer(), configured: have, wanted: want, configurationIndex: index,
		replies: m.hellos.sendAll(ctx).replies, caughtUp: m.sampleCaughtUpServers(),
		reachedServers: m.reachability.reachedServers(),
	}
	if !slices.Equal(want, m.serverList.wantedServers()) {
		return false // a reply may be from an address of the new list, and m.serverList.changed wakes run
	}
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
		m.logger.Info("a step towards the server list was not made; this member will try again", "step", next.description,
			"err", err)
		return false
	}
	m.leavingVoterWaitsSince = time.Time{}
	m.logger.Info("a step towards the server list was made", "step", next.description)
	return true
}

// logRivals logs the members of a list with two processes, each once.
func (m *membership) logRivals(list []wire.Peer) {
	for _, p := range list {
		rival := m.reachability.DescribeRivals(p.ID)
		if rival != "" && rival != m.loggedRivals[p.ID] {
			m.logger.Error("two processes run with one member's number; stop one of them", "peer", p.ID, "reason", rival)
		}
		m.loggedRivals[p.ID] = rival
	}
}

// needsNoChange reports whether raft's configuration matches the list, and all servers reply with their disks.
// A server that does not reply may have lost its disk, and its member may know no present member of the ensemble.
// The leader contacts it.
func (m *membership) needsNoChange() bool {
	have, want, reached := m.status.Servers(), m.serverList.wantedServers(), m.reachability.reachedServers()
	silent := func(h wire.Peer) bool { return !slices.Contains(reached, h.ServerID()) }
	return slices.EqualFunc(have, want, func(h, w wire.Peer) bool { return h.WithoutDisk() == w }) &&
		!slices.ContainsFunc(have, silent) && !m.reachability.hasUnknownDisk(have)
}

// ensureListIsCurrent reports whether an entry of this term has been applied, so that the server list is not an
// old one. As long as the state has no list, this member proposes an empty entry, because no other entry comes.
func (m *membership) ensureListIsCurrent(ctx context.Context, term uint64) bool {
	if m.serverList.stateList == nil || m.status.fsm.appliedTerm.Load() == term {
		return true
	}
	return !m.serverList.stateHasList() &&
		startAndAwait(ctx, func() raft.Future { return m.raft.Apply(nil, m.electionTimeout) }) == nil &&
		m.status.fsm.appliedTerm.Load() == term
}

// leaderView is the leader's knowledge when it chooses the next change.
type leaderView struct {
	self               wire.Peer
	configured, wanted []wire.Peer                  // raft's configuration and the list
	configurationIndex uint64                       // of configured in the log; 0: not known
	replies            map[uint32]*proto.HelloReply // of this round, by member
	caughtUp           []raft.ServerID              // to the end of the leader's log a moment ago
	reachedServers     []raft.ServerID              // by the leader's raft, lately
}

func (s *leaderView) isReached(p wire.Peer) bool {
	return slices.Contains(s.reachedServers, p.ServerID())
}

// repliedDisk returns the disk in a member's reply, or 0 without reply. The reply came from the member's address in wanted: Hellos go
// to that list's addresses from when it is read (Config.WantedServers), and it was still the list after the round.
func (s *leaderView) repliedDisk(id uint32) disk.ID {
	if id == s.self.ID {
		return s.self.DiskID
	}
	return disk.ID(s.replies[id].GetDisk())
}

// hasNewVoterCatchingUp reports whether a running server that is to vote has no vote yet. Right after it has come
// in, it may not have replied to raft.
func (s *leaderView) hasNewVoterCatchingUp() bool {
	return slices.ContainsFunc(s.configured, func(h wire.Peer) bool {
		w, in := findPeer(s.wanted, h.ID)
		return in && h.Observer && !w.Observer && s.repliedDisk(h.ID) == h.DiskID
	})
}

// serversOf returns the configured servers of a member.
func (s *leaderView) serversOf(id uint32) (servers []wire.Peer) {
	for _, h := range s.configured {
		if h.ID == id {
			servers = append(servers, h)
		}
	}
	return servers
}

// hasMajorityWithout reports whether most of the voters other than without are present: they have replied to raft
// lately, and to a Hello a moment ago with the disks that vote. If one of them was lost just before a change that
// counts on it, raft could neither commit the change nor go back.
func (s *leaderView) hasMajorityWithout(without wire.Peer) bool {
	voters, present := 0, 0
	for _, h := range s.configured {
		if h.Observer || h.ServerID() == without.ServerID() {
			continue
		}
		voters++
		if s.isReached(h) && s.repliedDisk(h.ID) == h.DiskID {
			present++
		}
	}
	return present > voters/2
}

// mayShrinkVoters reports whether a voter may leave before another one votes in its place: the new one needs its
// address, or has not come for replacementWait. Even then, more than half of the voters of the list must remain,
// so that one disk never holds alone what three should hold. In a list of two, one may remain alone.
func (m *membership) mayShrinkVoters(s leaderView, leaving wire.Peer) bool {
	remain, all := len(wire.VoterIDs(s.configured))-1, len(wire.VoterIDs(s.wanted))
	return (all <= 2 || remain > all/2) && (addressOwner(s.wanted, leaving) != 0 || m.isReplacementWaitOver())
}

// isReplacementWaitOver reports whether a leaving voter has waited for replacementWait. The first call begins the wait.
func (m *membership) isReplacementWaitOver() bool {
	if m.leavingVoterWaitsSince.IsZero() {
		m.leavingVoterWaitsSince = time.Now()
	}
	return time.Since(m.leavingVoterWaitsSince) >= replacementWait
}

// sampleCaughtUpServers returns the servers that have replied to raft lately, and whose logs go as far as this member's
// did at least half an election timeout ago: members reply to heartbeats several times in that time, and the log
// of a busy ensemble grows meanwhile.
func (m *membership) sampleCaughtUpServers() []raft.ServerID {
	now, ends := time.Now(), m.status.LastIndex()
	if now.Sub(m.sampledAt) > contactLifetime { // from before this leadership, or before there was anything to do
		m.sampledLogEnds[0], m.sampledLogEnds[1], m.sampledAt = ends, ends, now
	} else if now.Sub(m.sampledAt) >= m.electionTimeout/2 {
		m.sampledLogEnds[0], m.sampledLogEnds[1], m.sampledAt = m.sampledLogEnds[1], ends, now
	}
	return m.transport.LongestLogs(m.electionTimeout, m.sampledLogEnds[0])
}

// configurationChange is the next change of the configuration. waitingFor is the condition for which this change,
// or a later one, waits, or "".
type configurationChange struct {
	description string
	apply       func(ctx context.Context) error // nil: there is none now
	waitingFor  string
}

// nextChange returns the first possible change, in this order:
//
//  1. A lost disk without a vote leaves.
//  2. A disk that replies joins, without a vote.
//  3. An address changes. No vote changes, so it does not wait for a copy of the log.
//  4. A disk that has the log gets a vote.
//  5. A member stops voting, or leaves.
//
// No voter leaves unless most of the other voters are present.
func (m *membership) nextChange(s leaderView) configurationChange {
	var waits string
	for _, kind := range []func(leaderView) (configurationChange, bool){
		m.lostDiskRemoval, m.diskAddition, m.addressChange,
		m.voterPromotion, m.memberDeparture,
	} {
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

// lostDiskRemoval removes a server without a vote that does not reply, while its member replies with another disk.
func (m *membership) lostDiskRemoval(s leaderView) (next configurationChange, continues bool) {
	for _, h := range s.configured {
		if now := s.repliedDisk(h.ID); h.Observer && now != 0 && now != h.DiskID && !s.isReached(h) {
			return m.serverRemoval(s, fmt.Sprintf("the lost disk %v of member %d, which had no vote, leaves", h.DiskID, h.ID),
				h), true
		}
	}
	return next, true
}

// diskAddition adds, without a vote, a replying disk with data of this ensemble or none. A disk that replies to
// raft keeps its place. Another disk with its member's number waits, and an operator must stop one of the two.
func (m *membership) diskAddition(s leaderView) (next configurationChange, continues bool) {
	for _, p := range s.wanted {
		p.DiskID = s.repliedDisk(p.ID)
		current := s.serversOf(p.ID)
		switch {
		case p.DiskID == 0 || slices.ContainsFunc(current, func(h wire.Peer) bool { return h.DiskID == p.DiskID }):
			continue
		case slices.ContainsFunc(current, s.isReached):
			next.waitingFor = fmt.Sprintf("the disk %v of member %d, which replies, or did a moment ago: the disk %v wants "+
				"its place", current[0].DiskID, p.ID, p.DiskID)
			continue
		}
		p.Observer = true
		return m.serverUpdate(s, fmt.Sprintf("member %d joins with the disk %v", p.ID, p.DiskID), p), true
	}
	return next, true
}

// addressOwner returns the other member with the address of p in a list, or 0.
func addressOwner(list []wire.Peer, p wire.Peer) uint32 {
	for _, h := range list {
		if h.Addr == p.Addr && h.ID != p.ID {
			return h.ID
		}
	}
	return 0
}

// voterPromotion gives a vote to a server that has the log. If the member has another disk that votes and does not
// reply, that disk leaves first.
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
		// less than a majority of the list's voters is less safe than the only one that there is
		return next, next.waitingFor == ""
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
			return m.serverRemoval(s, fmt.Sprintf("the lost disk %v of member %d leaves", s.configured[i].DiskID, h.ID),
				s.configured[i]), true
		}
	}
	return next, next.waitingFor == "" // while a new voter is catching up, no voter leaves
}

// addressChange changes the address of a server. The process at the new address must have replied with the
// server's disk.
func (m *membership) addressChange(s leaderView) (next configurationChange, continues bool) {
	for _, h := range s.configured {
		p, in := findPeer(s.wanted, h.ID)
		switch {
		case !in || h.Addr == p.Addr && h.GRPCAddr == p.GRPCAddr:
		case s.repliedDisk(h.ID) != h.DiskID:
			if next.waitingFor == "" {
				next.waitingFor = fmt.Sprintf("member %d at %s, which does not reply there with its disk", p.ID, p.Addr)
			}
		default:
			h.Addr, h.GRPCAddr = p.Addr, p.GRPCAddr
			return m.serverUpdate(s, fmt.Sprintf("member %d is at %s", p.ID, p.Addr), h), true
		}
	}
	return next, true
}

// memberDeparture makes a member stop voting, or removes it. If that is this member, it hands leadership over
// first.
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
			return configurationChange{description: fmt.Sprintf("member %d hands leadership over before it leaves or stops "+
				"voting", h.ID), apply: func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, departureTransferTries*m.electionTimeout)
				defer cancel()
				return m.transfer.ToAny(ctx)
			}}, true
		}
		if !stays {
			return m.serverRemoval(s, fmt.Sprintf("member %d leaves", h.ID), h), true
		}
		return m.withoutLease(h, newConfigurationChange(fmt.Sprintf("member %d votes no more", h.ID), func() raft.Future {
			return m.raft.DemoteVoter(h.ServerID(), s.configurationIndex, m.electionTimeout)
		})), true
	}
	return next, true
}

func (m *membership) serverRemoval(s leaderView, description string, p wire.Peer) configurationChange {
	return m.withoutLease(p, newConfigurationChange(description, func() raft.Future {
		return m.raft.RemoveServer(p.ServerID(), s.configurationIndex, m.electionTimeout)
	}))
}

// withoutLease returns the change, made when a server that is a voter no more after it has no lease for reads. A later leader waits for the
// voters that it knows alone. If ctx ends, raft may still make the change: then the server gets no lease in the rest of the term.
func (m *membership) withoutLease(p wire.Peer, change configurationChange) configurationChange {
	apply := change.apply
	change.apply = func(ctx context.Context) error {
		mayStay, err := m.awaitLeaseEnd(ctx, p.ServerID())
		if err != nil {
			return err
		}
		err = apply(ctx)
		if ctx.Err() == nil {
			mayStay()
		}
		return err
	}
	return change
}

// serverUpdate returns the change that adds a server or updates its role and address.
func (m *membership) serverUpdate(s leaderView, description string, p wire.Peer) configurationChange {
	add := m.raft.AddVoter
	if p.Observer {
		add = m.raft.AddNonvoter
	}
	return newConfigurationChange(description, func() raft.Future {
		return add(p.ServerID(), p.ServerAddress(), s.configurationIndex, m.electionTimeout)
	})
}

func newConfigurationChange(description string, start func() raft.Future) configurationChange {
	return configurationChange{
		description: description,
		apply:       func(ctx context.Context) error { return startAndAwait(ctx, start) },
	}
}

func findPeer(peers []wire.Peer, id uint32) (wire.Peer, bool) {
	i := slices.IndexFunc(peers, func(p wire.Peer) bool { return p.ID == id })
	if i < 0 {
		return wire.Peer{}, false
	}
	return peers[i], true
}

// startAndAwait starts a change and waits for its outcome.
func startAndAwait(ctx context.Context, change func() raft.Future) error {
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
