package follower

import (
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// What a connection has not sent yet can be withdrawn, and then never reaches a leader. What was sent cannot, nor what has been applied.
func TestWithdraw(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxInFlight = 1 }, func(t *testing.T, r *rig) {
		r.submit(1, jute.OpCreate, "never sent")
		if !r.f.WithdrawUnsent(1) {
			t.Error("a write without a leader was not withdrawn")
		}
		l := r.announced()
		r.submit(2, jute.OpCreate, "sent")
		r.submit(2, jute.OpCreate, "queued")
		r.submit(3, jute.OpCreate, "of another")
		synctest.Wait()
		if s := r.f.Stats(); s.WritesInFlight.Len != 1 || s.QueuedWrites.Len != 2 {
			t.Fatalf("%d writes were sent, %d wait", s.WritesInFlight.Len, s.QueuedWrites.Len)
		}
		if r.f.WithdrawUnsent(2) {
			t.Error("a write that was sent is said to be withdrawn")
		}
		for range 2 {
			r.commit(l, 1)
		}
		var got []string
		for _, txn := range r.state.log {
			got = append(got, string(txn.Body))
		}
		if !slices.Equal(got, []string{"sent", "of another"}) {
			t.Errorf("applied %q", got)
		}
		if r.f.WithdrawUnsent(2) {
			t.Error("a write that was applied is said to be withdrawn")
		}
		if s := r.f.Stats(); s.QueuedWrites != (Queue{}) || s.WritesInFlight != (Queue{}) {
			t.Errorf("left: %+v", s)
		}
	})
}
