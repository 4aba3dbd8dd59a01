package follower

import (
	"context"
	"fmt"
	"sync"

	"rollcall/proto"
	"rollcall/znode"
)

// syncsPerLock is how many syncs are completed while apply has to wait: a few hundred microseconds.
const syncsPerLock = 256

// syncs holds the waiting syncs. They wait first for the leader to name an index, then for this
// member to apply it. Their number is limited by the connections' own limits on requests in flight.
// The zero value is ready to use. It is safe for concurrent use.
type syncs struct {
	mu      sync.Mutex
	waiting map[uint64][]znode.Waiter // by connection: those that arrived after the last call to the leader
	asked   map[uint64][]znode.Waiter // those that the call under way is for
	rounds  []round                   // those that the leader has answered
}

// round is the set of syncs that one answer of the leader completes.
type round struct {
	index   uint64
	waiters map[uint64][]znode.Waiter
}

// add adds a sync and reports whether it is the first one waiting.
func (s *syncs) add(conn uint64, w znode.Waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[uint64][]znode.Waiter)
	}
	s.waiting[conn] = append(s.waiting[conn], w)
	return len(s.waiting) == 1
}

// drop forgets the syncs of a connection.
func (s *syncs) drop(conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, conn)
	delete(s.asked, conn)
	for _, r := range s.rounds {
		delete(r.waiters, conn)
	}
}

// begin assigns all waiting syncs to the call that the caller makes next, and reports whether there
// are any.
func (s *syncs) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked, s.waiting = s.waiting, nil
	}
	for conn, waiters := range s.waiting {
		s.asked[conn] = append(s.asked[conn], waiters...)
	}
	s.waiting = nil
	return len(s.asked) > 0
}

// answer records the answer to the call that begin announced.
func (s *syncs) answer(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		s.rounds = append(s.rounds, round{index: index, waiters: s.asked})
	}
	s.asked = nil
}

// due reports whether a round waits for an index up to applied.
func (s *syncs) due(applied uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rounds) > 0 && s.rounds[0].index <= applied
}

// done removes and returns up to limit of the syncs for which the index has been applied. The
// indices that leaders name never decrease.
func (s *syncs) done(applied uint64, limit int) []znode.Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var done []znode.Waiter
	for len(s.rounds) > 0 && s.rounds[0].index <= applied {
		for conn, waiters := range s.rounds[0].waiters {
			if len(done) >= limit {
				return done
			}
			done = append(done, waiters...)
			delete(s.rounds[0].waiters, conn)
		}
		s.rounds = s.rounds[1:]
	}
	return done
}

// askLoop asks the leader for all syncs that wait, one call at a time.
func (f *Follower) askLoop(ctx context.Context) error {
	retry := f.newBackoff()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.asking:
		}
		for f.syncs.begin() {
			t := f.leadership()
			index, err := f.ask(ctx, t)
			if err == nil {
				retry.reset()
				f.syncs.answer(index)
				wake(f.synced)
				continue
			}
			if !retry.wait(ctx, t) {
				return nil
			}
		}
	}
}

// AwaitSync waits until everything that was committed before the call has been applied here. It fails
// only if ctx ends first.
func (f *Follower) AwaitSync(ctx context.Context) error {
	caller := f.callers.Add(1)
	done := make(synchronized)
	f.Sync(caller, done)
	defer f.syncs.drop(caller)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("follower: wait for a sync: %w", ctx.Err())
	}
}

// synchronized is a znode.Waiter: it is closed when its sync is complete.
type synchronized chan struct{}

func (s synchronized) Applied(*znode.Result) { close(s) }

// ask returns an index that is at or above everything committed before the call.
func (f *Follower) ask(ctx context.Context, t *term) (uint64, error) {
	if !f.isCurrent(t) {
		return 0, errNoLeader
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Tick) // a proof takes one round trip
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	leader, err := f.cfg.Leader(ctx, t.Leader)
	if err != nil {
		return 0, fmt.Errorf("follower: reach leader %d: %w", t.Leader, err)
	}
	reply, err := leader.Sync(ctx, &proto.SyncRequest{Member: f.cfg.Self, Nonce: t.Nonce})
	if err != nil {
		return 0, fmt.Errorf("follower: sync: %w", err)
	}
	return reply.Index, nil
}

// completeLoop completes syncs whose index has been applied, under the tree's read lock.
func (f *Follower) completeLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.synced:
		}
		for {
			done := f.syncs.done(f.applied.Load(), syncsPerLock)
			if len(done) == 0 {
				break
			}
			f.complete(done)
		}
	}
}

func (f *Follower) complete(done []znode.Waiter) {
	f.cfg.State.RLock()
	defer f.cfg.State.RUnlock()
	for _, w := range done {
		w.Applied(&znode.Result{})
	}
}
