package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"time"
)

const (
	// subBits makes 128 buckets of each power of two: quantiles are accurate to 1 %.
	subBits = 7
	// maxBits limits the buckets. Latencies above 2^42 ns, 73 minutes, share the last one.
	maxBits   = 42
	pageCount = maxBits - subBits + 1
)

// Histogram counts latencies in buckets whose width grows with the value. The zero value is empty. It is not
// safe for concurrent use.
type Histogram struct {
	pages    [pageCount]*[1 << subBits]int64 // allocated at the first hit: 1 KiB each, about ten in use
	count    int64
	sum      time.Duration
	min, max time.Duration
}

// Add counts one latency. A negative one counts as zero.
func (h *Histogram) Add(v time.Duration) {
	v = max(v, 0)
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.count++
	h.sum += v
	key := bucketOf(min(v, 1<<maxBits-1))
	page := &h.pages[key>>subBits]
	if *page == nil {
		*page = new([1 << subBits]int64)
	}
	(*page)[key&(1<<subBits-1)]++
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	h.sum += o.sum
	for i, page := range o.pages {
		if page == nil {
			continue
		}
		if h.pages[i] == nil {
			h.pages[i] = new([1 << subBits]int64)
		}
		for j, n := range page {
			h.pages[i][j] += n
		}
	}
}

// histogramJSON is a Histogram as JSON, with its non-empty buckets by number.
type histogramJSON struct {
	Count         int64
	Sum, Min, Max time.Duration
	Buckets       map[int]int64
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	w := histogramJSON{Count: h.count, Sum: h.sum, Min: h.min, Max: h.max, Buckets: map[int]int64{}}
	for i, page := range h.pages {
		if page == nil {
			continue
		}
		for j, n := range page {
			if n > 0 {
				w.Buckets[i<<subBits|j] = n
			}
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var w histogramJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*h = Histogram{count: w.Count, sum: w.Sum, min: w.Min, max: w.Max}
	for key, n := range w.Buckets {
		if key < 0 || key >= pageCount<<subBits {
			return fmt.Errorf("bench: a histogram has no bucket %d", key)
		}
		page := &h.pages[key>>subBits]
		if *page == nil {
			*page = new([1 << subBits]int64)
		}
		(*page)[key&(1<<subBits-1)] = n
	}
	return nil
}

// Count returns the number of latencies.
func (h *Histogram) Count() int64 { return h.count }

// Max returns the longest latency, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the exact mean, or 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Quantile returns the quantile q (0 to 1) as the middle of its bucket, or 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(int64(math.Ceil(q*float64(h.count))), 1)
	if rank >= h.count {
		return h.max
	}
	var seen int64
	for i, page := range h.pages {
		if page == nil {
			continue
		}
		for j, n := range page {
			if seen += n; seen >= rank {
				return min(max(bucketMiddle(i<<subBits|j), h.min), h.max)
			}
		}
	}
	return h.max
}

// bucketOf returns the number of v's bucket. v must be below 2^maxBits. The first 256 buckets hold one value
// each. After that, each page of 128 has buckets twice as wide as the page before.
func bucketOf(v time.Duration) int {
	shift := max(bits.Len64(uint64(v))-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

func bucketMiddle(key int) time.Duration {
	shift := max(key>>subBits-1, 0)
	low := time.Duration(key-shift<<subBits) << shift
	return low + (1<<shift-1)/2
}
