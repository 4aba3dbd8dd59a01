package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The middle of a value's bucket is less than 1 % away from the value. A greater value is never in
// an earlier bucket.
func TestHistogramBuckets(t *testing.T) {
	last := -1
	for v := time.Duration(0); v < 1<<maxBits; v += 1 + v/1000 {
		key := bucketOf(v)
		if key < last || key>>subBits >= pageCount {
			t.Fatalf("%d is in bucket %d, after a smaller value in bucket %d; there are %d pages", v, key, last, pageCount)
		}
		last = key
		if off := math.Abs(float64(bucketMiddle(key) - v)); off > float64(v)/128 || v < 256 && off != 0 {
			t.Fatalf("%d: the middle of its bucket is %d", v, bucketMiddle(key))
		}
	}
	if want := bucketOf(1<<maxBits - 1); want != pageCount<<subBits-1 {
		t.Errorf("the last bucket is %d", want)
	}
}

// The quantiles of a histogram, and of one that was merged from several, agree with the quantiles of the sorted values.
// Count, mean and maximum are exact.
func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var whole, merged Histogram
	var parts [5]Histogram
	var values []time.Duration
	var sum time.Duration
	for range 20_000 {
		v := time.Duration(math.Exp(rng.Float64()*20) * 10) // 10 ns to 1.3 h
		values, sum = append(values, v), sum+v
		whole.Add(v)
		parts[rng.IntN(4)].Add(v) // the last stays empty
	}
	for i := range parts {
		merged.Merge(&parts[i])
	}
	slices.Sort(values)
	for _, h := range []*Histogram{&whole, &merged} {
		if h.Count() != 20_000 || h.Mean() != sum/20_000 || h.Max() != values[len(values)-1] {
			t.Errorf("count %d, mean %d, max %d", h.Count(), h.Mean(), h.Max())
		}
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
			want := values[max(int(math.Ceil(q*20_000)), 1)-1]
			if want = min(want, 1<<maxBits-1); q == 1 {
				want = h.Max()
			}
			if got := h.Quantile(q); math.Abs(float64(got-want)) > float64(want)/128 {
				t.Errorf("quantile %v is %d, want %d", q, got, want)
			}
		}
	}
}

// Each figure of a summary is the quantile that its name says.
func TestSummary(t *testing.T) {
	var h Histogram
	for i := range 10_000 {
		h.Add(time.Duration(i+1) * time.Microsecond)
	}
	s := summarize(&h)
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"mean", s.Mean, 5000.5}, {"p50", s.P50, 5000}, {"p90", s.P90, 9000}, {"p99", s.P99, 9900}, {"p99.9", s.P999, 9990}, {"max", s.Max, 10_000},
	} {
		// The quantiles that are named differ by more than this.
		if math.Abs(tt.got-tt.want) > tt.want/128/2 {
			t.Errorf("%s is %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// A histogram handles few values, none at all, and impossible ones.
func TestHistogramEdges(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 || h.Max() != 0 {
		t.Error("the quantile, mean or maximum of an empty histogram is not 0")
	}
	h.Add(1_000_003)
	for _, q := range []float64{0, 0.5, 0.999, 1} {
		if got := h.Quantile(q); got != 1_000_003 {
			t.Errorf("quantile %v of one value is %d", q, got)
		}
	}
	h.Add(-5)
	h.Add(math.MaxInt64)
	if h.Quantile(0.1) != 0 || h.Max() != math.MaxInt64 || h.Count() != 3 {
		t.Errorf("%d, %d, %d", h.Quantile(0.1), h.Max(), h.Count())
	}
	// No quantile is below the smallest value, in a merged histogram either.
	v := time.Duration(1_000_000)
	for bucketMiddle(bucketOf(v)) >= v {
		v++
	}
	var few, merged Histogram
	few.Add(v)
	few.Add(time.Second)
	merged.Merge(&few)
	if few.Quantile(0.5) != v || merged.Quantile(0.5) != v {
		t.Errorf("quantiles %d and %d, want %d", few.Quantile(0.5), merged.Quantile(0.5), v)
	}
}

// If the rank of a quantile is not a whole number, it is rounded up.
func TestHistogramRanksBetweenNumbers(t *testing.T) {
	var h Histogram
	for n := 1; n <= 30; n++ {
		h.Add(time.Microsecond << n)
		for _, q := range []float64{0.1, 0.5, 0.95, 0.99} {
			want := time.Microsecond << max(int(math.Ceil(q*float64(n))), 1)
			if got := h.Quantile(q); math.Abs(float64(got-want)) > float64(want)/128 {
				t.Errorf("quantile %v of %d is %v, want %v", q, n, got, want)
			}
		}
	}
}
