package judge

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall/operator/drill/result"
)

var sessionStayed = rule{
	name:    "session-stayed",
	promise: "A session whose client is silent ends after its timeout and at most two ticks, while there is a leader.",
	page:    "docs/sessions.md#when-a-silent-session-ends",
	judge:   judgeStayed,
}

// commitTime is what a busy ensemble may need on top for the entry of the log and for the observer's requests. 5,000
// sessions that expire at once took 1.4 s.
const commitTime = result.Millis(2000)

// stayedSlack is two ticks, which a member out of reach costs, the difference of the clocks, and the time of a commit.
func (e *Evidence) stayedSlack(timeout result.Millis) result.Millis {
	return 2*e.tick(timeout) + timeout/clockShare + commitTime
}

// judgeStayed judges the sessions whose clients sent nothing more, by their nodes, which an observer lists after a
// sync.
func judgeStayed(e *Evidence, _ Limits, f *finding) {
	f.none, f.kinds = "no client with an ephemeral node was silent for longer than its session's timeout",
		[]string{KindSessions}
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Ended != Abandoned || s.Node == nil {
			continue
		}
		due := e.due(s)
		if due > e.End && s.Node.Gone == 0 {
			continue // the recording ended too soon
		}
		f.judged++
		f.slack = max(f.slack, e.stayedSlack(s.Timeout))
		if s.Node.Existed <= due {
			continue
		}
		lines := append(e.around(s.EndedAt, s.Node.Existed),
			at(s.EndedAt, "the client of session %s sends nothing more", s.ID),
			at(due, "the session should have ended"),
			at(s.Node.Existed, "a list after a sync still shows %s", s.Node.Path))
		f.broken(s.Node.Existed,
			fmt.Sprintf("session %s of %s lived %.0f ms after its client's last sign of life; its timeout is %.0f ms",
				s.ID, s.Client, float64(s.Node.Existed-s.EndedAt), float64(s.Timeout)), lines...)
	}
}

// due returns the time at which a silent session must have ended.
//
// docs/sessions.md: a new leader gives every session a full T, and "while there is no majority, no session is closed". So
// the time begins again with each leader, and a time without an answered write is added to it.
func (e *Evidence) due(s *Session) result.Millis {
	wait := s.Timeout + e.stayedSlack(s.Timeout)
	due := s.EndedAt + wait
	for _, d := range e.delays() {
		if d.From > due || d.To < s.EndedAt {
			continue
		}
		if d.beginsAgain {
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
			until = max(until, e.due(s))
		}
	}
	return until
}

// delay is a time in which silent sessions do not end.
type delay struct {
	result.Interval
	beginsAgain bool // after it, every session has a full timeout
}

// delays returns the times without an answered write, and those in which another leader began, in the order of their
// beginnings. If it is not known when leaders began, each pause of writes and both edges of each fault may be such a time.
func (e *Evidence) delays() (all []delay) {
	changes, known := e.leaderChanges()
	for _, g := range e.Gaps {
		if g.Member != "" || g.Kind != string(Write) {
			continue
		}
		for _, p := range g.Pauses {
			all = append(all, delay{p, !known})
		}
	}
	for _, c := range changes {
		all = append(all, delay{c, true})
	}
	if !known {
		for _, f := range e.Faults {
			all = append(all, delay{result.Interval{From: f.From, To: f.From}, true}, delay{result.Interval{From: e.to(f), To: e.to(f)}, true})
		}
	}
	slices.SortFunc(all, func(a, b delay) int { return cmp.Compare(a.From, b.From) })
	return all
}
