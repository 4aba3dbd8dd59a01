package judge

import "fmt"

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
	reads := 0
	events := e.walkWatches(watchVisitor{
		event: ignoreStep,
		zxid: func(before, now Step) {
			if now.Zxid < before.Zxid {
				f.addViolation(now.At, fmt.Sprintf("session %s got the event of transaction 0x%x after that of 0x%x", now.Session,
					now.Zxid, before.Zxid),
					before.toLine(), now.toLine())
			}
		},
		seen: func(w *watchState, s Step) {
			if !w.armed {
				return
			}
			reads++
			if w.newer == nil && s.Kind == Seen && s.Version > w.version {
				f.addViolation(s.At,
					fmt.Sprintf("session %s read version %d of %s before the event came; the watch was set at version %d",
						s.Session, s.Version, s.Path, w.version), w.lastSteps(e)...)
			}
		},
	})
	f.judged = events + reads
}
