package judge

// watchState is the state of a session's watch on one node, while its steps are gone through.
type watchState struct {
	armed   bool
	version int32 // that the read showed which set the watch
	steps   []Step
	newer   *Step // an answer with newer data, while no event has come
}

// maxWatchLines limits the steps that a violation shows.
const maxWatchLines = 6

// watchVisitor has the functions that a rule of watches gives to walkWatches.
type watchVisitor struct {
	event func(w *watchState, s Step) // before the event takes effect
	seen  func(w *watchState, s Step) // before the answer takes effect
	zxid  func(before, now Step)      // two events of one session, both with a transaction
}

// walkWatches goes through the steps of all watches and returns the number of events.
//
// A watch is set when its read is answered: a server sends the reply before the event, and a read whose reply is lost
// leaves no watch, because its connection is gone. A set watch stays over a lost connection: the client sets it again
// before its next request, and the server sends what it missed.
func (e *Evidence) walkWatches(p watchVisitor) (events int) {
	for _, steps := range bySession(e.Watches, func(s Step) string { return s.Session }) {
		watches := map[string]*watchState{}
		var last *Step
		for i, s := range steps {
			w := watches[s.Path]
			if w == nil {
				w = &watchState{}
				watches[s.Path] = w
			}
			w.steps = append(w.steps[max(0, len(w.steps)-maxWatchLines):], s)
			switch s.Kind {
			case Armed:
				w.armed, w.version, w.newer = true, s.Version, nil
			case Event:
				events++
				p.event(w, s)
				if last != nil && s.Zxid >= 0 {
					p.zxid(*last, s)
				}
				if s.Zxid >= 0 {
					last = &steps[i]
				}
				w.armed, w.newer = false, nil
			case Seen, Ending:
				p.seen(w, s)
				if w.armed && w.newer == nil && s.Version > w.version {
					w.newer = &steps[i]
				}
			}
		}
	}
	return events
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

// ignoreStep is for a part that a rule does not need.
var (
	ignoreStep  = func(*watchState, Step) {}
	ignoreZxids = func(Step, Step) {}
)
