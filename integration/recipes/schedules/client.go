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

// client returns a Client whose session lives, as far as it knows. It returns nil if none can be opened before the schedule
// ends.
func (a *actor) client() *client.Client {
	if a.c != nil && !a.c.State().State.IsFinal() {
		return a.c
	}
	if a.c != nil {
		a.c.Abandon()
		a.record(checker.Event{Client: a.number, Kind: checker.Vanished})
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
			a.surprise("dial", err)
			return nil
		}
	}
	return a.c
}

// dial opens a connection through a wire. Several goroutines may call it.
func (a *actor) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if !a.paused.pass(ctx, nil) {
		return nil, ctx.Err()
	}
	conn, err := a.servers.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	w := newWire(conn, a, &a.paused, &a.slow)
	a.mu.Lock()
	a.wire = w
	a.mu.Unlock()
	return w, nil
}

// judge counts a request, and makes the faults happen that are planned for it. It implements side.
func (a *actor) judge(r request) verdict {
	a.mu.Lock()
	if !r.first && r.op != jute.OpPing {
		a.requests++
		r.number = a.requests
	}
	a.mu.Unlock()
	var v verdict
	if r.number == 0 {
		return v
	}
	faults := a.planned(a.number, r.number)
	defer a.background.Done()
	for _, f := range faults {
		a.strike(f, &v)
	}
	return v
}

// opened notes the session of the client. It implements side.
func (a *actor) opened(session int64, password []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session, a.password = session, password
}

// notified records an event of a watch. It implements side.
func (a *actor) notified(e jute.WatcherEvent) {
	a.record(checker.Event{Client: a.number, Kind: checker.Woken, Text: string(e.Path)})
}

// lastSession returns the session that the client had last, and its password.
func (a *actor) lastSession() (int64, []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session, a.password
}

// drop breaks the client's connection.
func (a *actor) drop() {
	a.mu.Lock()
	w := a.wire
	a.mu.Unlock()
	if w != nil {
		_ = w.Close()
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

// step waits while the client is paused. A client calls it before each act.
func (a *actor) step() { a.paused.pass(a.ctx, nil) }

// work lets time pass, up to most, and then waits while the client is paused.
func (a *actor) work(most time.Duration) {
	sleep(a.ctx, time.Duration(a.rng.Int64N(int64(most))))
	a.step()
}

// surprise records an error that the recipe must not return.
func (a *actor) surprise(what string, err error) {
	a.record(checker.Event{Client: a.number, Kind: checker.Surprise, Text: what + ": " + err.Error()})
}

// expects reports whether a recipe may return err in this schedule, to a caller with ctx. Others are surprises.
func (a *actor) expects(ctx context.Context, err error) bool {
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

// expectsOfWrite does the same for a queue or a counter, whose receipts an operator may have deleted.
func (a *actor) expectsOfWrite(ctx context.Context, err error) bool {
	return a.hasDeleted() || a.expects(ctx, err)
}

// outcome returns the outcome of a write.
func outcome(err error) checker.Outcome {
	switch {
	case err == nil:
		return checker.Acked
	case client.MayHaveHappened(err):
		return checker.Unknown
	}
	return checker.Refused
}
