package load

import (
	"context"
	"sync"

	"rollcall/client"
	"rollcall/operator/drill/judge"
)

// looksPerWatch is the number of rounds after which a watcher reads a node without setting a watch, on average.
const looksPerWatch = 4

// watcher watches the shared keys in one session. Events and replies are noted on the client's goroutine, so in the
// order in which the connection delivers them.
type watcher struct {
	v *life

	mu    sync.Mutex
	state map[string]watchState
}

type watchState int

const (
	unwatched watchState = iota
	asking               // a read that sets a watch has no reply yet
	watched
)

// startWatcher starts a client that sets a watch on each shared key again after each event.
func (l *Load) startWatcher(s *seat) {
	var mu sync.Mutex
	var present *watcher
	s.events = func(v *life, e client.Event) {
		l.rec.step(judge.Step{
			Session: v.id, Path: e.Path, Kind: judge.Event, Zxid: int64(e.Zxid), Text: e.Type.String(),
		})
		mu.Lock()
		w := present
		mu.Unlock()
		if w != nil && w.v == v {
			w.set(e.Path, watched, unwatched)
		}
	}
	l.start(s, func(v *life) {
		w := &watcher{v: v, state: map[string]watchState{}}
		mu.Lock()
		present = w
		mu.Unlock()
		w.work()
	})
}

// set changes the state of a path, and reports whether it was from.
func (w *watcher) set(path string, from, to watchState) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state[path] != from {
		return false
	}
	w.state[path] = to
	return true
}

func (w *watcher) work() {
	l := w.v.seat.l
	for ; !w.v.over(); w.v.pause(2 * l.cfg.Interval) {
		for _, k := range l.shared {
			if w.set(k.Path, unwatched, asking) {
				w.watch(k.Path)
			}
			if w.v.seat.random.IntN(looksPerWatch) == 0 {
				w.look(k.Path, judge.Seen)
			}
		}
	}
	_, err := w.v.call(judge.Sync, func(ctx context.Context) error { return w.v.c.Sync(ctx) })
	for _, k := range l.shared {
		if err == nil {
			w.look(k.Path, judge.Ending)
		}
	}
	// The replies come in the order of the requests, so this one comes after the others.
	_, _ = w.v.call(judge.Sync, func(ctx context.Context) error { return w.v.c.Sync(ctx) })
}

// watch sends a read that sets a watch.
func (w *watcher) watch(path string) {
	err := w.v.c.Pipeline().GetAndWatch(w.v.seat.l.final, path, func(_ []byte, stat client.Stat, err error) {
		if err != nil {
			w.set(path, asking, unwatched)
			return
		}
		w.note(judge.Armed, path, stat)
		w.set(path, asking, watched)
	})
	if err != nil {
		w.set(path, asking, unwatched)
	}
}

// look sends a read without a watch.
func (w *watcher) look(path string, kind judge.StepKind) {
	_ = w.v.c.Pipeline().Get(w.v.seat.l.final, path, func(_ []byte, stat client.Stat, err error) {
		if err == nil {
			w.note(kind, path, stat)
		}
	})
}

func (w *watcher) note(kind judge.StepKind, path string, stat client.Stat) {
	w.v.seat.l.rec.step(judge.Step{Session: w.v.id, Path: path, Kind: kind, Version: stat.Version})
}
