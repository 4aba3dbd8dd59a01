package judge

import "fmt"

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
	ended := 0
	events := e.walkWatches(watchVisitor{event: ignoreStep, zxid: ignoreZxids, seen: func(w *watchState, s Step) {
		if s.Kind != Ending {
			return
		}
		ended++
		if w.armed && s.Version > w.version {
			f.addViolation(s.At, fmt.Sprintf("session %s got no event of %s, which changed from version %d to %d", s.Session, s.Path,
				w.version, s.Version), w.lastSteps(e)...)
		}
	}})
	f.judged = events + ended
}
