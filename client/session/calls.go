package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"rollcall/zk/jute"
)

// Record is the body of a request. Append is called under the Session's lock, so it must only
// encode.
type Record interface {
	Append(b []byte) []byte
}

// Readable is the body of a reply.
type Readable interface {
	Decode(d *jute.Decoder)
}

// Reply is a server's reply. Err is the server's code as an error, or nil for OK. Body follows the header; it
// is valid until the function that receives the Reply returns.
type Reply struct {
	jute.ReplyHeader
	Body []byte
}

// DecodeBody decodes the body into rec, which then refers to the body's memory. The error wraps
// ErrProtocol.
func (r Reply) DecodeBody(rec Readable) error {
	return r.DecodeBodyWith(new(jute.Decoder), rec)
}

// DecodeBodyWith is DecodeBody with the caller's Decoder, so that it need not allocate one.
func (r Reply) DecodeBodyWith(d *jute.Decoder, rec Readable) error {
	*d = jute.NewDecoder(r.Body)
	rec.Decode(d)
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, d.Err())
	}
	return nil
}

// call is a request in flight.
type call struct {
	done      func(Reply, error)
	path      string // of the watch that it sets
	xid       int32
	op        jute.Op
	watchKind watchKinds // of the watch that it requests; 0: none
}

// These limits apply to output that waits to be sent.
const (
	maxUnsent = 4 << 20 // unsent bytes above which Go waits

	// MaxRequest is the greatest value of Config.MaxRequest, in bytes.
	MaxRequest = 64 << 20
)

// Go sends a request: op with the record rec, or without one if rec is nil. It encodes rec before
// it returns.
//
// done is called once, in the order of requests. It gets the reply, whose Err is the server's code,
// or an error: ErrConnectionLost, ErrExpired or ErrClosed. It runs on the reader and must not
// block; it may call Go.
//
// Go waits, until ctx ends, while MaxInFlight requests are in flight or 4 MiB of them are unsent.
// While done or another function of the caller runs on the reader, Go allows twice as many
// requests. A function that sends the next request then does not wait for itself. Go does not wait
// for a connection: without one it returns ErrNotConnected. (Ready waits for one.) If Go returns an
// error, nothing was sent and done will not be called.
func (c *Session) Go(ctx context.Context, op jute.Op, rec Record, done func(Reply, error)) error {
	_, err := c.sendRequest(ctx, outgoing{op: op, record: rec, done: done})
	return err
}

// GoNumbered is Go, and returns the number of the request.
func (c *Session) GoNumbered(ctx context.Context, op jute.Op, rec Record, done func(Reply, error)) (xid int32, err error) {
	return c.sendRequest(ctx, outgoing{op: op, record: rec, done: done})
}

// outgoing is a request that is to be sent.
type outgoing struct {
	op       jute.Op
	record   Record
	done     func(Reply, error)
	syncDone func(Reply, error) // a sync goes directly before the request, on the same connection; nil: none does
	isLast   bool               // of the session
}

func (c *Session) sendRequest(ctx context.Context, o outgoing) (xid int32, err error) {
	if o.op == jute.OpCloseSession {
		c.right.end(true) // before the request can be sent, and also without a connection
	}
	c.mu.Lock()
	for {
		if err := c.checkCanSend(o.isLast); err != nil {
			c.mu.Unlock()
			return 0, err
		}
		if c.hasRequestRoom() {
			break
		}
		if err := c.awaitRequestRoom(ctx); err != nil {
			return 0, err
		}
	}
	l, xid, write, err := c.queueRequest(o)
	if write {
		l.writeOutput(false)
	}
	return xid, err
}

// queueRequest queues a request on the connection, and returns its number. It reports whether the caller has to call
// writeOutput. It releases the lock.
func (c *Session) queueRequest(o outgoing) (l *link, xid int32, write bool, err error) {
	defer c.mu.Unlock()
	l = c.link
	if o.syncDone != nil {
		if _, err := l.appendCall(jute.OpSync, jute.SyncRequest{Path: []byte("/")}, o.syncDone); err != nil {
			return l, 0, false, err
		}
	}
	xid, err = l.appendCall(o.op, o.record, o.done) // if it fails, the sync may go out with a later request
	if err != nil {
		return l, 0, false, err
	}
	write = l.claimWrite()
	if write && c.calls.count() >= gatherFrom {
		go l.gatherAndWrite()
		write = false
	}
	return l, xid, write, nil
}

// appendCall appends a request to the output, and returns its number. The lock is held.
func (l *link) appendCall(op jute.Op, rec Record, done func(Reply, error)) (xid int32, err error) {
	c := l.c
	xid = nextXid(c.xid)
	out, mark := jute.BeginFrame(l.output())
	out = jute.RequestHeader{Xid: xid, Op: op}.Append(out)
	body := len(out)
	if rec != nil {
		out = rec.Append(out)
	}
	if size := len(jute.EndFrame(out, mark)[mark:]) - 4; size > c.cfg.MaxRequest {
		return 0, fmt.Errorf("%w: it has %d bytes, and MaxRequest is %d", ErrTooLong, size, c.cfg.MaxRequest)
	}
	next := call{done: done, xid: xid, op: op}
	next.path, next.watchKind = requestedWatch(op, out[body:])
	l.out = jute.EndFrame(out, mark)
	l.trips.proof.begin(xid, op, c)
	c.xid = xid
	c.calls.push(next)
	return xid, nil
}

// nextXid returns the number of the request after one. Numbers are positive.
func nextXid(xid int32) int32 { return xid%(1<<31-1) + 1 }

// checkCanSend returns the reason that no request can be sent at the moment, or nil. last is set for Close, whose
// request is the last one.
func (c *Session) checkCanSend(last bool) error {
	switch {
	case c.endError != nil:
		return c.endError
	case c.closing && !last:
		return ErrClosed
	case c.link == nil:
		return ErrNotConnected
	}
	return nil
}

func (c *Session) hasRequestRoom() bool {
	if c.link.readerWillWrite { // unsent requests wait for the reader, which may be the caller
		return c.calls.count() < 2*c.cfg.MaxInFlight
	}
	return c.calls.count() < c.cfg.MaxInFlight && len(c.link.out) < maxUnsent
}

// awaitRequestRoom releases the lock until there may be room, and takes it again. If ctx ends first, it
// returns ctx's error without the lock.
func (c *Session) awaitRequestRoom(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	c.roomWaiters = append(c.roomWaiters, wake)
	c.mu.Unlock()
	select {
	case <-wake:
		c.mu.Lock()
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if i := slices.Index(c.roomWaiters, wake); i >= 0 {
		c.roomWaiters = slices.Delete(c.roomWaiters, i, i+1)
	} else {
		c.wakeRoomWaiter() // the wake-up was meant for this caller
	}
	c.mu.Unlock()
	return ctx.Err()
}

// wakeRoomWaiter wakes the first caller that waits for room. The lock is held.
func (c *Session) wakeRoomWaiter() {
	if len(c.roomWaiters) == 0 {
		return
	}
	c.roomWaiters[0] <- struct{}{}
	c.roomWaiters = slices.Delete(c.roomWaiters, 0, 1)
}

// Do sends a request and waits for the reply, which it decodes into into, unless that is nil. It
// waits for a connection and for room as long as ctx allows. Memory that into refers to belongs to
// the caller. zxid is the reply's.
//
// The error is the server's code, ErrConnectionLost, ErrExpired, ErrClosed, ErrProtocol or ctx's.
// An error that ended a request after it was sent is an *UnansweredError: the request may have been carried
// out, or may still be.
func (c *Session) Do(ctx context.Context, op jute.Op, rec Record, into Readable) (zxid int64, err error) {
	sent, err := c.doRequest(ctx, outgoing{op: op, record: rec}, into)
	return sent.Zxid, err
}

// Numbers are the numbers of a request and its reply.
type Numbers struct {
	Xid  int32 // of the request; 0: it was not sent
	Zxid int64 // of the reply; 0: none has come
}

// DoNumbered is Do, and returns the number of the request, too.
func (c *Session) DoNumbered(ctx context.Context, op jute.Op, rec Record, into Readable) (Numbers, error) {
	return c.doRequest(ctx, outgoing{op: op, record: rec}, into)
}

// DoSynced is DoNumbered for a read, with a sync directly before it on the same connection. The read therefore shows at least what its
// server shows after the sync. If the sync fails, so does the read.
func (c *Session) DoSynced(ctx context.Context, op jute.Op, rec Record, into Readable) (Numbers, error) {
	var synced error // written before the reply to the read is handed over
	sent, err := c.doRequest(ctx, outgoing{op: op, record: rec, syncDone: func(r Reply, err error) { synced = cmp.Or(err, r.Err.Err()) }}, into)
	var unanswered *UnansweredError
	if sent.Xid == 0 || errors.As(err, &unanswered) { // the reply to the sync may come yet
		return sent, err
	}
	return sent, cmp.Or(synced, err)
}

func (c *Session) doRequest(ctx context.Context, o outgoing, into Readable) (sent Numbers, err error) {
	if err := ctx.Err(); err != nil {
		return Numbers{}, err
	}
	w := c.waiterFromPool()
	for {
		o.done = w.done
		sent.Xid, err = c.sendRequest(ctx, o)
		if err == nil {
			break
		}
		if errors.Is(err, ErrNotConnected) && (o.isLast || !c.cfg.FailWithoutConnection) {
			err = c.AwaitReady(ctx)
		}
		if err != nil {
			c.waiters.Put(w)
			return Numbers{}, err
		}
	}
	select {
	case <-w.answered:
	case <-ctx.Done():
		if w.firstSideDone.Swap(true) {
			<-w.answered
			c.waiters.Put(w)
		}
		return sent, &UnansweredError{ctx.Err()}
	}
	r, err := w.reply, w.err
	sent.Zxid = r.Zxid
	if err != nil {
		err = &UnansweredError{err}
	} else {
		err = r.Err.Err()
	}
	if err == nil && into != nil {
		err = r.DecodeBodyWith(&w.decoder, into)
		if !isSelfContained(into) {
			w.body = nil // the memory is into's now
		}
	}
	c.waiters.Put(w)
	return sent, err
}

// isSelfContained reports whether a decoded record refers to no other memory.
func isSelfContained(into Readable) bool {
	switch into.(type) {
	case *jute.StatRecord, *jute.ErrorResponse:
		return true
	}
	return false
}

// waiter is a call of Do that waits for its reply.
type waiter struct {
	pool          *sync.Pool
	done          func(Reply, error) // the method that stores the reply, bound once
	answered      chan struct{}      // capacity 1
	decoder       jute.Decoder       // kept here so that no reply allocates one
	firstSideDone atomic.Bool        // set by the first: the reply, or a caller that gives up
	reply         Reply              // its body is in body
	body          []byte
	err           error
}

// maxBody limits the memory of a reply's body that a waiter keeps between calls.
const maxBody = 4 << 10

func (c *Session) waiterFromPool() *waiter {
	w, _ := c.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{pool: &c.waiters, answered: make(chan struct{}, 1)}
		w.done = w.deliverReply
	}
	w.firstSideDone.Store(false)
	w.reply, w.err = Reply{}, nil
	if cap(w.body) > maxBody {
		w.body = nil
	}
	return w
}

func (w *waiter) deliverReply(r Reply, err error) {
	w.body = append(w.body[:0], r.Body...)
	w.reply, w.err = Reply{ReplyHeader: r.ReplyHeader, Body: w.body}, err
	if w.firstSideDone.Swap(true) {
		w.pool.Put(w)
		return
	}
	w.answered <- struct{}{}
}

// callQueue holds the requests in flight, the oldest first. The zero value is empty.
type callQueue struct {
	calls []call
	first int // calls before it have been popped

	// resumes is the number of setWatches2. Before their replies, servers send events that their watches have missed.
	resumes int
}

func (q *callQueue) count() int { return len(q.calls) - q.first }

func (q *callQueue) oldest() *call { return &q.calls[q.first] }

// push adds a call at the end. Popped calls are moved out of the way when they fill half of the memory, so each
// call is copied at most twice.
func (q *callQueue) push(next call) {
	if len(q.calls) == cap(q.calls) && q.first >= (len(q.calls)+1)/2 {
		n := copy(q.calls, q.calls[q.first:])
		clear(q.calls[n:])
		q.calls, q.first = q.calls[:n], 0
	}
	if q.calls = append(q.calls, next); next.op == jute.OpSetWatches2 {
		q.resumes++
	}
}

// pop removes the oldest call. There must be one.
func (q *callQueue) pop() call {
	oldest := q.calls[q.first]
	if oldest.op == jute.OpSetWatches2 {
		q.resumes--
	}
	q.calls[q.first] = call{} // so that nothing is kept alive
	if q.first++; q.first == len(q.calls) {
		q.calls, q.first = q.calls[:0], 0
	}
	return oldest
}
