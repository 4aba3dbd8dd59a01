package load

import (
	"cmp"
	"slices"

	"rollcall/lab/result"
)

// gapMeter measures the times without an answer of one kind of request of one client.
type gapMeter struct {
	gap     result.Gap
	last    result.Millis // the last answer
	started bool
}

// noteReply notes an answer. The first one begins the measurement.
func (m *gapMeter) noteReply(at result.Millis) {
	if m.started {
		m.notePause(at)
	}
	m.gap.Answered++
	m.last, m.started = max(m.last, at), true
}

// notePause notes the time from the last answer to another one, or to the end.
func (m *gapMeter) notePause(to result.Millis) {
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

// sinceLast returns the time since the last answer.
func (m *gapMeter) sinceLast(now result.Millis) result.Millis {
	if !m.started {
		return 0
	}
	return now - m.last
}

// finalGap returns the Gap at the end of the measurement.
func (m *gapMeter) finalGap(end result.Millis) result.Gap {
	if m.started {
		m.notePause(end)
	}
	return m.gap
}
