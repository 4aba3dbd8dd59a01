package follower

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"rollcall/internal/fifo"
	"rollcall/internal/monotonic"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Limits of one message to the leader. At least one transaction always fits.
const (
	maxMessageTxns  = 512
	maxMessageBytes = 512 << 10 // half an entry: the leader packs entries from several members
)

// txnOverhead is added to the bytes of a transaction's body and identities. It stands for the record here and the
// other fields of the message.
const txnOverhead = 128

// maxUnblocked is the size, in counted bytes, up to which a connection with nothing unapplied may add a write although
// the lanes are full. Most writes are smaller, and the connection itself buffers more.
const maxUnblocked = 4 << 10

// Limits of the lanes that are kept for reuse, because a connection that waits for each of its writes takes
// and returns a lane every time. Together they take well under 1 MiB.
const (
	maxSpare     = 256
	maxSpareRing = 16 // writes in the ring of a spare lane's queue
)

// A transaction with such an identity cannot be encoded, and would break every link to a leader.
var errInvalidText = errors.New("follower: identity is not valid UTF-8")

// outbox holds the writes of this member's connections until they are applied here: first in a lane
// for each connection, then, numbered, in inFlight. A write gets its number when it is first sent. From
// then on it is part of this boot's sequence and must reach the log. A write without a number may still
// be dropped. Make one with newOutbox. It is safe for concurrent use. Only submit blocks.
type outbox struct {
	member uint32
	boot   uint64
	clock  monotonic.Clock // Config.Monotonic
	stages *stages.Recorder
	work   chan struct{} // one place: there may be something to send

	mu          sync.Mutex
	mayNumber   bool             // this boot is announced, so writes may be numbered
	lanes       map[uint64]*lane // by connection; only those with something unapplied
	spareLanes  []*lane
	urgentLanes laneRing  // lanes whose first write isUrgent
	classes     fairQueue // the other lanes that are not empty
	queued      capacity  // of all lanes
	inFlight    inFlight
	stall       writeStall
}

// lane holds one connection's writes in the order they were submitted.
type lane struct {
	conn                   uint64
	queue                  fifo.Queue[queuedWrite]
	unapplied              int // in queue or inFlight
	connClosed             bool
	blockedSubmit          *list.Element // the place of its Submit that waits, or nil
	prevInRing, nextInRing *lane         // see laneRing
}

type queuedWrite struct {
	txn    *proto.Txn
	waiter znode.Waiter // may be nil
	lane   *lane
	cost
	firstSent time.Time // by the outbox's clock
	// when it entered its lane, and when it got its number and was sent
	roomAt, sentAt stages.Time
}

// cost is what a write counts against the limits.
type cost struct {
	size   int  // in bytes
	weight int  // in units, see weightOf
	isLong bool // see longWritePause
}

func (c cost) isHeavy() bool { return c.weight > lightWeight }

func newOutbox(cfg Config) *outbox {
	o := &outbox{
		member: cfg.Self, boot: cfg.Boot, clock: cfg.Monotonic, stages: cfg.Stages,
		work:     make(chan struct{}, 1),
		lanes:    make(map[uint64]*lane),
		queued:   capacity{maxWrites: cfg.MaxQueued, maxBytes: cfg.MaxQueuedBytes},
		inFlight: inFlight{maxWrites: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes},
	}
	o.urgentLanes.initRing()
	o.classes.initRings()
	return o
}

// submit puts txn at the end of its connection's lane. While the lanes are full it waits, unless
// the connection has nothing unapplied and txn is small, or makes, takes over or ends a session.
func (o *outbox) submit(ctx context.Context, txn *proto.Txn, w znode.Waiter) error {
	cost, err := costOf(txn)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hasRoomFor(txn, cost) { // so too while others wait
		if err := o.awaitAndTakeRoom(ctx, o.lanes[txn.Conn], cost, isUrgent(txn)); err != nil {
			return err
		}
	} else {
		o.queued.addWrite(cost)
	}
	o.enterLane(txn, w, cost)
	return nil
}

// trySubmit is like submit, but returns false where submit would wait or fail.
func (o *outbox) trySubmit(txn *proto.Txn, w znode.Waiter) bool {
	cost, err := costOf(txn)
	if err != nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hasRoomFor(txn, cost) {
		return false
	}
	o.queued.addWrite(cost)
	o.enterLane(txn, w, cost)
	return true
}

func costOf(txn *proto.Txn) (cost, error) {
	size := txnOverhead + len(txn.Body)
	for _, id := range txn.Ids {
		if !utf8.ValidString(id.Scheme) || !utf8.ValidString(id.Id) {
			return cost{}, errInvalidText
		}
		size += len(id.Scheme) + len(id.Id)
	}
	ops := znode.TxnWeight(txn)
	return cost{size: size, weight: weightOf(ops, size), isLong: ops > longOps}, nil
}

// enterLane puts txn into its lane. The caller has already counted it in queued.
func (o *outbox) enterLane(txn *proto.Txn, w znode.Waiter, cost cost) {
	txn.Member, txn.Incarnation, txn.Seq = o.member, o.boot, 0
	if len(o.lanes) == 0 {
		o.stall.restartTimer(o.clock.Now())
	}
	l := o.ensureLane(txn.Conn)
	l.queue.Push(queuedWrite{txn: txn, waiter: w, lane: l, cost: cost, roomAt: o.stages.Now()})
	l.unapplied++
	if !l.isInRing() {
		o.addToRing(l)
	}
	o.wakeLink()
}

// hasRoomFor reports whether txn need not wait.
func (o *outbox) hasRoomFor(txn *proto.Txn, c cost) bool {
	return !o.queued.isFull(c.isHeavy()) || o.lanes[txn.Conn] == nil && (c.size <= maxUnblocked || isUrgent(txn))
}

// awaitAndTakeRoom waits until there is room for a write, and unlocks o.mu meanwhile. An urgent or small write
// may also be added when all writes of lane l have been applied. l may be nil, and may no longer exist when
// awaitAndTakeRoom returns. If awaitAndTakeRoom returns no error, it has counted the write in queued.
func (o *outbox) awaitAndTakeRoom(ctx context.Context, l *lane, c cost, urgent bool) error {
	if !urgent && c.size > maxUnblocked {
		l = nil
	}
	e := o.queued.enqueueBlocked(c, l)
	p := e.Value.(*blockedSubmit)
	o.mu.Unlock()
	var err error
	select {
	case <-p.admitted:
	case <-ctx.Done():
		err = fmt.Errorf("follower: submit: %w", ctx.Err())
	}
	o.mu.Lock()
	if err == nil {
		return nil
	}
	if !p.isAdmitted {
		o.queued.admitSubmit(e)
	}
	o.queued.removeWrite(c)
	o.queued.admitWhileRoom()
	return err
}

func (o *outbox) wakeLink() { signal(o.work) }

// ensureLane returns a connection's lane, which it makes if there is none.
func (o *outbox) ensureLane(conn uint64) *lane {
	l := o.lanes[conn]
	if l == nil {
		if n := len(o.spareLanes); n > 0 {
			l, o.spareLanes = o.spareLanes[n-1], o.spareLanes[:n-1]
		} else {
			l = &lane{}
		}
		l.conn = conn
		o.lanes[conn] = l
	}
	return l
}

// addToRing puts a lane into the ring that its first write belongs to.
func (o *outbox) addToRing(l *lane) {
	if isUrgent(l.queue.At(0).txn) {
		o.urgentLanes.addLane(l)
	} else {
		o.classes.addLane(l)
	}
}

// decrementUnapplied removes one unapplied write from a lane's count. A lane without any is removed, and a
// Submit that waits for that continues.
func (o *outbox) decrementUnapplied(l *lane) {
	l.unapplied--
	if l.unapplied > 0 {
		return
	}
	if l.blockedSubmit != nil {
		o.queued.admitSubmit(l.blockedSubmit)
	}
	delete(o.lanes, l.conn)
	l.leaveRing()
	if len(o.spareLanes) < maxSpare && l.queue.Cap() <= maxSpareRing {
		*l = lane{queue: l.queue}
		o.spareLanes = append(o.spareLanes, l)
	}
}

// markConnClosed marks a connection's lane as closed. It drops creates and attaches that have no number
// yet, without calling their waiters.
func (o *outbox) markConnClosed(conn uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes[conn]; l != nil {
		l.connClosed = true
		o.dropQueued(l, isHandshake)
	}
}

// withdrawUnsent drops a connection's writes that have no number yet, without calling their waiters. It
// reports whether it dropped all writes that were not applied.
func (o *outbox) withdrawUnsent(conn uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes[conn]
	if l == nil {
		return false // all of it has been applied
	}
	o.dropQueued(l, func(*proto.Txn) bool { return true })
	return o.lanes[conn] == nil
}

// dropQueued removes from a lane the writes without a number for which which returns true.
func (o *outbox) dropQueued(l *lane, which func(*proto.Txn) bool) {
	l.leaveRing()
	dropped := 0
	for range l.queue.Len() {
		if r := l.queue.Pop(); which(r.txn) {
			dropped++
			o.queued.removeWrite(r.cost)
		} else {
			l.queue.Push(r)
		}
	}
	if l.queue.Len() > 0 {
		o.addToRing(l)
	}
	for range dropped {
		o.decrementUnapplied(l)
	}
	o.queued.admitWhileRoom()
}

// allowNumbering allows numbers to be given, from 1 on.
func (o *outbox) allowNumbering() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mayNumber = true
	o.wakeLink()
}

// resendUnapplied makes the link send all that is not applied again, starting with the oldest.
func (o *outbox) resendUnapplied() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight.rewind()
}

// takeSendable appends to dst the transactions to send next: numbered ones that this link has not sent, then
// new ones, within the limits of a message. The caller must not change them.
func (o *outbox) takeSendable(dst []*proto.Txn, now time.Time) []*proto.Txn {
	o.mu.Lock()
	defer o.mu.Unlock()
	for size := 0; len(dst) < maxMessageTxns && size < maxMessageBytes; {
		r := o.inFlight.takeUnsent()
		if r != nil {
			o.inFlight.resentCount++
		} else if o.numberNext(now) {
			r = o.inFlight.takeUnsent()
		} else {
			break
		}
		size += r.size
		dst = append(dst, r.txnToSend())
	}
	o.queued.admitWhileRoom()
	return dst
}

// numberNext moves the next write from its lane to inFlight. It returns false if there is none or no room
// for it.
func (o *outbox) numberNext(now time.Time) bool {
	if !o.mayNumber || o.inFlight.isFull() {
		return false
	}
	l := o.urgentLanes.firstLane()
	urgent := l != nil
	if !urgent {
		l = o.classes.nextLane(o.inFlight.sendableClasses(now))
	}
	if l == nil {
		return false
	}
	l.leaveRing()
	r := l.queue.Pop()
	if !urgent {
		o.classes.chargeWeight(r.weight)
	}
	if l.queue.Len() > 0 {
		o.addToRing(l)
	}
	o.queued.removeWrite(r.cost)
	r.sentAt = o.stages.At(now)
	o.inFlight.pushNumbered(r, o.clock.Now())
	return true
}

// txnToSend returns the transaction to send for r. If the connection that requested a session has ended, it is an
// empty one with r's number.
func (r *queuedWrite) txnToSend() *proto.Txn {
	if r.lane.connClosed && isHandshake(r.txn) {
		return &proto.Txn{Member: r.txn.Member, Incarnation: r.txn.Incarnation, Seq: r.txn.Seq, Op: int32(jute.OpEmpty)}
	}
	return r.txn
}

// takeApplied removes and returns the write numbered seq. It also reports whether the write's connection has ended. It
// returns ok false if that is not the oldest write in flight.
func (o *outbox) takeApplied(seq uint64) (r queuedWrite, closed, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inFlight.isOldest(seq) {
		return queuedWrite{}, false, false
	}
	r = o.finishOldest()
	o.stall.writesApplied = true
	closed = r.lane.connClosed
	o.decrementUnapplied(r.lane)
	return r, closed, true
}

// waiterOf returns the waiter of the write numbered seq, or nil if that is not the oldest write in flight.
func (o *outbox) waiterOf(seq uint64) znode.Waiter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inFlight.isOldest(seq) {
		return nil
	}
	return o.inFlight.writes.At(0).waiter
}

// forgetThrough removes the writes up to a number, whose outcome is unknown.
func (o *outbox) forgetThrough(through uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.inFlight.writes.Len() > 0 && o.inFlight.oldestNumber() <= through {
		o.decrementUnapplied(o.finishOldest().lane)
	}
}

func (o *outbox) finishOldest() queuedWrite {
	r := o.inFlight.popOldest()
	if r.isLong {
		o.inFlight.longWrites.startPause(o.clock.Now().Sub(r.firstSent), o.wakeLink)
	}
	if o.queued.queuedWrites > 0 {
		o.wakeLink() // the link may have stopped at a bound
	}
	return r
}

// leaderChanged records a change of leader. It does not count before this process is announced, while the
// member replays its log.
func (o *outbox) leaderChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stall.leaderChanged = o.stall.leaderChanged || o.mayNumber
}

// endStallIfApplied is called after each entry.
func (o *outbox) endStallIfApplied(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stall.endIfWritesApplied(now)
}

// isHandshake reports whether the transaction gives a session to its connection.
func isHandshake(txn *proto.Txn) bool {
	return txn.Op == int32(jute.OpCreateSession) || txn.Op == int32(jute.OpAttach)
}

// isUrgent reports whether the transaction passes other connections' writes: it creates, takes over or ends a session.
func isUrgent(txn *proto.Txn) bool {
	return isHandshake(txn) || txn.Op == int32(jute.OpCloseSession)
}
