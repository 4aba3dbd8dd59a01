package load

import (
	"context"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/lab/judge"
)

// A contender holds the lock for up to maxHold, and polls Held each heldEvery.
const (
	maxHold   = 200 * time.Millisecond
	heldEvery = 5 * time.Millisecond
)

// contendForLock takes the lock again and again.
func (l *Load) contendForLock(v *sessionLife) {
	mutex := lock.NewMutex(v.client, lockParent, lock.Config{})
	for ; !v.isOver(); v.pauseFor(l.cfg.Interval) {
		right, err := mutex.Lock(l.running)
		if err != nil {
			continue
		}
		v.slot.gate.waitOpen(l.final.Done())
		l.holdLock(v, right)
		ctx, cancel := context.WithTimeout(l.final, 2*l.cfg.Timeout)
		_ = right.Release(ctx) // if it fails, the end of the session releases it
		cancel()
	}
}

// holdLock polls Held until the time is over or it returns false, and keeps the Hold. The client may be paused
// between two calls, so the clock is read before and after each.
func (l *Load) holdLock(v *sessionLife, right *client.Right) {
	h := judge.Hold{Lock: lockParent, Client: v.slot.name, Session: v.id, Token: int64(right.Token())}
	end := time.Now().Add(time.Duration(v.slot.random.Int64N(int64(maxHold))))
	for {
		before := l.recorder.sinceStartMillis()
		if !right.Held() {
			break
		}
		if h.Checks++; h.Checks == 1 {
			h.From = l.recorder.sinceStartMillis()
		}
		h.To = before
		if l.isStopping() || time.Now().After(end) {
			break
		}
		v.pauseFor(heldEvery)
	}
	if h.Checks > 0 {
		l.recorder.noteHold(h)
	}
}
