package metrics

import (
	"math"
	"testing"
	"time"
)

// The bounds of histograms are round: 1, 2 and 5 times a power of ten from 10 µs to 50 s, and powers of four from 64 bytes to 16 MiB.
// People state their goals in round numbers.
func TestBoundsAreRound(t *testing.T) {
	var want []time.Duration
	for power := 10 * time.Microsecond; power <= 10*time.Second; power *= 10 {
		want = append(want, power, 2*power, 5*power)
	}
	var d Durations
	got := d.Buckets().Bounds
	if len(got) != len(want) {
		t.Fatalf("%d bounds of durations, want %d", len(got), len(want))
	}
	for i, bound := range got {
		if math.Abs(bound-want[i].Seconds()) > 1e-12 {
			t.Errorf("bound %d of durations is %v s, want %v", i, bound, want[i])
		}
	}
	var s SizeHistogram
	size := 64.0
	for i, bound := range s.Buckets().Bounds {
		if bound != size {
			t.Errorf("bound %d of sizes is %v, want %v", i, bound, size)
		}
		size *= 4
	}
	if size != 64<<20 {
		t.Errorf("the greatest bound of sizes is %v, want 16 MiB", size/4)
	}
}
