package readlease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/monotonic"
)

// ensemble is what a Roster sees of raft. The test's goroutine changes it.
type ensemble struct {
	term    atomic.Uint64
	last    uint64
	earlier time.Duration
}

func (e *ensemble) roster() *Roster {
	return New(Config{
		Clock: monotonic.System{}, Self: "1", Lease: lease, LeadingTerm: e.term.Load,
		Voters:    func() []raft.ServerID { return []raft.ServerID{"1", "2", "3"} },
		LastIndex: func() uint64 { return e.last }, EarlierLease: func() time.Duration { return e.earlier },
	})
}

func isReleased(r *Roster, index uint64) bool {
	ok, _, changed := r.look(index)
	return ok && changed == nil
}

// TestDeposedBeforeApplying has a leader that raft has deposed before it applies its first entry. 2 may have a lease of an earlier term, and
// only 3 holds the entry.
func TestDeposedBeforeApplying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ensemble{last: 11, earlier: lease}
		e.term.Store(5)
		r := e.roster()
		r.NoteHeld("3", 5, 11)
		e.term.Store(0)
		if isReleased(r, 10) {
			t.Fatal("an entry is released that 2 does not hold, although it may have a lease")
		}
	})
}

// TestDeposedLeaderHearsNothing has a deposed leader that hears nothing of the next one.
func TestDeposedLeaderHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ensemble{last: 11, earlier: lease}
		e.term.Store(5)
		r := e.roster()
		r.NoteHeld("3", 5, 11)
		e.term.Store(0)
		begun := time.Now()
		if !r.AwaitReleased(10, func() {}) {
			t.Fatal("the Roster is closed")
		}
		if took := time.Since(begun); took <= bounded(lease) || took > 2*bounded(lease) {
			t.Fatalf("waited for %v, want until the leases have ended, %v", took, bounded(lease))
		}
	})
}

// TestRenewalsWithoutEntries has a voter that asks for leases all the time, and gets no entries.
func TestRenewalsWithoutEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ensemble{last: 10}
		e.term.Store(5)
		r := e.roster()
		for number := uint64(1); number < 100; number++ {
			_, granted := r.Grant(5, "2", Request{1, number}, lease)
			if granted != (number == 1) {
				t.Fatalf("request %d: granted %v", number, granted)
			}
			e.last = 11
			time.Sleep(lease / 2)
			if number >= 3 && !isReleased(r, 11) {
				t.Fatalf("a write still waits after %d renewals", number)
			}
		}
		r.NoteHeld("2", 5, 11)
		if index, granted := r.Grant(5, "2", Request{1, 100}, lease); !granted || index != 11 {
			t.Fatalf("a voter that holds all got the lease %v from %d on", granted, index)
		}
	})
}

// TestLeavingInALaterTerm has a leader that is deposed, and leads again, while a voter that is to leave waits for the end of its lease.
func TestLeavingInALaterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ensemble{last: 10}
		e.term.Store(5)
		r := e.roster()
		r.Grant(5, "2", Request{1, 1}, lease)
		time.AfterFunc(lease/2, func() { e.term.Store(7) })
		if _, err := r.AwaitEnd(context.Background(), 5, "2"); err == nil {
			t.Fatal("2 may leave, although it may have a lease of term 6")
		}
	})
}
