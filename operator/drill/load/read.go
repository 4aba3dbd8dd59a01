package load

import (
	"context"
	"strings"

	"rollcall/operator/drill/judge"
	"rollcall/operator/drill/result"
)

// A reader sends a sync before one of syncEvery reads, and moves to another member about movesPerTimeout times within
// a session's timeout.
const (
	syncEvery       = 8
	movesPerTimeout = 4
)

// readAndMove reads shared keys at random, and moves the session from member to member.
func (l *Load) readAndMove(v *life) {
	l.rec.moves(v)
	keys := l.shared
	if len(keys) == 0 {
		keys = l.probed
	}
	move := l.rec.now()
	for ; !v.over(); v.pause(2 * l.cfg.Interval) {
		if now := l.rec.now(); now >= move {
			v.move()
			most := int64(2 * l.cfg.Timeout / movesPerTimeout)
			move = now + result.Millis(float64(v.seat.random.Int64N(most))/1e6)
		}
		key := keys[v.seat.random.IntN(len(keys))]
		if v.seat.random.IntN(syncEvery) > 0 {
			v.readKey(key.Path, 0, false)
			continue
		}
		floor := l.rec.lastValue(key, "")
		_, err := v.call(judge.Sync, func(ctx context.Context) error { return v.c.Sync(ctx) })
		if err == nil {
			v.readKey(key.Path, floor, true)
		}
	}
}

// move makes the client leave its server for another one: a client does so when its server has left the list.
func (v *life) move() {
	var others []string
	for _, m := range v.seat.l.cfg.Servers {
		if m.Clients != v.c.Server() {
			others = append(others, m.Clients)
		}
	}
	if len(others) == 0 {
		return
	}
	_ = v.c.Ensemble().Use(strings.Join(others, ",")) // the list is valid: Dial has taken it
}
