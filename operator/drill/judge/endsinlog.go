package judge

import (
	"fmt"

	"rollcall/operator/drill/result"
)

var endsInLog = rule{
	name:    "ends-in-log",
	promise: "A session that its client was told is expired or closed has ended in the log. None expires before the leader has not heard from it for its timeout.",
	page:    "docs/sessions.md#how-a-session-ended",
	judge:   judgeEndsInLog,
}

// endRounding is the error of two times that members round to milliseconds.
const endRounding = result.Millis(1)

// judgeEndsInLog judges the ends that clients know by those in the log, and the silence before each expiry. The
// silence is that of the leader's own table, whose time stands still while the leader is paused, so it needs no slack
// for clocks. No end is looked for if a member that was asked has forgotten some.
func judgeEndsInLog(e *Evidence, _ Limits, f *finding) {
	f.none, f.kinds = "no session ended", []string{KindSessions}
	all := e.testifying(f)
	forgotten := uint64(0)
	for _, t := range all {
		forgotten = max(forgotten, t.Forgotten)
	}
	_, from := ends(all)
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Ended != Expired && s.Ended != Closed || len(all) == 0 || forgotten > 0 && from[s.ID] == nil {
			continue
		}
		f.judged++
		if from[s.ID] == nil {
			f.broken(s.EndedAt, fmt.Sprintf("no member has the end of session %s of %s", s.ID, s.Client),
				at(s.EndedAt, "the client knows that its session is %s", s.Ended), at(e.End, "%d members were asked", len(all)))
		}
	}
	for _, t := range all {
		for _, d := range t.Ends {
			if d.Reason != "expired" || from[d.Session] != t {
				continue // not by a timeout, or judged already
			}
			f.judged++
			if d.Silent+endRounding < d.Timeout {
				f.broken(e.End, fmt.Sprintf("session %s expired %.0f ms after the leader had heard from it; its timeout is %.0f ms",
					d.Session, float64(d.Silent), float64(d.Timeout)), e.life(d.Session, t.line(e, d))...)
			}
		}
	}
	if forgotten > 0 {
		f.reason = join(f.reason, fmt.Sprintf("members have forgotten %d ends", forgotten))
	}
}

// life returns the known facts about a session's end, as lines of history after those given.
func (e *Evidence) life(id string, lines ...line) []line {
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.ID != id {
			continue
		}
		lines = append(lines, at(s.Opened, "%s opens session %s with a timeout of %.0f ms", s.Client, s.ID, float64(s.Timeout)))
		if n := len(s.Answers); n > 0 {
			lines = append(lines, s.Answers[n-1].line())
		}
		if s.Ended != Lives {
			lines = append(lines, at(s.EndedAt, "the session is %s, by its client", s.Ended))
		}
		return lines
	}
	return append(lines, at(0, "session %s is not one of the drill's clients", id))
}
