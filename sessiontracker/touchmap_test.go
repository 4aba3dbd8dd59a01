package sessiontracker

import (
	"maps"
	"slices"
	"testing"
	"time"

	"rollcall/zk/jute"
)

func numbers(batches []TouchBatch) (n []uint64) {
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
	m.Touch(1, 4*time.Second, start)
	m.Touch(2, 9*time.Second, start)
	m.Touch(1, 5*time.Second, start)
	got := m.Flush(start)
	want := map[jute.SessionID]LastTouch{1: {5000, 0}, 2: {9000, 0}}
	if len(got) != 1 || got[0].Number != 1 || got[0].SentAt != start || got[0].LongestTimeout != 9*time.Second ||
		!maps.Equal(got[0].Touches, want) {
		t.Fatalf("Flush = %+v", got)
	}
	m.Touch(3, 1*time.Second, start)
	got = m.Flush(start.Add(time.Second))
	if len(got) != 2 || got[0].SentAt != start || got[1].Number != 2 || len(got[1].Touches) != 1 {
		t.Fatalf("second Flush = %+v, want both, each with its own time", got)
	}
	if got := m.Flush(start.Add(2 * time.Second)); len(got) != 2 {
		t.Errorf("Flush with nothing new = %v, want both again", numbers(got))
	}
	// Session 2 is past its timeout of one second; session 1 is not past its nine seconds.
	if got := m.Flush(start.Add(3 * time.Second)); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("Flush = %v, want batch 1 alone", numbers(got))
	}
	if got := m.AckThrough(0); len(got) != 0 {
		t.Errorf("Ack(0) = %v", numbers(got))
	}
	if got := m.AckThrough(7); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("Ack(7) = %v, want batch 1", numbers(got))
	}
	if got := m.AckThrough(7); len(got) != 0 {
		t.Errorf("Ack twice = %v", numbers(got))
	}
	m.Touch(1, tick, start)
	if got := m.Flush(start); len(got) != 1 || got[0].Number != 3 {
		t.Errorf("Flush = %v, want batch 3: a number is used once", numbers(got))
	}
}

// Without acknowledgements batches are joined. Their number stays bounded, every touch is in the
// next flush, and each has its own time.
func TestTouchMapIsBounded(t *testing.T) {
	var m TouchMap
	const touches = 10 * maxBatches
	heard := make(map[jute.SessionID]time.Time)
	now := start
	for id := range jute.SessionID(touches) {
		now = now.Add(time.Second)
		m.Touch(id, time.Hour, now)
		heard[id] = now
		batches := m.Flush(now)
		if len(batches) > maxBatches {
			t.Fatalf("%d batches wait, the limit is %d", len(batches), maxBatches)
		}
		if last := batches[len(batches)-1]; last.SentAt != now || len(last.Touches) != 1 {
			t.Fatalf("the newest touch is not in a batch of its own time: %v, %d touches", last.SentAt, len(last.Touches))
		}
	}
	found := 0
	for _, b := range m.Flush(now) {
		for id, touch := range b.Touches {
			found++
			if at := b.HeardAt(touch); at != heard[id] {
				t.Errorf("touch of %v at %v is sent as of %v", id, heard[id], at)
			}
		}
	}
	if found != touches || m.unackedTouches != touches {
		t.Errorf("%d touches in the flush, %d counted, want %d", found, m.unackedTouches, touches)
	}
	got := m.Flush(now)
	if acked := m.AckThrough(got[9].Number); len(acked) != 10 {
		t.Errorf("Ack = %v, want ten", numbers(acked))
	}
	if got := m.Flush(now.Add(2 * time.Hour)); len(got) != 0 || m.unackedTouches != 0 {
		t.Errorf("%d batches and %d touches wait after all are too old", len(got), m.unackedTouches)
	}
}

// A million touches wait in few batches, and a session touched again is counted once.
func TestTouchMapJoinsTouches(t *testing.T) {
	var m TouchMap
	for range 4 {
		for id := range jute.SessionID(maxUnackedTouches / 2) {
			m.Touch(id, time.Hour, start)
		}
		m.Flush(start)
	}
	if got := m.Flush(start); m.unackedTouches > maxUnackedTouches || len(got) > 2 {
		t.Errorf("%d touches wait in %d batches", m.unackedTouches, len(got))
	}
}

// UnackedSessionsBefore yields the sessions of the old unacknowledged batches.
func TestTouchMapWaiting(t *testing.T) {
	var m TouchMap
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	waiting := func(since int) []jute.SessionID { return slices.Sorted(m.UnackedSessionsBefore(at(since))) }
	for id := range jute.SessionID(2) {
		m.Touch(id+1, time.Hour, start)
		m.Flush(at(int(id) + 1))
	}
	m.Touch(3, time.Hour, start)
	for since, want := range [][]jute.SessionID{0: nil, 1: nil, 2: {1}, 3: {1, 2}} {
		if got := waiting(since); !slices.Equal(got, want) {
			t.Errorf("waiting since before %d s: %v, want %v", since, got, want)
		}
	}
	m.AckThrough(1)
	if got, want := waiting(3), []jute.SessionID{2}; !slices.Equal(got, want) {
		t.Errorf("after an acknowledgement %v wait, want %v", got, want)
	}
	if m.FlushedBefore(at(2)) || !m.FlushedBefore(at(3)) {
		t.Error("the last Flush was at 2 s")
	}
}
