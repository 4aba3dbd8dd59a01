package server

import (
	"encoding/binary"
	"time"

	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	noReplyZxid = -1 // the zxid in the reply to an operation that the server does not know
	zxidOffset  = 8  // where the zxid is in a reply frame: after length and xid
)

const (
	// shareFrom is a length in bytes. Data of a node that are at least as long are not copied into
	// a reply, but sent from the node's memory. A loop does not write such a reply.
	shareFrom = 64 << 10
	// shareWaiting is the same for a read that has waited. It is smaller, because apply may answer
	// many such reads.
	shareWaiting = 8 << 10
)

// replies holds the requests of a connection that are not answered, and queues the replies in their order. It counts them for operators. The
// connection's lock guards it.
type replies struct {
	session *session
	stream  *stream.Stream
	stats   *counters
	queue   queue   // requests not answered; the first waits for the log, or for the client to take what was sent
	shown   int64   // greatest zxid in a reply or event
	traffic traffic // for operators
}

// answer queues the reply to a request that does not go through the log, and frees r. The caller
// holds the lock and the tree's lock.
func (p *replies) answer(r *request) {
	if r.how.before != nil && r.code == jute.OK && !r.parts {
		if r.code = r.how.before(r); p.stream.Dead() {
			return
		}
	}
	out := p.stream.Output()
	b, mark := jute.BeginFrame(out.B)
	header := jute.ReplyHeader{Xid: r.xid, Zxid: p.zxidOf(r)}
	begin := len(b)
	b = header.Append(b)
	extra := out.Extra()
	switch header.Err = r.code; {
	case r.read != nil:
		b, header.Err = r.read.appendRecord(b)
	case r.code == jute.OK && r.how.answer != nil:
		out.B = b
		header.Err = r.how.answer(p.session, out, r)
		b = out.B
	}
	if header.Err != jute.OK {
		b = header.Append(b[:begin]) // and no more, for most operations
		if r.how.failed != nil {
			b = r.how.failed(b)
		}
	}
	extra = out.Extra() - extra
	out.B = jute.EndFrame(b, mark)
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-lengthSize+extra))
	p.stats.refuse(header.Err)
	p.stats.response(len(b) - begin + extra)
	if len(b)-begin+extra >= stream.AccountStep {
		p.stream.Count() // smaller replies are counted when they are about to be sent
	}
	if r.read != nil {
		r.read.appendEvents()
	}
	p.replied(r)
}

// zxidOf returns the zxid for a reply that is made now. The zxids of a connection never decrease,
// even if an older reply had to wait.
func (p *replies) zxidOf(r *request) int64 {
	switch {
	case r.noZxid:
		return 0
	case r.ends && r.why == unknownOp:
		return noReplyZxid
	case r.read != nil && !r.working:
		return r.read.zxid
	}
	p.shown = max(p.shown, p.session.tree.Zxid())
	return p.shown
}

// replied is called when the reply to a request is queued. The caller holds the lock.
func (p *replies) replied(r *request) {
	now := time.Now()
	took := now.Sub(r.begun)
	p.stats.reply(took, r.how.class)
	p.traffic.reply(r.op, r.xid, p.shown, now.Sub(p.stats.begun), took)
	if r.ends {
		p.stream.Life.Finish(r.why)
	}
	r.free()
}

// appendApplied appends the reply to a request of the log. The caller holds the lock and the
// tree's lock.
func (p *replies) appendApplied(b []byte, r *request, res *znode.Result) []byte {
	zxid := res.Zxid
	if zxid == 0 {
		zxid = p.session.tree.Zxid() // a sync, or a write that took no zxid
	}
	p.shown = max(p.shown, zxid)
	b, mark := jute.BeginFrame(b)
	p.stats.refuse(res.Code)
	b = jute.ReplyHeader{Xid: r.xid, Zxid: p.shown, Err: res.Code}.Append(b)
	if res.Code == jute.OK {
		b = p.appendResult(b, r, res)
	}
	p.stats.response(len(b) - mark - lengthSize)
	return jute.EndFrame(b, mark)
}

// appendReply queues a reply that was made while earlier requests were not answered. Their replies
// may have shown the client a later zxid.
func (p *replies) appendReply(frame []byte) {
	out := p.stream.Output()
	binary.BigEndian.PutUint64(frame[zxidOffset:], uint64(p.shown))
	out.B = append(out.B, frame...)
}

// The result functions append the record of a write that succeeded, alone or in a multi.

func pathResult(b []byte, path string, _ *jute.Stat) []byte { return jute.AppendString(b, path) }

func nodeResult(b []byte, path string, stat *jute.Stat) []byte {
	return stat.Append(jute.AppendString(b, path))
}

func statResult(b []byte, _ string, stat *jute.Stat) []byte { return stat.Append(b) }

// appendResult appends the record of a successful write or sync.
func (p *replies) appendResult(b []byte, r *request, res *znode.Result) []byte {
	switch {
	case r.op == jute.OpSync:
		return appendSync(b, r.body)
	case r.op == jute.OpMulti:
		return p.appendMulti(b, r.c.srv.operations, res.Multi)
	case r.op == jute.OpReconfig:
		return jute.GetDataResponse{Data: res.Data, Stat: res.Stat}.Append(b)
	case r.how.result != nil:
		return r.how.result(b, res.Path, &res.Stat)
	}
	return b // delete, closeSession: a header
}

func appendSync(b, body []byte) []byte {
	var req jute.SyncRequest
	d := jute.NewDecoder(body)
	req.Decode(&d)
	return jute.SyncResponse(req).Append(b)
}

// appendMulti appends the results of a multi that writes.
func (p *replies) appendMulti(b []byte, operations *operationTable, results []znode.OpResult) []byte {
	for i := range results {
		res := &results[i]
		if res.Op == jute.OpError {
			b = appendError(b, res.Code)
			continue
		}
		b = jute.MultiHeader{Type: res.Op}.Append(b)
		if how := operations.of(res.Op); how.result != nil {
			b = how.result(b, res.Path, &res.Stat)
		}
	}
	return jute.AppendMultiEnd(b)
}

func appendError(b []byte, code jute.Code) []byte {
	b = jute.MultiHeader{Type: jute.OpError, Err: code}.Append(b)
	return jute.ErrorResponse{Err: code}.Append(b)
}

// answerReady answers the requests at the head of the queue that wait for nothing. It stops when
// too much is unsent; then the flusher calls it again. That limit is much higher if a write is on
// its way to the log, because a read before the write must not see it. For the same reason the
// budget does not hold back such a read. If applying is true, apply waits for this call or will
// soon, and answers that may take long are left to another goroutine. answerReady makes one such answer at most, so that
// the caller releases the tree's lock, for which apply waits, before the next one. The caller holds the lock and
// the tree's.
func (p *replies) answerReady(applying bool) {
	most := stream.HighWater
	if p.queue.unapplied > 0 {
		most = max(most, p.session.limits.MaxUnread)
	}
	for r := p.queue.first; r != nil && r.due() && !p.stream.Closing() && p.stream.Unsent() < most; r = p.queue.first {
		if !r.logged {
			if applying && r.aside && !r.parts {
				p.stream.ResumeLater()
				break
			}
			if r.long() {
				startRead(r)
				break
			}
			if !r.done && p.queue.unapplied == 0 && !p.affords(r) {
				break
			}
			if r.parts && !r.done {
				r.startParts()
				break
			}
			p.queue.pop()
			p.stats.outstanding.Add(-1)
			r.share = shareWaiting
			long := r.aside // answer frees r
			if p.answer(r); long {
				p.stream.ResumeLater()
				break
			}
			continue
		}
		p.queue.pop()
		p.appendReply(r.reply)
		p.complete(r)
	}
	p.stream.Life.Changed()
}

// affords reports whether the budget has room for the answer to r, a read. If not, the connection
// waits for it. The caller holds the lock and the tree's.
func (p *replies) affords(r *request) bool {
	if p.stream.Account.HasRoom(int64(p.session.limits.MaxBuffer)) {
		return true // usually so, and checking the weight costs more
	}
	return r.how.weigh == nil || p.stream.Claim(r.how.weigh(p.session, r))
}

// complete is called when the reply to a request of the log is queued. The caller holds the lock.
func (p *replies) complete(r *request) {
	p.stats.outstanding.Add(-1)
	p.replied(r)
}

// event queues a WatcherEvent. If the client leaves too much unread, event drops the connection,
// because events wait for nothing but the answer to a long read. The caller holds the lock, and the stream has not ended.
func (p *replies) event(t jute.EventType, path string, zxid int64) {
	var to *[]byte
	read := p.queue.reading()
	if read != nil {
		to = &read.events
	} else {
		to = &p.stream.Output().B
	}
	b, mark := jute.BeginFrame(*to)
	b = jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}.Append(b)
	b = jute.AppendInt32(b, int32(t))
	b = jute.AppendInt32(b, int32(jute.StateSyncConnected))
	*to = jute.EndFrame(jute.AppendString(b, path), mark)
	p.shown = max(p.shown, zxid)
	p.traffic.sent++
	p.stats.event(t, len(*to)-mark-lengthSize)
	if read != nil {
		read.hold(len(*to) - mark)
	}
	p.stream.CheckUnread()
}

// welcomed counts a handshake that has begun then, and is about to be answered with a session. The caller holds
// the lock and the tree's lock.
func (p *replies) welcomed(begun time.Time) {
	now := time.Now()
	p.traffic.received++
	p.traffic.reply(jute.OpCreateSession, 0, p.session.tree.Zxid(), now.Sub(p.stats.begun), now.Sub(begun))
	p.stats.requests[classConnect].Add(now.Sub(begun))
}
