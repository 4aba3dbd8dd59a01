package schedules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/client/queue"
	"rollcall/lab/checker"
)

// takeTime is the longest time that a taker waits for an element before faults are over, and drainTime after it: the
// sessions of takers that have gone end within it.
const takeTime, drainTime = time.Second, 2*sessionTimeout + 2*time.Second

// queueRecipe has clients that put elements and take them. They give some of them back.
func queueRecipe() recipe {
	path := folder("queue", 1)
	return recipe{
		name: "queue", subjects: []string{path}, rounds: 3, keeps: true,
		play: func(a *actor, final bool) {
			if final {
				for a.takeElement(path, drainTime) {
				}
				return
			}
			a.putElement(path)
			a.takeElement(path, takeTime)
		},
		finish: func(w *world) error { return w.readQueue(path) },
	}
}

func (a *actor) putElement(path string) {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return
	}
	ctx, cancel := a.waitContext(patience)
	defer cancel()
	text := fmt.Sprintf("%d-%d", a.number, a.nextWrite())
	a.recordEvent(event{Client: a.number, Kind: checker.Put, Subject: path, Text: text, Outcome: checker.Unknown}) // it may be taken before the reply
	_, err := queue.New(c, path, queue.Config{}).Put(ctx, []byte(text))
	a.recordEvent(event{Client: a.number, Kind: checker.Put, Subject: path, Text: text, Outcome: outcomeOf(err)})
	if err != nil && outcomeOf(err) == checker.Refused && !a.isExpectedOfWrite(ctx, err) {
		a.recordSurprise("put", err)
	}
}

// takeElement takes an element, works, and is done with it, or gives it back. It reports whether it got one.
func (a *actor) takeElement(path string, most time.Duration) bool {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return false
	}
	ctx, cancel := a.waitContext(most)
	defer cancel()
	e, err := queue.New(c, path, queue.Config{}).Take(ctx)
	if err != nil {
		if !a.isExpectedOfWrite(ctx, err) {
			a.recordSurprise("take", err)
		}
		return !a.isOver(ctx)
	}
	text := string(e.Data)
	a.recordEvent(event{Client: a.number, Kind: checker.Take, Subject: path, Text: text})
	a.workFor(workPause)
	if !a.isCalm() && a.rng.IntN(4) == 0 {
		_ = e.Release(a.ctx) // the element is given again in any case
		return true
	}
	_, err = e.Done(a.ctx)
	a.recordEvent(event{Client: a.number, Kind: checker.Done, Subject: path, Text: text, Outcome: outcomeOf(err)})
	if err != nil {
		_ = e.Release(a.ctx)
		if outcomeOf(err) == checker.Refused && !a.isExpectedOfWrite(a.ctx, err) && !errors.Is(err, client.ErrSuspended) {
			a.recordSurprise("done", err)
		}
	}
	return true
}

// isOver reports whether a taker has waited in vain.
func (a *actor) isOver(ctx context.Context) bool { return ctx.Err() != nil || a.ctx.Err() != nil }

// readQueue reads the elements that are left, of which there must be none.
func (w *world) readQueue(path string) error {
	return w.retryConnection(func() error {
		names, _, err := w.operator.Children(w.ctx, path)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "queue-") {
				continue
			}
			w.recordEvent(event{Kind: checker.Surprise, Subject: path, Text: "no client took " + name})
		}
		return err
	})
}
