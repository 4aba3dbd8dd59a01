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
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Limits of one message to the leader. At least one transaction always fits.
const (
	maxMessageTxns  = 512
	maxMessageBytes = 512 << 10 // half an entry: the leader packs entries from several members
)

// txnOverhead is counted for each transaction in addition to its body and identities, for its
// record here and its other fields in the message.
const txnOverhead = 128

// maxUnblocked is the largest write, in counted bytes, that a connection with nothing unapplied may add
// although the lanes are full. Most writes are smaller, and it is less than the connection itself
// buffers.
const maxUnblocked = 4 << 10

// These many lanes are kept for reuse, because a connection that waits for each of its writes takes
// and gives back a lane every time. Together they take well under 1 MiB.
const (
	maxSpare     = 256
	maxSpareRing = 16 // capacity of a spare lane's queue, in writes
)

// errInvalidText is returned for an identity that cannot be encoded: a transaction with it would break
// every link to a leader.
var errInvalidText = errors.New("follower: identity is not valid UTF-8")

// outbox holds the writes of this member's connections until they are applied here: first in a lane
// for each connection, then, numbered, in sent. A write gets its number when it is taken to be
// sent, and keeps it. From then on it is part of this boot's sequence and must reach the log. A
// write without a number may still be dropped. Make one with newOutbox. It is safe for concurrent
// use; applied, forget and open never block.
type outbox struct {
	member uint32
	boot   uint64
	clock  monotonic.Clock // Config.Monotonic
	work   chan struct{}   // one place: there may be something to send

	mu          sync.Mutex
	isOpen      bool             // this boot is announced, so numbers may be given
	lanes       map[uint64]*lane // by connection; only those with something unapplied
	spareLanes  []*lane
	urgentLanes laneRing  // lanes whose first write creates, takes over or ends a session
	classes     fairQueue // other lanes that are not empty
	queued      capacity  // of all lanes
	inFlight    inFlight
	stall       writeStall
}

// lane holds one connection's writes in the order they were submitted.
type lane struct {
	conn                   uint64
	queue                  fifo.Queue[queuedWrite]
	unapplied              int           // in queue or in sent
	connClosed             bool          // the connection is gone
	blockedPlace           *list.Element // its place while a Submit waits; else nil
	prevInRing, nextInRing *lane         // see turns
}

// queuedWrite is one write.
type queuedWrite struct {
	txn    *proto.Txn
	waiter znode.Waiter // nil: there is none
	lane   *lane
	cost
	firstSent time.Time // when it was first taken to be sent, by the outbox's clock
}

// cost is what a write counts while it is held: its bytes and its weight.
type cost struct {
	size, weight int
	isLong       bool // see rest
}

func (c cost) isHeavy() bool { return c.weight > lightWeight }

func newOutbox(cfg Config) *outbox {
	o := &outbox{
		member: cfg.Self, boot: cfg.Boot, clock: cfg.Monotonic,
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
	if !o.hasRoomFor(txn, cost) { // there is no room while others wait
		if err := o.awaitRoom(ctx, o.lanes[txn.Conn], cost, isUrgent(txn)); err != nil {
			return err
		}
	} else {
		o.queued.addWrite(cost)
	}
	o.enterLane(txn, w, cost)
	return nil
}

// offer is like submit, but returns false where submit would wait or fail.
func (o *outbox) offer(txn *proto.Txn, w znode.Waiter) bool {
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

// costOf returns the cost of a transaction.
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
	txn.Member, txn.Boot, txn.Seq = o.member, o.boot, 0
	if len(o.lanes) == 0 {
		o.stall.beginWait(o.clock.Now())
	}
	l := o.laneOf(txn.Conn)
	l.queue.Push(queuedWrite{txn: txn, waiter: w, lane: l, cost: cost})
	l.unapplied++
	if !l.isListed() {
		o.listLane(l)
	}
	o.wakeLink()
}

// hasRoomFor reports whether txn need not wait.
func (o *outbox) hasRoomFor(txn *proto.Txn, c cost) bool {
	return !o.queued.isFull(c.isHeavy()) || o.lanes[txn.Conn] == nil && (c.size <= maxUnblocked || isUrgent(txn))
}

// awaitRoom waits until this write may be sent, and unlocks o.mu meanwhile. A write may be sent when there
// is room for it. If first is set or the write is small, it may also be sent when all writes of lane l
// have been applied. l may be nil, and may no longer exist when wait returns. If wait returns no error,
// it has counted the write in queued.
func (o *outbox) awaitRoom(ctx context.Context, l *lane, c cost, first bool) error {
	if !first && c.size > maxUnblocked {
		l = nil
	}
	e := o.queued.blockSubmit(c, l)
	p := e.Value.(*place)
	o.mu.Unlock()
	var err error
	select {
	case <-p.turnCome:
	case <-ctx.Done():
		err = fmt.Errorf("follower: submit: %w", ctx.Err())
	}
	o.mu.Lock()
	if err == nil {
		return nil
	}
	if !p.freed {
		o.queued.freePlace(e)
	}
	o.queued.removeWrite(c)
	o.queued.admitBlocked()
	return err
}

// wakeLink signals the link that there may be something to send.
func (o *outbox) wakeLink() {
	select {
	case o.work <- struct{}{}:
	default: // the link has a signal that it has not taken yet
	}
}

func (o *outbox) laneOf(conn uint64) *lane {
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

// listLane puts a lane into the circle that its first write belongs to.
func (o *outbox) listLane(l *lane) {
	if isUrgent(l.queue.At(0).txn) {
		o.urgentLanes.addLane(l)
	} else {
		o.classes.addLane(l)
	}
}

// dropUnapplied removes one unapplied write from a lane's count. A lane without any is forgotten, and a
// Submit that waits for that continues.
func (o *outbox) dropUnapplied(l *lane) {
	l.unapplied--
	if l.unapplied > 0 {
		return
	}
	if l.blockedPlace != nil {
		o.queued.freePlace(l.blockedPlace)
	}
	delete(o.lanes, l.conn)
	l.leaveRing()
	if len(o.spareLanes) < maxSpare && l.queue.Cap() <= maxSpareRing {
		*l = lane{queue: l.queue}
		o.spareLanes = append(o.spareLanes, l)
	}
}

// detachConn marks a connection's lane as closed. It drops creates and attaches that have no number
// yet, without calling their waiters.
func (o *outbox) detachConn(conn uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes[conn]; l != nil {
		l.connClosed = true
		o.dropQueued(l, isHandshake)
	}
}

// withdrawUnsent drops a connection's writes that have no number yet, without calling their waiters. It
// reports whether nothing of the connection is left.
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
		o.listLane(l)
	}
	for range dropped {
		o.dropUnapplied(l)
	}
	o.queued.admitBlocked()
}

// open allows numbers to be given, from 1 on.
func (o *outbox) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isOpen = true
	o.wakeLink()
}

// rewind makes the link send all that is not applied again, starting with the oldest.
func (o *outbox) rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight.rewind()
}

// takeMessage appends to dst what is to be sent next: numbered writes that this link has not sent, then
// new ones, as far as the bounds allow. The caller must not change them.
func (o *outbox) takeMessage(dst []*proto.Txn, now time.Time) []*proto.Txn {
	o.mu.Lock()
	defer o.mu.Unlock()
	for size := 0; len(dst) < maxMessageTxns && size < maxMessageBytes; {
		r := o.inFlight.nextUnsent()
		if r != nil {
			o.inFlight.resentCount++
		} else if o.numberNext(now) {
			r = o.inFlight.nextUnsent()
		} else {
			break
		}
		size += r.size
		dst = append(dst, r.sentTxn())
	}
	o.queued.admitBlocked()
	return dst
}

// numberNext moves the next write from its lane to sent. It reports false if there is none or no room
// for it.
func (o *outbox) numberNext(now time.Time) bool {
	if !o.isOpen || o.inFlight.isFull() {
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
		o.listLane(l)
	}
	o.queued.removeWrite(r.cost)
	o.inFlight.pushNumbered(r, o.clock.Now())
	return true
}

// sentTxn returns the transaction to send for r. It is an empty one, with r's number, if the
// connection that wanted a session has ended.
func (r *queuedWrite) sentTxn() *proto.Txn {
	if r.lane.connClosed && isHandshake(r.txn) {
		return &proto.Txn{Member: r.txn.Member, Boot: r.txn.Boot, Seq: r.txn.Seq, Op: int32(jute.OpEmpty)}
	}
	return r.txn
}

// takeApplied removes the write numbered seq, if it is the oldest of those sent. It returns the write,
// whether its connection has ended, and whether there was such a write.
func (o *outbox) takeApplied(seq uint64) (r queuedWrite, closed, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inFlight.isOldest(seq) {
		return queuedWrite{}, false, false
	}
	r = o.popSent()
	o.stall.writesApplied = true
	closed = r.lane.connClosed
	o.dropUnapplied(r.lane)
	return r, closed, true
}

// waiterOf returns who waits for the write numbered seq, if it is the oldest of those sent, or nil.
func (o *outbox) waiterOf(seq uint64) znode.Waiter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inFlight.isOldest(seq) {
		return nil
	}
	return o.inFlight.writes.At(0).waiter
}

// forgetThrough removes the writes up to number through, whose outcome is unknown.
func (o *outbox) forgetThrough(through uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.inFlight.writes.Len() > 0 && o.inFlight.oldestNumber() <= through {
		o.dropUnapplied(o.popSent().lane)
	}
}

func (o *outbox) popSent() queuedWrite {
	r := o.inFlight.popOldest()
	if r.isLong {
		o.inFlight.longWrites.writeApplied(o.clock.Now().Sub(r.firstSent), o.wakeLink)
	}
	if o.queued.queuedWrites > 0 {
		o.wakeLink() // the link may have stopped at a bound
	}
	return r
}

// leaderChanged notes a change of leader. Before this process is announced, it does not count: then
// the member replays its log.
func (o *outbox) leaderChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stall.leaderChanged = o.stall.leaderChanged || o.isOpen
}

// entryApplied is called after each entry.
func (o *outbox) entryApplied(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stall.entryApplied(now)
}

// isHandshake reports whether the transaction gives a session to its connection.
func isHandshake(txn *proto.Txn) bool {
	return txn.Op == int32(jute.OpCreateSession) || txn.Op == int32(jute.OpAttach)
}

// isUrgent reports whether the transaction goes before other connections' writes.
func isUrgent(txn *proto.Txn) bool {
	return isHandshake(txn) || txn.Op == int32(jute.OpCloseSession)
}
