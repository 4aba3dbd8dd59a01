package readlease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/monotonic"
)

const (
	lease = 100 * time.Millisecond
	// waited is the time for which a leader waits for a lease: 5/4 of it, and until just after that.
	waited = 125*time.Millisecond + 1
)

// rig is the raft of member 1 of three, as a Roster sees it.
type rig struct {
	*Roster

	term    atomic.Uint64 // in which it leads
	last    uint64        // the end of its log
	voters  []raft.ServerID
	earlier time.Duration
	newest  time.Duration // the lease of the last TermStart in the log
	late    atomic.Int32  // calls
}

// bubble runs test in virtual time with member 1, which leads in term 5 after a leader that granted leases of the length earlier.
func bubble(t *testing.T, earlier, own time.Duration, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{last: 20, voters: []raft.ServerID{"1", "2", "3"}, earlier: earlier, newest: earlier}
		r.term.Store(5)
		r.Roster = New(Config{
			Clock: monotonic.System{}, Self: "1", LeadingTerm: r.term.Load,
			Voters: func() []raft.ServerID { return r.voters }, LastIndex: func() uint64 { return r.last },
			EarlierLease: func() (longest, last time.Duration) { return r.earlier, r.newest }, Lease: own,
		})
		test(t, r)
		r.Close()
	})
}

// limits checks what Limit and LimitEarlyCommit return for index 10.
func (r *rig) limits(t *testing.T, when string, limit, word2, word3 uint64) {
	t.Helper()
	got := []uint64{r.Limit(r.term.Load(), 10), r.LimitEarlyCommit("2", r.term.Load(), 10), r.LimitEarlyCommit("3", r.term.Load(), 10)}
	if want := []uint64{limit, word2, word3}; !slices.Equal(got, want) {
		t.Errorf("%s: released, words to 2 and 3: %d, want %d", when, got, want)
	}
}

func (r *rig) mustGrant(t *testing.T, server raft.ServerID, request Request) {
	t.Helper()
	if index, ok := r.Grant(r.term.Load(), server, request, lease); !ok || index != r.last {
		t.Errorf("grant to %s: index %d, %v; want the end of the log, %d", server, index, ok, r.last)
	}
}

// wait is a call of AwaitReleased that is under way.
type wait struct {
	began time.Time
	done  chan bool
}

func (r *rig) await(index uint64) wait {
	w := wait{time.Now(), make(chan bool, 1)}
	go func() { w.done <- r.AwaitReleased(index, func() { r.late.Add(1) }) }()
	synctest.Wait()
	return w
}

// ends checks that the call returns want, and how long it took.
func (w wait) ends(t *testing.T, when string, want bool, took time.Duration) {
	t.Helper()
	select {
	case got := <-w.done:
		if d := time.Since(w.began); got != want || d != took {
			t.Errorf("%s: released: %v after %v, want %v after %v", when, got, d, want, took)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s: still waits", when)
	}
}

func (w wait) goesOn(t *testing.T, when string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-w.done:
		t.Errorf("%s: released: %v; want it to wait", when, got)
	default:
	}
}

// Without leases, all is released at once.
func TestWithoutLeases(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, r *rig) {
		r.limits(t, "in a term without leases", 10, 10, 10)
		r.await(10).ends(t, "in a term without leases", true, 0)
		r.term.Store(0)
		r.await(11).ends(t, "after it", true, 0)
	})
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.term.Store(0)
		r.await(10).ends(t, "on a member that has never led", true, 0)
	})
}

// An entry is released when all members with a lease hold it. A leader's word to one of them needs the others alone.
func TestReleasedWhenAllHold(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		for i, server := range []raft.ServerID{"1", "2", "3"} {
			r.mustGrant(t, server, Request{1, uint64(i + 1)})
		}
		r.limits(t, "nobody holds it", 0, 0, 0)
		w := r.await(10)
		r.NoteHeld("2", 5, 10)
		r.limits(t, "2 holds it", 0, 0, 10)
		r.NoteHeld("3", 4, 10) // in another term
		r.NoteHeld("3", 5, 7)
		r.NoteHeld("3", 5, 6)
		r.limits(t, "3 holds a part", 7, 7, 10)
		w.goesOn(t, "3 holds a part")
		time.Sleep(time.Millisecond)
		r.NoteHeld("3", 5, 12)
		w.ends(t, "3 holds it", true, time.Millisecond)
		r.limits(t, "3 holds it", 10, 10, 10)
		r.term.Store(6)
		r.mustGrant(t, "3", Request{1, 4})
		if got := r.Limit(6, 12); got != 10 {
			t.Errorf("3 has accepted nothing in this term: released up to %d, want 10", got)
		}
	})
}

// A member that does not hold an entry delays it until its lease has ended by the bound.
func TestLeaseEnds(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		r.last = 8
		r.NoteHeld("3", 5, 8)
		r.mustGrant(t, "3", Request{1, 1})
		time.Sleep(lease / 2)
		r.mustGrant(t, "3", Request{1, 2})
		if _, ok := r.Grant(5, "3", Request{1, 3}, lease/2); !ok {
			t.Error("no shorter lease")
		}
		w := r.await(10)
		time.Sleep(waited - 1)
		r.limits(t, "at the end", 8, 8, 10)
		w.goesOn(t, "at the end")
		time.Sleep(time.Nanosecond)
		r.limits(t, "after it", 10, 10, 10)
		w.ends(t, "after it", true, waited)
	})
}

// A new leader waits for all voters, if a leader before may have granted leases.
func TestNewTermAwaitsAllVoters(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.limits(t, "at first", 0, 0, 0)
		w := r.await(10)
		r.NoteHeld("2", 5, 10)
		r.limits(t, "2 holds it", 0, 0, 10)
		w.ends(t, "3 does not hold it", true, waited)
		r.limits(t, "after the wait", 10, 10, 10)
	})
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		w := r.await(10)
		r.NoteHeld("2", 5, 10)
		r.NoteHeld("3", 5, 10)
		w.ends(t, "all hold it", true, 0)
	})
}

// In a term with shorter leases than before, or with none, nothing is released until the earlier ones have ended.
func TestTermWithShorterLeases(t *testing.T) {
	for _, own := range []time.Duration{0, lease / 2} {
		bubble(t, lease, own, func(t *testing.T, r *rig) {
			w := r.await(10)
			for _, server := range r.voters {
				r.NoteHeld(server, 5, 10)
			}
			r.limits(t, "at first", 0, 0, 0)
			time.Sleep(waited - 1)
			r.limits(t, "at the end", 0, 0, 0)
			w.goesOn(t, "at the end")
			w.ends(t, "after the wait", true, waited)
			r.limits(t, "after the wait", 10, 10, 10)
		})
	}
}

// A leader whose log ends with the TermStart of one with shorter leases than before, or with none, releases nothing
// until the longer ones have ended. raft's first entry of its term would release that TermStart, and a later leader that
// lacks this term's would wait for the shorter time.
func TestTermAfterOneWithShorterLeases(t *testing.T) {
	for _, newest := range []time.Duration{0, lease / 2} {
		bubble(t, lease, lease, func(t *testing.T, r *rig) {
			r.newest = newest
			w := r.await(10)
			for _, server := range r.voters {
				r.NoteHeld(server, 5, 10)
			}
			r.limits(t, "at first", 0, 0, 0)
			if _, ok := r.MayHaveLease(5); ok {
				t.Error("a word that names voters may be given")
			}
			w.ends(t, "after the wait", true, waited)
			r.limits(t, "after the wait", 10, 10, 10)
		})
	}
}

// A deposed leader keeps its unreleased entries, until it hears from a later leader or the leases have ended for which
// it would have waited.
func TestDeposedLeader(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		term, commit, majority uint64
		released               bool
	}{
		{"released", 6, 10, 10, true},
		{"the leader's word", 6, 10, 3, true},
		{"committed, and not released", 6, 9, 10, false},
		{"of its own term", 5, 10, 3, false},
		{"of an earlier term", 4, 10, 3, false},
	} {
		bubble(t, lease, lease, func(t *testing.T, r *rig) {
			r.limits(t, "as the leader", 0, 0, 0)
			r.term.Store(0)
			w := r.await(10)
			time.Sleep(lease)
			w.goesOn(t, "without a leader")
			r.NoteTold(tt.term, tt.commit, tt.majority)
			if tt.released {
				w.ends(t, tt.name, true, lease)
				return
			}
			w.goesOn(t, tt.name)
			w.ends(t, tt.name, true, waited)
		})
	}
}

// A leader that has sent a request knows of its term, even if it is deposed before it checks for releases.
func TestDeposedBeforeItLooks(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.Limit(5, 0)
		r.term.Store(0)
		r.await(10).goesOn(t, "deposed")
	})
}

// The word of a leader lasts for its term.
func TestEarlyCommitEndsWithItsTerm(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.Limit(5, 10)
		r.term.Store(0)
		r.NoteTold(6, 10, 3)
		r.NoteTold(7, 4, 3)
		r.await(4).ends(t, "the word of the present term", true, 0)
		r.await(5).goesOn(t, "the word of the term before")
		r.NoteTold(7, 6, 6)
		r.NoteTold(8, 4, 3)
		r.await(6).ends(t, "released in the term before", true, 0)
	})
}

// A lease is granted by the leader of the term alone, for a time within the limit.
func TestGrant(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		for _, tt := range []struct {
			name  string
			term  uint64
			lease time.Duration
		}{{"none", 5, 0}, {"too long", 5, MaxLease + 1}, {"another term", 4, lease}, {"a later term", 6, lease}} {
			if index, ok := r.Grant(tt.term, "2", Request{1, 1}, tt.lease); ok || index != 0 {
				t.Errorf("%s: index %d, %v", tt.name, index, ok)
			}
		}
		r.limits(t, "none was granted", 10, 10, 10)
		lastIndex := r.cfg.LastIndex
		r.cfg.LastIndex = func() uint64 {
			r.cfg.LastIndex = lastIndex
			r.limits(t, "when the end of the log is taken", 0, 10, 0)
			r.term.Store(0)
			return lastIndex()
		}
		if _, ok := r.Grant(5, "2", Request{1, 1}, lease); ok {
			t.Error("granted by a leader that was deposed meanwhile")
		}
		if _, ok := r.Grant(5, "2", Request{1, 2}, lease); ok {
			t.Error("granted by a leader that was deposed")
		}
	})
}

// A member that gives its lease back is not awaited any more. Messages that come late end nothing.
func TestReturn(t *testing.T) {
	for _, tt := range []struct {
		name string
		term uint64
		last Request
		ends bool
	}{
		{"its lease", 5, Request{7, 3}, true},
		{"a later request that was not granted", 5, Request{7, 4}, true},
		{"before a later request", 5, Request{7, 2}, false},
		{"of another process", 5, Request{6, 9}, false},
		{"in another term", 4, Request{7, 3}, false},
	} {
		bubble(t, 0, lease, func(t *testing.T, r *rig) {
			r.mustGrant(t, "3", Request{7, 3})
			w := r.await(10)
			r.Return(tt.term, "3", tt.last)
			if tt.ends {
				w.ends(t, tt.name, true, 0)
				return
			}
			w.ends(t, tt.name, true, waited)
		})
	}
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		r.NoteHeld("2", 5, 10)
		w := r.await(10)
		r.Return(5, "3", Request{7, 3})
		w.ends(t, "a lease of an earlier leader", true, 0)
	})
}

// A request whose proof takes longer than the message that gives it back brings no lease, and a later process's request does.
func TestGrantAfterReturn(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		r.NoteHeld("3", 5, r.last)
		r.mustGrant(t, "3", Request{7, 3})
		r.Return(5, "3", Request{7, 4})
		for number := uint64(3); number < 5; number++ {
			if _, ok := r.Grant(5, "3", Request{7, number}, lease); ok {
				t.Errorf("granted request %d, which was given back", number)
			}
		}
		r.await(21).ends(t, "given back", true, 0)
		r.mustGrant(t, "3", Request{8, 1})
		r.await(22).ends(t, "a later process", true, waited)
	})
}

// A process that gives its lease back gives back no other process's, although its last request was granted after the other's.
func TestReturnBesideAnotherProcess(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		r.NoteHeld("3", 5, r.last)
		r.mustGrant(t, "3", Request{8, 1})
		began := time.Now()
		time.Sleep(lease / 2)
		r.mustGrant(t, "3", Request{7, 3})
		w := r.await(21)
		r.Return(5, "3", Request{7, 3})
		w.ends(t, "the lease of the other process has ended", true, waited-time.Since(began))
		r.mustGrant(t, "3", Request{9, 1})
		r.Return(5, "3", Request{9, 1})
		r.await(22).ends(t, "given back when there is no other", true, 0)
	})
}

// A voter that is to leave gets no lease, and the leader waits until its last one has ended.
func TestAwaitEnd(t *testing.T) {
	bubble(t, 0, lease, func(t *testing.T, r *rig) {
		r.last = 8
		r.NoteHeld("3", 5, 8)
		r.mustGrant(t, "3", Request{1, 1})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), lease)
		defer cancel()
		time.AfterFunc(lease/2, func() {
			if _, ok := r.Grant(5, "3", Request{1, 2}, lease); ok {
				t.Error("granted to a voter that is to leave")
			}
			r.mustGrant(t, "2", Request{1, 1})
		})
		if _, err := r.AwaitEnd(ctx, 5, "3"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled: %v", err)
		}
		r.mustGrant(t, "3", Request{1, 3})
		mayStay, err := r.AwaitEnd(t.Context(), 5, "3")
		if d := time.Since(began); err != nil || d != lease+waited {
			t.Errorf("%v after %v, want the end of the lease after %v", err, d, lease+waited)
		}
		if again, err := r.AwaitEnd(t.Context(), 5, "3"); err != nil || time.Since(began) != lease+waited {
			t.Errorf("without a lease: %v after %v", err, time.Since(began))
		} else {
			again()
		}
		mayStay()
		r.mustGrant(t, "3", Request{1, 4})
		if _, err := r.AwaitEnd(t.Context(), 4, "3"); !errors.Is(err, errLeadsNoMore) || time.Since(began) != lease+waited {
			t.Errorf("in another term: %v after %v", err, time.Since(began))
		}
	})
}

// Close ends all waits.
func TestClose(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		w := r.await(10)
		r.Close()
		w.ends(t, "closed", false, 0)
		r.Close()
		r.await(10).ends(t, "later", false, 0)
	})
}

// A wait that takes long is reported once, even if other members' replies come meanwhile.
func TestLateWait(t *testing.T) {
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		w := r.await(10)
		time.Sleep(lateAfter / 2)
		r.NoteHeld("2", 5, 10)
		time.Sleep(lateAfter/2 - 1)
		synctest.Wait()
		if r.late.Load() != 0 {
			t.Errorf("reported %d times before %v", r.late.Load(), lateAfter)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if r.late.Load() != 1 {
			t.Errorf("reported %d times after %v, want once", r.late.Load(), lateAfter)
		}
		w.ends(t, "3 does not hold it", true, waited)
		if r.late.Load() != 1 {
			t.Errorf("reported %d times, want once", r.late.Load())
		}
	})
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		w := r.await(10)
		time.Sleep(lateAfter - 1)
		r.NoteHeld("2", 5, 10)
		r.NoteHeld("3", 5, 10)
		w.ends(t, "in time", true, lateAfter-1)
		if r.late.Load() != 0 {
			t.Errorf("reported %d times", r.late.Load())
		}
	})
}

// Until the leases of earlier terms have ended, all other voters may have one, and then those to which this leader has granted one. While
// those leases may be longer than this leader's, nothing is released at all, and no word names anybody.
func TestMayHaveLease(t *testing.T) {
	check := func(t *testing.T, r *rig, when string, term uint64, ok bool, want ...raft.ServerID) {
		t.Helper()
		got, gotOK := r.MayHaveLease(term)
		slices.Sort(got)
		if gotOK != ok || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v, %v", when, got, gotOK, want, ok)
		}
	}
	bubble(t, lease, lease, func(t *testing.T, r *rig) {
		check(t, r, "at the election", 5, true, "2", "3")
		check(t, r, "of another term", 4, false)
		time.Sleep(waited)
		check(t, r, "after the leases of earlier terms", 5, true)
		for _, server := range r.voters {
			r.NoteHeld(server, 5, r.last)
		}
		r.mustGrant(t, "1", Request{1, 1})
		r.mustGrant(t, "3", Request{1, 1})
		check(t, r, "after a grant", 5, true, "3")
		time.Sleep(waited)
		check(t, r, "after its end", 5, true)
		r.term.Store(0)
		r.NoteHeld("3", 6, 21)
		check(t, r, "of a term that this member does not lead", 6, false)
	})
	bubble(t, lease, 0, func(t *testing.T, r *rig) {
		check(t, r, "while there are longer leases", 5, false)
		time.Sleep(waited)
		check(t, r, "after them", 5, true)
	})
	bubble(t, 0, 0, func(t *testing.T, r *rig) { check(t, r, "without leases", 5, true) })
}
