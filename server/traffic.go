package server

import (
	"time"

	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// traffic counts the packets of one connection since it began or since the last reset. The connection's lock
// guards it.
type traffic struct {
	received, sent                      uint64  // packets
	replies                             uint64  // including the handshake's
	lastOp                              jute.Op // of the last reply
	lastXid                             int32   // of the last reply to a request with a xid of its own
	hasXid                              bool
	lastZxid                            int64         // in the last reply
	lastReplyAt                         time.Duration // since the server's start
	lastLatency, minLatency, maxLatency time.Duration
	totalLatency                        time.Duration
}

// countReply counts a reply that was queued at time at since the server's start.
func (t *traffic) countReply(op jute.Op, xid int32, zxid int64, at, took time.Duration) {
	t.sent++
	t.lastOp, t.lastZxid, t.lastReplyAt, t.lastLatency = op, zxid, at, took
	if xid >= 0 { // pings and the like have fixed xids
		t.lastXid, t.hasXid = xid, true
	}
	if t.replies++; t.replies == 1 || took < t.minLatency {
		t.minLatency = took
	}
	t.maxLatency = max(t.maxLatency, took)
	t.totalLatency += took
}

func (c *conn) describe() (shown clients.Connection, ok bool) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.HasEnded() {
		return shown, false
	}
	t := &c.replies.traffic
	shown = clients.Connection{
		Number: c.localNumber, RemoteAddr: c.addr.String(), AwaitsRead: !c.isCommand && c.stream.IsReading(),
		AwaitsWrite:    c.stream.UnsentBytes() > 0,
		QueuedRequests: c.replies.queue.n, PacketsReceived: t.received, PacketsSent: t.sent,
		EstablishedAt: c.stream.Life.StartedAt(), ExpiresAt: c.stream.Life.ExpiresAt(),
		Recent: c.replies.rates.recent(time.Since(c.srv.stats.startedAt),
			c.stream.Life.StartedAt().Sub(c.srv.stats.startedAt)),
	}
	if c.tls != nil {
		shown.TLS, shown.Cipher = c.tls.version, c.tls.cipher
	}
	timeout := c.stream.Life.Timeout()
	if timeout == 0 {
		return shown, true
	}
	shown.Session, shown.Timeout = c.session.id, timeout
	if shown.ReplyCount, shown.LastXid = t.replies, -1; t.replies == 0 {
		return shown, true
	}
	shown.LastOp, shown.LastZxid, shown.LastReply = t.lastOp, t.lastZxid, t.lastReplyAt
	if t.hasXid {
		shown.LastXid = t.lastXid
	}
	shown.LastLatency, shown.MinLatency, shown.MaxLatency = t.lastLatency, t.minLatency, t.maxLatency
	shown.AvgLatency = t.totalLatency / time.Duration(t.replies)
	return shown, true
}
