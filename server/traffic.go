package server

import (
	"iter"
	"slices"
	"time"

	"rollcall/jute"
	"rollcall/tally"
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

// Connections yields all connections, oldest first. It holds no lock while it yields.
func (s *Server) Connections() iter.Seq[tally.Connection] {
	return func(yield func(tally.Connection) bool) {
		for _, c := range s.conns.all() {
			if shown, ok := c.show(); ok && !yield(shown) {
				return
			}
		}
	}
}

func (c *conn) show() (shown tally.Connection, ok bool) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.Dead() {
		return shown, false
	}
	t := &c.traffic
	shown = tally.Connection{
		Number: c.ordinal, Addr: c.addr.String(), TLS: c.tlsVersion, Cipher: c.cipher, Reading: !c.word && c.stream.Reading(), Writing: c.stream.Unsent() > 0,
		Queued: c.queue.n, Received: t.received, Sent: t.sent, Established: c.stream.Begun(), Expires: c.stream.Expires(),
	}
	timeout := c.stream.Timeout()
	if timeout == 0 {
		return shown, true
	}
	shown.Session, shown.Timeout = c.session, timeout
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

// ResetConnections sets the counters of every connection to zero.
func (s *Server) ResetConnections() {
	for _, c := range s.conns.all() {
		c.stream.Lock()
		c.traffic = traffic{}
		c.stream.Unlock()
	}
}

// Watches yields the sessions that watch nodes here, in order, each with its paths. As in
// ZooKeeper, it leaves out watches for children alone. It copies one connection's watches at a
// time, and holds no lock while it yields.
func (s *Server) Watches() iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		for _, c := range s.conns.all() {
			if id, paths := c.watched(); len(paths) > 0 && !yield(id, paths) {
				return
			}
		}
	}
}

func (c *conn) watched() (id jute.SessionID, paths []string) {
	c.stream.Lock()
	id = c.session
	c.stream.Unlock()
	tree := c.srv.cfg.State
	tree.RLock()
	paths = slices.Collect(tree.WatchesOf(c))
	tree.RUnlock()
	slices.Sort(paths)
	return id, paths
}
