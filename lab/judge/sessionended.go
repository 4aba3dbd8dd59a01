package judge

import (
	"fmt"
	"slices"

	"rollcall/lab/result"
)

var sessionEnded = judgeRule{
	name:    "session-ended",
	promise: "A session does not end within its timeout after a reachable member has heard from its client.",
	page:    "docs/sessions.md#when-a-silent-session-ends",
	judge:   judgeEnded,
}

// clockShare is the part of the timeout by which clocks may differ in speed, as for client.Held.
const clockShare = 10

// endedSlack covers what a client cannot know: the difference of the clocks, and whether its member's touch has
// reached the leader. That takes up to half a tick and a reply, so a tick is allowed.
func (e *Evidence) endedSlack(timeout result.Millis) result.Millis {
	return timeout/clockShare + e.tickOr(timeout)
}

// judgeEnded judges the sessions that a server said had expired. A session has ended at the latest when an observer
// saw its node go, or when its client received "expired".
//
// docs/sessions.md: "If a member dies before it has passed a touch on to the leader, the touch is lost." So what a
// member in a fault has answered does not count. A handshake does: it is answered from the log.
//
// A lost majority excuses nothing: without a leader no session ends, and a new leader gives every session a full
// timeout.
func judgeEnded(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session was open", []string{KindSessions}
	for i := range e.Sessions {
		s := &e.Sessions[i]
		f.judged++
		f.slack = max(f.slack, e.endedSlack(s.Timeout))
		if s.Ended != Expired {
			continue
		}
		end := s.EndedAt
		if s.Node != nil && s.Node.Gone > 0 {
			end = min(end, s.Node.Gone)
		}
		heard, ok := e.lastHeard(s, end)
		if !ok || heard.Sent+s.Timeout-e.endedSlack(s.Timeout) <= end {
			continue
		}
		lines := append(e.faultLines(heard.Sent-s.Timeout, end), heard.toLine(), lineAt(s.EndedAt,
			"the client is told that its session has expired"))
		if s.Node != nil && s.Node.Gone > 0 {
			lines = append(lines, lineAt(s.Node.Gone, "the observer sees that %s is gone", s.Node.Path))
		}
		f.addViolation(end,
			fmt.Sprintf("session %s of %s ended at the latest %.0f ms after a request that was answered; its timeout is %.0f ms",
				s.ID, s.Client, float64(end-heard.Sent), float64(s.Timeout)), lines...)
	}
}

// lastHeard returns the last request, sent before end, of which the other members must have heard.
func (e *Evidence) lastHeard(s *Session, end result.Millis) (last Answer, ok bool) {
	for _, a := range s.Answers {
		if a.Sent > end || ok && a.Sent <= last.Sent {
			continue // a later one is about connectedAfterExpiry
		}
		if a.Ask == Connect || !e.inFault(a.Member, a.Sent, e.tickOr(s.Timeout)) {
			last, ok = a, true
		}
	}
	return last, ok
}

// inFault reports whether the member was in a fault at a time. A fault counts from a margin before it on, in which the
// member may have passed nothing on, and until a margin after it, in which the members connect again.
func (e *Evidence) inFault(member string, t, margin result.Millis) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool {
		concerns := member == "" || len(f.Members) == 0 || slices.Contains(f.Members, member)
		return concerns && !f.Harmless && f.From-margin <= t && t <= e.endOfFault(f)+margin
	})
}
