package member_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
)

// Every member shows the leader's time axis: each session is in the bucket in which it falls due, and moves to a
// later one when it is heard.
func TestBucketsFromAnyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, timeout = time.Second, 20 * time.Second
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		for _, id := range e.IDs() {
			e.Open(id, timeout)
		}
		kept := e.Connect(timeout, e.Followers()[0])
		e.Equal()
		opened := time.Now()
		shown := func(want int) (first time.Time) {
			t.Helper()
			for _, id := range e.IDs() {
				b, err := e.Member(id).View().ExpiryBuckets(t.Context())
				if err != nil || b.LeaderID != leader || b.TickMs != tick.Milliseconds() || len(b.Silent) > 0 || len(b.Buckets) == 0 || time.Since(b.At).Abs() > time.Second {
					t.Fatalf("member %d shows %+v, %v", id, b, err)
				}
				n := 0
				for _, one := range b.Buckets {
					n += one.Sessions
				}
				if n != want {
					t.Errorf("member %d shows %d sessions, want %d: %+v", id, n, want, b)
				}
				first = b.At.Add(time.Duration(b.Buckets[0].DueMs) * time.Millisecond)
			}
			return first
		}
		first := shown(4)
		if left := first.Sub(opened); left < timeout-tick || left > timeout+2*tick {
			t.Errorf("the first of the sessions that were just opened is due in %v", left)
		}
		e.Wait("the silent sessions to end", 2*timeout, func() bool { return len(endsOf(e, leader)) == 3 })
		if first := shown(1); first.Sub(opened) < timeout+2*tick {
			t.Errorf("session %v, which was heard, is due %v after it was opened", kept.Session(), first.Sub(opened))
		}
		e.Isolate(leader)
		for _, id := range e.IDs() {
			if b, err := e.Member(id).View().ExpiryBuckets(t.Context()); err != nil || b.LeaderID == leader && id != leader && len(b.Silent) != 1 { // another one may lead by now
				t.Errorf("member %d, while the leader is cut off: %+v, %v", id, b, err)
			}
		}
	})
}
