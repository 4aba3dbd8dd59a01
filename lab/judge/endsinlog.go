package judge

import (
	"fmt"

	"rollcall/lab/result"
)

var endsInLog = judgeRule{
	name:    "ends-in-log",
	promise: "A session that its client was told is expired or closed has ended in the log. None expires before the leader has not heard from it for its timeout.",
	page:    "docs/sessions.md#how-a-session-ended",
	judge:   judgeEndsInLog,
}

// endRounding is the error of two times that members round to milliseconds.
const endRounding = result.Millis(1)

// judgeEndsInLog judges the ends that clients know by those in the log, and the silence before each expiry. The
// silence is that of the leader's own table, whose time stands still while the leader is paused, so it needs no slack
// for clocks. A missing end is no violation if a queried member has forgotten some.
func judgeEndsInLog(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session ended", []string{KindSessions}
	all := e.answeringMembers(f)
	forgotten := uint64(0)
	for _, t := range all {
		forgotten = max(forgotten, t.Forgotten)
	}
	_, from := firstEnds(all)
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Ended != Expired && s.Ended != Closed || len(all) == 0 || forgotten > 0 && from[s.ID] == nil {
			continue
		}
		f.judged++
		if from[s.ID] == nil {
			f.addViolation(s.EndedAt, fmt.Sprintf("no member has the end of session %s of %s", s.ID, s.Client),
				lineAt(s.EndedAt, "the client knows that its session is %s", s.Ended), lineAt(e.End, "%d members were asked", len(all)))
		}
	}
	for _, t := range all {
		for _, d := range t.Ends {
			if d.Reason != "expired" || from[d.Session] != t {
				continue // not by a timeout, or judged already
			}
			f.judged++
			if d.Silent+endRounding < d.Timeout {
				f.addViolation(e.End, fmt.Sprintf("session %s expired %.0f ms after the leader had heard from it; its timeout is %.0f ms",
					d.Session, float64(d.Silent), float64(d.Timeout)), e.sessionLines(d.Session, t.lineOfEnd(e, d))...)
			}
		}
	}
	if forgotten > 0 {
		f.reason = joinSentences(f.reason, fmt.Sprintf("members have forgotten %d ends", forgotten))
	}
}

// sessionLines returns the known facts about a session's end, as lines of history after those given.
func (e *Evidence) sessionLines(id string, lines ...historyLine) []historyLine {
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.ID != id {
			continue
		}
		lines = append(lines, lineAt(s.Opened, "%s opens session %s with a timeout of %.0f ms", s.Client, s.ID, float64(s.Timeout)))
		if n := len(s.Answers); n > 0 {
			lines = append(lines, s.Answers[n-1].toLine())
		}
		if s.Ended != Lives {
			lines = append(lines, lineAt(s.EndedAt, "the session is %s, by its client", s.Ended))
		}
		return lines
	}
	return append(lines, lineAt(0, "session %s is not one of the drill's clients", id))
}
