package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// expiry is the state that expireLoop and batchLoop share. While deciding is set, the round of
// everything that is due is over, and batchLoop puts it into entries until nothing is due any more.
// Only then may the table let more sessions fall due.
type expiry struct {
	mu       sync.Mutex  // held to move table time, and to decide
	deciding atomic.Bool // changed under mu
	// watched is set while sessions are due that are not decided yet. Only expireLoop sets it.
	watched atomic.Bool
}

// round asks all members whether they have heard from the sessions that have fallen due.
type round struct {
	open   bool      // something is due, and nothing is decided
	putOff bool      // the round has been delayed once because a step was late
	asked  uint64    // number of the ping that asks; 0: not sent yet
	begins time.Time // when to send that ping
	ends   time.Time // when the round is over, even if members have not answered
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
	l.pingAll()
	wait := l.cfg.Sessions.Wait(l.cfg.Monotonic.Now())
	var r round
	for {
		select {
		case <-ctx.Done():
			return nil // stepping down is not a failure
		case <-l.cfg.Monotonic.After(wait):
		case <-l.answered:
		}
		wait = l.look(&r, l.cfg.Monotonic.Now())
	}
}

// look does what is due at now. It returns for how long there is nothing more to do unless an
// answer comes.
func (l *Leader) look(r *round, now time.Time) time.Duration {
	if l.cfg.Sessions.Wait(now) == 0 { // before runRound: a late step delays the round
		l.step(r, now)
	}
	l.runRound(r, now)
	return min(l.cfg.Sessions.Wait(now), r.wait(now))
}

// step moves table time on by half a tick and pings every member.
func (l *Leader) step(r *round, now time.Time) {
	l.expiry.mu.Lock()
	late := l.cfg.Sessions.Advance(now)
	overdue := l.cfg.Sessions.Due()
	due := overdue && !l.expiry.deciding.Load()
	l.expiry.watched.Store(overdue) // before any member is asked
	l.expiry.mu.Unlock()
	if late {
		l.count.Pauses.Add(1)
	}

	asked := l.pingAll()
	l.redialSilent(now, late)
	l.cutSilent(now, late)
	l.watchClock()
	l.checkFitness(now, late)
	switch {
	case !due:
		*r = round{}
	case late && !r.putOff:
		*r = round{open: true, putOff: true, begins: now.Add(l.cfg.Tick / 2)}
	case !r.open:
		*r = round{open: true, asked: asked, ends: now.Add(l.cfg.Tick / 2)}
	}
}

// runRound sends the round's ping if it is time to. If the round is over, it lets batchLoop take
// what is due.
func (l *Leader) runRound(r *round, now time.Time) {
	if !r.open || r.asked == 0 && now.Before(r.begins) {
		return
	}
	if r.asked == 0 {
		r.asked, r.ends = l.pingAll(), now.Add(l.cfg.Tick/2)
	}
	if now.Before(r.ends) && !l.allAnswered(r.asked, now) {
		return
	}
	*r = round{}
	l.expiry.mu.Lock()
	l.expiry.deciding.Store(true)
	l.expiry.mu.Unlock()
	signal(l.intake.work)
}

// wait returns how long until runRound has something to do, unless an answer comes.
func (r *round) wait(now time.Time) time.Duration {
	switch {
	case !r.open:
		return time.Hour
	case r.asked == 0:
		return r.begins.Sub(now)
	default:
		return r.ends.Sub(now)
	}
}

// pingAll pings every member, and returns the number of the ping.
func (l *Leader) pingAll() uint64 {
	number := l.asked.Add(1)
	l.wakeAll()
	return number
}

// allAnswered reports whether every reachable member has answered the ping. A member that has sent
// nothing for a tick, the length of two pings, is unreachable and is not waited for.
func (l *Leader) allAnswered(number uint64, now time.Time) bool {
	for m := range l.links.Load().all() {
		m.mu.Lock()
		answered := m.answered >= number || !m.heard.IsZero() && now.Sub(m.heard) > l.cfg.Tick
		m.mu.Unlock()
		if !answered {
			return false
		}
	}
	return true
}

// redialSilent closes the connections to members that have sent nothing for a tick, the time of two
// pings. The network may have dropped such a connection, and everything sent on it is then lost
// without an error. If a member does not answer on the next connection either, it gets twice as
// long each time, up to the sync limit. If this process itself was paused, every member gets
// another tick.
func (l *Leader) redialSilent(now time.Time, late bool) {
	if l.cfg.Redial == nil {
		return
	}
	for _, m := range l.present() {
		if m.id != l.cfg.Self && m.redialDue(now, l.cfg.Tick, l.cfg.SyncLimit, late) {
			l.cfg.Redial(m.id)
		}
	}
}

// redialDue reports whether the member's connection is to be closed.
func (m *link) redialDue(now time.Time, tick time.Duration, syncLimit int, late bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case late:
		m.redial = now.Add(tick)
		return false
	case now.Before(m.redial):
		return false
	}
	m.patience = min(2*m.patience, time.Duration(syncLimit)*tick)
	m.redial = now.Add(m.patience)
	return true
}

// cutSilent ends the streams of members that have sent nothing for the sync limit, because their
// connection may be dead. They are opened again. If this process was paused, every member gets the
// full time again.
func (l *Leader) cutSilent(now time.Time, late bool) {
	limit := time.Duration(l.cfg.SyncLimit) * l.cfg.Tick
	for _, m := range l.present() {
		m.mu.Lock()
		silent := !m.heard.IsZero() && now.Sub(m.heard) >= limit && !late
		cut := m.cut
		if silent || late {
			m.heard = now
		}
		m.mu.Unlock()
		if !silent {
			continue
		}
		l.markLost(m, errSilent)
		cut()
		l.intake.drop(m.id, errSilent)
	}
}
