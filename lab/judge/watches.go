package judge

import (
	"fmt"
	"iter"
)

var watchLost = judgeRule{
	name:    "watch-lost",
	promise: "A change of a watched node is reported by an event.",
	page:    "docs/recipes/watch.md#guarantees",
	judge:   judgeWatchLost,
}

// judgeWatchLost judges the watches that are set at the end: the session reads the node again after a sync. If the
// node has changed, the event must have come before that reply. Watches whose session has ended are not judged.
func judgeWatchLost(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no watch was set", []string{KindWatches}
	for w, s := range e.watchSteps() {
		if s.Kind == Event || s.Kind == Ending {
			f.judged++
		}
		if s.Kind == Ending && w.armed && s.Version > w.version {
			f.addViolation(s.At, fmt.Sprintf("session %s got no event of %s, which changed from version %d to %d", s.Session, s.Path,
				w.version, s.Version), w.lastSteps(e)...)
		}
	}
}

var watchDoubled = judgeRule{
	name:    "watch-doubled",
	promise: "A watch that fires once sends one event.",
	page:    "docs/recipes/watch.md#watches-that-fire-once",
	judge:   judgeWatchDoubled,
}

// judgeWatchDoubled judges all events: each must have a watch that was set before, and that has sent none yet.
// A lost connection excuses nothing, because a client sets only those watches again whose event has not come.
func judgeWatchDoubled(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no event came", []string{KindWatches}
	for w, s := range e.watchSteps() {
		if s.Kind != Event {
			continue
		}
		f.judged++
		if !w.armed {
			f.addViolation(s.At, fmt.Sprintf("session %s got an event of %s without a watch", s.Session, s.Path), w.lastSteps(e)...)
		}
	}
}

var watchOrder = judgeRule{
	name:    "watch-order",
	promise: "An event comes before its session reads the newer data, and events come in the order of their transactions.",
	page:    "docs/recipes/watch.md#guarantees",
	judge:   judgeWatchOrder,
}

// judgeWatchOrder judges all events, and all reads while a watch is set. ZooKeeper before 3.9 sends no transaction
// with an event, so the order of two events is judged on newer servers alone. No fault excuses anything.
func judgeWatchOrder(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no event came, and no node was read while it was watched", []string{KindWatches}
	for w, s := range e.watchSteps() {
		switch {
		case s.Kind == Event:
			f.judged++
			if last := w.lastEvent; last != nil && s.Zxid >= 0 && s.Zxid < last.Zxid {
				f.addViolation(s.At, fmt.Sprintf("session %s got the event of transaction 0x%x after that of 0x%x", s.Session, s.Zxid,
					last.Zxid), last.toLine(), s.toLine())
			}
		case s.Kind != Armed && w.armed:
			f.judged++
			if w.newer == nil && s.Kind == Seen && s.Version > w.version {
				f.addViolation(s.At,
					fmt.Sprintf("session %s read version %d of %s before the event came; the watch was set at version %d",
						s.Session, s.Version, s.Path, w.version), w.lastSteps(e)...)
			}
		}
	}
}

// watchState is the state of a session's watch on one node, before a step.
type watchState struct {
	armed     bool
	version   int32 // that the read showed which set the watch
	steps     []Step
	newer     *Step // an answer with newer data, while no event has come
	lastEvent *Step // of the session, on any node, with a transaction
}

// maxWatchLines limits the steps that a violation shows.
const maxWatchLines = 6

// watchSteps yields the steps of all watches, each with the state before it takes effect.
//
// A watch is set when its read is answered: a server sends the reply before the event, and a read whose reply is lost
// leaves no watch, because its connection is gone. A set watch stays over a lost connection: the client sets it again
// before its next request, and the server sends what it missed.
func (e *Evidence) watchSteps() iter.Seq2[*watchState, Step] {
	return func(yield func(*watchState, Step) bool) {
		for _, steps := range groupBy(e.Watches, func(s Step) string { return s.Session }) {
			watches := map[string]*watchState{}
			var last *Step
			for i := range steps {
				s := &steps[i]
				w := watches[s.Path]
				if w == nil {
					w = &watchState{}
					watches[s.Path] = w
				}
				w.lastEvent, w.steps = last, append(w.steps[max(0, len(w.steps)-maxWatchLines):], *s)
				if !yield(w, *s) {
					return
				}
				w.takeEffect(s)
				if s.Kind == Event && s.Zxid >= 0 {
					last = s
				}
			}
		}
	}
}

// takeEffect changes the state by a step.
func (w *watchState) takeEffect(s *Step) {
	switch s.Kind {
	case Armed:
		w.armed, w.version, w.newer = true, s.Version, nil
	case Event:
		w.armed, w.newer = false, nil
	case Seen, Ending:
		if w.armed && w.newer == nil && s.Version > w.version {
			w.newer = s
		}
	}
}

// lastSteps returns the last steps of a watch.
func (w *watchState) lastSteps(e *Evidence) (lines []historyLine) {
	for _, s := range w.steps {
		lines = append(lines, s.toLine())
	}
	return append(lines, e.faultLines(w.steps[0].At, w.steps[len(w.steps)-1].At)...)
}

func (s Step) toLine() historyLine {
	switch s.Kind {
	case Armed:
		return lineAt(s.At, "session %s reads %s and sets a watch: version %d", s.Session, s.Path, s.Version)
	case Event:
		return lineAt(s.At, "session %s gets the event of %s: %s, transaction 0x%x", s.Session, s.Path, s.Text, s.Zxid)
	default:
		return lineAt(s.At, "session %s reads %s: version %d", s.Session, s.Path, s.Version)
	}
}
