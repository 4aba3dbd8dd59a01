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
	c          *conn
	next       *request // in the connection's queue
	xid        int32
	op         jute.Op
	operation  *operation
	receivedAt time.Time
	ids        []*proto.Identity // the client's identities when it sent the request
	body       []byte            // the request's record; in the frame's memory, or in own while the request waits

	listBytes     uint32        // of a write: see Txn.lists
	inLog         bool          // a write or a sync, answered when it is applied; other requests are answered when they are first
	needsProof    bool          // a sync or a linearizable read: it waits for the leader's proof
	awaitsMembers bool          // a reconfig: when it is applied, its answer waits until the members have followed it
	isReady       bool          // it is applied, or the proof has come, and the answer waits for nothing else
	earlyReply    []byte        // the reply, if it was applied before its turn
	code          jute.Code     // the known answer to a request that is not served
	noZxid        bool          // auth: the reply's zxid is 0
	endReason     stream.Reason // the reason, if ends is set
	endsConn      bool          // the reply is the connection's last
	isSlow        bool          // apply does not answer it; see operation.aside
	inParts       bool          // a setWatches that is served in parts; see startParts
	inProgress    bool          // its parts are being served, or read is under way
	longRead      *longRead     // serves it without the tree's lock; nil: it is not that long
	minShared     int           // data of at least so many bytes are not copied into the reply

	ownBody   []byte // memory for body
	heldBytes int    // bytes that the request holds while it waits
}

var requestPool = sync.Pool{New: func() any { return new(request) }}

// maxPooledBody bounds the memory for a body that a pooled record keeps, in bytes.
const maxPooledBody = 1 << 10

func (c *conn) newRequest(h jute.RequestHeader, body []byte) *request {
	r := requestPool.Get().(*request)
	*r = request{
		c: c, xid: h.Xid, op: h.Op, operation: c.srv.operations.of(h.Op), receivedAt: time.Now(),
		ids: c.identity.all(), body: body, minShared: minSharedBytes, ownBody: r.ownBody,
	}
	return r
}

// Identities are those of the client when it sent the request.
func (r *request) Identities() []*proto.Identity { return r.ids }

// free gives the record back to the pool. Nothing else may refer to it. If it was submitted, it has
// been applied.
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

// canReply reports whether the request may be answered when it is the first of its queue.
func (r *request) canReply() bool { return !r.inProgress && (r.isReady || !r.inLog && !r.needsProof) }

// queue holds requests in the order of their replies. The zero value is empty.
type queue struct {
	first, last  *request
	n            int
	heldBytes    int // heldBytes that the requests hold
	numProofs    int // how many are syncs, or reads that wait for a proof
	numUnapplied int // how many are writes that are not applied
	numSlow      int // how many are reads that apply does not answer
	numReconfigs int // how many are reconfigs
}

// hasLateReads reports whether a read in the queue may be answered after a write that is submitted now.
// Such a read follows a request that waits for a proof or for the members, is not answered by apply,
// or waits until the client has taken more.
func (q *queue) hasLateReads() bool {
	return q.numProofs > 0 || q.numReconfigs > 0 || q.numSlow > 0 || q.first != nil && q.first.canReply()
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
	if r.isSlow {
		q.numSlow++
	}
	if r.awaitsMembers {
		q.numReconfigs++
	}
	switch {
	case r.needsProof:
		q.numProofs++
	case r.inLog:
		q.numUnapplied++
	}
}

// holdReply notes that r, which is in the queue, also holds the bytes of its reply.
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
	if r.needsProof {
		q.numProofs--
	}
	if r.isSlow {
		q.numSlow--
	}
	if r.awaitsMembers {
		q.numReconfigs--
	}
	return r
}
