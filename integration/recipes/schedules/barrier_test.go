package schedules

import (
	"time"

	"rollcall/client/barrier"
	"rollcall/lab/checker"
)

// meetingTime is the longest time that a client waits for others, which may have gone.
const meetingTime = 4 * time.Second

// doubleRecipe has clients that enter a double barrier and leave it.
func doubleRecipe() recipe {
	path := folder("double", 1)
	return recipe{
		name: "double-barrier", subjects: []string{path}, rounds: 2,
		prepare: func(w *world) error {
			w.history.Parties = map[string]int{path: doubleCount}
			return nil
		},
		play: func(a *actor, final bool) {
			switch {
			case !final:
				a.meet(path, meetingTime)
			case a.number <= doubleCount:
				a.meetAll(path)
			}
		},
	}
}

// meetAll meets others until each of the first clients has met others. One of them can meet the nodes of a client that
// gave up before, so all of them continue.
func (a *actor) meetAll(path string) {
	for began := time.Now(); !a.met.isFull(); {
		if a.meet(path, meetingTime) {
			a.met.add(a.number)
		}
		if time.Since(began) > checker.Bound || a.ctx.Err() != nil {
			a.recordSurprise("final round", errNoRight)
			return
		}
	}
}

// meet enters a double barrier and leaves it. It gives up after the time most. It reports whether it met others.
func (a *actor) meet(path string, most time.Duration) bool {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return false
	}
	ctx, cancel := a.waitContext(most)
	defer cancel()
	a.recordEvent(event{Client: a.number, Kind: checker.Want, Subject: path})
	m, err := barrier.NewDouble(c, path, barrier.DoubleConfig{Count: doubleCount}).Enter(ctx)
	if err != nil {
		a.recordFailure(ctx, []string{path}, err)
		return false
	}
	got, _ := oneSubject(path, false, m.Right, nil)
	session, _ := c.Session()
	g := a.recordGrants(got, session)[0]
	a.workFor(workPause)
	a.recordEvent(event{Client: a.number, Kind: checker.Release, Subject: path, Token: g.Token}) // it holds the right until others leave
	if err := m.Leave(ctx); err != nil {
		if !a.isExpected(ctx, err) {
			a.recordSurprise("leave", err)
		}
		return false
	}
	a.recordEvent(event{Client: a.number, Kind: checker.Pass, Subject: path, Token: g.Token, Holders: a.currentHolders(path)})
	return true
}

// barrierRecipe has one client that removes a barrier and sets it again, and others that wait for it.
func barrierRecipe() recipe {
	path := folder("barrier", 1)
	return recipe{
		name: "barrier", subjects: []string{path}, rounds: 3, keeps: true,
		prepare: func(w *world) error { return barrier.New(w.operator, path).Set(w.ctx) },
		play: func(a *actor, final bool) {
			if a.number == 1 {
				a.openBarrier(path, final)
			} else {
				a.awaitBarrier(path)
			}
		},
	}
}

// openBarrier removes a barrier, and sets it again unless the round is the final one.
func (a *actor) openBarrier(path string, final bool) {
	a.workFor(workPause)
	for a.ctx.Err() == nil {
		c := a.liveClient()
		if c == nil {
			return
		}
		b := barrier.New(c, path)
		a.recordEvent(event{Client: a.number, Kind: checker.Lift, Subject: path})
		err := b.Remove(a.ctx)
		if err == nil && final {
			return
		}
		if err == nil {
			a.workFor(workPause)
			if err = b.Set(a.ctx); err == nil {
				a.recordEvent(event{Client: a.number, Kind: checker.Lower, Subject: path})
				return
			}
		}
		if !a.isExpected(a.ctx, err) {
			a.recordSurprise("remove or set", err)
			return
		}
	}
}

// awaitBarrier waits for a barrier until it is let through.
func (a *actor) awaitBarrier(path string) {
	for a.ctx.Err() == nil {
		a.waitWhilePaused()
		c := a.liveClient()
		if c == nil {
			return
		}
		ctx, cancel := a.waitContext(patience)
		a.recordEvent(event{Client: a.number, Kind: checker.Arrive, Subject: path})
		err := barrier.New(c, path).Wait(ctx)
		cancel()
		if err == nil {
			a.recordEvent(event{Client: a.number, Kind: checker.Through, Subject: path})
			return
		}
		if !a.isExpected(ctx, err) {
			a.recordSurprise("wait", err)
		}
		if a.number%2 == 0 && ctx.Err() != nil {
			return // it gave up
		}
	}
}
