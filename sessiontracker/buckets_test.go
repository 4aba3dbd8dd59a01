package sessiontracker

import (
	"slices"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// Each session is counted in the bucket of its last touch. Buckets of later ticks than were asked for are
// counted together, and sessions that are being closed are not.
func TestBuckets(t *testing.T) {
	const n = 3 * recordsPerLock
	var ids []jute.SessionID
	for id := range jute.SessionID(n) {
		ids = append(ids, id+1)
	}
	table := NewGlobalTable(start, tick, seeds(ids...)) // each with a timeout of 4 s
	steps(table, 0, 3*time.Second)
	now := start.Add(3500 * ms)
	table.Touch(5, start.Add(3*time.Second), 4*time.Second)
	table.AddIfMissing(TrackedSession{ID: n + 1, Timeout: 20 * time.Second}, start.Add(3*time.Second))
	table.AddIfMissing(TrackedSession{ID: n + 2, Timeout: 12 * time.Hour}, start.Add(3*time.Second))

	want := []Bucket{{2500 * ms, n - 1}, {4500 * ms, 1}, {20500 * ms, 1}}
	for _, tt := range []struct{ most, there, later int }{{100, 3, 1}, {12, 3, 1}, {11, 2, 2}, {3, 1, 3}, {2, 0, n + 2}, {0, 0, n + 2}, {30_000, 4, 0}} {
		got, later := table.BucketCounts(now, tt.most)
		if len(got) != tt.there || !slices.Equal(got[:min(tt.there, 3)], want[:min(tt.there, 3)]) || later != tt.later {
			t.Errorf("of %d ticks: %v and %d later, want %d of %v and %d", tt.most, got, later, tt.there, want, tt.later)
		}
	}
	for at := 3 * time.Second; at <= 6*time.Second; at += tick / 2 {
		table.AdvanceIfDue(start.Add(at))
	}
	table.TakeOverdue(nil, 10)
	if got, _ := table.BucketCounts(start.Add(6500*ms), 100); len(got) != 3 || got[0] != (Bucket{-500 * ms, n - 11}) {
		t.Errorf("with 10 of %d that are being closed, and the others due: %v", n, got)
	}
}
