package sessiontracker

import "time"

// Bucket counts the sessions that fall due in the same tick if none of them is touched.
type Bucket struct {
	DueIn    time.Duration // until the end of the tick, from now on; 0 or less if the next step finds them due
	Sessions int
}

// BucketCounts returns the buckets of the next most ticks that hold sessions, in order, and the number of sessions
// that fall due later. Each is a tick wide: two of the queues' buckets. A session is in the bucket of its last touch, or in
// the next one if it is due.
// Sessions that are being closed are left out. BucketCounts visits all sessions, as Expiries does, so a session
// that changes meanwhile may be missed or counted twice.
func (t *GlobalTable) BucketCounts(now time.Time, most int) (buckets []Bucket, later int) {
	tick, at := 2*t.step, t.TableTime(now)
	first := int64(at / tick)
	counts := make([]int, most)
	for e := range t.Expiries() {
		if i := max(int64((e.At+tick-1)/tick)-first, 0); i < int64(most) {
			counts[i]++
		} else {
			later++
		}
	}
	for i, n := range counts {
		if n > 0 {
			buckets = append(buckets, Bucket{time.Duration(first+int64(i))*tick - at, n})
		}
	}
	return buckets, later
}
