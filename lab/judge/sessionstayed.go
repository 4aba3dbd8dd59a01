package judge

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall/lab/result"
)

var sessionStayed = judgeRule{
	name:    "session-stayed",
	promise: "A session whose client is silent ends after its timeout and at most two ticks, while there is a leader.",
	page:    "docs/sessions.md#when-a-silent-session-ends",
	judge:   judgeStayed,
}

// commitAllowance is the extra time that a busy ensemble may need for the entry of the log and for the observer's
// requests. 5,000 sessions that expire at once took 1.4 s.
const commitAllowance = result.Millis(2000)

// stayedSlack is two ticks, which a member out of reach costs, the difference of the clocks, and the time of a commit.
func (e *Evidence) stayedSlack(timeout result.Millis) result.Millis {
	return 2*e.tickOr(timeout) + timeout/clockShare + commitAllowance
}

// judgeStayed judges the sessions whose clients sent nothing more, by their nodes, which an observer lists after a
// sync.
func judgeStayed(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no client with an ephemeral node was silent for longer than its session's timeout",
		[]string{KindSessions}
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Ended != Abandoned || s.Node == nil {
			continue
		}
		due := e.dueTime(s)
		if due > e.End && s.Node.Gone == 0 {
			continue // the recording ended too soon
		}
		f.judged++
		f.slack = max(f.slack, e.stayedSlack(s.Timeout))
		if s.Node.Existed <= due {
			continue
		}
		lines := append(e.faultLines(s.EndedAt, s.Node.Existed),
			lineAt(s.EndedAt, "the client of session %s sends nothing more", s.ID),
			lineAt(due, "the session should have ended"),
			lineAt(s.Node.Existed, "a list after a sync still shows %s", s.Node.Path))
		f.addViolation(s.Node.Existed,
			fmt.Sprintf("session %s of %s lived %.0f ms after its client's last sign of life; its timeout is %.0f ms",
				s.ID, s.Client, float64(s.Node.Existed-s.EndedAt), float64(s.Timeout)), lines...)
	}
}

// dueTime returns the time at which a silent session must have ended.
//
// docs/sessions.md: a new leader gives every session a full T, and "while there is no majority, no session is closed". So
// the time begins again with each leader, and a time without an answered write is added to it.
func (e *Evidence) dueTime(s *Session) result.Millis {
	wait := s.Timeout + e.stayedSlack(s.Timeout)
	due := s.EndedAt + wait
	for _, d := range e.expiryDelays() {
		if d.From > due || d.To < s.EndedAt {
			continue
		}
		if d.restartsTimeout {
			due = max(due, d.To+wait)
		} else {
			due += d.To - max(d.From, s.EndedAt)
		}
	}
	return due
}

// StayedUntil returns the time until which silent sessions may live. A recording that ends before it judges less.
func (e *Evidence) StayedUntil() (until result.Millis) {
	for i := range e.Sessions {
		if s := &e.Sessions[i]; s.Ended == Abandoned && s.Node != nil {
			until = max(until, e.dueTime(s))
		}
	}
	return until
}

// expiryDelay is a time in which silent sessions do not end.
type expiryDelay struct {
	result.Interval
	restartsTimeout bool // after it, every session has a full timeout
}

// expiryDelays returns the times without an answered write, and those in which another leader began, in the order of their
// beginnings. If it is not known when leaders began, each pause of writes and both edges of each fault may be such a time.
func (e *Evidence) expiryDelays() (all []expiryDelay) {
	changes, known := e.leaderChanges()
	for _, g := range e.Gaps {
		if g.Member != "" || g.Kind != string(Write) {
			continue
		}
		for _, p := range g.Pauses {
			all = append(all, expiryDelay{p, !known})
		}
	}
	for _, c := range changes {
		all = append(all, expiryDelay{c, true})
	}
	if !known {
		for _, f := range e.Faults {
			all = append(all, expiryDelay{result.Interval{From: f.From, To: f.From}, true}, expiryDelay{result.Interval{From: e.endOfFault(f), To: e.endOfFault(f)}, true})
		}
	}
	slices.SortFunc(all, func(a, b expiryDelay) int { return cmp.Compare(a.From, b.From) })
	return all
}
