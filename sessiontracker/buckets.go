package sessiontracker

import "time"

// Bucket is how many sessions fall due together if none of them is touched.
type Bucket struct {
	DueIn    time.Duration // from now on; 0 or less: the next step finds them due
	Sessions int
}

// Buckets returns the buckets that hold sessions, in order, as they are at now. A session is counted in the
// bucket of its last touch, or in the next one if it is due. One that is being closed is not counted. Buckets returns buckets of the next most
// ticks only, and later is how many sessions fall due after that. It looks at all sessions, as
// Expiries does, so a session that changes meanwhile may be missed or counted twice.
func (t *GlobalTable) Buckets(now time.Time, most int) (buckets []Bucket, later int) {
	tick, at := 2*t.step, t.TableTime(now)
	first := int64(at / tick)
	counts := make([]int, most)
	for e := range t.Expiries() {
		if i := max(int64(e.At/tick)-first, 0); i < int64(most) {
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
