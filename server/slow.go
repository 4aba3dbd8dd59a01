package server

import (
	"time"

	"rollcall/internal/stages"
	"rollcall/zk/jute"
)

// requestTimes are the times of a request, with the entry and the body of its write. All but the first are for the record of
// slow requests. A zero is unknown.
type requestTimes struct {
	receivedAt time.Time

	readyAt    stages.Time // a read that waited for an entry need not wait any more
	roomAt     stages.Time // see stages.Request, as for the next two
	sentAt     stages.Time
	resultAt   stages.Time
	entryIndex uint64 // of the write
	txnBody    []byte // of a write; the log has it, too
}

// minUntakenBytes is the number of unsent bytes from which on it is measured how long the client takes for a reply. The
// buffers of a socket take fewer at once without the client, so those are not measured.
const minUntakenBytes = minSharedBytes

// untakenReply is a reply that the client has not taken yet. A connection has at most one, its oldest.
type untakenReply struct {
	request     stages.Request
	batchesLeft int // that the client must take until it has the reply
}

// slowClasses are the classes by which requests have thresholds. All others are reads. Connects have no request: see
// keepOpening.
var slowClasses = [numClasses]stages.Class{
	classWrite: stages.Writes, classPing: stages.Sessions, classClose: stages.Sessions,
}

// keepIfSlow keeps the request r, whose reply was queued at now, if it was slow, or when the client has taken the reply if
// that is slow. The caller holds the lock.
func (p *replies) keepIfSlow(r *request, now time.Time, took time.Duration) {
	if p.stages == nil {
		return
	}
	sending := p.stream.IsSending()
	late := p.untaken == nil && (sending || p.stream.UnsentBytes() >= minUntakenBytes)
	if !late && took < p.stages.Threshold(slowClasses[r.operation.class]) {
		return
	}
	q := p.describe(r, now)
	if !late {
		p.stages.Keep(&q)
		return
	}
	p.untaken = &untakenReply{q, 1}
	if sending {
		p.untaken.batchesLeft++
	}
}

// OutputTaken implements stream.Frames.
func (c *conn) OutputTaken() {
	u := c.replies.untaken
	if u == nil {
		return
	}
	if u.batchesLeft--; u.batchesLeft == 0 {
		c.replies.finishUntaken()
	}
}

// finishUntaken keeps the request whose reply the client has taken now, or will never take, if it was slow. The caller
// holds the lock.
func (p *replies) finishUntaken() {
	u := p.untaken
	if u == nil {
		return
	}
	p.untaken = nil
	u.request.Taken = p.stages.Now()
	p.stages.Keep(&u.request)
}

// keepUnreplied keeps the first request that has no reply, if that was slow to come: the connection has ended. The others wait
// for it, and a reply that the client does not take is kept by finishUntaken. The caller holds the lock.
func (p *replies) keepUnreplied() {
	r := p.queue.first
	if p.stages == nil || r == nil || !r.kind.waitsForOthers() {
		return
	}
	q := p.describe(r, time.Now())
	q.Lost = true
	p.stages.Keep(&q)
}

func (p *replies) describe(r *request, now time.Time) stages.Request {
	q := r.times.describe(p.stages, now)
	q.Class, q.Session, q.Address = slowClasses[r.operation.class], int64(p.session.id), r.c.addr.String()
	q.Op, q.Path, q.Xid = r.op.String(), requestPath(r), r.xid
	return q
}

// describe returns the times of a request whose reply was queued at now.
func (t *requestTimes) describe(by *stages.Recorder, now time.Time) stages.Request {
	return stages.Request{
		Received: by.At(t.receivedAt), Ready: t.readyAt, Room: t.roomAt, Sent: t.sentAt, Index: t.entryIndex, Result: t.resultAt,
		Queued: by.At(now),
	}
}

// keepOpening keeps the opening or resumption of a session, whose reply is queued now, if it was slow. The caller holds the lock.
func (p *replies) keepOpening(h *handshake) {
	if p.stages == nil {
		return
	}
	q := h.times.describe(p.stages, time.Now())
	q.Class, q.Session, q.Address, q.Op = stages.Sessions, int64(h.sessionID), h.c.addr.String(), jute.OpCreateSession.String()
	if h.isAttach {
		q.Op = jute.OpAttach.String()
	}
	p.stages.Keep(&q)
}

// requestPath returns the path of a request, the first path of a multi, or "" if the request has none. It copies the first
// stages.MaxPath bytes only: a reply that its client does not take keeps them, and a rejected path may be as long as a request.
func requestPath(r *request) (path string) {
	kept := func(path []byte) string { return string(path[:min(len(path), stages.MaxPath)]) }
	body := r.body
	if r.times.txnBody != nil {
		body = r.times.txnBody
	}
	switch {
	case body == nil || r.code == jute.MarshallingError:
		return ""
	case r.op == jute.OpMulti || r.op == jute.OpMultiRead:
		jute.EachMultiOp(body, func(step *jute.MultiOp) bool {
			path = kept(step.Path())
			return false
		})
		return path
	}
	switch r.op.Class() {
	case jute.ClassCreate, jute.ClassWrite, jute.ClassRead, jute.ClassSync, jute.ClassWatch:
	default:
		return ""
	}
	if r.op == jute.OpSetWatches || r.op == jute.OpSetWatches2 || r.op == jute.OpReconfig {
		return ""
	}
	d := jute.NewDecoder(body)
	return kept(d.ReadBytes())
}
