package metrics

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// A duration counts at each bound that it does not exceed, to the nanosecond.
func TestBounds(t *testing.T) {
	seconds := []float64{}
	for i, bound := range durationBounds {
		seconds = append(seconds, bound.Seconds())
		var d Durations
		for _, took := range []time.Duration{bound - 1, bound, bound + 1} {
			d.Add(took)
		}
		got := d.Buckets()
		for k, n := range got.Counts {
			want := uint64(0)
			switch {
			case k == i:
				want = 2
			case k > i:
				want = 3
			}
			if n != want {
				t.Errorf("%d of three about %v are within %v, want %d", n, bound, got.Bounds[k], want)
			}
		}
	}
	if got := new(Durations).Buckets(); !slices.Equal(got.Bounds, seconds) || got.Count != 0 || got.Sum != 0 {
		t.Errorf("nothing seen: %+v, want the bounds %v", got, seconds)
	}
}

// Buckets count from the start, and a reset has no effect on them.
func TestBucketsOutliveAReset(t *testing.T) {
	var d Durations
	for _, took := range []time.Duration{-1, 0, 3 * time.Millisecond, time.Hour} {
		d.Add(took)
	}
	d.ResetSummary()
	d.Add(time.Second)
	at := func(bound float64) uint64 {
		return d.Buckets().Counts[slices.Index(durationBounds, time.Duration(bound*1e9))]
	}
	if got := d.Buckets(); at(0.002) != 2 || at(0.005) != 3 || at(0.5) != 3 || at(1) != 4 || at(50) != 4 || got.Count != 5 ||
		got.Sum != 3601.003 {
		t.Errorf("%+v", got)
	}
	if s := d.Summary(); s.Count != 1 || s.Sum != time.Second || s.Min != time.Second || s.Max != time.Second || s.P50 != time.Second {
		t.Errorf("since the reset: %+v", s)
	}
}

func TestSizeHistogram(t *testing.T) {
	var h SizeHistogram
	for _, size := range []int{0, 64, 65, 1 << 30} {
		h.Add(size)
	}
	got := h.Buckets()
	at := func(bound float64) uint64 { return got.Counts[slices.Index(got.Bounds, bound)] }
	if at(64) != 2 || at(256) != 3 || at(16<<20) != 3 || got.Count != 4 || got.Sum != 64+65+1<<30 {
		t.Errorf("%+v", got)
	}
	for i := 1; i < len(sizeBounds); i++ {
		if sizeBounds[i] != 4*sizeBounds[i-1] {
			t.Errorf("bound %d after %d", sizeBounds[i], sizeBounds[i-1])
		}
	}
}

// Several goroutines may add at the same time, without memory, and no measurement is lost.
func TestHistogramsAtOnce(t *testing.T) {
	var d Durations
	var h SizeHistogram
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for i := range 1000 {
				d.Add(time.Duration(i) * time.Millisecond)
				h.Add(i)
			}
		})
	}
	g.Wait()
	if n := testing.AllocsPerRun(100, func() { d.Add(0); h.Add(0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := d.Buckets(); got.Count != 4101 || got.Sum != 4*499.5 {
		t.Errorf("durations: %+v", got)
	}
	if got := h.Buckets(); got.Count != 4101 || got.Sum != 4*499500 {
		t.Errorf("sizes: %+v", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	took := 3 * time.Millisecond
	b.Run("Durations", func(b *testing.B) {
		var d Durations
		for b.Loop() {
			d.Add(took)
		}
	})
	b.Run("SizeHistogram", func(b *testing.B) {
		var h SizeHistogram
		for b.Loop() {
			h.Add(100)
		}
	})
}
