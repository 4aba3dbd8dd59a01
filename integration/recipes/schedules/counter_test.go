package schedules

import (
	"errors"

	"rollcall/client"
	"rollcall/client/shared"
	"rollcall/lab/checker"
)

// counterRecipe has clients that add to one counter.
func counterRecipe(name string, noReceipts bool) recipe {
	path := folder(name, 1)
	counter := func(c *client.Client) *shared.Counter {
		return shared.NewCounter(c, path, shared.CounterConfig{NoReceipts: noReceipts})
	}
	return recipe{
		name: name, subjects: []string{path}, rounds: 4, keeps: true,
		play: func(a *actor, final bool) {
			for a.ctx.Err() == nil && !a.add(counter, path) && final {
			}
		},
		finish: func(w *world) error {
			return w.retryConnection(func() error {
				n, err := counter(w.operator).Get(w.ctx)
				w.history.Totals[path] = n
				return err
			})
		},
	}
}

// add adds a random number to a counter. It reports whether that was carried out.
func (a *actor) add(counter func(*client.Client) *shared.Counter, path string) bool {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return false
	}
	ctx, cancel := a.waitContext(patience)
	defer cancel()
	n := 1 + a.rng.Int64N(1000)
	_, err := counter(c).Add(ctx, n)
	a.recordEvent(event{Client: a.number, Kind: checker.Add, Subject: path, N: n, Outcome: outcomeOf(err)})
	if err != nil && !a.isExpectedOfWrite(ctx, err) && !client.MayHaveHappened(err) && !errors.Is(err, shared.ErrContended) {
		a.recordSurprise("add", err)
	}
	return err == nil
}
