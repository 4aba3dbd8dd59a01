package server

import (
	"time"

	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// traffic counts the packets of one connection since it began or since the last reset. The
// connection's lock guards it.
type traffic struct {
	received, sent    uint64        // packets
	op                jute.Op       // the last reply's
	replies           uint64        // with that of the handshake
	xid               int32         // the xid of the last reply to a request that the client numbered itself
	hasXid            bool          // there was such a reply
	zxid              int64         // in the last reply
	at                time.Duration // when the last reply was queued, from the server's start
	last, least, most time.Duration // latencies
	total             time.Duration
}

// reply counts a reply that was queued at now, took so long, and showed zxid.
func (t *traffic) reply(op jute.Op, xid int32, zxid int64, at, took time.Duration) {
	t.sent++
	t.op, t.zxid, t.at, t.last = op, zxid, at, took
	if xid >= 0 { // pings and the like have fixed xids
		t.xid, t.hasXid = xid, true
	}
	if t.replies++; t.replies == 1 || took < t.least {
		t.least = took
	}
	t.most = max(t.most, took)
	t.total += took
}

func (c *conn) show() (shown clients.Connection, ok bool) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.Dead() {
		return shown, false
	}
	t := &c.replies.traffic
	shown = clients.Connection{
		Number: c.ordinal, Addr: c.addr.String(), Reading: !c.command && c.stream.Reading(), Writing: c.stream.Unsent() > 0,
		Queued: c.replies.queue.n, Received: t.received, Sent: t.sent, Established: c.stream.Life.Begun(), Expires: c.stream.Life.Expires(),
	}
	if c.tls != nil {
		shown.TLS, shown.Cipher = c.tls.version, c.tls.cipher
	}
	timeout := c.stream.Life.Timeout()
	if timeout == 0 {
		return shown, true
	}
	shown.Session, shown.Timeout = c.session.id, timeout
	if shown.Replies, shown.Xid = t.replies, -1; t.replies == 0 {
		return shown, true
	}
	shown.Op, shown.Zxid, shown.Replied = t.op, t.zxid, t.at
	if t.hasXid {
		shown.Xid = t.xid
	}
	shown.LastLatency, shown.MinLatency, shown.MaxLatency = t.last, t.least, t.most
	shown.AvgLatency = t.total / time.Duration(t.replies)
	return shown, true
}
