package follower

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// syncsPerLock is the number of syncs that are completed while apply has to wait: a few hundred microseconds.
const syncsPerLock = 256

// syncs are the syncs that wait until everything acknowledged before them has been applied here. They wait first
// for the leader to name an index, then for this member to apply it, or the TermStart of another leader. Their number is limited by the connections'
// own limits on requests in flight. Make one with newSyncs. It is safe for concurrent use.
type syncs struct {
	cfg           *Config
	leadership    *leadership
	unapplied     *unapplied
	lease         readLease
	callWanted    chan struct{} // one place: a sync waits for a call to the leader
	completionDue chan struct{} // one place: a sync may be complete
	callers       atomic.Uint64 // of awaitSync; they count as connections, whose numbers are random and far greater

	mu           sync.Mutex
	appliedIndex uint64
	waiting      map[uint64]connSyncs // by connection, for the next call to the leader
	requested    map[uint64]connSyncs // by connection, for the call under way
	rounds       []syncRound          // in order of their calls: of earlier terms first, and of a term in order of their indices
	held         []heldRound          // in order of their indices; one at most for each entry that is held and not applied
}

func newSyncs(cfg *Config, leadership *leadership, unapplied *unapplied) *syncs {
	return &syncs{
		cfg: cfg, leadership: leadership, unapplied: unapplied, lease: readLease{clock: cfg.Monotonic},
		callWanted: make(chan struct{}, 1), completionDue: make(chan struct{}, 1),
	}
}

// syncRound is the set of syncs that wait for the same index, or for the end of the term whose leader has named it. That
// leader may have been the only one to have entries up to the index, and they may be lost with it. But everything
// acknowledged before the syncs precedes the next TermStart in the log: the leader has proved that it still led.
type syncRound struct {
	term   *term
	index  uint64
	conns  map[uint64]connSyncs
	ending []uint64 // the sessions that the leader is closing, sorted
}

// isDone reports whether everything that was acknowledged before the round has been applied here.
func (r *syncRound) isDone(appliedIndex uint64) bool {
	return r.index <= appliedIndex || r.term.ctx.Err() != nil
}

// connSyncs are the syncs of one connection.
type connSyncs struct {
	session jute.SessionID // whose client waits; 0: none
	waiters []znode.Waiter
}

func (s *syncs) addSync(conn uint64, session jute.SessionID, w znode.Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[uint64]connSyncs)
	}
	s.waiting[conn] = connSyncs{session, append(s.waiting[conn].waiters, w)}
	if len(s.waiting) == 1 {
		signal(s.callWanted)
	}
}

// heldToRead returns the last entry that this member holds and must apply before a read of path, or 0. ok is false if it has no lease for
// reads.
func (s *syncs) heldToRead(path []byte) (index uint64, ok bool) {
	if !s.lease.isValid(s.unapplied.appliedIndex.Load(), func() { signal(s.callWanted) }) {
		return 0, false
	}
	return s.unapplied.heldToRead(path), true // after the lease was valid
}

// heldRound is the set of reads by leases that wait until this member has applied the log up to an index. The end of a term does not end
// the wait, because the entry may be of the next term. If another leader has cut it off, the reads go on once everything else that this
// member holds is applied: what they may have to show is not cut off.
type heldRound struct {
	index uint64
	conns map[uint64][]znode.Waiter
}

// addHeld adds a read that waits until this member has applied the log up to index, which heldToRead has returned.
func (s *syncs) addHeld(conn uint64, index uint64, w znode.Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := sort.Search(len(s.held), func(i int) bool { return s.held[i].index >= index })
	if at == len(s.held) || s.held[at].index != index {
		s.held = slices.Insert(s.held, at, heldRound{index: index, conns: map[uint64][]znode.Waiter{}})
	}
	s.held[at].conns[conn] = append(s.held[at].conns[conn], w)
	if s.hasDone() {
		signal(s.completionDue)
	}
}

// hasDone reports whether takeDone has something to take. The caller holds the lock.
func (s *syncs) hasDone() bool {
	return len(s.rounds) > 0 && s.rounds[0].isDone(s.appliedIndex) || s.hasDoneHeld()
}

// hasDoneHeld does so for reads by leases.
func (s *syncs) hasDoneHeld() bool {
	return len(s.held) > 0 && (s.held[0].index <= s.appliedIndex || s.unapplied.storedIndex.Load() <= s.appliedIndex)
}

func (s *syncs) dropConn(conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, conn)
	delete(s.requested, conn)
	for _, r := range s.rounds {
		delete(r.conns, conn)
	}
	for _, r := range s.held {
		delete(r.conns, conn)
	}
}

// claimWaitingSyncs assigns all waiting syncs to the caller's next call, and reports whether there are any.
func (s *syncs) claimWaitingSyncs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requested == nil {
		s.requested, s.waiting = s.waiting, nil
	}
	for conn, syncs := range s.waiting {
		s.requested[conn] = connSyncs{syncs.session, append(s.requested[conn].waiters, syncs.waiters...)}
	}
	s.waiting = nil
	return len(s.requested) > 0 || s.lease.renewal.Load()
}

// requestedSessions returns the sessions of the syncs that claimWaitingSyncs has assigned.
func (s *syncs) requestedSessions() (sessions []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, syncs := range s.requested {
		if syncs.session != 0 {
			sessions = append(sessions, uint64(syncs.session))
		}
	}
	return sessions
}

// assignReply records the reply of t's leader to the call of claimWaitingSyncs.
func (s *syncs) assignReply(t *term, reply *proto.SyncReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requested) > 0 {
		slices.Sort(reply.Ending)
		s.rounds = append(s.rounds, syncRound{term: t, index: reply.Index, conns: s.requested, ending: reply.Ending})
	}
	s.requested = nil
	signal(s.completionDue)
}

// advanceAppliedIndex records that the log is applied up to index. If a TermStart is among that, leadership knows its
// term.
func (s *syncs) advanceAppliedIndex(index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appliedIndex = index
	if s.hasDone() {
		signal(s.completionDue)
	}
}

// takeDone removes and returns reads by leases and syncs whose round is done, about limit of them at most. No round is done before the ones
// ahead of it: a later index of a term is not lower, and a call to the leader of a later term follows its TermStart.
func (s *syncs) takeDone(limit int) (done []doneSync) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.hasDoneHeld() {
		for conn, waiters := range s.held[0].conns {
			if len(done) >= limit {
				return done
			}
			for _, w := range waiters {
				done = append(done, doneSync{w, jute.OK})
			}
			delete(s.held[0].conns, conn)
		}
		s.held = s.held[1:]
	}
	for len(s.rounds) > 0 && s.rounds[0].isDone(s.appliedIndex) {
		for conn, syncs := range s.rounds[0].conns {
			if len(done) >= limit {
				return done
			}
			code := jute.OK
			if _, ending := slices.BinarySearch(s.rounds[0].ending, uint64(syncs.session)); ending {
				code = jute.SessionExpired
			}
			for _, w := range syncs.waiters {
				done = append(done, doneSync{w, code})
			}
			delete(s.rounds[0].conns, conn)
		}
		s.rounds = s.rounds[1:]
	}
	return done
}

// doneSync is a sync that is complete, with its result.
type doneSync struct {
	waiter znode.Waiter
	code   jute.Code
}

// requestLoop requests an index of the leader for all syncs that wait, one call at a time.
func (s *syncs) requestLoop(ctx context.Context) error {
	retry := newBackoff(s.cfg.Tick)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.callWanted:
		}
		for s.claimWaitingSyncs() {
			t := s.leadership.currentTerm()
			reply, err := s.requestIndex(ctx, t)
			if err == nil {
				retry.reset()
				s.assignReply(t, reply)
				continue
			}
			if !retry.waitForRetry(ctx, t) {
				return nil
			}
		}
	}
}

// awaitSync implements Follower.AwaitSync.
func (s *syncs) awaitSync(ctx context.Context) error {
	caller := s.callers.Add(1)
	done := make(syncSignal)
	s.addSync(caller, 0, done)
	defer s.dropConn(caller)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("follower: wait for a sync: %w", ctx.Err())
	}
}

// syncSignal is a znode.Waiter: it is closed when its sync is complete.
type syncSignal chan struct{}

func (s syncSignal) ReceiveResult(*znode.Result) { close(s) }

// requestIndex returns the leader's reply. Its index is at or above everything acknowledged before the call. The leader may
// rely on the fact that this member was in the leader's term after the syncs had begun, and had voted for no later one.
func (s *syncs) requestIndex(ctx context.Context, t *term) (*proto.SyncReply, error) {
	request := &proto.SyncRequest{Member: s.cfg.Self, Nonce: t.Nonce, Sessions: s.requestedSessions(), Boot: s.cfg.Boot}
	if s.cfg.ReadsByLease {
		request.LeaseRequest = s.lease.nextRequest()
	}
	sent := s.cfg.Monotonic.Now()
	reply, err := s.callLeader(ctx, t, request)
	if err == nil {
		s.lease.grant(reply, sent, s.unapplied.appliedIndex.Load())
	}
	s.lease.renewal.Store(false) // after the grant: reads that came meanwhile make no other call
	return reply, err
}

// callLeader makes a call to the leader of a term. It takes a tick at most.
func (s *syncs) callLeader(ctx context.Context, t *term, request *proto.SyncRequest) (*proto.SyncReply, error) {
	if !s.leadership.mayStillLead(t) {
		return nil, errNoLeader
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Tick) // a proof takes one round trip
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	leader, err := s.cfg.Peers.Leader(ctx, t.Leader)
	if err != nil {
		return nil, fmt.Errorf("follower: reach leader %d: %w", t.Leader, err)
	}
	reply, err := leader.Sync(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("follower: sync: %w", err)
	}
	return reply, nil
}

// completeLoop completes syncs whose round is done, under the tree's read lock.
func (s *syncs) completeLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.completionDue:
		}
		for {
			done := s.takeDone(syncsPerLock)
			if len(done) == 0 {
				break
			}
			s.completeSyncs(done)
		}
	}
}

func (s *syncs) completeSyncs(done []doneSync) {
	s.cfg.State.RLock()
	defer s.cfg.State.RUnlock()
	for _, d := range done {
		d.waiter.ReceiveResult(&znode.Result{Code: d.code})
	}
}
