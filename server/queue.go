package server

import (
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// request is one request of a client that is not answered yet. Records are pooled. A request that
// goes to the log is the Waiter of its transaction.
type request struct {
	c     *conn
	next  *request // in the connection's queue
	xid   int32
	op    jute.Op
	how   *operation
	begun time.Time
	ids   []*proto.Identity // the client's identities when it sent the request
	body  []byte            // the request's record; in the frame's memory, or in own while the request waits

	lists   uint32        // of a write: see Txn.lists
	logged  bool          // a write or a sync, answered when it is applied; other requests are answered when they are first
	proves  bool          // a sync or a linearizable read: it waits for the leader's proof
	moves   bool          // a reconfig: when it is applied, its answer waits until the members have followed it
	done    bool          // it is applied, or the proof has come, and the answer waits for nothing else
	reply   []byte        // the reply, if it was applied before its turn
	code    jute.Code     // the known answer to a request that is not served
	noZxid  bool          // auth: the reply's zxid is 0
	why     stream.Reason // the reason, if ends is set
	ends    bool          // the reply is the connection's last
	aside   bool          // apply does not answer it; see operation.aside
	parts   bool          // a setWatches that is served in parts; see startParts
	working bool          // its parts are being served, or read is under way
	read    *longRead     // serves it without the tree's lock; nil: it is not that long
	share   int           // data of at least so many bytes are not copied into the reply

	own  []byte // memory for body
	held int    // bytes that the request holds while it waits
}

var requests = sync.Pool{New: func() any { return new(request) }}

// maxOwn bounds the memory for a body that a pooled record keeps, in bytes.
const maxOwn = 1 << 10

func (c *conn) newRequest(h jute.RequestHeader, body []byte) *request {
	r := requests.Get().(*request)
	*r = request{
		c: c, xid: h.Xid, op: h.Op, how: c.srv.operations.of(h.Op), begun: time.Now(),
		ids: c.identity.all(), body: body, share: shareFrom, own: r.own,
	}
	return r
}

// Identities are those of the client when it sent the request.
func (r *request) Identities() []*proto.Identity { return r.ids }

// free gives the record back to the pool. Nothing else may refer to it. If it was submitted, it has
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

// due reports whether the request may be answered when it is the first of its queue.
func (r *request) due() bool { return !r.working && (r.done || !r.logged && !r.proves) }

// queue holds requests in the order of their replies. The zero value is empty.
type queue struct {
	first, last *request
	n           int
	bytes       int // bytes that the requests hold
	proofs      int // how many are syncs, or reads that wait for a proof
	unapplied   int // how many are writes that are not applied
	asides      int // how many are reads that apply does not answer
	moves       int // how many are reconfigs
}

// late reports whether a read in the queue may be answered after a write that is submitted now.
// Such a read follows a request that waits for a proof or for the members, is not answered by apply,
// or waits until the client has taken more.
func (q *queue) late() bool {
	return q.proofs > 0 || q.moves > 0 || q.asides > 0 || q.first != nil && q.first.due()
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
	if r.moves {
		q.moves++
	}
	switch {
	case r.proves:
		q.proofs++
	case r.logged:
		q.unapplied++
	}
}

// answered notes that r, which is in the queue, also holds the bytes of its reply.
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
	if r.moves {
		q.moves--
	}
	return r
}
