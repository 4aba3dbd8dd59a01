package readlease

import (
	"testing"
	"time"
)

// deposed has member 3 alone hold the end of the log, and then the leader deposed before it applies its first entry. 2
// may have a lease of an earlier term.
func (r *rig) deposed() {
	r.NoteHeld("3", 5, r.last)
	r.term.Store(0)
}

// A leader that raft has deposed before it applies its first entry releases none that a voter with a lease may lack.
func TestDeposedBeforeApplying(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.deposed()
		r.await(10).goesOn(t, "2 does not hold it, and may have a lease")
	})
}

// A deposed leader that hears nothing of the next one waits for the leases of its term, and not for ever.
func TestDeposedLeaderHearsNothing(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.deposed()
		r.await(10).ends(t, "the leases have ended", true, waited)
	})
}

// A voter that gets no entries, and requests leases all the time, delays a write until its first lease has ended.
func TestRenewalsWithoutEntries(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		r.last = 10
		r.mustGrant(t, "2", Request{1, 1})
		r.last = 11
		w := r.await(11)
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for number := uint64(2); number < 100; number++ {
				if _, ok := r.Grant(5, "2", Request{1, number}, lease); ok {
					t.Errorf("request %d: granted to a voter that does not hold what its lease has named", number)
				}
				time.Sleep(lease / 50)
			}
		}()
		w.ends(t, "the lease has ended", true, waited)
		<-asked
		r.NoteHeld("2", 5, 11)
		r.mustGrant(t, "2", Request{1, 100})
	})
}

// No voter leaves if its lease was awaited in one term, and this member leads a later one by then: it may have a lease of a term between.
func TestLeavingInALaterTerm(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		r.mustGrant(t, "2", Request{1, 1})
		time.AfterFunc(lease/2, func() { r.term.Store(7) })
		if _, err := r.AwaitEnd(t.Context(), 5, "2"); err == nil {
			t.Fatal("2 may leave, although it may have a lease of term 6")
		}
	})
}
