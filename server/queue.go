package server

import (
	"sync"
	"time"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/server/stream"
)

// request is one request of a client while it is under way. Records are pooled; the one
// that was submitted is its transaction's Waiter.
type request struct {
	c     *conn
	next  *request // in the connection's queue
	xid   int32
	op    jute.Op
	how   *operation
	begun time.Time
	ids   []*proto.Identity // the client's when it sent this
	body  []byte            // its record; the frame's memory, or own once it waits

	logged bool          // a write or a sync, answered when it is applied; else it is answered in its turn
	proves bool          // a sync, or a read that must be linearizable: waits for the leader's word
	done   bool          // applied, or the word has come
	reply  []byte        // of one applied out of its turn
	code   jute.Code     // known beforehand, of one that is not served
	noZxid bool          // auth: the reply's zxid is 0
	why    stream.Reason // with ends
	ends   bool          // the reply is the connection's last
	aside  bool          // apply does not answer it; see operation.aside
	share  int           // data of so many bytes or more are not copied into the reply

	own  []byte // memory for body
	held int    // bytes that it holds while it waits
}

var requests = sync.Pool{New: func() any { return new(request) }}

// maxOwn bounds the memory for a body that a pooled record keeps, in bytes.
const maxOwn = 1 << 10

func (c *conn) newRequest(h jute.RequestHeader, body []byte) *request {
	r := requests.Get().(*request)
	*r = request{
		c: c, xid: h.Xid, op: h.Op, how: c.srv.operations.of(h.Op), begun: time.Now(),
		ids: *c.ids.Load(), body: body, share: shareFrom, own: r.own,
	}
	return r
}

// free gives the record back to the pool. Nothing else may refer to it: if it was submitted, it has
// been applied.
func (r *request) free() {
	own := r.own[:0]
	if cap(own) > maxOwn {
		own = nil
	}
	*r = request{own: own}
	requests.Put(r)
}

// keep copies the body out of the frame.
func (r *request) keep() {
	if r.body != nil {
		r.own = append(r.own[:0], r.body...)
		r.body = r.own
	}
}

// due reports whether it may be answered once it is the first.
func (r *request) due() bool { return r.done || !r.logged && !r.proves }

// queue holds requests in the order of their replies. The zero value is empty.
type queue struct {
	first, last *request
	n           int
	bytes       int // that they hold
	proofs      int // among them: syncs, and reads that wait for a proof
	unapplied   int // writes among them that are not applied
	asides      int // reads among them that apply does not answer
}

// late reports whether a read in it may be answered after a write that is submitted now. Such a read
// comes after a proof, is not answered by apply, or waits for the client to take what is unsent.
func (q *queue) late() bool {
	return q.proofs > 0 || q.asides > 0 || q.first != nil && q.first.due()
}

func (q *queue) push(r *request) {
	if q.first == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.n++
	q.bytes += r.held
	if r.aside {
		q.asides++
	}
	switch {
	case r.proves:
		q.proofs++
	case r.logged:
		q.unapplied++
	}
}

// answered notes that r, which is in the queue, holds so many bytes of its reply, too.
func (q *queue) answered(r *request, reply []byte) {
	r.reply = reply
	r.held += len(reply)
	q.bytes += len(reply)
}

func (q *queue) pop() *request {
	r := q.first
	q.first, r.next = r.next, nil
	if q.first == nil {
		q.last = nil
	}
	q.n--
	q.bytes -= r.held
	if r.proves {
		q.proofs--
	}
	if r.aside {
		q.asides--
	}
	return r
}
