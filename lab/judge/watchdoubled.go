package judge

import "fmt"

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
	f.judged = e.walkWatches(watchVisitor{seen: ignoreStep, zxid: ignoreZxids, event: func(w *watchState, s Step) {
		if !w.armed {
			f.addViolation(s.At, fmt.Sprintf("session %s got an event of %s without a watch", s.Session, s.Path), w.lastSteps(e)...)
		}
	}})
}
