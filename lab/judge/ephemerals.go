package judge

import (
	"fmt"

	"rollcall/lab/result"
)

var ephemeralVanished = judgeRule{
	name:    "ephemeral-vanished",
	promise: "While a session lives, its ephemeral nodes exist.",
	page:    "docs/sessions.md#sessions-explained",
	judge:   judgeVanished,
}

// judgeVanished judges the nodes of sessions by what their owners and an observer saw. No other client deletes
// them. It allows nothing: a write in a session that lives must find the session's node, whatever happens to
// members.
func judgeVanished(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session had an ephemeral node", []string{KindSessions}
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Node == nil {
			continue
		}
		f.judged++
		lines := []historyLine{lineAt(s.Node.Created, "session %s has created %s", s.ID, s.Node.Path)}
		switch {
		case s.Node.Missing > 0:
			lines = append(lines, lineAt(s.Node.Missing, "a write of session %s to it is answered: no node", s.ID))
			f.addViolation(s.Node.Missing, fmt.Sprintf("%s is gone although session %s of %s lives", s.Node.Path, s.ID, s.Client),
				lines...)
		case s.Node.Gone > 0 && s.isConfirmedAfter(s.Node.Gone):
			lines = append(lines, lineAt(s.Node.Gone, "the observer sees that it is gone"))
			for _, a := range s.Answers {
				if a.Sent > s.Node.Gone && (a.Ask == Connect || a.Ask == Write) {
					lines = append(lines, a.toLine())
					break
				}
			}
			f.addViolation(s.Node.Gone, fmt.Sprintf("%s is gone although session %s of %s lived on", s.Node.Path, s.ID, s.Client),
				append(lines, e.faultLines(s.Node.Gone, s.Node.Gone)...)...)
		}
	}
}

var ephemeralStayed = judgeRule{
	name:    "ephemeral-stayed",
	promise: "When a session has ended, its ephemeral nodes are gone.",
	page:    "docs/sessions.md#closing",
	judge:   judgeEphemeralStayed,
}

// sweepTime is the time that sweeps may take: 100,000 nodes take 0.7 s, and other requests take turns with them.
// docs/sessions.md: one entry removes 1,000 ephemeral nodes; those of further sessions that end with it go in steps.
const sweepTime = result.Millis(2000)

// judgeEphemeralStayed judges the sessions whose client knows of their end: by the reply to its close, or by a
// server's "expired". A list after a sync must not show their nodes.
func judgeEphemeralStayed(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session with an ephemeral node was closed or expired", []string{KindSessions}
	f.slack = sweepTime
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Node == nil || s.Ended != Closed && s.Ended != Expired {
			continue
		}
		f.judged++
		if s.Node.Existed <= s.EndedAt+f.slack {
			continue
		}
		f.addViolation(s.Node.Existed, fmt.Sprintf("%s exists %.0f ms after its session %s of %s has ended",
			s.Node.Path, float64(s.Node.Existed-s.EndedAt), s.ID, s.Client),
			append(e.faultLines(s.EndedAt, s.Node.Existed),
				lineAt(s.EndedAt, "the client knows that session %s is %s", s.ID, s.Ended),
				lineAt(s.Node.Existed, "a list after a sync still shows %s", s.Node.Path))...)
	}
}
