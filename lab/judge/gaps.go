package judge

import (
	"fmt"
	"slices"

	"rollcall/lab/result"
)

var gapsRule = judgeRule{
	name:    "gaps",
	promise: "Clients that may use any member have answers again within a session timeout and two ticks, or within --max-pause. The time in which a drill stops a majority does not count.",
	page:    "docs/drills.md#the-longest-pause",
	judge:   judgeGaps,
}

// judgeGaps judges the times without an answer. Those of clients that are pinned to a member are measured only. What the
// drill's own process stood still does not count: it could neither send nor hear.
func judgeGaps(e *Evidence, l Limits, f *findings) {
	f.nothingJudged = "no client that may use any member had an answer"
	allowed, limit := e.allowedGap(l)
	for _, g := range e.Gaps {
		if g.Member != "" || g.Answered == 0 {
			continue
		}
		f.judged += g.Answered
		longest, length := e.longestCounted(g)
		if length > allowed {
			f.addViolation(longest.From, fmt.Sprintf("no %s was answered for %.3f s, and %s, are allowed", g.Kind, float64(length)/1000, limit),
				append(e.faultLines(longest.From-result.PauseAfter, longest.To),
					lineAt(longest.From, "the last %s before is answered", g.Kind), lineAt(longest.To, "the next %s is answered",
						g.Kind))...)
		}
	}
	f.reason = "at most " + limit + ", are allowed"
	for _, w := range e.stoppedWindows() {
		f.reason = joinSentences(f.reason, fmt.Sprintf("%.3f s from %s on are not counted: %s", float64(w.To-w.From)/1000, formatTime(w.From), w.Text))
	}
	if still := e.stoodStill(result.Interval{To: e.End}); still > 0 {
		f.reason = joinSentences(f.reason, fmt.Sprintf("the drill itself stood still for %.3f s, which are not counted", float64(still)/1000))
	}
}

// allowedGap returns the longest time without an answer that is allowed, and as a text, what it is.
//
// The usual one is as long as a silent session may live. A client that has heard nothing for so long has lost its locks, so
// users call a longer pause an outage. There is room for a client that first leaves a silent member, after two thirds of
// its timeout, and for an election.
func (e *Evidence) allowedGap(l Limits) (allowed result.Millis, text string) {
	if l.Gap > 0 {
		return l.Gap, fmt.Sprintf("%.3f s, the limit that was asked for", float64(l.Gap)/1000)
	}
	var timeout result.Millis
	for i := range e.Sessions {
		timeout = max(timeout, e.Sessions[i].Timeout)
	}
	allowed = timeout + 2*e.tickOr(timeout)
	return allowed, fmt.Sprintf("%.3f s, a session timeout and two ticks", float64(allowed)/1000)
}

// stoppedWindows returns the times in which the drill kept a majority from working, in order.
func (e *Evidence) stoppedWindows() []Window {
	return append(e.windowsOfKind(Stopped), e.windowsOfKind(Moved)...)
}

// longestCounted returns the longest time without an answer, and its length without the times that do not count.
func (e *Evidence) longestCounted(g result.Gap) (longest result.Interval, length result.Millis) {
	for _, i := range append([]result.Interval{g.Longest}, g.Pauses...) {
		if l := e.countedLength(i); l > length {
			longest, length = i, l
		}
	}
	return longest, length
}

// countedLength returns the length of an interval without the times in which the drill kept a majority from working, and without
// those in which it stood still.
func (e *Evidence) countedLength(i result.Interval) (sum result.Millis) {
	parts := []result.Interval{i}
	for _, w := range e.stoppedWindows() {
		last := parts[len(parts)-1]
		parts = append(parts[:len(parts)-1],
			result.Interval{From: last.From, To: min(last.To, w.From)}, result.Interval{From: max(last.From, w.To), To: last.To})
	}
	for _, p := range slices.DeleteFunc(parts, func(p result.Interval) bool { return p.To <= p.From }) {
		sum += p.To - p.From - e.stoodStill(p)
	}
	return sum
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
