package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/znode"
)

const (
	maxEntryOps   = 4096                          // operations in an entry's transactions; each operation of a multi counts, and a larger multi goes alone. A greater limit gained nothing, and would hold up readers during apply
	maxTaken      = maxEntryOps - maxExpiries - 1 // operations of the members in an entry: there is room for the ends of sessions and a sweep
	maxEntryBytes = 1 << 20                       // bytes of an entry's transactions; a larger transaction goes alone (gRPC limits its size)

	// maxWaitingBytes is how many bytes of one member's transactions may wait for an entry. It is enough
	// to fill several entries while the member learns that there is room. When it is exceeded, the
	// member's stream is not read: the member's own queues fill, and its clients wait. No write is
	// ever refused.
	maxWaitingBytes = 4 << 20

	// gatherTime is how long an entry waits for the writers of the entry before. Those have just
	// been answered, and often write again at once. Without this wait, entries alternate: each
	// carries half of the writers, and costs as much as if it carried all.
	//
	// The wait was measured with 16, 64 and 512 writers, each of which sends its next write when it
	// has the answer to the last one. With the wait, 1.13 to 1.18 times as many writes passed, for
	// 0.74 to 0.8 of the processor time. The figures are medians of four alternated runs, of three
	// members on two processors.
	gatherTime = time.Millisecond
	// gatherShare is how many of these writers, in 16ths, an entry waits for. It does not wait for
	// all, because one of them may have nothing more to write.
	gatherShare = 15
	// gatherFrom is how many writers are worth waiting for.
	gatherFrom = 8
)

// batchLoop puts what waits into entries, one after the other. An entry takes what arrived while
// the one before was under way, and shortly after. With two entries under way at a time, entries
// were smaller. That costs more, because each entry makes every member write to its disk and
// exchange a round of messages. A transaction itself costs far less. Any error ends the term,
// because it is unknown whether a later entry would still follow the one before.
func (l *Leader) batchLoop(ctx context.Context) error {
	l.removals.unswept.Store(true) // an earlier term may have left some
	for {
		begun := l.cfg.Monotonic.Now()
		batch, err := l.sealEntry(begun)
		if err != nil {
			return err
		}
		if batch.data == nil {
			if !l.awaitWork(ctx) {
				return nil
			}
			continue
		}
		l.counters.Proposed.Add(batch.txnCount)
		entry := l.cfg.Log.Propose(batch.data, batch.senders)
		select {
		case <-ctx.Done():
			return nil
		case <-entry.Done():
		}
		if err := entry.Error(); err != nil {
			return fmt.Errorf("leader: propose in term %d: %w", l.cfg.Term, err)
		}
		l.counters.Committed.Add(batch.txnCount)
		l.expired.reportApplied()
		if batch.hasRemovals {
			l.removals.pauseAfter(begun)
		}
		l.intake.gatherMore(ctx)
	}
}

// awaitWork waits until something may have to go into an entry: a transaction has come, or the
// pause after removals is over. It returns false when the term ends, which is not a failure.
func (l *Leader) awaitWork(ctx context.Context) bool {
	var rested <-chan time.Time // nil, which never fires, unless there is a pause
	if d := l.removals.pausedUntil.Sub(l.cfg.Monotonic.Now()); d > 0 {
		rested = l.cfg.Monotonic.After(d)
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.intake.work:
	case <-rested:
	}
	return true
}

// batch is an encoded entry.
type batch struct {
	data        []byte // nil: there was nothing to put into it
	txnCount    uint64
	senders     []uint32 // the members whose writes it has; nil if it has transactions of the leader's own
	hasRemovals bool     // whether it removes sessions, or nodes that sessions have left
}

// sealEntry makes an entry of what waits. Sessions whose expiry is decided come after the writes, in a limited
// number, so that writes pass between them.
func (l *Leader) sealEntry(begun time.Time) (b batch, err error) {
	writes := l.intake.takeTxns(maxTaken, maxEntryBytes)
	l.expiry.touchWriters(writes, begun) // before the expiry is decided
	sweeps, due := l.removals.takeRemovals(begun)
	b.hasRemovals = sweeps || len(due) > 0
	l.expired.sealedExpiries = due
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
		l.counters.TxnSizes.Add(pb.Size(txn))
	}
	if len(txns) == 0 {
		return batch{}, nil
	}
	b.txnCount = uint64(len(txns))
	if len(own) == 0 {
		b.senders = sendersOf(writes)
	}
	b.data, err = pb.Marshal(&proto.Entry{
		Format: l.cfg.EntryFormat(), Term: l.cfg.Term, Nonce: l.cfg.Nonce,
		TimeMs: l.cfg.WallClock.Now().UnixMilli(), Txns: txns,
	})
	if err != nil {
		return batch{}, fmt.Errorf("leader: encode entry: %w", err)
	}
	return b, nil
}

// sendersOf returns the members that have sent transactions, or nil if the leader has made some of them itself.
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
	work     chan struct{}  // something waits; capacity 1
	txnSizes *metrics.Sizes // txnSizes of the transactions that were taken

	mu           sync.Mutex
	roomFreed    sync.Cond              // signalled when transactions were taken, a stream was replaced, or the term is over
	streams      map[uint32]*forwarding // by member: the stream that is read
	waiting      []waitingTxn           // those from head on wait
	head         int
	lastTaken    int            // number of transactions that the last take returned
	waitingBytes map[uint32]int // by member: bytes that wait
	waitingReaps int            // number of reaps that wait
	closed       bool
}

type waitingTxn struct {
	txn  *proto.Txn
	size int
	ops  int
}

// newWaitingTxn returns the record of a transaction that waits.
func newWaitingTxn(txn *proto.Txn) waitingTxn {
	return waitingTxn{txn: txn, size: pb.Size(txn), ops: znode.TxnWeight(txn)}
}

func newIntake(sizes *metrics.Sizes) *intake {
	q := &intake{
		work: make(chan struct{}, 1), txnSizes: sizes,
		streams: make(map[uint32]*forwarding), waitingBytes: make(map[uint32]int),
	}
	q.roomFreed.L = &q.mu
	return q
}

// addForwarded appends the transactions that stream f has read, once there is room for them. It reports
// false, and adds nothing, if f is no longer the stream to be read.
func (q *intake) addForwarded(f *forwarding, txns []*proto.Txn) bool {
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
	for _, w := range all {
		q.waiting = append(q.waiting, w)
		q.waitingBytes[f.member] += w.size
	}
	signal(q.work)
	return true
}

// addReap appends a transaction of the leader's own, once few enough of these wait. It reports false
// if the term is over.
func (q *intake) addReap(txn *proto.Txn) bool {
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
// waits.
func (q *intake) takeTxns(maxOps, maxBytes int) []*proto.Txn {
	q.mu.Lock()
	defer q.mu.Unlock()
	var txns []*proto.Txn
	for ops, bytes := 0, 0; q.head < len(q.waiting); q.head++ {
		w := &q.waiting[q.head]
		ops, bytes = ops+w.ops, bytes+w.size
		if (ops > maxOps || bytes > maxBytes) && len(txns) > 0 {
			break
		}
		q.txnSizes.Add(w.size)
		txns = append(txns, w.txn)
		q.waitingBytes[w.txn.Member] -= w.size
		if w.txn.Member == 0 {
			q.waitingReaps--
		}
		*w = waitingTxn{}
	}
	if rest := q.waiting[q.head:]; q.head >= len(rest) { // at most as many are moved as were taken since the last move
		n := copy(q.waiting, rest)
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	if q.lastTaken = len(txns); q.lastTaken > 0 {
		q.roomFreed.Broadcast()
	}
	return txns
}

// gatherMore waits until there is enough for an entry, or nearly as many transactions wait as the last
// entry took and as have come since. It waits at most gatherTime.
func (q *intake) gatherMore(ctx context.Context) {
	want := q.expectedTxns()
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

// expectedTxns returns how many transactions are worth waiting for.
func (q *intake) expectedTxns() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(q.lastTaken+len(q.waiting)-q.head, maxTaken) * gatherShare / 16
}

// hasEnough reports whether that many transactions wait, or as many bytes as an entry takes.
func (q *intake) hasEnough(txns int) bool {
	waiting, bytes := q.queueDepth()
	return waiting >= txns || bytes >= maxEntryBytes
}

// queueDepth returns how many transactions wait, and how many bytes they have.
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

// dropStream ends the member's stream, if it has one.
func (q *intake) dropStream(member uint32, why error) {
	q.mu.Lock()
	f := q.streams[member]
	delete(q.streams, member)
	q.roomFreed.Broadcast()
	q.mu.Unlock()
	if f != nil {
		f.cancel(why)
	}
}

// setSender records which member and boot f belongs to, as its first message says. The stream may
// end meanwhile.
func (q *intake) setSender(f *forwarding, first *proto.Forwarded) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.member, f.boot = first.Member, first.Boot
}

// streamEnded removes f when it has ended. Nothing that it brought is added after that.
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
