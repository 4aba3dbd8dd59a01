// Package metrics counts durations and sizes, for figures that operators read. Code that measures adds to a
// counter, and code that reports reads a summary. Adding takes no lock, does not block and does not allocate, so it may be
// on any path. A summary may be read while others add, and its parts may then differ by a few
// measurements.
package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// steps is how many buckets there are between a duration and its double: a percentile is
	// at most an eighth above what was measured.
	steps    = 8
	stepBits = 3
	// buckets reach up to 2^42 ns, 73 minutes; what takes longer counts as that.
	maxBits = 42
	buckets = (maxBits - stepBits + 1) * steps
)

// Durations sums up how long something took. The zero value has seen nothing. It takes 10 KiB, and
// adding to it costs two atomic additions.
type Durations struct {
	least, most  atomic.Int64 // ns, since the last Reset; least is stored plus 1, 0: none yet
	seen, before counts       // since the start, and what there was of that at the last Reset
}

// counts has what was measured. A bucket in which one of the bounds lies has two parts: up to the bound,
// and above it.
type counts struct {
	total atomic.Uint64 // ns
	in    [buckets][2]atomic.Uint64
}

// Summary is what Durations have seen since the start or the last Reset. All are 0 if there was nothing.
type Summary struct {
	Count         uint64
	Sum           time.Duration
	Min, Avg, Max time.Duration
	// Percentiles, read off buckets: up to an eighth too high.
	P50, P90, P95, P99, P999 time.Duration
}

// Add takes in one measurement. A negative one counts as 0.
func (d *Durations) Add(took time.Duration) {
	ns := max(int64(took), 0)
	d.seen.total.Add(uint64(ns))
	for most := d.most.Load(); ns > most && !d.most.CompareAndSwap(most, ns); most = d.most.Load() {
	}
	for least := d.least.Load(); (least == 0 || ns < least-1) && !d.least.CompareAndSwap(least, ns+1); least = d.least.Load() {
	}
	i, part := bucket(uint64(ns)), 0
	if uint64(ns) > splits[i] {
		part = 1
	}
	d.seen.in[i][part].Add(1)
}

// Since adds the time that has passed since begun.
func (d *Durations) Since(begun time.Time) { d.Add(time.Since(begun)) }

// Reset makes Summary forget everything. Buckets go on counting.
func (d *Durations) Reset() {
	d.before.total.Store(d.seen.total.Load())
	for i := range d.seen.in {
		for part := range d.seen.in[i] {
			d.before.in[i][part].Store(d.seen.in[i][part].Load())
		}
	}
	d.least.Store(0)
	d.most.Store(0)
}

// Summary returns what was seen.
func (d *Durations) Summary() Summary { return Together(d) }

// Together returns what several have seen together.
func Together(all ...*Durations) (s Summary) {
	var seen [buckets]uint64
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
				return min(max(top(i), s.Min), s.Max)
			}
		}
		return s.Max
	}
	s.P50, s.P90, s.P95, s.P99, s.P999 = at(500), at(900), at(950), at(990), at(999)
	return s
}

// addTo adds what d has seen since its last Reset.
func (d *Durations) addTo(s *Summary, seen *[buckets]uint64) {
	if least := time.Duration(d.least.Load() - 1); least >= 0 && (s.Count == 0 || least < s.Min) {
		s.Min = least
	}
	s.Max = max(s.Max, time.Duration(d.most.Load()))
	before := d.before.total.Load() // first, because the other is never less
	s.Sum += time.Duration(d.seen.total.Load() - before)
	for i := range seen {
		for part := range d.seen.in[i] {
			before := d.before.in[i][part].Load()
			n := d.seen.in[i][part].Load() - before
			seen[i] += n
			s.Count += n
		}
	}
}

// With returns what both have seen together, without percentiles.
func (s Summary) With(o Summary) Summary {
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

// bucket is where ns is counted: its highest bits decide.
func bucket(ns uint64) int {
	if ns < steps {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - stepBits
	return min((shift+1)*steps+int(ns>>shift&(steps-1)), buckets-1)
}

// top is the longest duration of a bucket.
func top(i int) time.Duration {
	if i < steps {
		return time.Duration(i)
	}
	shift := i/steps - 1
	return time.Duration(uint64(steps+i%steps+1)<<shift - 1)
}

// Sizes keeps the last, least and greatest of some sizes in bytes, since the start or the
// last Reset. The zero value has seen nothing.
type Sizes struct{ last, least, most atomic.Int64 } // each stored plus 1; 0: none yet

// Spread are sizes, all -1 before the first.
type Spread struct{ Last, Min, Max int64 }

// Add takes in one size.
func (s *Sizes) Add(size int) {
	n := int64(size) + 1
	s.last.Store(n)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	for least := s.least.Load(); (least == 0 || n < least) && !s.least.CompareAndSwap(least, n); least = s.least.Load() {
	}
}

// Reset forgets everything.
func (s *Sizes) Reset() {
	s.last.Store(0)
	s.least.Store(0)
	s.most.Store(0)
}

// Spread returns what was seen.
func (s *Sizes) Spread() Spread {
	return Spread{Last: s.last.Load() - 1, Min: s.least.Load() - 1, Max: s.most.Load() - 1}
}
