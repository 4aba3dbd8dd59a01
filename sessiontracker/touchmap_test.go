package sessiontracker

import (
	"maps"
	"testing"
	"time"

	"rollcall/jute"
)

func numbers(batches []Batch) (n []uint64) {
	for _, b := range batches {
		n = append(n, b.Number)
	}
	return n
}

func TestTouchMap(t *testing.T) {
	var m TouchMap
	if got := m.Flush(start); len(got) != 0 {
		t.Errorf("Flush of nothing = %v", got)
	}
	m.Touch(1, 4*time.Second)
	m.Touch(2, 9*time.Second)
	m.Touch(1, 5*time.Second)
	got := m.Flush(start)
	want := map[jute.SessionID]time.Duration{1: 5 * time.Second, 2: 9 * time.Second}
	if len(got) != 1 || got[0].Number != 1 || got[0].Sent != start || got[0].Longest != 9*time.Second || !maps.Equal(got[0].Touched, want) {
		t.Fatalf("Flush = %+v", got)
	}
	m.Touch(3, 1*time.Second)
	got = m.Flush(start.Add(time.Second))
	if len(got) != 2 || got[0].Sent != start || got[1].Number != 2 || len(got[1].Touched) != 1 {
		t.Fatalf("second Flush = %+v, want both, each with its own time", got)
	}
	if got := m.Flush(start.Add(2 * time.Second)); len(got) != 2 {
		t.Errorf("Flush with nothing new = %v, want both again", numbers(got))
	}
	// 2 is past its timeout of a second, 1 is not past its 9.
	if got := m.Flush(start.Add(3 * time.Second)); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("Flush = %v, want batch 1 alone", numbers(got))
	}
	if got := m.Ack(0); len(got) != 0 {
		t.Errorf("Ack(0) = %v", numbers(got))
	}
	if got := m.Ack(7); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("Ack(7) = %v, want batch 1", numbers(got))
	}
	if got := m.Ack(7); len(got) != 0 {
		t.Errorf("Ack twice = %v", numbers(got))
	}
	m.Touch(1, tick)
	if got := m.Flush(start); len(got) != 1 || got[0].Number != 3 {
		t.Errorf("Flush = %v, want batch 3: a number is used once", numbers(got))
	}
}

// Without acknowledgements the batches stop at a limit, and touches wait for the next.
func TestTouchMapIsBounded(t *testing.T) {
	var m TouchMap
	for id := range jute.SessionID(3 * maxBatches) {
		m.Touch(id, time.Hour)
		m.Flush(start)
	}
	got := m.Flush(start)
	if len(got) != maxBatches {
		t.Fatalf("%d batches wait, want %d", len(got), maxBatches)
	}
	if acked := m.Ack(got[9].Number); len(acked) != 10 {
		t.Errorf("Ack = %v, want ten", numbers(acked))
	}
	got = m.Flush(start.Add(time.Second))
	if last := got[len(got)-1]; len(got) != maxBatches-9 || len(last.Touched) != 2*maxBatches {
		t.Errorf("%d batches, the last with %d touches; want %d and %d", len(got), len(last.Touched), maxBatches-9, 2*maxBatches)
	}
	if got := m.Flush(start.Add(2 * time.Hour)); len(got) != 0 || m.waiting != 0 {
		t.Errorf("%d batches and %d touches wait after all are too old", len(got), m.waiting)
	}

	var big TouchMap
	for id := range jute.SessionID(maxTouches) {
		big.Touch(id, time.Hour)
	}
	big.Flush(start)
	big.Touch(-1, time.Hour)
	if got := big.Flush(start); len(got) != 1 {
		t.Errorf("%d batches behind one of a million", len(got))
	}
}
