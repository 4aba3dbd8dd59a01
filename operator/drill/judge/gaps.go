package judge

import (
	"fmt"

	"rollcall/operator/drill/result"
)

var gaps = rule{
	name:    "gaps",
	promise: "Clients that may use any member have answers again within the limit that was asked for.",
	page:    "docs/sessions.md#change-of-leader",
	judge:   judgeGaps,
}

// judgeGaps judges the times without an answer, if the user has set a limit. The docs promise none in seconds: it
// depends on the heartbeat timeout and on the machines. Those of clients that are pinned to a member are measured
// only. What the drill's own process stood still does not count: it could neither send nor hear.
func judgeGaps(e *Evidence, l Limits, f *finding) {
	if l.Gap == 0 {
		f.none = "gaps are measured and not judged, because no limit was given"
		return
	}
	f.none = "no client that may use any member had an answer"
	for _, g := range e.Gaps {
		if g.Member != "" || g.Answered == 0 {
			continue
		}
		f.judged += g.Answered
		longest, length := e.longest(g)
		if length > l.Gap {
			f.broken(longest.From, fmt.Sprintf("no %s was answered for %.3f s, and %.3f s are allowed", g.Kind,
				float64(length)/1000, float64(l.Gap)/1000),
				append(e.around(longest.From-result.PauseAfter, longest.To),
					at(longest.From, "the last %s before is answered", g.Kind), at(longest.To, "the next %s is answered",
						g.Kind))...)
		}
	}
	if still := e.stoodStill(result.Interval{To: e.End}); still > 0 {
		f.reason = fmt.Sprintf("the drill itself stood still for %.3f s, which are not counted", float64(still)/1000)
	}
}

// longest returns the longest time without an answer, and its length without the time in which the drill stood still.
func (e *Evidence) longest(g result.Gap) (longest result.Interval, length result.Millis) {
	for _, i := range append([]result.Interval{g.Longest}, g.Pauses...) {
		if l := i.To - i.From - e.stoodStill(i); l > length {
			longest, length = i, l
		}
	}
	return longest, length
}

// stillAfter is a time between two samples of Evidence.Counts that shows that the drill stood still, since its machine
// was suspended or did not give it time. A sample is taken four times in each second.
const stillAfter = result.Millis(750)

// stoodStill returns for how long the drill's own process stood still in an interval.
func (e *Evidence) stoodStill(in result.Interval) (sum result.Millis) {
	for i := range e.Counts[:max(0, len(e.Counts)-1)] {
		from, to := e.Counts[i].At, e.Counts[i+1].At
		if to-from > stillAfter {
			sum += max(0, min(to, in.To)-max(from, in.From))
		}
	}
	return sum
}
