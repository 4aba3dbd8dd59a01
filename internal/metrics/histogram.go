package metrics

import (
	"sync/atomic"
	"time"
)

// durationBounds are the bounds of a histogram of durations. They reach from 10 µs, a few times the time of a
// read, to 50 s, more than the longest session timeout by default. They are round, because people state their
// goals in round numbers: the number of requests within 10 ms is then known exactly. They are far enough
// apart that a histogram costs few series, and near enough that an estimated percentile is at most two and a
// half times too high.
var durationBounds = []time.Duration{
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 50 * time.Second,
}

// bucketSplits has, for each bucket of Durations, the bound that lies in it, or the greatest number if none
// does.
var bucketSplits = func() (s [numBuckets]uint64) {
	for i := range s {
		s[i] = 1<<64 - 1
	}
	for _, bound := range durationBounds {
		s[bucketOf(uint64(bound))] = uint64(bound)
	}
	return s
}()

// sizeBounds are the bounds of a histogram of sizes: from 64 bytes, less than a small write in the log, to 16
// MiB, more than the longest request.
var sizeBounds = [...]int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}

// Buckets are the measurements of a histogram since the start, in Prometheus' form.
type Buckets struct {
	Bounds []float64 // ascending, in seconds or bytes
	Counts []uint64  // for each bound: measurements that did not exceed it
	Count  uint64    // of all measurements, including those above the last bound
	Sum    float64
}

// Buckets returns the measurements since the start. A Reset does not change them.
func (d *Durations) Buckets() Buckets {
	b := Buckets{
		Bounds: make([]float64, 0, len(durationBounds)), Counts: make([]uint64, 0, len(durationBounds)),
		Sum: time.Duration(d.sinceStart.totalNanos.Load()).Seconds(),
	}
	for i := range d.sinceStart.perBucket {
		b.Count += d.sinceStart.perBucket[i][0].Load()
		if bucketSplits[i] != 1<<64-1 {
			b.Bounds = append(b.Bounds, time.Duration(bucketSplits[i]).Seconds())
			b.Counts = append(b.Counts, b.Count)
		}
		b.Count += d.sinceStart.perBucket[i][1].Load()
	}
	return b
}

// SizeHistogram counts sizes in bytes, since the start. The zero value is empty.
type SizeHistogram struct {
	totalBytes atomic.Int64
	perBucket  [len(sizeBounds) + 1]atomic.Uint64 // by the first bound that is not exceeded; the last is above all bounds
}

// Add adds one size.
func (h *SizeHistogram) Add(size int) {
	i := 0
	for i < len(sizeBounds) && sizeBounds[i] < size {
		i++
	}
	h.totalBytes.Add(int64(size))
	h.perBucket[i].Add(1)
}

// Buckets returns the sizes since the start.
func (h *SizeHistogram) Buckets() Buckets {
	b := Buckets{Sum: float64(h.totalBytes.Load())}
	for i, bound := range sizeBounds {
		b.Count += h.perBucket[i].Load()
		b.Bounds, b.Counts = append(b.Bounds, float64(bound)), append(b.Counts, b.Count)
	}
	b.Count += h.perBucket[len(sizeBounds)].Load()
	return b
}
