package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// expiry is where expireLoop and batchLoop meet. Deciding means: the round of all that is
// due is over, and batchLoop puts it into entries until nothing is due any more. Only
// then may the table let others fall due.
type expiry struct {
	mu       sync.Mutex  // held to move table time, and to decide
	deciding atomic.Bool // changed under mu
}

// round is the question to all members whether they have heard of what has fallen due.
type round struct {
	open   bool // something is due, and nothing is decided
	putOff bool
	asked  uint64    // number of its ping; 0: not yet sent
	begins time.Time // when that is to be sent
	ends   time.Time // when it is over, whoever has not answered
}

// expireLoop moves table time on and pings, every half tick and at the very beginning. It
// waits for no commit.
//
// What falls due is asked about first: those are closed whom no answer touches, once all
// members within reach have answered a ping sent since, or half a tick has passed. Was the step late by
// more than a quarter tick, this process stood still, and the touches of the living may
// lie unread: then the ping goes out half a tick later. That happens once to what is due,
// however late the next steps are, so that a leader on a bad machine expires sessions too.
func (l *Leader) expireLoop(ctx context.Context) error {
	l.ask()
	timer := time.NewTimer(l.cfg.Sessions.Wait(time.Now()))
	defer timer.Stop()
	var r round
	for {
		select {
		case <-ctx.Done():
			return nil // stepping down is not a failure
		case <-timer.C:
		case <-l.answered:
		}
		timer.Reset(l.look(&r, time.Now()))
	}
}

// look does what is due at now, and returns how long there is nothing to do, unless an
// answer comes.
func (l *Leader) look(r *round, now time.Time) time.Duration {
	if l.cfg.Sessions.Wait(now) == 0 { // before the round is settled: a late step puts that off
		l.step(r, now)
	}
	l.settle(r, now)
	return min(l.cfg.Sessions.Wait(now), r.wait(now))
}

// step moves table time on by half a tick and pings everybody.
func (l *Leader) step(r *round, now time.Time) {
	l.expiry.mu.Lock()
	late := l.cfg.Sessions.Advance(now)
	due := l.cfg.Sessions.Due() && !l.expiry.deciding.Load()
	l.expiry.mu.Unlock()

	asked := l.ask()
	l.redialSilent(now, late)
	l.cutSilent(now, late)
	l.watchClock()
	l.weigh(now, late)
	switch {
	case !due:
		*r = round{}
	case late && !r.putOff:
		*r = round{open: true, putOff: true, begins: now.Add(l.cfg.Tick / 2)}
	case !r.open:
		*r = round{open: true, asked: asked, ends: now.Add(l.cfg.Tick / 2)}
	}
}

// settle begins the round if it is time to, and hands what is due to batchLoop if it is
// over.
func (l *Leader) settle(r *round, now time.Time) {
	if !r.open || r.asked == 0 && now.Before(r.begins) {
		return
	}
	if r.asked == 0 {
		r.asked, r.ends = l.ask(), now.Add(l.cfg.Tick/2)
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

// wait says when to settle the round, unless an answer comes.
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

// ask pings every member, and returns the number of the ping.
func (l *Leader) ask() uint64 {
	number := l.asked.Add(1)
	l.wakeAll()
	return number
}

// allAnswered reports whether every member within reach has answered a ping. One that has
// said nothing for a tick, the length of two pings, is out of reach: nobody is kept
// waiting for it.
func (l *Leader) allAnswered(number uint64, now time.Time) bool {
	for _, m := range l.links {
		m.mu.Lock()
		answered := m.answered >= number || !m.heard.IsZero() && now.Sub(m.heard) > l.cfg.Tick
		m.mu.Unlock()
		if !answered {
			return false
		}
	}
	return true
}

// redialSilent gives up the connections of members that have said nothing for a tick, the
// length of two pings: the network may have forgotten them, and then everything sent on
// them is lost without an error. A member that does not answer on the next one either is
// given twice as long each time, up to the sync limit. If this process itself was paused,
// every member is given a tick more.
func (l *Leader) redialSilent(now time.Time, late bool) {
	if l.cfg.Redial == nil {
		return
	}
	for _, m := range l.links {
		if m.id != l.cfg.Self && m.givenUp(now, l.cfg.Tick, l.cfg.SyncLimit, late) {
			l.cfg.Redial(m.id)
		}
	}
}

// givenUp reports whether the member's connection is to be given up.
func (m *link) givenUp(now time.Time, tick time.Duration, syncLimit int, late bool) bool {
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

// cutSilent ends the streams of members that have said nothing for the sync limit, as
// those may hang on a connection that is dead; they are opened again. If it was this
// process that stood still, everybody is given the time once more.
func (l *Leader) cutSilent(now time.Time, late bool) {
	limit := time.Duration(l.cfg.SyncLimit) * l.cfg.Tick
	for _, m := range l.links {
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
		l.lose(m, errSilent)
		cut()
		l.intake.drop(m.id, errSilent)
	}
}
