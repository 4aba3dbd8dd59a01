package load

import (
	"cmp"
	"slices"

	"rollcall/operator/drill/result"
)

// meter measures the times without an answer of one kind of request of one client.
type meter struct {
	gap   result.Gap
	last  result.Millis // the last answer
	begun bool
}

// answered notes an answer. The first one begins the measurement.
func (m *meter) answered(at result.Millis) {
	if m.begun {
		m.pause(at)
	}
	m.gap.Answered++
	m.last, m.begun = max(m.last, at), true
}

// pause notes the time from the last answer to another one, or to the end.
func (m *meter) pause(to result.Millis) {
	length := to - m.last
	if length > m.gap.Longest.To-m.gap.Longest.From {
		m.gap.Longest = result.Interval{From: m.last, To: to}
	}
	if length <= result.PauseAfter {
		return
	}
	m.gap.Pauses = append(m.gap.Pauses, result.Interval{From: m.last, To: to})
	if len(m.gap.Pauses) > result.MaxPauses {
		shortest := slices.Index(m.gap.Pauses, slices.MinFunc(m.gap.Pauses, byLength))
		m.gap.Pauses = slices.Delete(m.gap.Pauses, shortest, shortest+1)
	}
}

func byLength(a, b result.Interval) int { return cmp.Compare(a.To-a.From, b.To-b.From) }

// current returns the time since the last answer.
func (m *meter) current(now result.Millis) result.Millis {
	if !m.begun {
		return 0
	}
	return now - m.last
}

// final returns the Gap at the end of the measurement.
func (m *meter) final(end result.Millis) result.Gap {
	if m.begun {
		m.pause(end)
	}
	return m.gap
}
