package judge

import (
	"fmt"
	"slices"

	"rollcall/lab/result"
)

var connectedAfterExpiry = judgeRule{
	name:    "connected-after-expiry",
	promise: "No member answers a client whose session the others may have ended.",
	page:    "docs/sessions.md#who-may-be-told-that-a-session-lives",
	judge:   judgeAfterExpiry,
}

// judgeAfterExpiry judges the sessions that ended and whose node an observer saw go: a request that was sent after
// that must not be answered. It needs no slack, because the node was gone before the request was sent.
//
// A client shows "connected" until its connection ends or was silent for two thirds of the timeout. That is measured
// and reported, and not judged, because no client can detect it sooner over a connection that carries nothing.
func judgeAfterExpiry(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session ended whose ephemeral node was observed", []string{KindSessions}
	longest := result.Millis(0)
	for i := range e.Sessions {
		s := &e.Sessions[i]
		if s.Ended != Expired || s.Node == nil || s.Node.Gone == 0 || s.isConfirmedAfter(s.Node.Gone) {
			continue // with isConfirmedAfter it is about ephemeralVanished
		}
		f.judged++
		longest = max(longest, s.connectedAfter(s.Node.Gone))
		var last Answer
		answered := 0
		for _, a := range s.Answers {
			if a.Sent > s.Node.Gone {
				answered++
				if a.Sent > last.Sent {
					last = a
				}
			}
		}
		if answered == 0 {
			continue
		}
		lines := append(e.faultLines(s.Node.Gone-s.Timeout, s.EndedAt),
			lineAt(s.Node.Gone, "the observer sees that %s is gone", s.Node.Path), last.toLine(),
			lineAt(s.EndedAt, "the client is told that its session has expired"))
		f.addViolation(s.Node.Gone, fmt.Sprintf("session %s of %s was answered for %.3f s after others saw its end",
			s.ID, s.Client, float64(last.Sent-s.Node.Gone)/1000), lines...)
	}
	if longest > 0 {
		f.reason = fmt.Sprintf("a client showed that it was connected for up to %.3f s after the end of its session",
			float64(longest)/1000)
	}
}

// isConfirmedAfter reports whether the log confirmed after t that the session lived: by a handshake, or by a write that it
// took.
func (s *Session) isConfirmedAfter(t result.Millis) bool {
	return slices.ContainsFunc(s.Answers, func(a Answer) bool { return a.Sent > t && (a.Ask == Connect || a.Ask == Write) })
}

// connectedAfter returns for how long the client showed after t that it was connected, without the times in which the
// load had paused it.
func (s *Session) connectedAfter(t result.Millis) (sum result.Millis) {
	for i, state := range s.States {
		to := s.EndedAt
		if i+1 < len(s.States) {
			to = s.States[i+1].At
		}
		if from := max(state.At, t); state.On && to > from {
			sum += to - from
			for _, p := range s.Paused {
				sum -= max(0, min(to, p.To)-max(from, p.From))
			}
		}
	}
	return max(0, sum)
}
