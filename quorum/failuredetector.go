package quorum

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// When the leader's process dies, the other members need not wait for a timeout: its connections end at once,
// and its port refuses new ones. A voter that sees both stands for election without a pre-vote, which the
// others would reject because they still know a leader.
//
// raft guarantees safety. A false detection costs the ensemble its leader, and writes wait until there is another: a firewall
// that sends resets can cause one. So a member acts on at most one detection in standCooldown election timeouts (it may
// then stand twice, see repeat), and on none after it has heard from a leader again. Signs of slowness do not count: a dial that times out, a connection that was reset without a
// refused dial, and a refused dial while the leader still has a connection.

const (
	// requiredRefusals is the number of consecutive dials that the leader's port must refuse, and dialPause the
	// time between two of them: a process that is only replaced listens again by then.
	requiredRefusals = 2
	dialPause        = 10 * time.Millisecond
	// maxDials limits the dials of a port that accepts connections and closes them at once. A process that dies
	// loses its connections first, and its port a moment later.
	maxDials = 5
	// standDelayPerRank is the delay between the turns of two voters. In that time a request for a vote reaches the
	// others, and the vote is stored. If the earlier voter's log is shorter, it is not elected. Then the later one
	// stands after this delay, or at once if the earlier one needs its vote.
	standDelayPerRank = 20 * time.Millisecond
	// standJitter is the maximum random delay of each of them, so that two voters that count the terms differently
	// do not collide.
	standJitter = 5 * time.Millisecond
	// standTimeout limits the time until raft begins to stand. If it takes longer, it is busy with another
	// candidate's request.
	standTimeout = 2 * time.Millisecond
	// standCooldown is the number of election timeouts for which a member that has stood ignores further detections. So
	// false detections take an ensemble's leader away for a small part of the time only.
	standCooldown = 10
)

// connectionLoss is the end of the last connection of the leader.
type connectionLoss struct {
	leader raft.ServerID
	term   uint64 // the leader's
	lostAt time.Time
	isLate bool // another member had become a candidate before
}

// failureDetector detects the death of the leader's process, and then stands for election.
type failureDetector struct {
	status              *Status
	transport           *wire.Transport
	leaderCauses        *wire.LeaderCauses
	serverList          *serverList
	electionTimeout     time.Duration
	mayStand            func() error        // as in wire.Elections
	awaitBacklog        func() bool         // as in wire.Elections
	mayAcceptLeadership func() error        // as in wire.Elections
	leaderDied          func(member uint32) // see Config.LeaderDied
	logger              *slog.Logger
	connectionLosses    chan connectionLoss // one place
	shorterCandidate    chan struct{}       // one place; see noteShorterCandidate
}

// queueLossIfLeader implements wire.Elections.NoteConnectionLost.
func (d *failureDetector) queueLossIfLeader(server raft.ServerID) {
	leader, term := d.transport.LastLeader()
	if known := d.status.leaderServer(); server != leader || known != leader && known != "" {
		return
	}
	select { // only the newest loss counts
	case <-d.connectionLosses:
	default:
	}
	select {
	case d.connectionLosses <- connectionLoss{server, term, time.Now(), d.status.Term() > term}:
	default: // another goroutine has put one there
	}
}

// noteShorterCandidate implements wire.Elections.NoteShorterCandidate.
func (d *failureDetector) noteShorterCandidate() {
	select {
	case d.shorterCandidate <- struct{}{}:
	default:
	}
}

// candidacy is a stand for election after a loss.
type candidacy struct {
	loss         connectionLoss
	turn, voters int
	at           time.Time // when it began
	mayRepeat    bool      // see repeat
}

func (d *failureDetector) run(ctx context.Context, r *raft.Raft) {
	var last candidacy
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-d.connectionLosses:
			if c, stood := d.standAfterLoss(ctx, r, l, last.at); stood {
				last = c
			}
		case <-d.shorterCandidate:
			d.repeat(r, &last)
		}
	}
}

// standAfterLoss stands for election if the leader has died, unless this member has stood a short time before. It reports
// whether this member tried to.
//
// After a late loss it stands only if every vote is needed. With more voters, the candidate that came before may have been
// elected without this member's vote, and a later term would depose it.
func (d *failureDetector) standAfterLoss(ctx context.Context, r *raft.Raft, l connectionLoss, lastStood time.Time) (c candidacy, stood bool) {
	select { // a candidate before this loss does not count
	case <-d.shorterCandidate:
	default:
	}
	died := d.hasLeaderDied(ctx, r, l)
	d.logger.Debug("the leader's connections have ended", "leader", wire.MemberID(l.leader), "died", died)
	if !died {
		return c, false
	}
	d.leaderCauses.NoteDeath(wire.MemberID(l.leader))
	go d.leaderDied(wire.MemberID(l.leader)) // with TLS it may take time to close a connection
	voters := len(voterServers(r))
	hasJustStood := !lastStood.IsZero() && time.Since(lastStood) < standCooldown*d.electionTimeout
	if hasJustStood || l.isLate && !needsEveryVote(voters) {
		return c, false
	}
	turn, necessary := d.awaitTurnToStand(ctx, r, l)
	if !necessary {
		return c, false
	}
	c = candidacy{loss: l, turn: turn, voters: voters, at: time.Now(), mayRepeat: needsEveryVote(voters)}
	d.standInTurn(r, c)
	return c, true
}

// repeat stands once more after this member has rejected a candidate whose log is shorter, if every vote is needed and there
// is still no leader.
func (d *failureDetector) repeat(r *raft.Raft, c *candidacy) {
	if !c.mayRepeat || r.State() == raft.Candidate {
		return
	}
	c.mayRepeat = false
	if d.isStillNecessary(r, c.loss) {
		d.standInTurn(r, *c)
	}
}

// hasLeaderDied dials a leader whose connections have ended, and reports whether its process has died and has no successor
// that this member knows or has voted for.
func (d *failureDetector) hasLeaderDied(ctx context.Context, r *raft.Raft, l connectionLoss) bool {
	refused := 0
	for dials := range maxDials {
		if dials > 0 && !sleepContext(ctx, dialPause) {
			return false
		}
		switch d.transport.Probe(l.leader) {
		case wire.ProbeRefused:
			refused++
		case wire.ProbeClosed:
			refused = 0
		default:
			return false
		}
		if refused == requiredRefusals {
			return d.stillLeaderless(r, l)
		}
	}
	return false
}

// stillLeaderless reports whether this member has not heard of a leader since a loss: neither the lost one, nor a
// candidate that got its vote, nor another leader. It may have heard of a candidate with a shorter log, which got
// no vote.
func (d *failureDetector) stillLeaderless(r *raft.Raft, l connectionLoss) bool {
	// a vote that is granted counts as contact
	heard := r.LastContact().After(l.lostAt) || d.transport.HasConnectionFrom(l.leader)
	leader := d.status.leaderServer()
	last, term := d.transport.LastLeader() // a vote may have been granted just before the loss
	return r.State() == raft.Follower && !heard && (leader == "" || leader == l.leader) && last == l.leader && term == l.term
}

// awaitTurnToStand waits for this member's turn to stand after a loss. It returns the turn, from 0 on, and whether an
// election is still necessary.
func (d *failureDetector) awaitTurnToStand(ctx context.Context, r *raft.Raft, l connectionLoss) (turn int, necessary bool) {
	all := memberIDs(voterServers(r))
	turn, ok := standRank(d.status.selfPeer().ID, wire.MemberID(l.leader), all, l.term)
	if !d.serverList.wantsVote(d.status.selfPeer().ID) {
		turn += len(all) // a leader that is to leave would hand over, and writes would wait once more
	}
	if !ok || !d.sleepUntilNeeded(ctx, time.Duration(turn)*standDelayPerRank+rand.N(standJitter), len(all)) {
		return turn, false
	}
	return turn, d.isStillNecessary(r, l)
}

// isStillNecessary reports whether this member may stand, and should. It waits until raft has stored the vote that it may
// be giving.
func (d *failureDetector) isStillNecessary(r *raft.Raft, l connectionLoss) bool {
	d.awaitBacklog() // another leader's request may wait to be read
	if err := d.transport.AwaitMainLoop(d.electionTimeout); err != nil {
		return false
	}
	return d.mayStand() == nil && d.mayAcceptLeadership() == nil && d.stillLeaderless(r, l)
}

// needsEveryVote reports whether no candidate can be elected without one of the voters that are left after the leader's
// death.
func needsEveryVote(voters int) bool {
	majority, left := voters/2+1, voters-1
	return left-1 < majority
}

// sleepUntilNeeded waits for delay, or until this member has rejected a candidate that cannot be elected without its vote,
// because the candidate's log is shorter. A voter that is to leave waits for its turn. sleepUntilNeeded returns false if ctx
// ends first.
func (d *failureDetector) sleepUntilNeeded(ctx context.Context, delay time.Duration, voters int) bool {
	var rejected <-chan struct{}
	if needsEveryVote(voters) && d.serverList.wantsVote(d.status.selfPeer().ID) {
		rejected = d.shorterCandidate
	}
	select {
	case <-time.After(delay):
		return true
	case <-rejected:
		return true
	case <-ctx.Done():
		return false
	}
}

// standInTurn stands for election.
//
// Two voters that stand at once vote for themselves, and if every vote is needed, neither is elected before a timeout.
// They do so when a request for a vote takes longer than a turn, as it does while thousands of clients of the dead
// leader connect to the others. So if every vote is needed, no two turns have a term in common, as long as both voters
// followed the leader in the same term. The candidate of the later term gets the vote of the earlier one, or is rejected
// because its log is shorter. Then the earlier one stands again, in a term after both, and gets the vote of the later one.
func (d *failureDetector) standInTurn(r *raft.Raft, c candidacy) {
	if needsEveryVote(c.voters) && !d.enterTermBeforeOwn(r, c) {
		return
	}
	d.stand(c.loss)
}

// enterTermBeforeOwn enters the term before the next one that belongs to this member's turn, and reports whether an
// election is still necessary then.
func (d *failureDetector) enterTermBeforeOwn(r *raft.Raft, c candidacy) bool {
	before := ownTerm(c.loss.term, r.CurrentTerm(), c.turn, c.voters) - 1
	if before <= r.CurrentTerm() {
		return true
	}
	err := d.transport.EnterTerm(before, d.electionTimeout)
	if err != nil || !d.isStillNecessary(r, c.loss) { // a vote for another candidate was given meanwhile
		d.logger.Debug("this member does not stand for election", "err", err)
		return false
	}
	return true
}

// ownTerm returns the first term after current that belongs to a turn. A voter that is to leave has a turn after all
// others, so there are twice as many turns as voters.
func ownTerm(lost, current uint64, turn, voters int) uint64 {
	turns, term := uint64(2*voters), lost+1+uint64(turn)
	if term <= current {
		term += ((current-term)/turns + 1) * turns
	}
	return term
}

// stand makes this member's raft stand in its next term.
func (d *failureDetector) stand(l connectionLoss) {
	d.logger.Info("the leader's process has died; this member stands for election", "leader", wire.MemberID(l.leader),
		"after", time.Since(l.lostAt).Round(time.Millisecond))
	if err := d.transport.StandForElection(standTimeout); err != nil {
		d.logger.Debug("this member does not stand for election", "err", err)
	}
}

// standRank returns the number of voters that stand before member self once leader has died: they take turns, by
// term. ok is false if self does not stand: it is no voter, or there are only two voters, and one alone cannot
// elect a leader.
func standRank(self, leader uint32, voters []uint32, term uint64) (rank int, ok bool) {
	const fewest = 3
	rest := slices.DeleteFunc(slices.Sorted(slices.Values(voters)), func(id uint32) bool { return id == leader })
	i := slices.Index(rest, self)
	if i < 0 || len(voters) < fewest {
		return 0, false
	}
	return int((uint64(i) + term) % uint64(len(rest))), true
}

// sleepContext waits for d. It returns false if ctx ends first.
func sleepContext(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
