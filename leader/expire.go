package leader

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// expiry decides which sessions expire. While deciding is set, the round of everything that is due is over,
// and batchLoop puts it into entries until nothing is due any more. Only then may the table let more sessions
// fall due.
type expiry struct {
	sessions *sessiontracker.GlobalTable

	mu          sync.Mutex  // held to move table time, and to decide
	dueReleased atomic.Bool // changed under mu
	// hasUndecided is set while sessions are due that are not decided yet. Only expireLoop sets it.
	hasUndecided atomic.Bool
}

// advanceTable moves table time on by half a tick. It reports whether that was late, and whether sessions are due
// that are not being decided yet.
func (e *expiry) advanceTable(now time.Time) (late, due bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	late = e.sessions.AdvanceIfDue(now)
	overdue := e.sessions.HasDue()
	e.hasUndecided.Store(overdue) // before the round begins
	return late, overdue && !e.dueReleased.Load()
}

// releaseDue ends the round: sessions that are due may be taken.
func (e *expiry) releaseDue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dueReleased.Store(true)
}

// takeDue takes up to limit sessions whose round is over, and marks them as closing.
func (e *expiry) takeDue(limit int) []sessiontracker.OverdueSession {
	if !e.dueReleased.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	due := e.sessions.TakeOverdue(nil, limit)
	e.dueReleased.Store(e.sessions.HasDue()) // the next entry takes more
	return due
}

// touchWriters touches the sessions of transactions that go into the log while sessions are due. A member touches a
// session before it forwards the client's write, but it may have replied to the round's ping before. Without
// touchWriters, a write could be applied, and its session expire all the same. An attach is no sign of the client:
// only apply checks its password.
func (e *expiry) touchWriters(txns []*proto.Txn, now time.Time) {
	if !e.hasUndecided.Load() {
		return
	}
	for _, txn := range txns {
		if txn.GetSession() != 0 && jute.Op(txn.GetOp()) != jute.OpAttach {
			// the session's own timeout counts
			e.sessions.Touch(jute.SessionID(txn.GetSession()), now, math.MaxUint32*time.Millisecond)
		}
	}
}

// touchSyncers touches the sessions whose clients wait for a sync. It returns those that are being closed, which a touch
// cannot save any more. A session that is unknown here has not been applied yet, or has ended in an entry that the sync
// waits for.
func (e *expiry) touchSyncers(sessions []uint64, now time.Time) (ending []uint64) {
	for _, number := range sessions {
		id := jute.SessionID(number)
		if e.sessions.Touch(id, now, math.MaxUint32*time.Millisecond) { // the session's own timeout counts
			continue
		}
		if e.sessions.Has(id) {
			ending = append(ending, number)
		}
	}
	return ending
}

// round is a last ping to all members before the sessions expire that have fallen due.
type round struct {
	isOpen      bool      // sessions are due, and nothing is decided
	delayedOnce bool      // because a step was late
	pingNumber  uint64    // 0 if the ping is not sent yet
	pingAt      time.Time // when to send the ping
	endsAt      time.Time // even if members have not replied
}

// expireLoop moves table time on and pings every member, every half tick and at the very beginning.
// It never waits for a commit.
//
// Before it closes sessions that fall due, the leader pings every member once more, and waits until every
// reachable member has replied or half a tick has passed. It closes the sessions that no reply has touched by
// then.
//
// If a step was late by more than a quarter tick, this process was paused, and touches of live sessions may not
// have been read yet. Then the ping goes out half a tick later. That delay happens only once for the same
// sessions, so that a leader on a slow machine expires sessions too.
func (l *Leader) expireLoop(ctx context.Context) error {
	l.pinger.pingAll()
	wait := l.cfg.Sessions.UntilAdvance(l.cfg.Monotonic.Now())
	var r round
	for {
		select {
		case <-ctx.Done():
			return nil // stepping down is not a failure
		case <-l.cfg.Monotonic.After(wait):
		case <-l.pinger.replyArrived:
		}
		wait = l.stepExpiry(&r, l.cfg.Monotonic.Now())
	}
}

// stepExpiry advances the table and the round. It returns the time until it must be called again unless a reply
// comes.
func (l *Leader) stepExpiry(r *round, now time.Time) time.Duration {
	if l.cfg.Sessions.UntilAdvance(now) == 0 { // before advanceRound: a late step delays the round
		l.advanceTableAndPing(r, now)
	}
	l.advanceRound(r, now)
	return min(l.cfg.Sessions.UntilAdvance(now), r.timeLeft(now))
}

// advanceTableAndPing moves table time on by half a tick and pings every member.
func (l *Leader) advanceTableAndPing(r *round, now time.Time) {
	late, due := l.expiry.advanceTable(now)
	if late {
		l.counters.Pauses.Add(1)
	}

	ping := l.pinger.pingAll()
	l.pinger.closeSilentConns(now, late)
	l.pinger.endSilentStreams(now, late)
	l.clocks.logFaults()
	l.health.handOverIfUnable(now, late)
	switch {
	case !due:
		*r = round{}
	case late && !r.delayedOnce:
		*r = round{isOpen: true, delayedOnce: true, pingAt: now.Add(l.cfg.Tick / 2)}
	case !r.isOpen:
		*r = round{isOpen: true, pingNumber: ping, endsAt: now.Add(l.cfg.Tick / 2)}
	}
}

// advanceRound sends the round's ping when it is due. If the round is over, it lets batchLoop take the sessions.
func (l *Leader) advanceRound(r *round, now time.Time) {
	if !r.isOpen || r.pingNumber == 0 && now.Before(r.pingAt) {
		return
	}
	if r.pingNumber == 0 {
		r.pingNumber, r.endsAt = l.pinger.pingAll(), now.Add(l.cfg.Tick/2)
	}
	if now.Before(r.endsAt) && !l.pinger.allReplied(r.pingNumber, now) {
		return
	}
	*r = round{}
	l.expiry.releaseDue()
	signal(l.intake.work)
}

// timeLeft returns the time until advanceRound must be called again, unless a reply comes.
func (r *round) timeLeft(now time.Time) time.Duration {
	switch {
	case !r.isOpen:
		return time.Hour
	case r.pingNumber == 0:
		return r.pingAt.Sub(now)
	default:
		return r.endsAt.Sub(now)
	}
}
