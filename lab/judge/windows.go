package judge

import (
	"fmt"
	"slices"
)

var staysConnected = judgeRule{
	name:    "stays-connected",
	promise: "While a secret or certificates are rotated, clients stay connected.",
	page:    "docs/security.md#rotate-the-secret",
	judge:   judgeConnected,
	applies: func(e *Evidence) bool { return len(e.windowsOfKind(Calm)) > 0 },
}

var sessionsMoved = judgeRule{
	name:    "sessions-moved",
	promise: "No client loses its session in the move, if it comes back within its timeout.",
	page:    "docs/moving-in.md#the-move",
	judge:   judgeMoved,
	applies: func(e *Evidence) bool { return len(e.windowsOfKind(Moved)) > 0 },
}

func (e *Evidence) windowsOfKind(kind WindowKind) []Window {
	return slices.DeleteFunc(slices.Clone(e.Windows), func(w Window) bool { return w.Kind != kind })
}

// judgeConnected judges the connections that were open when a window began. A client that leaves members by itself is
// left out.
func judgeConnected(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no client was connected", []string{KindSessions}
	for _, w := range e.windowsOfKind(Calm) {
		for i := range e.Sessions {
			s := &e.Sessions[i]
			if s.Moves || !s.isOpenAt(w) {
				continue
			}
			f.judged++
			for _, state := range s.States {
				if state.Name == suspended && state.At > w.From && state.At <= w.To {
					f.addViolation(state.At, fmt.Sprintf("session %s of %s lost its connection", s.ID, s.Client),
						lineAt(w.From, "%s, until %s", w.Text, formatTime(w.To)), lineAt(state.At, "the client shows %s", state.Name))
				}
			}
		}
	}
}

// suspended is the state of a client without a connection that has neither closed nor abandoned its session.
const suspended = "suspended"

// isOpenAt reports whether a session was open when a window began, and had a client.
func (s *Session) isOpenAt(w Window) bool {
	return s.Opened < w.From && (s.Ended == Lives || s.EndedAt > w.From)
}

// judgeMoved judges the sessions that were open when a window began. The members led again at its end, and from then on
// each session has its whole timeout. A session that ends later may have a client that did not come back in time.
func judgeMoved(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session was open", []string{KindSessions}
	for _, w := range e.windowsOfKind(Moved) {
		for i := range e.Sessions {
			s := &e.Sessions[i]
			if !s.isOpenAt(w) || s.Ended == Abandoned {
				continue
			}
			f.judged++
			f.slack = max(f.slack, e.endedSlack(s.Timeout))
			if s.Ended == Expired && s.EndedAt < w.To+s.Timeout-e.endedSlack(s.Timeout) {
				f.addViolation(s.EndedAt, fmt.Sprintf("session %s of %s ended in the move", s.ID, s.Client),
					lineAt(w.From, "%s, until %s", w.Text, formatTime(w.To)), lineAt(s.EndedAt, "the client is told that its session has expired"))
			}
		}
	}
}
