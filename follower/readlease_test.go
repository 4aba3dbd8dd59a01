package follower

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
)

const leaseTime = 100 * time.Millisecond

// readers is a Follower whose leader grants leases.
type readers struct {
	*rig
	l        *fakeLeader
	calls    int
	index    uint64               // that the leader's replies name, both for syncs and for leases
	way      time.Duration        // of a call, in each direction
	returned []uint64             // the requests up to which leases were given back
	fails    func() (err error)   // nil: calls do not fail
	requests []*proto.SyncRequest // for leases
}

func withLeases(t *testing.T, test func(t *testing.T, r *readers)) {
	t.Helper()
	bubble(t, func(cfg *Config) { cfg.ReadsByLease = true }, func(t *testing.T, rig *rig) {
		r := &readers{rig: rig}
		r.follow(rig.announced())
		r.index = rig.state.index
		test(t, r)
	})
}

func (r *readers) follow(l *fakeLeader) {
	r.l = l
	l.sync = func(context.Context) (uint64, error) {
		r.calls++
		time.Sleep(r.way)
		if r.fails != nil {
			return 0, r.fails()
		}
		return r.index, nil
	}
	l.lease = func(req *proto.SyncRequest, reply *proto.SyncReply) {
		if req.ReturnedLease > 0 {
			r.returned = append(r.returned, req.ReturnedLease)
			return
		}
		r.requests = append(r.requests, req)
		reply.LeaseUs, reply.LeaseIndex = uint64(leaseTime.Microseconds()), r.index
		time.Sleep(r.way)
	}
}

// read makes a read that is not stale, and waits until all goroutines are blocked.
func (r *readers) read() *heard {
	w := &heard{}
	r.readFor(1, w)
	synctest.Wait()
	return w
}

// readFor makes a read of a connection that depends on everything.
func (r *readers) readFor(conn uint64, w *heard) {
	if index, ok := r.f.IndexToRead(nil); ok {
		r.f.SyncRead(conn, index, w)
	} else {
		r.f.Sync(conn, 0, w)
	}
}

// mayStillRead checks whether the member may read now, and waits until all goroutines are blocked.
func (r *readers) mayStillRead() {
	r.f.IndexToRead(nil)
	synctest.Wait()
}

// mayRead checks whether the member may read now, and how many calls there were.
func (r *readers) mayRead(t *testing.T, when string, want bool, calls int) {
	t.Helper()
	index, ok := r.f.IndexToRead(nil)
	synctest.Wait()
	if got := ok && index == 0; got != want || r.calls != calls {
		t.Errorf("%s: may read: %v after %d calls, want %v after %d", when, got, r.calls, want, calls)
	}
}

// The first read makes a call, which brings a lease from before it was sent. A read in its second half makes the next call, once.
func TestReadLease(t *testing.T) {
	withLeases(t, func(t *testing.T, r *readers) {
		r.mayRead(t, "without a lease", false, 0)
		r.way = 10 * time.Millisecond
		w := r.read()
		time.Sleep(2 * r.way)
		synctest.Wait()
		if w.times() != 1 {
			t.Errorf("the first read was done %d times", w.times())
		}
		r.mayRead(t, "with a lease", true, 1)
		time.Sleep(leaseTime/2 - 2*r.way)
		r.mayRead(t, "after half of it", true, 1)
		time.Sleep(time.Nanosecond)
		for range 5 {
			r.mayRead(t, "in its second half", true, 2)
			time.Sleep(time.Nanosecond)
		}
		time.Sleep(2*r.way - 5 - 1)
		r.mayRead(t, "shortly before the reply", true, 2)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.mayRead(t, "with the next one", true, 2)
		time.Sleep(leaseTime - 2*r.way)
		r.fails = func() error { return context.Canceled }
		r.mayRead(t, "at its end", true, 3)
		time.Sleep(time.Nanosecond)
		r.mayRead(t, "after it", false, 3)
		for i, req := range r.requests {
			if req.LeaseRequest != uint64(i+1) || req.Boot != ourBoot {
				t.Errorf("request %d of boot %d, want %d of %d", req.LeaseRequest, req.Boot, i+1, ourBoot)
			}
		}
	})
}

// While this member has not applied the log as far as the next leases need, the last one that is good stays so until its
// own end, however many come.
func TestEarlierLeaseStays(t *testing.T) {
	withLeases(t, func(t *testing.T, r *readers) {
		r.read()
		begun := time.Now()
		applied := r.state.index
		for n := uint64(1); n <= 2*maxUnappliedLeases; n++ {
			time.Sleep(leaseTime / 20)
			r.index = applied + n
			r.f.Sync(2, 0, &heard{}) // makes a call
			synctest.Wait()
			r.mayRead(t, "with a later lease", true, int(1+n))
		}
		time.Sleep(time.Until(begun.Add(leaseTime)))
		if !r.f.syncs.lease.isValid(applied, func() {}) {
			t.Error("the lease does not last until its end")
		}
		time.Sleep(time.Nanosecond)
		if r.f.syncs.lease.isValid(applied, func() {}) {
			t.Error("the lease lasts beyond its end")
		}
		if !r.f.syncs.lease.isValid(r.index, func() {}) {
			t.Error("the last lease is not good")
		}
		n := 0
		for g := r.f.syncs.lease.granted.Load(); g != nil; g = g.earlier {
			n++
		}
		if n > maxUnappliedLeases+2 {
			t.Errorf("%d leases are kept", n)
		}
	})
}

// A request that is numbered while the lease is dropped is given back with it, or is not made.
func TestRequestWhileLeaseIsDropped(t *testing.T) {
	for range 200 {
		var l readLease
		dropped := make(chan uint64)
		go func() { dropped <- l.drop() }()
		var number uint64
		for n := l.nextRequest(); n > 0; n = l.nextRequest() {
			number = n
		}
		if last := <-dropped; number > last {
			t.Fatalf("request %d is made, and those up to %d are given back", number, last)
		}
	}
}

// A call that fails does not renew the lease, and a later read makes another one.
func TestReadLeaseRenewedAfterFailure(t *testing.T) {
	withLeases(t, func(t *testing.T, r *readers) {
		r.read()
		time.Sleep(leaseTime/2 + 1)
		r.fails = func() error { return context.Canceled }
		r.mayRead(t, "in the second half", true, 2)
		time.Sleep(leaseTime / 4)
		synctest.Wait()
		r.fails = nil
		deadline := time.Now().Add(10 * tick)
		for r.mayStillRead(); len(r.requests) < 2 && time.Now().Before(deadline); r.mayStillRead() {
			time.Sleep(time.Millisecond)
		}
		if len(r.requests) < 2 {
			t.Error("no other call")
		}
	})
}

// No lease is requested if reads may be stale. A lease that is not granted does not allow reads.
func TestWithoutReadLeases(t *testing.T) {
	bubble(t, nil, func(t *testing.T, rig *rig) {
		r := &readers{rig: rig}
		r.follow(rig.announced())
		r.read()
		if len(r.requests) != 1 || r.requests[0].LeaseRequest != 0 {
			t.Errorf("requests %v", r.requests)
		}
		if ReturnReadLease(t.Context(), r.f); r.calls != 1 {
			t.Errorf("%d calls, the last one to give nothing back", r.calls)
		}
	})
	withLeases(t, func(t *testing.T, r *readers) {
		r.l.lease = nil
		r.read()
		r.mayRead(t, "no lease", false, 1)
	})
}

// A lease is used once the log is applied as far as it says.
func TestReadLeaseNeedsItsIndex(t *testing.T) {
	withLeases(t, func(t *testing.T, r *readers) {
		r.index += 2
		w := r.read()
		r.mayRead(t, "two entries are missing", false, 1)
		r.apply()
		r.mayRead(t, "one entry is missing", false, 1)
		r.apply()
		synctest.Wait()
		r.mayRead(t, "none is missing", true, 1)
		if w.times() != 1 {
			t.Errorf("the read was done %d times", w.times())
		}
	})
}

// With a lease, a read waits until all entries that this member holds are applied, and makes no call. It continues if
// another leader truncates these entries.
func TestReadAwaitsWhatIsHeld(t *testing.T) {
	withLeases(t, func(t *testing.T, r *readers) {
		r.read()
		held := r.state.index + 2
		r.f.EntryStored(held-1, nil)
		r.f.EntryStored(held, nil)
		r.mayRead(t, "two entries are held", false, 1)
		w := r.read()
		r.apply()
		synctest.Wait()
		if w.times() != 0 {
			t.Error("read before all is applied that is held")
		}
		r.f.EntryStored(held+1, nil) // after the read
		later, detached := r.read(), &heard{}
		r.readFor(2, detached)
		r.f.Detach(0, 2)
		r.apply()
		synctest.Wait()
		if w.times() != 1 || later.times() != 0 {
			t.Errorf("done %d times, and a later read %d times", w.times(), later.times())
		}
		r.lead(2, 2) // another entry takes the place of the last one
		synctest.Wait()
		if later.times() != 1 || detached.times() != 0 || r.calls != 1 {
			t.Errorf("done %d times, %d times after its end, %d calls", later.times(), detached.times(), r.calls)
		}
		r.mayRead(t, "all is applied that is held", true, 1)
		r.f.EntryStored(r.state.index+5, nil)
		w = r.read()
		r.f.EntryStored(r.state.index+1, nil) // the TermStart, in the place of entries that are cut off
		r.lead(1, 3)
		if synctest.Wait(); w.times() != 1 || r.calls != 1 {
			t.Errorf("done %d times after another TermStart, %d calls", w.times(), r.calls)
		}
	})
}

// A member that has given its lease back takes no other one, also if the reply to a request is under way.
func TestReadLeaseReturned(t *testing.T) {
	withLeases(t, func(t *testing.T, r *readers) {
		r.read()
		r.way = 10 * time.Millisecond
		time.Sleep(leaseTime/2 + 1)
		r.mayRead(t, "in its second half", true, 2)
		ReturnReadLease(t.Context(), r.f)
		if len(r.returned) != 1 || r.returned[0] != 2 {
			t.Errorf("gave back %d, want the last request, 2", r.returned)
		}
		time.Sleep(3 * r.way)
		synctest.Wait()
		r.mayRead(t, "returned", false, 3)
		r.read()
		time.Sleep(3 * r.way)
		r.mayRead(t, "after a sync", false, 4)
		if last := r.requests[len(r.requests)-1]; last.LeaseRequest != 0 {
			t.Errorf("asked for a lease: %v", last)
		}
	})
	withLeases(t, func(t *testing.T, r *readers) {
		r.read()
		tries := 0
		r.fails = func() error {
			if tries++; tries == 3 {
				r.fails = nil
			}
			return context.DeadlineExceeded
		}
		began := time.Now()
		ReturnReadLease(t.Context(), r.f)
		if d := time.Since(began); len(r.returned) != 1 || d != 3*returnPause {
			t.Errorf("gave back %d after %v, want once after %v", r.returned, d, 3*returnPause)
		}
		r.fails = func() error { return context.DeadlineExceeded }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if ReturnReadLease(ctx, r.f); time.Since(began) != time.Second {
			t.Errorf("a leader that cannot be reached: ended after %v", time.Since(began))
		}
	})
}
