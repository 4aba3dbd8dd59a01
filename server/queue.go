package server

import (
	"sync"
	"time"

	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// request is one unfinished request of a client. Records are pooled. A request that goes to the log is the
// Waiter of its transaction.
type request struct {
	c         *conn
	next      *request // in the connection's queue
	xid       int32
	op        jute.Op
	operation *operation
	ids       []*proto.Identity // the client's identities when it sent the request
	body      []byte            // the request's record; in the frame's memory, or in ownBody while the request waits

	listBytes       uint32 // of a write, for Txn.acl_bytes
	kind            requestKind
	progress        requestProgress
	earlyReply      []byte        // made before its turn
	code            jute.Code     // of a request that is not served
	noZxid          bool          // auth, and a ping that overtakes: the reply's zxid is 0
	endReason       stream.Reason // for which the reply is the connection's last; stream.ByClient: it is not
	tooSlowForApply bool          // apply does not serve it; see operation.tooSlowForApply
	longRead        *longRead     // nil unless it is served without the tree's lock
	minShared       int           // longer data is not copied into the reply

	times requestTimes

	ownBody   []byte // memory for body
	heldBytes int    // while the request waits
}

var requestPool = sync.Pool{New: func() any { return new(request) }}

// maxPooledBody bounds the body memory that a pooled record keeps, in bytes.
const maxPooledBody = 1 << 10

func (c *conn) newRequest(h jute.RequestHeader, body []byte) *request {
	r := requestPool.Get().(*request)
	*r = request{
		c: c, xid: h.Xid, op: h.Op, operation: c.srv.operations.of(h.Op), times: requestTimes{receivedAt: time.Now()},
		ids: c.identity.all(), body: body, minShared: minSharedBytes, ownBody: r.ownBody,
	}
	return r
}

// Identities returns the client's identities when it sent the request. The follower asserts for this method.
func (r *request) Identities() []*proto.Identity { return r.ids }

// NoteSent implements follower.timedWaiter. The connection may end meanwhile, and keepUnreplied reads the times then.
func (r *request) NoteSent(room, sent stages.Time) {
	r.c.stream.Lock()
	defer r.c.stream.Unlock()
	r.times.roomAt, r.times.sentAt = room, sent
}

// free returns the record to the pool. Nothing else may refer to it. If it was submitted, it has been
// applied.
func (r *request) free() {
	own := r.ownBody[:0]
	if cap(own) > maxPooledBody {
		own = nil
	}
	*r = request{ownBody: own}
	requestPool.Put(r)
}

// copyBody copies the body out of the frame.
func (r *request) copyBody() {
	if r.body != nil {
		r.ownBody = append(r.ownBody[:0], r.body...)
		r.body = r.ownBody
	}
}

// canReply reports whether the request, as the first of its queue, can get its reply.
func (r *request) canReply() bool {
	return r.progress == readyToReply || r.progress == waiting && !r.kind.waitsForOthers()
}

// endsConn reports whether the reply is the connection's last.
func (r *request) endsConn() bool { return r.endReason != stream.ByClient }

// queue holds requests in the order of their replies. The zero value is empty.
type queue struct {
	first, last  *request
	n            int
	heldBytes    int   // heldBytes that the requests hold
	numProofs    int32 // syncs, and reads that wait for a proof
	numUnapplied int32 // writes that are not applied
	numTooSlow   int32 // reads that apply does not serve
	numReconfigs int32
}

// hasLateReads reports whether a read in the queue may get its reply after a write that is submitted now.
// Such a read follows a request that waits for a proof or for the members, is not served by apply, or waits
// until the client has taken more.
func (q *queue) hasLateReads() bool {
	return q.numProofs > 0 || q.numReconfigs > 0 || q.numTooSlow > 0 || q.first != nil && q.first.canReply()
}

func (q *queue) push(r *request) {
	if q.first == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
	q.n++
	q.heldBytes += r.heldBytes
	if r.tooSlowForApply {
		q.numTooSlow++
	}
	if r.kind == reconfiguring {
		q.numReconfigs++
	}
	switch {
	case r.kind.needsProof():
		q.numProofs++
	case r.kind.isLogged():
		q.numUnapplied++
	}
}

// holdReply stores the reply of r, which is in the queue, and counts its bytes.
func (q *queue) holdReply(r *request, reply []byte) {
	r.earlyReply = reply
	r.heldBytes += len(reply)
	q.heldBytes += len(reply)
}

func (q *queue) pop() *request {
	r := q.first
	q.first, r.next = r.next, nil
	if q.first == nil {
		q.last = nil
	}
	q.n--
	q.heldBytes -= r.heldBytes
	if r.kind.needsProof() {
		q.numProofs--
	}
	if r.tooSlowForApply {
		q.numTooSlow--
	}
	if r.kind == reconfiguring {
		q.numReconfigs--
	}
	return r
}
