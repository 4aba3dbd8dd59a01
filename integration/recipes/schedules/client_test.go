package schedules

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/lab/checker"
	"rollcall/zk/jute"
)

const (
	sessionTimeout = 4 * time.Second
	dialTimeout    = 2 * time.Minute // for the longest faults, one after the other
)

// actor is a program that uses a recipe. When its session has ended, it opens another one. Its methods without a comment
// on that are called by one goroutine.
type actor struct {
	*world
	number int
	rng    *rand.Rand
	clock  *clock
	policy client.SuspendedPolicy

	paused, slow gate
	c            *client.Client // the present one

	mu       sync.Mutex
	requests int
	session  int64
	password []byte
	wire     *wire // the last one
	cancel   context.CancelFunc
}

// fastest is the largest ratio of two clocks' rates: the servers allow one tenth.
const fastest = 1.1

func newActor(w *world, number int, rng *rand.Rand) *actor {
	slowest := 1 / fastest
	a := &actor{
		world: w, number: number, rng: rng, clock: newClock(slowest + rng.Float64()*(fastest-slowest)),
		policy: client.SuspendedPolicy(rng.IntN(2)),
	}
	return a
}

// liveClient returns a Client whose session lives, as far as it knows. It returns nil if none can be opened before the schedule
// ends.
func (a *actor) liveClient() *client.Client {
	if a.c != nil && !a.c.State().State.IsFinal() {
		return a.c
	}
	if a.c != nil {
		a.c.Abandon()
		a.recordEvent(checker.Event{Client: a.number, Kind: checker.Vanished})
	}
	for a.c = nil; a.c == nil && a.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(a.ctx, dialTimeout)
		c, err := client.Dial(ctx, a.servers.ConnectString(), client.Config{
			Timeout: sessionTimeout, Clock: a.clock.read, WhileSuspended: a.policy, DialConn: a.dial,
		})
		cancel()
		if err == nil {
			a.c = c
		} else if a.isCalm() {
			a.recordSurprise("dial", err)
			return nil
		}
	}
	return a.c
}

// dial opens a connection through a wire. Several goroutines may call it.
func (a *actor) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if !a.paused.waitOpen(ctx, nil) {
		return nil, ctx.Err()
	}
	conn, err := a.servers.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	end, w := startWire(conn, a)
	a.mu.Lock()
	a.wire = w
	a.mu.Unlock()
	return end, nil
}

// judge counts a request, unless it is a ping, and makes the faults happen that are planned for it.
func (a *actor) judge(op jute.Op) (v verdict) {
	if op == jute.OpPing {
		return v
	}
	a.mu.Lock()
	a.requests++
	number := a.requests
	a.mu.Unlock()
	faults := a.takePlanned(a.number, number)
	defer a.background.Done()
	for _, f := range faults {
		a.causeFault(f, &v)
	}
	return v
}

// opened notes the session of the client.
func (a *actor) opened(session int64, password []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session, a.password = session, password
}

// lastSession returns the session that the client had last, and its password.
func (a *actor) lastSession() (int64, []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session, a.password
}

// dropConnection breaks the client's connection.
func (a *actor) dropConnection() {
	a.mu.Lock()
	w := a.wire
	a.mu.Unlock()
	if w != nil {
		w.End()
	}
}

// waitContext returns a context that the faults of giving up end, and that ends after d.
func (a *actor) waitContext(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(a.ctx, d)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel = cancel
	return ctx, cancel
}

func (a *actor) stopWaiting() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel()
	}
}

// waitWhilePaused waits while the client is paused. A client calls it before each act.
func (a *actor) waitWhilePaused() { a.paused.waitOpen(a.ctx, nil) }

// workFor lets time pass, up to most, and then waits while the client is paused.
func (a *actor) workFor(most time.Duration) {
	sleepFor(a.ctx, time.Duration(a.rng.Int64N(int64(most))))
	a.waitWhilePaused()
}

// recordSurprise records an error that the recipe must not return.
func (a *actor) recordSurprise(what string, err error) {
	a.recordEvent(checker.Event{Client: a.number, Kind: checker.Surprise, Text: what + ": " + err.Error()})
}

// isExpected reports whether a recipe may return err in this schedule, to a caller with ctx. Others are surprises.
func (a *actor) isExpected(ctx context.Context, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return true
	case errors.Is(err, client.ErrExpired), errors.Is(err, client.ErrClosed):
		return true
	case errors.Is(err, client.ErrNotHeld):
		return true
	}
	return false
}

// isExpectedOfWrite does the same for a queue or a counter, whose receipts an operator may have deleted.
func (a *actor) isExpectedOfWrite(ctx context.Context, err error) bool {
	return a.hasDeleted() || a.isExpected(ctx, err)
}

// outcomeOf returns the outcome of a write.
func outcomeOf(err error) checker.Outcome {
	switch {
	case err == nil:
		return checker.Acked
	case client.MayHaveHappened(err):
		return checker.Unknown
	}
	return checker.Refused
}
