package metrics

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// A percentile is at least the measured one and at most an eighth above it, over the whole range of
// durations.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []time.Duration{10, time.Microsecond, time.Millisecond, time.Minute} {
		var d Durations
		var all []time.Duration
		for range 5000 {
			took := time.Duration(rng.ExpFloat64() * float64(scale))
			d.Add(took)
			all = append(all, took)
		}
		slices.Sort(all)
		s := d.Summary()
		var sum time.Duration
		for _, took := range all {
			sum += took
		}
		if s.Count != 5000 || s.Sum != sum || s.Avg != sum/5000 || s.Min != all[0] || s.Max != all[4999] {
			t.Errorf("scale %v: %+v, want sum %v from %v to %v", scale, s, sum, all[0], all[4999])
		}
		for _, p := range []struct {
			got  time.Duration
			rank int
		}{{s.P50, 2500}, {s.P90, 4500}, {s.P95, 4750}, {s.P99, 4950}, {s.P999, 4995}} {
			if want := all[p.rank-1]; p.got < want || p.got > want+want/8+1 {
				t.Errorf("scale %v: duration %d of 5000 is %v, reported as %v", scale, p.rank, want, p.got)
			}
		}
	}
}

func TestBucketsMeet(t *testing.T) {
	for i := range numBuckets - 1 {
		if b := bucketOf(uint64(bucketTop(i))); b != i {
			t.Fatalf("%v, the top of bucket %d, is in bucket %d", bucketTop(i), i, b)
		}
		if b := bucketOf(uint64(bucketTop(i)) + 1); b != i+1 {
			t.Fatalf("%v is above bucket %d, but is in bucket %d", bucketTop(i)+1, i, b)
		}
	}
}

func TestDurationsEnds(t *testing.T) {
	var d Durations
	if s := d.Summary(); s != (Summary{}) {
		t.Errorf("nothing seen: %+v", s)
	}
	d.Add(-time.Second)
	d.Add(200 * time.Hour)
	if s := d.Summary(); s.Min != 0 || s.Max != 200*time.Hour || s.P50 != 0 || s.P999 < time.Hour {
		t.Errorf("the ends: %+v", s)
	}
	if d.ResetSummary(); d.Summary() != (Summary{}) {
		t.Errorf("after a reset: %+v", d.Summary())
	}
}

// Several seen together are as one that has seen all of it.
func TestTogether(t *testing.T) {
	var a, b, c, none Durations
	for i, d := range []*Durations{&a, &b, &a, &b} {
		took := time.Duration(7*i*i + 3)
		d.Add(took)
		c.Add(took)
	}
	for _, all := range [][]*Durations{{&a, &b}, {&b, &none, &a}, {&none, &b, &a}} {
		if got := SummaryOf(all...); got != c.Summary() {
			t.Errorf("%+v, want %+v", got, c.Summary())
		}
	}
	if got := SummaryOf(); got != (Summary{}) {
		t.Errorf("nothing together: %+v", got)
	}
	b.ResetSummary()
	if got := SummaryOf(&a, &b); got != a.Summary() {
		t.Errorf("after a reset of one: %+v, want %+v", got, a.Summary())
	}
}

func TestWith(t *testing.T) {
	var a, b, c Durations
	for i, d := range []*Durations{&a, &b, &a, &b} {
		took := time.Duration(7*i*i + 3)
		d.Add(took)
		c.Add(took)
	}
	want := c.Summary()
	want.P50, want.P90, want.P95, want.P99, want.P999 = 0, 0, 0, 0, 0
	if got := b.Summary().MergeWithoutPercentiles(a.Summary()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := a.Summary().MergeWithoutPercentiles(b.Summary()); got != want {
		t.Errorf("the other way round: %+v, want %+v", got, want)
	}
	if got := want.MergeWithoutPercentiles(Summary{}); got != want {
		t.Errorf("with nothing: %+v", got)
	}
	if got := (Summary{}).MergeWithoutPercentiles(want); got != want {
		t.Errorf("nothing with: %+v", got)
	}
}

func TestSizes(t *testing.T) {
	var s Sizes
	if got := s.Spread(); got != (Spread{-1, -1, -1}) {
		t.Errorf("nothing seen: %+v", got)
	}
	for _, n := range []int{5, 0, 9, 3} {
		s.Add(n)
	}
	if got := s.Spread(); got != (Spread{Last: 3, Min: 0, Max: 9}) {
		t.Errorf("5, 0, 9, 3: %+v", got)
	}
	if s.Reset(); s.Spread() != (Spread{-1, -1, -1}) {
		t.Errorf("after a reset: %+v", s.Spread())
	}
}

func TestAddTakesNoMemory(t *testing.T) {
	var d Durations
	var s Sizes
	if n := testing.AllocsPerRun(100, func() { d.Add(time.Millisecond); s.Add(7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Several goroutines may add at the same time, and no measurement is lost.
func TestManyAtOnce(t *testing.T) {
	var d Durations
	var s Sizes
	var g sync.WaitGroup
	for w := range 4 {
		g.Go(func() {
			for i := range 1000 {
				d.Add(time.Duration(1 + 1000*w + i))
				s.Add(1 + 1000*w + i)
			}
		})
	}
	g.Wait()
	if got := d.Summary(); got.Count != 4000 || got.Min != 1 || got.Max != 4000 || got.Sum != 4000*4001/2 {
		t.Errorf("%+v", got)
	}
	if got := s.Spread(); got.Min != 1 || got.Max != 4000 {
		t.Errorf("%+v", got)
	}
}

// If the rank of a percentile is not a whole number, it is rounded up.
func TestRanksBetweenNumbers(t *testing.T) {
	var d Durations
	for n := 1; n <= 30; n++ {
		d.Add(time.Microsecond << n)
		s := d.Summary()
		for _, p := range []struct {
			name     string
			got      time.Duration
			permille int
		}{{"P50", s.P50, 500}, {"P95", s.P95, 950}, {"P99", s.P99, 990}, {"P999", s.P999, 999}} {
			rank := (n*p.permille + 999) / 1000
			if want := time.Microsecond << rank; p.got < want || p.got > want+want/8+1 {
				t.Errorf("%s of %d durations is %v, want number %d of them, %v", p.name, n, p.got, rank, want)
			}
		}
	}
}
