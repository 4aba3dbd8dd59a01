package load

import (
	"context"
	"strings"

	"rollcall/lab/judge"
	"rollcall/lab/result"
)

// A reader sends a sync before one of syncEvery reads, and moves to another member about movesPerTimeout times within
// a session's timeout.
const (
	syncEvery       = 8
	movesPerTimeout = 4
)

// readAndMove reads shared keys at random, and moves the session from member to member.
func (l *Load) readAndMove(v *sessionLife) {
	l.recorder.noteMoves(v)
	keys := l.sharedKeys
	if len(keys) == 0 {
		keys = l.probedKeys
	}
	move := l.recorder.sinceStartMillis()
	for ; !v.isOver(); v.pauseFor(2 * l.cfg.Interval) {
		if now := l.recorder.sinceStartMillis(); now >= move {
			v.moveToOther()
			most := int64(2 * l.cfg.Timeout / movesPerTimeout)
			move = now + result.Millis(float64(v.slot.random.Int64N(most))/1e6)
		}
		key := keys[v.slot.random.IntN(len(keys))]
		if v.slot.random.IntN(syncEvery) > 0 {
			v.readKey(key.Path, 0, false)
			continue
		}
		floor := l.recorder.lastValue(key, "")
		_, err := v.sendRequest(judge.Sync, func(ctx context.Context) error { return v.client.Sync(ctx) })
		if err == nil {
			v.readKey(key.Path, floor, true)
		}
	}
}

// moveToOther makes the client leave its server for another one: a client does so when its server has left the list.
func (v *sessionLife) moveToOther() {
	var others []string
	for _, m := range v.slot.load.cfg.Servers {
		if m.Clients != v.client.Server() {
			others = append(others, m.Clients)
		}
	}
	if len(others) == 0 {
		return
	}
	_ = v.client.Ensemble().Use(strings.Join(others, ",")) // the list is valid: Dial has taken it
}
