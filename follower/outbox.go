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

// maxFirst is the largest write, in counted bytes, that a connection with nothing unapplied may add
// although the lanes are full. Most writes are smaller, and it is less than the connection itself
// buffers.
const maxFirst = 4 << 10

// These many lanes are kept for reuse, because a connection that waits for each of its writes takes
// and gives back a lane every time. Together they take well under 1 MiB.
const (
	maxSpare     = 256
	maxSpareRing = 16 // capacity of a spare lane's queue, in writes
)

// errText is returned for an identity that cannot be encoded: a transaction with it would break
// every link to a leader.
var errText = errors.New("follower: identity is not valid UTF-8")

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

	mu      sync.Mutex
	opened  bool             // this boot is announced, so numbers may be given
	lanes   map[uint64]*lane // by connection; only those with something unapplied
	spare   []*lane
	urgent  turns    // lanes whose first write creates, takes over or ends a session
	classes classes  // other lanes that are not empty
	queued  capacity // of all lanes
	sent    inFlight
	stall   writeStall
}

// lane holds one connection's writes in the order they were submitted.
type lane struct {
	conn       uint64
	queue      fifo.Queue[request]
	unapplied  int           // in queue or in sent
	closed     bool          // the connection is gone
	place      *list.Element // its place while a Submit waits; else nil
	prev, next *lane         // see turns
}

// request is one write.
type request struct {
	txn    *proto.Txn
	waiter znode.Waiter // nil: there is none
	lane   *lane
	cost
	sent time.Time // when it was first taken to be sent, by the outbox's clock
}

// cost is what a write counts while it is held: its bytes and its weight.
type cost struct {
	size, weight int
	long         bool // see rest
}

func (c cost) heavy() bool { return c.weight > lightWeight }

func newOutbox(cfg Config) *outbox {
	o := &outbox{
		member: cfg.Self, boot: cfg.Boot, clock: cfg.Monotonic,
		work:   make(chan struct{}, 1),
		lanes:  make(map[uint64]*lane),
		queued: capacity{maxWrites: cfg.MaxQueued, maxBytes: cfg.MaxQueuedBytes},
		sent:   inFlight{maxWrites: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes},
	}
	o.urgent.init()
	o.classes.init()
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
	if !o.admits(txn, cost) { // there is no room while others wait
		if err := o.wait(ctx, o.lanes[txn.Conn], cost, isFirst(txn)); err != nil {
			return err
		}
	} else {
		o.queued.addWrite(cost)
	}
	o.enter(txn, w, cost)
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
	if !o.admits(txn, cost) {
		return false
	}
	o.queued.addWrite(cost)
	o.enter(txn, w, cost)
	return true
}

// costOf returns the cost of a transaction.
func costOf(txn *proto.Txn) (cost, error) {
	size := txnOverhead + len(txn.Body)
	for _, id := range txn.Ids {
		if !utf8.ValidString(id.Scheme) || !utf8.ValidString(id.Id) {
			return cost{}, errText
		}
		size += len(id.Scheme) + len(id.Id)
	}
	ops := znode.Weigh(txn)
	return cost{size: size, weight: weigh(ops, size), long: ops > longOps}, nil
}

// enter puts txn into its lane. The caller has already counted it in queued.
func (o *outbox) enter(txn *proto.Txn, w znode.Waiter, cost cost) {
	txn.Member, txn.Boot, txn.Seq = o.member, o.boot, 0
	if len(o.lanes) == 0 {
		o.stall.beginWait(o.clock.Now())
	}
	l := o.lane(txn.Conn)
	l.queue.Push(request{txn: txn, waiter: w, lane: l, cost: cost})
	l.unapplied++
	if !l.listed() {
		o.list(l)
	}
	o.wake()
}

// admits reports whether txn need not wait.
func (o *outbox) admits(txn *proto.Txn, c cost) bool {
	return !o.queued.isFull(c.heavy()) || o.lanes[txn.Conn] == nil && (c.size <= maxFirst || isFirst(txn))
}

// wait waits until this write may be sent, and unlocks o.mu meanwhile. A write may be sent when there
// is room for it. If first is set or the write is small, it may also be sent when all writes of lane l
// have been applied. l may be nil, and may no longer exist when wait returns. If wait returns no error,
// it has counted the write in queued.
func (o *outbox) wait(ctx context.Context, l *lane, c cost, first bool) error {
	if !first && c.size > maxFirst {
		l = nil
	}
	e := o.queued.blockSubmit(c, l)
	p := e.Value.(*place)
	o.mu.Unlock()
	var err error
	select {
	case <-p.free:
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

// wake signals the link that there may be something to send.
func (o *outbox) wake() {
	select {
	case o.work <- struct{}{}:
	default: // the link has a signal that it has not taken yet
	}
}

func (o *outbox) lane(conn uint64) *lane {
	l := o.lanes[conn]
	if l == nil {
		if n := len(o.spare); n > 0 {
			l, o.spare = o.spare[n-1], o.spare[:n-1]
		} else {
			l = &lane{}
		}
		l.conn = conn
		o.lanes[conn] = l
	}
	return l
}

// list puts a lane into the circle that its first write belongs to.
func (o *outbox) list(l *lane) {
	if isFirst(l.queue.At(0).txn) {
		o.urgent.add(l)
	} else {
		o.classes.add(l)
	}
}

// drop removes one unapplied write from a lane's count. A lane without any is forgotten, and a
// Submit that waits for that continues.
func (o *outbox) drop(l *lane) {
	l.unapplied--
	if l.unapplied > 0 {
		return
	}
	if l.place != nil {
		o.queued.freePlace(l.place)
	}
	delete(o.lanes, l.conn)
	l.unlist()
	if len(o.spare) < maxSpare && l.queue.Cap() <= maxSpareRing {
		*l = lane{queue: l.queue}
		o.spare = append(o.spare, l)
	}
}

// detach marks a connection's lane as closed. It drops creates and attaches that have no number
// yet, without calling their waiters.
func (o *outbox) detach(conn uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lanes[conn]; l != nil {
		l.closed = true
		o.dropQueued(l, isHandshake)
	}
}

// withdraw drops a connection's writes that have no number yet, without calling their waiters. It
// reports whether nothing of the connection is left.
func (o *outbox) withdraw(conn uint64) bool {
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
	l.unlist()
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
		o.list(l)
	}
	for range dropped {
		o.drop(l)
	}
	o.queued.admitBlocked()
}

// open allows numbers to be given, from 1 on.
func (o *outbox) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened = true
	o.wake()
}

// rewind makes the link send all that is not applied again, starting with the oldest.
func (o *outbox) rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent.rewind()
}

// take appends to dst what is to be sent next: numbered writes that this link has not sent, then
// new ones, as far as the bounds allow. The caller must not change them.
func (o *outbox) take(dst []*proto.Txn, now time.Time) []*proto.Txn {
	o.mu.Lock()
	defer o.mu.Unlock()
	for size := 0; len(dst) < maxMessageTxns && size < maxMessageBytes; {
		r := o.sent.nextUnsent()
		if r != nil {
			o.sent.resentCount++
		} else if o.number(now) {
			r = o.sent.nextUnsent()
		} else {
			break
		}
		size += r.size
		dst = append(dst, r.wire())
	}
	o.queued.admitBlocked()
	return dst
}

// number moves the next write from its lane to sent. It reports false if there is none or no room
// for it.
func (o *outbox) number(now time.Time) bool {
	if !o.opened || o.sent.isFull() {
		return false
	}
	l := o.urgent.first()
	urgent := l != nil
	if !urgent {
		l = o.classes.next(o.sent.sendableClasses(now))
	}
	if l == nil {
		return false
	}
	l.unlist()
	r := l.queue.Pop()
	if !urgent {
		o.classes.charge(r.weight)
	}
	if l.queue.Len() > 0 {
		o.list(l)
	}
	o.queued.removeWrite(r.cost)
	o.sent.pushNumbered(r, o.clock.Now())
	return true
}

// wire returns the transaction to send for r. It is an empty one, with r's number, if the
// connection that wanted a session has ended.
func (r *request) wire() *proto.Txn {
	if r.lane.closed && isHandshake(r.txn) {
		return &proto.Txn{Member: r.txn.Member, Boot: r.txn.Boot, Seq: r.txn.Seq, Op: int32(jute.OpEmpty)}
	}
	return r.txn
}

// applied removes the write numbered seq, if it is the oldest of those sent. It returns the write,
// whether its connection has ended, and whether there was such a write.
func (o *outbox) applied(seq uint64) (r request, closed, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.sent.isOldest(seq) {
		return request{}, false, false
	}
	r = o.pop()
	o.stall.writesApplied = true
	closed = r.lane.closed
	o.drop(r.lane)
	return r, closed, true
}

// waiter returns who waits for the write numbered seq, if it is the oldest of those sent, or nil.
func (o *outbox) waiter(seq uint64) znode.Waiter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.sent.isOldest(seq) {
		return nil
	}
	return o.sent.writes.At(0).waiter
}

// forget removes the writes up to number through, whose outcome is unknown.
func (o *outbox) forget(through uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.sent.writes.Len() > 0 && o.sent.oldestNumber() <= through {
		o.drop(o.pop().lane)
	}
}

func (o *outbox) pop() request {
	r := o.sent.popOldest()
	if r.long {
		o.sent.longWrites.applied(o.clock.Now().Sub(r.sent), o.wake)
	}
	if o.queued.queuedWrites > 0 {
		o.wake() // the link may have stopped at a bound
	}
	return r
}

// leaderChanged notes a change of leader. Before this process is announced, it does not count: then
// the member replays its log.
func (o *outbox) leaderChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stall.leaderChanged = o.stall.leaderChanged || o.opened
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

// isFirst reports whether the transaction goes before other connections' writes.
func isFirst(txn *proto.Txn) bool {
	return isHandshake(txn) || txn.Op == int32(jute.OpCloseSession)
}
