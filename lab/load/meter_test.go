package load

import (
	"testing"

	"rollcall/lab/result"
)

// A meter measures the longest time without a reply, up to the end, and lists the long ones. Above the limit, the
// longest stay, in order.
func TestMeter(t *testing.T) {
	m := &gapMeter{}
	for _, at := range []result.Millis{50, 60, 160, 261, 300} {
		m.noteReply(at)
	}
	if c := m.sinceLast(310); c != 10 {
		t.Errorf("the current gap is %v, want 10", c)
	}
	g := m.finalGap(900)
	long, end := result.Interval{From: 160, To: 261}, result.Interval{From: 300, To: 900}
	if g.Answered != 5 || g.Longest != end || len(g.Pauses) != 2 || g.Pauses[0] != long || g.Pauses[1] != end {
		t.Errorf("%+v, want pauses %v and %v", g, long, end)
	}
	for i := range result.MaxPauses {
		m.noteReply(result.Millis(1000 * (i + 1)))
	}
	begin := result.Millis(1000 * result.MaxPauses)
	short, last := result.Interval{From: begin, To: begin + 200}, result.Interval{From: begin + 200, To: begin + 5000}
	m.noteReply(short.To)
	m.noteReply(last.To)
	p := m.gap.Pauses
	if n := len(p); n != result.MaxPauses || p[0].From != 1000 || p[n-2].To != begin || p[n-1] != last {
		t.Errorf("%d pauses, from %v to %v and %v", n, p[0], p[n-2], p[n-1])
	}
	if g := (&gapMeter{}).finalGap(900); len(g.Pauses) > 0 || g.Longest.To > 0 {
		t.Errorf("without an answer: %+v, want no gap", g)
	}
}
