package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/internal/metrics"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/znode"
)

const (
	// maxEntryOps limits the operations in an entry. Each operation of a multi counts, and a larger multi goes
	// alone. A greater limit gained nothing, and would delay readers during apply.
	maxEntryOps = 4096
	// maxTaken limits the operations of the members in an entry, so that ends of sessions and a sweep fit in.
	maxTaken = maxEntryOps - maxExpiries - 1
	// maxEntryBytes limits an entry's transactions. A larger transaction goes alone (gRPC limits its size).
	maxEntryBytes = 1 << 20

	// maxWaitingBytes limits one member's transactions that wait for an entry. It is enough to fill several
	// entries while the member learns that there is room. When it is exceeded, the member's stream is not
	// read: the member's own queues fill, and its clients wait. No write is rejected.
	maxWaitingBytes = 4 << 20

	// gatherTime is the longest wait of an entry for the writers of the entry before. They have just got their
	// replies, and often write again at once. Without this wait, entries alternate: each carries half of the
	// writers, and costs as much as if it carried all.
	//
	// The wait was measured with 16, 64 and 512 writers, each of which sends its next write after the reply
	// to the last one. With the wait, 1.13 to 1.18 times as many writes passed, for 0.74 to 0.8 of the
	// processor time. The figures are medians of four alternated runs, of three members on two processors.
	gatherTime = time.Millisecond
	// gatherShare is the share of these writers, in 16ths, that an entry waits for. One of them may have nothing
	// more to write.
	gatherShare = 15
	// gatherFrom is the least number of writers that an entry waits for.
	gatherFrom = 8
)

// batchLoop puts waiting transactions into entries. An entry takes those that arrived while the one before was under way, and
// shortly after. If that one takes long, as it does on links with a delay, the next one does not wait for all of it (underWay.nextAt).
// Any error ends the term, because a later entry might not follow the one before.
func (l *Leader) batchLoop(ctx context.Context) error {
	l.removals.unswept.Store(true) // an earlier term may have left nodes
	var entries underWay
	for {
		begun := l.cfg.Monotonic.Now()
		batch, err := l.sealEntry(begun)
		if err != nil {
			return err
		}
		if batch.data != nil {
			l.counters.Proposed.Add(batch.txnCount)
			settled := l.cfg.Log.SettledIndex()
			l.cfg.Stages.Sealed(batch.data, &batch.arrivals)
			entries.add(proposedEntry{batch, l.cfg.Log.Propose(batch.data, batch.senders), begun, settled})
		}
		if isOver, err := l.awaitNextEntry(ctx, &entries, batch.data != nil); isOver || err != nil {
			return err
		}
	}
}

// awaitNextEntry waits until an entry may be due: the entries under way allow another one, and if the last one was empty, a transaction
// has come or the pause after removals is over. It completes the entries that are done meanwhile. isOver is true when the term ends,
// which is not a failure.
func (l *Leader) awaitNextEntry(ctx context.Context, entries *underWay, hasWork bool) (isOver bool, err error) {
	for {
		now := l.cfg.Monotonic.Now()
		at, ok := entries.nextAt(now, l.cfg.Log.SettledIndex())
		mayPropose := ok && !at.After(now)
		if mayPropose && hasWork {
			return false, nil
		}
		var work <-chan struct{}
		var timer <-chan time.Time // both are nil, which is never ready, unless they are waited for
		switch {
		case mayPropose:
			work = l.intake.work
			if d := l.removals.pausedUntil.Sub(now); d > 0 {
				timer = l.cfg.Monotonic.After(d)
			}
		case ok:
			timer = l.cfg.Monotonic.After(at.Sub(now))
		}
		select {
		case <-ctx.Done():
			return true, nil
		case <-work:
			hasWork = true
		case <-timer:
			hasWork = hasWork || mayPropose
		case <-entries.oldestDone():
			if err := l.complete(ctx, entries.removeOldest(l.cfg.Monotonic.Now())); err != nil {
				return false, err
			}
			hasWork = true // its writers may have more, and a pause may have begun
		}
	}
}

// complete counts an entry that is done, and waits a while for its writers.
func (l *Leader) complete(ctx context.Context, e proposedEntry) error {
	if err := e.Error(); err != nil {
		return fmt.Errorf("leader: propose in term %d: %w", l.cfg.Term, err)
	}
	l.counters.Committed.Add(e.txnCount)
	if e.hasRemovals {
		l.expiryReporter.reportApplied()
		l.removals.startPause(e.begun)
	}
	l.intake.awaitMoreTxns(ctx, e.writeCount)
	return nil
}

// batch is an encoded entry.
type batch struct {
	data        []byte // nil if the entry is empty
	txnCount    uint64
	writeCount  int      // the transactions that waited in the intake
	senders     []uint32 // the members whose writes it has, or nil if it has the leader's own transactions
	hasRemovals bool     // of sessions, or of nodes that sessions have left
	arrivals    stages.Arrivals
}

// sealEntry makes an entry of waiting transactions. Sessions whose expiry is decided come after the writes, in a
// limited number, so that writes pass between them.
func (l *Leader) sealEntry(begun time.Time) (b batch, err error) {
	writes, arrivals := l.intake.takeTxns(maxTaken, maxEntryBytes)
	b.arrivals = arrivals
	l.expiry.touchWriters(writes, begun) // before the expiry is decided
	sweeps, due := l.removals.takeRemovals(begun)
	if b.hasRemovals = sweeps || len(due) > 0; b.hasRemovals {
		l.expiryReporter.sealedExpiries = due // at most one entry under way has any
	}
	ends, err := expireTxns(due, l.cfg.Sessions.TableTime(begun))
	if err != nil {
		return batch{}, err
	}
	var txns []*proto.Txn
	if sweeps {
		txn, err := sweepTxn()
		if err != nil {
			return batch{}, err
		}
		txns = append(txns, txn)
	}
	own := append(slices.Clone(txns), ends...)
	txns = append(txns, writes...)
	txns = append(txns, ends...)
	stampChanges(txns, &l.cfg, begun)
	for _, txn := range own {
		l.counters.TxnSizes.Add(txn.EncodedSize())
	}
	if len(txns) == 0 {
		return batch{}, nil
	}
	b.txnCount, b.writeCount = uint64(len(txns)), len(writes)
	if len(own) == 0 {
		b.senders = sendersOf(writes)
	}
	b.data, err = proto.MarshalEntry(&proto.Entry{
		Format: l.cfg.EntryFormat(), Term: l.cfg.Term, Nonce: l.cfg.Nonce,
		TimeMs: l.cfg.WallClock.Now().UnixMilli(), Txns: txns,
	})
	if err != nil {
		return batch{}, fmt.Errorf("leader: encode entry: %w", err)
	}
	return b, nil
}

// sendersOf returns the members that have sent transactions, or nil if some are the leader's own.
func sendersOf(txns []*proto.Txn) (members []uint32) {
	for _, txn := range txns {
		switch {
		case txn.Member == 0:
			return nil
		case !slices.Contains(members, txn.Member):
			members = append(members, txn.Member)
		}
	}
	return members
}

// intake holds the transactions that wait for an entry, in the order they came.
type intake struct {
	work     chan struct{}  // a transaction may wait; capacity 1
	txnSizes *metrics.Sizes // of the transactions that were taken
	stages   *stages.Recorder

	mu sync.Mutex
	// signalled when transactions were taken, a stream was replaced, or the term is over
	roomFreed    sync.Cond
	streams      map[uint32]*forwarding // by member: the stream that is read
	waiting      []waitingTxn           // from head on
	head         int
	waitingBytes map[uint32]int // by member
	waitingReaps int
	closed       bool
}

type waitingTxn struct {
	txn       *proto.Txn
	size      int
	ops       int
	arrivedAt stages.Time
}

func newWaitingTxn(txn *proto.Txn) waitingTxn {
	return waitingTxn{txn: txn, size: txn.EncodedSize(), ops: znode.TxnWeight(txn)}
}

func newIntake(sizes *metrics.Sizes, recorder *stages.Recorder) *intake {
	q := &intake{
		work: make(chan struct{}, 1), txnSizes: sizes, stages: recorder,
		streams: make(map[uint32]*forwarding), waitingBytes: make(map[uint32]int),
	}
	q.roomFreed.L = &q.mu
	return q
}

// enqueueForwardedWhenRoom appends the transactions that stream f has read, once there is room for them. It
// returns false, and adds nothing, if f is no longer its member's stream.
func (q *intake) enqueueForwardedWhenRoom(f *forwarding, txns []*proto.Txn) bool {
	all := make([]waitingTxn, len(txns))
	for i, txn := range txns {
		all[i] = newWaitingTxn(txn)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.isCurrent(f) && q.waitingBytes[f.member] >= maxWaitingBytes {
		q.roomFreed.Wait()
	}
	if !q.isCurrent(f) {
		return false
	}
	now := q.stages.Now()
	for _, w := range all {
		w.arrivedAt = now
		q.waiting = append(q.waiting, w)
		q.waitingBytes[f.member] += w.size
	}
	signal(q.work)
	return true
}

// enqueueReapWhenRoom appends a transaction of the reaper, once fewer than maxReaps wait. It returns false if
// the term is over.
func (q *intake) enqueueReapWhenRoom(txn *proto.Txn) bool {
	w := newWaitingTxn(txn)
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && q.waitingReaps >= maxReaps {
		q.roomFreed.Wait()
	}
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, w)
	q.waitingBytes[txn.Member] += w.size
	q.waitingReaps++
	signal(q.work)
	return true
}

func (q *intake) isCurrent(f *forwarding) bool { return !q.closed && q.streams[f.member] == f }

// takeTxns returns waiting transactions, oldest first, within the limits, but at least one if any
// waits. arrivals has the times at which the oldest of each member came.
func (q *intake) takeTxns(maxOps, maxBytes int) (txns []*proto.Txn, arrivals stages.Arrivals) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ops, bytes := 0, 0; q.head < len(q.waiting); q.head++ {
		w := &q.waiting[q.head]
		ops, bytes = ops+w.ops, bytes+w.size
		if (ops > maxOps || bytes > maxBytes) && len(txns) > 0 {
			break
		}
		q.txnSizes.Add(w.size)
		txns = append(txns, w.txn)
		arrivals.Add(w.txn.Member, w.arrivedAt)
		q.waitingBytes[w.txn.Member] -= w.size
		if w.txn.Member == 0 {
			q.waitingReaps--
		}
		*w = waitingTxn{}
	}
	if rest := q.waiting[q.head:]; q.head >= len(rest) { // moves no more than were taken since the last move
		n := copy(q.waiting, rest)
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	if len(txns) > 0 {
		q.roomFreed.Broadcast()
	}
	return txns, arrivals
}

// awaitMoreTxns waits until expectedTxns wait, or as many bytes as an entry takes. It waits at most gatherTime. done is the number of
// transactions of the entry that is done.
func (q *intake) awaitMoreTxns(ctx context.Context, done int) {
	want := q.expectedTxns(done)
	if want < gatherFrom*gatherShare/16 {
		return
	}
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for !q.hasEnough(want) {
		select {
		case <-q.work:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// expectedTxns returns nearly as many transactions as the entry had that is done and have come since.
func (q *intake) expectedTxns(done int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(done+len(q.waiting)-q.head, maxTaken) * gatherShare / 16
}

func (q *intake) hasEnough(txns int) bool {
	waiting, bytes := q.queueDepth()
	return waiting >= txns || bytes >= maxEntryBytes
}

// queueDepth returns the number and the bytes of the transactions that wait.
func (q *intake) queueDepth() (txns, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range q.waitingBytes {
		bytes += n
	}
	return len(q.waiting) - q.head, bytes
}

// replaceStream makes f the stream that is read for its member, and ends the one before.
func (q *intake) replaceStream(f *forwarding) {
	q.mu.Lock()
	old := q.streams[f.member]
	if !f.hasEnded {
		q.streams[f.member] = f
	}
	q.roomFreed.Broadcast()
	q.mu.Unlock()
	if old != nil {
		old.cancel(errStreamReplaced)
	}
}

// endStream ends the member's stream, if it has one.
func (q *intake) endStream(member uint32, why error) {
	q.mu.Lock()
	f := q.streams[member]
	delete(q.streams, member)
	q.roomFreed.Broadcast()
	q.mu.Unlock()
	if f != nil {
		f.cancel(why)
	}
}

// setSender records the member and boot of a stream from its first message. The stream may end meanwhile.
func (q *intake) setSender(f *forwarding, first *proto.Forwarded) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.member, f.boot = first.Member, first.Incarnation
}

// streamEnded removes f. No transaction of f is added after that.
func (q *intake) streamEnded(f *forwarding) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.hasEnded = true
	if q.streams[f.member] == f {
		delete(q.streams, f.member)
		q.roomFreed.Broadcast()
	}
}

func (q *intake) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.roomFreed.Broadcast()
}
