// Package metrics counts durations and sizes. Code that measures adds to a counter, and code that reports
// reads a summary. Adding takes no lock, does not block and does not allocate, so it may be on any path. A
// summary may be read while others add, and its parts may then differ by a few measurements.
package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// stepsPerDoubling is the number of buckets between a duration and its double: a percentile is at most an
	// eighth too high.
	stepsPerDoubling = 8
	stepBits         = 3
	// Buckets reach up to 2^42 ns, 73 minutes; longer durations count as that.
	maxBits    = 42
	numBuckets = (maxBits - stepBits + 1) * stepsPerDoubling
)

// Durations summarizes durations. The zero value is empty. It takes 10 KiB, and adding to it costs two atomic
// additions.
type Durations struct {
	minPlusOne, maxNanos atomic.Int64 // ns, since the last Reset; minPlusOne is 0 before the first
	sinceStart, atReset  bucketCounts // since the start, and the part before the last Reset
}

// bucketCounts counts measurements. A bucket in which one of the bounds lies has two parts: up to the bound,
// and above it.
type bucketCounts struct {
	totalNanos atomic.Uint64 // ns
	perBucket  [numBuckets][2]atomic.Uint64
}

// Summary summarizes Durations since the start or the last Reset. All are 0 if there were none.
type Summary struct {
	Count         uint64
	Sum           time.Duration
	Min, Avg, Max time.Duration
	// Percentiles, read off buckets: up to an eighth too high.
	P50, P90, P95, P99, P999 time.Duration
}

// Add adds one measurement. A negative one counts as 0.
func (d *Durations) Add(took time.Duration) {
	ns := max(int64(took), 0)
	d.sinceStart.totalNanos.Add(uint64(ns))
	for most := d.maxNanos.Load(); ns > most && !d.maxNanos.CompareAndSwap(most, ns); most = d.maxNanos.Load() {
	}
	for least := d.minPlusOne.Load(); (least == 0 || ns < least-1) &&
		!d.minPlusOne.CompareAndSwap(least, ns+1); least = d.minPlusOne.Load() {
	}
	i, part := bucketOf(uint64(ns)), 0
	if uint64(ns) > bucketSplits[i] {
		part = 1
	}
	d.sinceStart.perBucket[i][part].Add(1)
}

// AddSince adds the time since begun.
func (d *Durations) AddSince(begun time.Time) { d.Add(time.Since(begun)) }

// ResetSummary empties the Summary, but not the Buckets.
func (d *Durations) ResetSummary() {
	d.atReset.totalNanos.Store(d.sinceStart.totalNanos.Load())
	for i := range d.sinceStart.perBucket {
		for part := range d.sinceStart.perBucket[i] {
			d.atReset.perBucket[i][part].Store(d.sinceStart.perBucket[i][part].Load())
		}
	}
	d.minPlusOne.Store(0)
	d.maxNanos.Store(0)
}

func (d *Durations) Summary() Summary { return SummaryOf(d) }

// SummaryOf returns the common summary of several Durations.
func SummaryOf(all ...*Durations) (s Summary) {
	var seen [numBuckets]uint64
	for _, d := range all {
		d.addTo(&s, &seen)
	}
	if s.Count == 0 {
		return Summary{}
	}
	s.Avg = s.Sum / time.Duration(s.Count)
	at := func(permille uint64) time.Duration {
		rank, sum := (s.Count*permille+999)/1000, uint64(0)
		for i, n := range seen {
			if sum += n; sum >= rank {
				return min(max(bucketTop(i), s.Min), s.Max)
			}
		}
		return s.Max
	}
	s.P50, s.P90, s.P95, s.P99, s.P999 = at(500), at(900), at(950), at(990), at(999)
	return s
}

// addTo adds the measurements of d since its last Reset.
func (d *Durations) addTo(s *Summary, seen *[numBuckets]uint64) {
	if least := time.Duration(d.minPlusOne.Load() - 1); least >= 0 && (s.Count == 0 || least < s.Min) {
		s.Min = least
	}
	s.Max = max(s.Max, time.Duration(d.maxNanos.Load()))
	before := d.atReset.totalNanos.Load() // first, because the other is never less
	s.Sum += time.Duration(d.sinceStart.totalNanos.Load() - before)
	for i := range seen {
		for part := range d.sinceStart.perBucket[i] {
			before := d.atReset.perBucket[i][part].Load()
			n := d.sinceStart.perBucket[i][part].Load() - before
			seen[i] += n
			s.Count += n
		}
	}
}

// MergeWithoutPercentiles returns the common summary of both, without percentiles.
func (s Summary) MergeWithoutPercentiles(o Summary) Summary {
	switch {
	case s.Count == 0:
		s.Min = o.Min
	case o.Count > 0:
		s.Min = min(s.Min, o.Min)
	}
	sum := Summary{Count: s.Count + o.Count, Sum: s.Sum + o.Sum, Min: s.Min, Max: max(s.Max, o.Max)}
	sum.Avg = sum.Sum / time.Duration(max(sum.Count, 1))
	return sum
}

// bucketOf returns the bucket of ns, by its highest bits.
func bucketOf(ns uint64) int {
	if ns < stepsPerDoubling {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - stepBits
	return min((shift+1)*stepsPerDoubling+int(ns>>shift&(stepsPerDoubling-1)), numBuckets-1)
}

// bucketTop returns the longest duration of a bucket.
func bucketTop(i int) time.Duration {
	if i < stepsPerDoubling {
		return time.Duration(i)
	}
	shift := i/stepsPerDoubling - 1
	return time.Duration(uint64(stepsPerDoubling+i%stepsPerDoubling+1)<<shift - 1)
}

// Sizes keeps the last, least and greatest of some sizes in bytes, since the start or the last Reset. The
// zero value is empty.
type Sizes struct{ last, least, most atomic.Int64 } // each stored plus 1; 0: none yet

// Spread are sizes, all -1 before the first.
type Spread struct{ Last, Min, Max int64 }

// Add adds one size.
func (s *Sizes) Add(size int) {
	n := int64(size) + 1
	s.last.Store(n)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	for least := s.least.Load(); (least == 0 || n < least) && !s.least.CompareAndSwap(least, n); least = s.least.Load() {
	}
}

// Reset empties it.
func (s *Sizes) Reset() {
	s.last.Store(0)
	s.least.Store(0)
	s.most.Store(0)
}

func (s *Sizes) Spread() Spread {
	return Spread{Last: s.last.Load() - 1, Min: s.least.Load() - 1, Max: s.most.Load() - 1}
}
