package load

import (
	"context"
	"sync"

	"rollcall/client"
	"rollcall/lab/judge"
)

// readsPerWatch is the number of rounds after which a watcher reads a node without setting a watch, on average.
const readsPerWatch = 4

// watcher watches the shared keys in one session. Events and replies are noted on the client's goroutine, so in the
// order in which the connection delivers them.
type watcher struct {
	session *sessionLife

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
func (l *Load) startWatcher(s *clientSlot) {
	var mu sync.Mutex
	var present *watcher
	s.onEvent = func(v *sessionLife, e client.Event) {
		l.recorder.noteStep(judge.Step{
			Session: v.id, Path: e.Path, Kind: judge.Event, Zxid: int64(e.Zxid), Text: e.Type.String(),
		})
		mu.Lock()
		w := present
		mu.Unlock()
		if w != nil && w.session == v {
			w.compareAndSet(e.Path, watched, unwatched)
		}
	}
	l.startClient(s, func(v *sessionLife) {
		w := &watcher{session: v, state: map[string]watchState{}}
		mu.Lock()
		present = w
		mu.Unlock()
		w.watchUntilOver()
	})
}

// compareAndSet changes the state of a path, and reports whether it was from.
func (w *watcher) compareAndSet(path string, from, to watchState) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state[path] != from {
		return false
	}
	w.state[path] = to
	return true
}

func (w *watcher) watchUntilOver() {
	l := w.session.slot.load
	for ; !w.session.isOver(); w.session.pauseFor(2 * l.cfg.Interval) {
		for _, k := range l.sharedKeys {
			if w.compareAndSet(k.Path, unwatched, asking) {
				w.readAndWatch(k.Path)
			}
			if w.session.slot.random.IntN(readsPerWatch) == 0 {
				w.readOnce(k.Path, judge.Seen)
			}
		}
	}
	_, err := w.session.sendRequest(judge.Sync, func(ctx context.Context) error { return w.session.client.Sync(ctx) })
	for _, k := range l.sharedKeys {
		if err == nil {
			w.readOnce(k.Path, judge.Ending)
		}
	}
	// The replies come in the order of the requests, so this one comes after the others.
	_, _ = w.session.sendRequest(judge.Sync, func(ctx context.Context) error { return w.session.client.Sync(ctx) })
}

// readAndWatch sends a read that sets a watch.
func (w *watcher) readAndWatch(path string) {
	err := w.session.client.Pipeline().GetAndWatch(w.session.slot.load.final, path, func(_ []byte, stat client.Stat, err error) {
		if err != nil {
			w.compareAndSet(path, asking, unwatched)
			return
		}
		w.noteRead(judge.Armed, path, stat)
		w.compareAndSet(path, asking, watched)
	})
	if err != nil {
		w.compareAndSet(path, asking, unwatched)
	}
}

// readOnce sends a read without a watch.
func (w *watcher) readOnce(path string, kind judge.StepKind) {
	_ = w.session.client.Pipeline().Get(w.session.slot.load.final, path, func(_ []byte, stat client.Stat, err error) {
		if err == nil {
			w.noteRead(kind, path, stat)
		}
	})
}

func (w *watcher) noteRead(kind judge.StepKind, path string, stat client.Stat) {
	w.session.slot.load.recorder.noteStep(judge.Step{Session: w.session.id, Path: path, Kind: kind, Version: stat.Version})
}
