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

	mu       sync.Mutex  // held to move table time, and to decide
	deciding atomic.Bool // changed under mu
	// watched is set while sessions are due that are not decided yet. Only expireLoop sets it.
	watched atomic.Bool
}

// advanceTable moves table time on by half a tick. It reports whether that was late, and whether sessions are due
// that are not being decided yet.
func (e *expiry) advanceTable(now time.Time) (late, due bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	late = e.sessions.AdvanceStep(now)
	overdue := e.sessions.HasDue()
	e.watched.Store(overdue) // before any member is asked
	return late, overdue && !e.deciding.Load()
}

// decideDue ends the round: what is due may be taken.
func (e *expiry) decideDue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deciding.Store(true)
}

// takeDue takes up to limit sessions whose round is over, and marks them as closing.
func (e *expiry) takeDue(limit int) []sessiontracker.OverdueSession {
	if !e.deciding.Load() {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	due := e.sessions.TakeOverdue(nil, limit)
	e.deciding.Store(e.sessions.HasDue()) // the next entry takes more
	return due
}

// touchWriters touches the sessions of transactions that go into the log while sessions are due. A member hears a client
// before it forwards what that writes, but it may have answered this leader's last question before. Without the touch, a
// write could be applied, and its session expire all the same. An attach is no sign of the client: only apply checks its
// password.
func (e *expiry) touchWriters(txns []*proto.Txn, now time.Time) {
	if !e.watched.Load() {
		return
	}
	for _, txn := range txns {
		if txn.GetSession() != 0 && jute.Op(txn.GetOp()) != jute.OpAttach {
			e.sessions.Touch(jute.SessionID(txn.GetSession()), now, math.MaxUint32*time.Millisecond) // the session's own timeout counts
		}
	}
}

// round asks all members whether they have heard from the sessions that have fallen due.
type round struct {
	isOpen      bool      // something is due, and nothing is decided
	delayedOnce bool      // the round has been delayed once because a step was late
	pingNumber  uint64    // number of the ping that asks; 0: not sent yet
	pingAt      time.Time // when to send that ping
	endsAt      time.Time // when the round is over, even if members have not answered
}

// expireLoop moves table time on and pings every member, every half tick and at the very beginning.
// It never waits for a commit.
//
// Before it closes sessions that fall due, the leader asks the members about them: it pings every
// member once more, and waits until every reachable member has answered or half a tick has passed.
// It closes the sessions that no answer has touched by then.
//
// If a step was late by more than a quarter tick, this process was paused, and touches of live
// sessions may not have been read yet. Then the ping goes out half a tick later. That delay happens
// only once for the same sessions, however late the next steps are, so that a leader on a slow
// machine expires sessions too.
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
		wait = l.pollExpiry(&r, l.cfg.Monotonic.Now())
	}
}

// pollExpiry does what is due at now. It returns for how long there is nothing more to do unless an
// answer comes.
func (l *Leader) pollExpiry(r *round, now time.Time) time.Duration {
	if l.cfg.Sessions.UntilAdvance(now) == 0 { // before runRound: a late step delays the round
		l.advanceTable(r, now)
	}
	l.advanceRound(r, now)
	return min(l.cfg.Sessions.UntilAdvance(now), r.timeLeft(now))
}

// advanceTable moves table time on by half a tick and pings every member.
func (l *Leader) advanceTable(r *round, now time.Time) {
	late, due := l.expiry.advanceTable(now)
	if late {
		l.counters.Pauses.Add(1)
	}

	asked := l.pinger.pingAll()
	l.pinger.redialSilent(now, late)
	l.pinger.cutSilent(now, late)
	l.clocks.logFaults()
	l.health.checkHealth(now, late)
	switch {
	case !due:
		*r = round{}
	case late && !r.delayedOnce:
		*r = round{isOpen: true, delayedOnce: true, pingAt: now.Add(l.cfg.Tick / 2)}
	case !r.isOpen:
		*r = round{isOpen: true, pingNumber: asked, endsAt: now.Add(l.cfg.Tick / 2)}
	}
}

// advanceRound sends the round's ping if it is time to. If the round is over, it lets batchLoop take
// what is due.
func (l *Leader) advanceRound(r *round, now time.Time) {
	if !r.isOpen || r.pingNumber == 0 && now.Before(r.pingAt) {
		return
	}
	if r.pingNumber == 0 {
		r.pingNumber, r.endsAt = l.pinger.pingAll(), now.Add(l.cfg.Tick/2)
	}
	if now.Before(r.endsAt) && !l.pinger.allAnswered(r.pingNumber, now) {
		return
	}
	*r = round{}
	l.expiry.decideDue()
	signal(l.intake.work)
}

// timeLeft returns how long until runRound has something to do, unless an answer comes.
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
