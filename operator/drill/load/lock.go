package load

import (
	"context"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/operator/drill/judge"
)

// A contender holds the lock for up to maxHold, and asks Held each heldEvery.
const (
	maxHold   = 200 * time.Millisecond
	heldEvery = 5 * time.Millisecond
)

// contend takes the lock again and again.
func (l *Load) contend(v *life) {
	mutex := lock.NewMutex(v.c, lockFolder, lock.Config{})
	for ; !v.over(); v.pause(l.cfg.Interval) {
		right, err := mutex.Lock(l.run)
		if err != nil {
			continue
		}
		v.seat.gate.wait(l.final.Done())
		l.holdLock(v, right)
		ctx, cancel := context.WithTimeout(l.final, 2*l.cfg.Timeout)
		_ = right.Release(ctx) // if it fails, the end of the session releases it
		cancel()
	}
}

// holdLock asks Held until the time is over or it returns false, and keeps the Hold. The client may be paused between
// two calls, so each is between two looks at the clock.
func (l *Load) holdLock(v *life, right *client.Right) {
	h := judge.Hold{Lock: lockFolder, Client: v.seat.name, Session: v.id, Token: int64(right.Token())}
	end := time.Now().Add(time.Duration(v.seat.random.Int64N(int64(maxHold))))
	for {
		before := l.rec.now()
		if !right.Held() {
			break
		}
		if h.Checks++; h.Checks == 1 {
			h.From = l.rec.now()
		}
		h.To = before
		if l.stopping() || time.Now().After(end) {
			break
		}
		v.pause(heldEvery)
	}
	if h.Checks > 0 {
		l.rec.hold(h)
	}
}
