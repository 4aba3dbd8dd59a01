package server

import (
	"encoding/binary"
	"time"

	"rollcall/internal/stages"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	noReplyZxid = -1 // in the reply to an unknown operation
	zxidOffset  = 8  // in a reply frame: after length and xid
)

const (
	// minSharedBytes is the length from which on a node's data are not copied into a reply, but sent from the
	// node's memory. A loop does not write such a reply.
	minSharedBytes = 64 << 10
	// minSharedBytesWaiting is the same for a read that has waited. It is smaller, because apply may serve
	// many such reads.
	minSharedBytesWaiting = 8 << 10
)

// replies holds the unfinished requests of a connection, queues their replies in order, and counts them. The
// connection's lock guards it.
type replies struct {
	session   *session
	stream    *stream.Stream
	stats     *counters
	queue     queue // unfinished requests; the first waits for the log, or for the client to take sent bytes
	lastZxid  int64 // greatest in a reply or event
	traffic   traffic
	rates     rateWindow
	stages    *stages.Recorder
	sentBytes uint64        // of replies and events
	untaken   *untakenReply // nil unless the client is slow to take replies
}

// queueReply queues the reply to a request that does not go through the log, and frees r. The caller holds
// the lock and the tree's.
func (p *replies) queueReply(r *request) {
	if r.operation.queueEventsBefore != nil && r.code == jute.OK && r.kind != inParts {
		if r.code = r.operation.queueEventsBefore(r); p.stream.HasEnded() {
			return
		}
	}
	out := p.stream.Output()
	b, mark := jute.BeginFrame(out.B)
	header := jute.ReplyHeader{Xid: r.xid, Zxid: p.replyZxid(r)}
	begin := len(b)
	b = header.Append(b)
	extra := out.InsertedBytes()
	switch header.Err = r.code; {
	case r.longRead != nil:
		b, header.Err = r.longRead.insertRecord(b)
	case r.code == jute.OK && r.operation.appendRecord != nil:
		out.B = b
		header.Err = r.operation.appendRecord(p.session, out, r)
		b = out.B
	}
	if header.Err != jute.OK {
		b = header.Append(b[:begin]) // and no more, for most operations
		if r.operation.appendErrorRecord != nil {
			b = r.operation.appendErrorRecord(b)
		}
	}
	extra = out.InsertedBytes() - extra
	out.B = jute.EndFrame(b, mark)
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-lengthSize+extra))
	p.stats.countError(header.Err)
	p.countReplyBytes(len(b) - begin + extra)
	if len(b)-begin+extra >= stream.MinAccountChange {
		p.stream.UpdateAccount() // smaller replies are counted when they are about to be sent
	}
	if r.longRead != nil {
		r.longRead.appendHeldEvents()
	}
	p.finishReplied(r)
}

// replyZxid returns the zxid for a reply that is built now. The zxids of a connection never decrease, even if
// an older reply had to wait.
func (p *replies) replyZxid(r *request) int64 {
	switch {
	case r.noZxid:
		return 0
	case r.endReason == unknownOp:
		return noReplyZxid
	case r.longRead != nil && r.longRead.hasCopy && r.progress != running:
		return r.longRead.zxid
	}
	p.lastZxid = max(p.lastZxid, p.session.tree.Zxid())
	return p.lastZxid
}

// mayPingOvertake reports whether a ping gets its reply before the first request of the queue does, because that
// waits for this server alone, such as for the turn of long reads. Otherwise others with long requests could make the
// client believe that the server is dead. The reply has no zxid: one that is later than the changes which the client
// has been notified of would make it miss the others when it sets its watches again elsewhere. The caller holds the
// lock.
func (p *replies) mayPingOvertake() bool {
	first := p.queue.first
	return first != nil && !first.kind.waitsForOthers() && p.stream.UnsentBytes() < stream.HighWater
}

// countRequest counts a received request whose record has so many bytes. The caller holds the lock.
func (p *replies) countRequest(size int) {
	p.traffic.received++
	p.rates.addBytes(size + frameOverhead)
}

func (p *replies) countReplyBytes(size int) {
	p.stats.countReplyBytes(size)
	p.countSent(size + lengthSize)
}

// countSent counts bytes of replies and events.
func (p *replies) countSent(n int) {
	p.sentBytes += uint64(n)
	p.rates.addBytes(n)
}

// finishReplied counts a queued reply and frees r. The caller holds the lock.
func (p *replies) finishReplied(r *request) {
	now := time.Now()
	took := now.Sub(r.times.receivedAt)
	p.stats.countReply(took, r.operation.class)
	at := now.Sub(p.stats.startedAt)
	p.traffic.countReply(r.op, r.xid, p.lastZxid, at, took)
	p.rates.addRequest(at)
	p.keepIfSlow(r, now, took)
	if r.endsConn() {
		p.stream.Life.Finish(r.endReason)
	}
	r.free()
}

// appendApplied appends the reply to a request of the log. The caller holds the lock and the tree's.
func (p *replies) appendApplied(b []byte, r *request, res *znode.Result) []byte {
	zxid := res.Zxid
	if zxid == 0 {
		zxid = p.session.tree.Zxid() // a sync, or a write that took no zxid
	}
	p.lastZxid = max(p.lastZxid, zxid)
	b, mark := jute.BeginFrame(b)
	p.stats.countError(res.Code)
	b = jute.ReplyHeader{Xid: r.xid, Zxid: p.lastZxid, Err: res.Code}.Append(b)
	if res.Code == jute.OK {
		b = p.appendResult(b, r, res)
	}
	p.countReplyBytes(len(b) - mark - lengthSize)
	return jute.EndFrame(b, mark)
}

// appendEarlyReply queues a reply that was built before its turn. The replies in between may have shown the
// client a later zxid.
func (p *replies) appendEarlyReply(frame []byte) {
	out := p.stream.Output()
	binary.BigEndian.PutUint64(frame[zxidOffset:], uint64(p.lastZxid))
	out.B = append(out.B, frame...)
}

func appendPath(b []byte, path string, _ *jute.Stat) []byte { return jute.AppendString(b, path) }

func appendNode(b []byte, path string, stat *jute.Stat) []byte {
	return stat.Append(jute.AppendString(b, path))
}

func appendStat(b []byte, _ string, stat *jute.Stat) []byte { return stat.Append(b) }

// appendResult appends the record of a successful write or sync.
func (p *replies) appendResult(b []byte, r *request, res *znode.Result) []byte {
	switch {
	case r.op == jute.OpSync:
		return appendSync(b, r.body)
	case r.op == jute.OpMulti:
		return p.appendMulti(b, r.c.srv.operations, res.Multi)
	case r.op == jute.OpReconfig:
		return jute.GetDataResponse{Data: res.ConfigText, Stat: res.Stat}.Append(b)
	case r.operation.appendResult != nil:
		return r.operation.appendResult(b, res.Path, &res.Stat)
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
		if how := operations.of(res.Op); how.appendResult != nil {
			b = how.appendResult(b, res.Path, &res.Stat)
		}
	}
	return jute.AppendMultiEnd(b)
}

func appendError(b []byte, code jute.Code) []byte {
	b = jute.MultiHeader{Type: jute.OpError, Err: code}.Append(b)
	return jute.ErrorResponse{Err: code}.Append(b)
}

// queueReadyReplies serves the requests at the head of the queue that wait for nothing. It stops when too
// much is unsent; then the flusher calls it again. That limit is much higher if a write is on its way to the
// log, because a read before the write must not see it. For the same reason the budget does not hold back
// such a read. If applying is true, apply waits for this call or will soon, and slow replies are left to
// another goroutine. queueReadyReplies builds at most one slow reply, so that the caller releases the tree's
// lock before the next one. The caller holds the lock and the tree's.
func (p *replies) queueReadyReplies(applying bool) {
	most := stream.HighWater
	if p.queue.numUnapplied > 0 {
		most = max(most, p.session.limits.MaxUnread)
	}
	for r := p.queue.first; r != nil && r.canReply() && !p.stream.IsClosing() &&
		p.stream.UnsentBytes() < most; r = p.queue.first {
		if !r.kind.isLogged() {
			if applying && r.tooSlowForApply && r.kind != inParts {
				p.stream.ResumeLater()
				break
			}
			if r.needsFrozenCopy() {
				startLongRead(r)
				break
			}
			if r.progress == waiting && p.queue.numUnapplied == 0 && !p.claimBudget(r) {
				break
			}
			if r.kind == inParts && r.progress == waiting {
				r.startParts()
				break
			}
			p.queue.pop()
			p.stats.outstanding.Add(-1)
			r.minShared = minSharedBytesWaiting
			long := r.tooSlowForApply // queueReply frees r
			if p.queueReply(r); long {
				p.stream.ResumeLater()
				break
			}
			continue
		}
		p.queue.pop()
		p.appendEarlyReply(r.earlyReply)
		p.finishLogged(r)
	}
	p.stream.Life.WakeWaiters()
}

// claimBudget reports whether the budget has room for the reply to r, a read. If not, the connection waits for
// it. The caller holds the lock and the tree's.
func (p *replies) claimBudget(r *request) bool {
	if p.stream.Account.HasRoom(int64(p.session.limits.MaxBuffer)) {
		return true // the usual case, without computing the weight
	}
	return r.operation.estimateReplyBytes == nil || p.stream.TryClaimBytes(r.operation.estimateReplyBytes(p.session, r))
}

// finishLogged is called when the reply to a request of the log is queued. The caller holds the lock.
func (p *replies) finishLogged(r *request) {
	p.stats.outstanding.Add(-1)
	p.finishReplied(r)
}

// queueEvent queues a WatcherEvent. It drops the connection if the client leaves too much unread, because
// events wait only for the reply to a long read. The caller holds the lock, and the stream has not ended.
func (p *replies) queueEvent(t jute.EventType, path string, zxid int64) {
	var to *[]byte
	read := p.queue.readBlockingEvents()
	if read != nil {
		to = &read.heldEvents
	} else {
		to = &p.stream.Output().B
	}
	b, mark := jute.BeginFrame(*to)
	b = jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}.Append(b)
	b = jute.AppendInt32(b, int32(t))
	b = jute.AppendInt32(b, int32(jute.StateSyncConnected))
	*to = jute.EndFrame(jute.AppendString(b, path), mark)
	p.lastZxid = max(p.lastZxid, zxid)
	p.traffic.sent++
	p.stats.countEvent(t, len(*to)-mark-lengthSize)
	p.countSent(len(*to) - mark)
	if read != nil {
		read.countOrDropHeld(len(*to) - mark)
	}
	p.stream.LimitUnread()
}

// countHandshakeReply counts the reply to a handshake that began at begun. The caller holds the lock.
func (p *replies) countHandshakeReply(begun time.Time) {
	now := time.Now()
	p.traffic.received++
	at := now.Sub(p.stats.startedAt)
	p.traffic.countReply(jute.OpCreateSession, 0, p.session.tree.Zxid(), at, now.Sub(begun))
	p.rates.addRequest(at)
	p.stats.requestLatency[classConnect].Add(now.Sub(begun))
}

// hasEmptyQueue reports whether all requests have their replies. The caller does not hold the lock.
func (p *replies) hasEmptyQueue() bool {
	p.stream.Lock()
	defer p.stream.Unlock()
	return p.queue.n == 0
}
