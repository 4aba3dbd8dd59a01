package follower

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"rollcall/fifo"
	"rollcall/jute"
	"rollcall/proto"
	"rollcall/znode"
)

// Limits of one message to the leader; at least one transaction always fits.
const (
	maxMessageTxns  = 512
	maxMessageBytes = 512 << 10 // half an entry: the leader packs entries from several members
)

// txnOverhead is counted for each transaction besides its body and identities: its
// record here and its other fields on the way.
const txnOverhead = 128

// maxFirst bounds the write, in bytes as it counts, that a connection with nothing unapplied may
// add to lanes that are full: what most writes have, and less than the connection itself takes.
const maxFirst = 4 << 10

// Lanes kept for later use: a connection that waits for each of its writes takes and
// leaves one every time. Together they hold well under 1 MiB.
const (
	maxSpare     = 256
	maxSpareRing = 16 // writes that the lane of a spare has room for
)

// errText refuses an identity that cannot be sent: one such transaction would break
// every link to a leader.
var errText = errors.New("follower: identity is not valid UTF-8")

// outbox holds the writes of this member's connections until they are applied here:
// first in a lane for each connection, then, numbered, in sent. A number is given when
// a write is taken to be sent, and never again: so what has one is in the chain of this
// boot and must reach the log, and what has none may still be dropped. Make one with
// newOutbox. Safe for concurrent use; applied, forget and open never block.
type outbox struct {
	member       uint32
	boot         uint64
	maxSent      int
	maxSentBytes int
	maxHeld      int // in lanes
	maxHeldBytes int

	work chan struct{} // one place: there may be something to send

	mu        sync.Mutex
	lanes     map[uint64]*lane // by connection; only those with something unapplied
	spare     []*lane
	urgent    turns   // lanes whose head makes, takes over or ends a session
	classes   classes // other lanes with something in them
	held      int
	heldBytes int
	heldHeavy int          // bytes of heavy writes, among heldBytes
	blocked   [2]list.List // of *place, in order of arrival: with light writes, with heavy ones

	opened    bool                // this boot is announced: numbers may be given
	seq       uint64              // last number given
	next      uint64              // number that the link is to send next, from sent or new
	sent      fifo.Queue[request] // numbered and not applied: seq-len+1 … seq
	sentBytes int
	sentHeavy int    // weight of the heavy ones
	resent    uint64 // sent once more, for the record
}

// lane holds one connection's writes in the order they were submitted.
type lane struct {
	conn       uint64
	queue      fifo.Queue[request]
	unapplied  int           // in queue or in sent
	closed     bool          // the connection is gone
	place      *list.Element // where its Submit waits; nil: it does not
	prev, next *lane         // see turns
}

// request is one write.
type request struct {
	txn    *proto.Txn
	waiter znode.Waiter // nil: nobody
	lane   *lane
	cost
	sent time.Time // first taken to be sent
}

// cost is what a write counts while it is held.
type cost struct{ size, weight int }

func (c cost) heavy() bool { return c.weight > lightWeight }

// place is where a Submit waits for room.
type place struct {
	lane  *lane
	cost  cost          // of what is to be submitted
	free  chan struct{} // closed when its turn has come
	freed bool
}

func newOutbox(cfg Config) *outbox {
	o := &outbox{
		member: cfg.Self, boot: cfg.Boot,
		maxSent: cfg.MaxInFlight, maxSentBytes: cfg.MaxInFlightBytes,
		maxHeld: cfg.MaxQueued, maxHeldBytes: cfg.MaxQueuedBytes,
		work:  make(chan struct{}, 1),
		lanes: make(map[uint64]*lane),
		next:  1,
	}
	o.urgent.init()
	o.classes.init()
	return o
}

// submit puts txn at the end of its connection's lane. While the lanes are full it
// waits, unless the connection has nothing unapplied and txn is small, or gives or ends a session.
func (o *outbox) submit(ctx context.Context, txn *proto.Txn, w znode.Waiter) error {
	cost, err := costOf(txn)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.admits(txn, cost) { // while others wait there is no room
		if err := o.wait(ctx, o.lanes[txn.Conn], cost, isFirst(txn)); err != nil {
			return err
		}
	} else {
		o.hold(cost)
	}
	o.enter(txn, w, cost)
	return nil
}

// offer is submit where that neither waits nor fails; else it returns false.
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
	o.hold(cost)
	o.enter(txn, w, cost)
	return true
}

// costOf returns what a transaction counts.
func costOf(txn *proto.Txn) (cost, error) {
	size := txnOverhead + len(txn.Body)
	for _, id := range txn.Ids {
		if !utf8.ValidString(id.Scheme) || !utf8.ValidString(id.Id) {
			return cost{}, errText
		}
		size += len(id.Scheme) + len(id.Id)
	}
	return cost{size, weigh(txn, size)}, nil
}

// enter puts txn into its lane; room for it is held.
func (o *outbox) enter(txn *proto.Txn, w znode.Waiter, cost cost) {
	txn.Member, txn.Boot, txn.Seq = o.member, o.boot, 0
	l := o.lane(txn.Conn)
	l.queue.Push(request{txn: txn, waiter: w, lane: l, cost: cost})
	l.unapplied++
	if !l.listed() {
		o.list(l)
	}
	o.wake()
}

// admits reports whether txn gets in without waiting.
func (o *outbox) admits(txn *proto.Txn, c cost) bool {
	return !o.full(c.heavy()) || o.lanes[txn.Conn] == nil && (c.size <= maxFirst || isFirst(txn))
}

// full reports whether there is no room for a light or a heavy write. Heavy ones may take half
// of the bytes: light ones find room beside them.
func (o *outbox) full(heavy bool) bool {
	return o.held >= o.maxHeld || o.heldBytes >= o.maxHeldBytes || heavy && o.heldHeavy >= o.maxHeldBytes/2
}

func (o *outbox) hold(c cost) {
	o.held++
	o.heldBytes += c.size
	if c.heavy() {
		o.heldHeavy += c.size
	}
}

func (o *outbox) release(c cost) {
	o.held--
	o.heldBytes -= c.size
	if c.heavy() {
		o.heldHeavy -= c.size
	}
}

// wait gives o.mu back until there is room for a write, which is then held, or l, which may be
// nil, has nothing unapplied and a write of this kind does not wait for room. The lane may be
// gone then.
func (o *outbox) wait(ctx context.Context, l *lane, c cost, first bool) error {
	p := &place{cost: c, free: make(chan struct{})}
	e := o.blockedAt(c).PushBack(p)
	if l != nil && (first || c.size <= maxFirst) {
		l.place, p.lane = e, l
	}
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
		o.free(e)
	}
	o.release(c)
	o.admit()
	return err
}

// blockedAt returns the list in which a Submit of such a write waits.
func (o *outbox) blockedAt(c cost) *list.List {
	if c.heavy() {
		return &o.blocked[1]
	}
	return &o.blocked[0]
}

// admit lets the writes in that have waited longest, light ones first, as far as there is room.
func (o *outbox) admit() {
	for i := range o.blocked {
		b := &o.blocked[i]
		for e := b.Front(); e != nil && !o.full(i == 1); e = b.Front() {
			o.free(e)
		}
	}
}

// free takes a place out of its list and lets its Submit go on, with room held for it.
func (o *outbox) free(e *list.Element) {
	p := e.Value.(*place)
	o.blockedAt(p.cost).Remove(e)
	if p.lane != nil && p.lane.place == e {
		p.lane.place = nil
	}
	o.hold(p.cost)
	p.freed = true
	close(p.free)
}

// wake tells the link that there may be something to send.
func (o *outbox) wake() {
	select {
	case o.work <- struct{}{}:
	default: // it has been told and has not looked yet
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

// list puts a lane into the circle where its head belongs.
func (o *outbox) list(l *lane) {
	if isFirst(l.queue.At(0).txn) {
		o.urgent.add(l)
	} else {
		o.classes.add(l)
	}
}

// drop takes one unapplied write off a lane's account. A lane with none is forgotten,
// and a Submit that waits at it need wait no more.
func (o *outbox) drop(l *lane) {
	l.unapplied--
	if l.unapplied > 0 {
		return
	}
	if l.place != nil {
		o.free(l.place)
	}
	delete(o.lanes, l.conn)
	l.leave()
	if len(o.spare) < maxSpare && l.queue.Cap() <= maxSpareRing {
		*l = lane{queue: l.queue}
		o.spare = append(o.spare, l)
	}
}

// detach marks a connection's lane as closed. Creates and attaches that have no number
// yet are dropped; nobody hears of them.
func (o *outbox) detach(conn uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lanes[conn]
	if l == nil {
		return
	}
	l.closed = true
	l.leave()
	dropped := 0
	for range l.queue.Len() {
		if r := l.queue.Pop(); isHandshake(r.txn) {
			dropped++
			o.release(r.cost)
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
	o.admit()
}

// open lets numbers be given, from 1 on.
func (o *outbox) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened = true
	o.wake()
}

// rewind makes the link send all that is not applied again, from the first on.
func (o *outbox) rewind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = 0
}

// take appends to dst what is to be sent next: numbered writes that this link has not
// sent, then new ones, as far as the bounds allow. The caller must not change them.
func (o *outbox) take(dst []*proto.Txn, now time.Time) []*proto.Txn {
	o.mu.Lock()
	defer o.mu.Unlock()
	for size := 0; len(dst) < maxMessageTxns && size < maxMessageBytes; {
		first := o.seq - uint64(o.sent.Len()) + 1
		o.next = max(o.next, first) // the others have been applied meanwhile
		if o.next <= o.seq {
			o.resent++
		} else if !o.number(now) {
			break
		}
		r := o.sent.At(int(o.next - first))
		o.next++
		size += r.size
		dst = append(dst, r.wire())
	}
	o.admit()
	return dst
}

// number moves the write whose turn it is to sent, and reports whether there was one
// and room for it.
func (o *outbox) number(now time.Time) bool {
	if !o.opened || o.sent.Len() >= o.maxSent || o.sentBytes >= o.maxSentBytes {
		return false
	}
	l := o.urgent.first()
	urgent := l != nil
	if !urgent {
		l = o.classes.next(o.sentHeavy >= maxHeavy)
	}
	if l == nil {
		return false
	}
	l.leave()
	r := l.queue.Pop()
	if !urgent {
		o.classes.charge(r.weight)
	}
	if l.queue.Len() > 0 {
		o.list(l)
	}
	o.release(r.cost)
	o.seq++
	r.txn.Seq = o.seq
	r.sent = now
	o.sentBytes += r.size
	if r.heavy() {
		o.sentHeavy += r.weight
	}
	o.sent.Push(r)
	return true
}

// wire is what stands for r in the log: nothing, but in its place, if the connection
// that wanted a session is gone.
func (r *request) wire() *proto.Txn {
	if r.lane.closed && isHandshake(r.txn) {
		return &proto.Txn{Member: r.txn.Member, Boot: r.txn.Boot, Seq: r.txn.Seq, Op: int32(jute.OpEmpty)}
	}
	return r.txn
}

// applied removes the write numbered seq, which is the first of those sent, and returns
// it with whether its connection is gone.
func (o *outbox) applied(seq uint64) (r request, closed, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sent.Len() == 0 || o.seq-uint64(o.sent.Len())+1 != seq {
		return request{}, false, false
	}
	r = o.pop()
	closed = r.lane.closed
	o.drop(r.lane)
	return r, closed, true
}

// forget removes the writes up to number through: what became of them is unknown.
func (o *outbox) forget(through uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.sent.Len() > 0 && o.seq-uint64(o.sent.Len())+1 <= through {
		o.drop(o.pop().lane)
	}
}

func (o *outbox) pop() request {
	r := o.sent.Pop()
	o.sentBytes -= r.size
	if r.heavy() {
		o.sentHeavy -= r.weight
	}
	if o.held > 0 {
		o.wake() // the link may have stopped at a bound
	}
	return r
}

// isHandshake: the transaction gives a session to its connection.
func isHandshake(txn *proto.Txn) bool {
	return txn.Op == int32(jute.OpCreateSession) || txn.Op == int32(jute.OpAttach)
}

// isFirst: the transaction goes before other connections' writes.
func isFirst(txn *proto.Txn) bool {
	return isHandshake(txn) || txn.Op == int32(jute.OpCloseSession)
}
