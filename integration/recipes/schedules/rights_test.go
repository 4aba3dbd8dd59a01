package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/client"
	"rollcall/lab/checker"
)

// right is a right of any recipe.
type right interface {
	Held() bool
	Guard(ctx context.Context, ops ...client.Operation) ([]client.Result, error)
	Release(ctx context.Context) error
}

// acquired is a right that a client got: one grant for each subject.
type acquired struct {
	right
	exclusive bool
	tokens    map[string]client.Token // by subject
	nodes     map[string]string       // by subject
	revoked   <-chan struct{}         // closed when the holder should release it; nil: never
}

// acquire waits for a right. want are its subjects.
type acquire struct {
	want []string
	do   func(ctx context.Context, c *client.Client) (acquired, error)
}

// oneSubject returns a right with one subject.
func oneSubject(subject string, exclusive bool, r *client.Right, err error) (acquired, error) {
	if err != nil {
		return acquired{}, err
	}
	return acquired{
		right: r, exclusive: exclusive, tokens: map[string]client.Token{subject: r.Token()},
		nodes: map[string]string{subject: r.Path()},
	}, nil
}

// playRight has a client acquire a right, work, and release it. In the final round it tries again until it has done so.
func (a *actor) playRight(choose func() acquire, final bool) {
	for began := time.Now(); !a.tryRight(choose(), final) && final; {
		if time.Since(began) > checker.Bound || a.ctx.Err() != nil {
			a.recordSurprise("final round", errNoRight)
			return
		}
	}
}

var errNoRight = errors.New("the client did not get the right, or lost it, although there were no faults")

// impatience is the number of rounds per round of an impatient client.
const impatience = 5

// tryRight does that once. It reports whether the client had the right until its release.
func (a *actor) tryRight(how acquire, final bool) bool {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return false
	}
	wait := patience
	if !final && !a.patient && a.rng.IntN(impatience) == 0 {
		wait = time.Duration(a.rng.Int64N(int64(hurry)))
	}
	ctx, cancel := a.waitContext(wait)
	defer cancel()
	for _, subject := range how.want {
		a.recordEvent(event{Client: a.number, Kind: checker.Want, Subject: subject})
	}
	got, err := how.do(ctx, c)
	if err != nil {
		a.recordFailure(ctx, how.want, err)
		return false
	}
	session, _ := c.Session()
	grants := a.recordGrants(got, session)
	ended := a.writeGuarded(got, grants)
	for _, g := range grants {
		a.recordEvent(event{Client: a.number, Kind: checker.Release, Subject: g.subject, Token: g.Token})
	}
	releaseCtx, stop := context.WithTimeout(a.ctx, time.Minute)
	defer stop()
	if err := got.Release(releaseCtx); err != nil && !a.isExpected(releaseCtx, err) {
		a.recordSurprise("release", err)
	}
	a.noteReleased(grants)
	return !ended
}

// recordFailure records that a client did not get its right.
func (a *actor) recordFailure(ctx context.Context, want []string, err error) {
	if a.c.State().State.IsFinal() {
		a.recordEvent(event{Client: a.number, Kind: checker.Vanished})
	}
	for _, subject := range want {
		a.recordEvent(event{Client: a.number, Kind: checker.Fail, Subject: subject, Text: err.Error()})
	}
	isRemoved := a.removed != nil && errors.Is(err, a.removed) && a.hasDeleted()
	if !a.isExpected(ctx, err) && !isRemoved {
		a.recordSurprise("acquire", err)
	}
}

// recordGrants records the right.
func (a *actor) recordGrants(got acquired, session client.SessionID) []*grant {
	var grants []*grant
	for subject, token := range got.tokens {
		g := &grant{
			Holder:  checker.Holder{Client: a.number, Token: int64(token), Exclusive: got.exclusive},
			subject: subject, held: got.Held, session: session,
		}
		a.recordGrant(g, got.nodes[subject])
		grants = append(grants, g)
	}
	a.sampleHolders()
	return grants
}

// These are the sizes of a client's work with a right: at most 4 writes in 4 times workPause, less than a second together.
const (
	mostWrites = 4
	workPause  = 200 * time.Millisecond
)

// writeGuarded makes some writes under the right's guard. It reports whether the right has ended before.
func (a *actor) writeGuarded(got acquired, grants []*grant) (ended bool) {
	for range 1 + a.rng.IntN(mostWrites) {
		a.workFor(workPause)
		if a.guardWrite(a.ctx, got, grants) {
			return true
		}
		select {
		case <-got.revoked: // nil if it cannot be revoked
			return false
		default:
		}
	}
	return false
}

// guardWrite makes one write under the right's guard. It reports whether the right has ended. Several goroutines may call it.
func (a *actor) guardWrite(ctx context.Context, got acquired, grants []*grant) (ended bool) {
	number := a.nextWrite()
	var ops []client.Operation
	ids := make([]string, len(grants))
	for i, g := range grants {
		ids[i] = fmt.Sprintf("%d-%d-%d", a.number, number, i)
		data := fmt.Sprintf(entryFormat, g.Token, g.Exclusive, ids[i])
		ops = append(ops, client.CreateOp(logOf(g.subject)+"/w-", []byte(data), client.PersistentSequential))
	}
	_, err := got.Guard(ctx, ops...)
	for i, g := range grants {
		a.recordEvent(event{
			Client: a.number, Kind: checker.Write, Subject: g.subject, Token: g.Token, Exclusive: g.Exclusive, Text: ids[i],
			Outcome: outcomeOf(err),
		})
	}
	if err != nil && outcomeOf(err) != checker.Unknown && !errors.Is(err, client.ErrSuspended) && !a.isExpected(ctx, err) {
		a.recordSurprise("guard", err)
	}
	return errors.Is(err, client.ErrNotHeld) || errors.Is(err, client.ErrExpired)
}
