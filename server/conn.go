package server

import (
	"context"
	"net"
	"net/netip"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const lengthSize = stream.LengthSize // of the field at the head of a frame

// conn is one client connection: its handshake, its session, and the order of its requests and
// replies. Its stream owns bytes, buffers, deadlines and the end. The stream's lock guards the
// fields below it. Locks are taken in the order tree, stream.
type conn struct {
	srv      *Server
	listener *listener
	addr     net.Addr // the client's

	ordinal uint64 // counts the server's connections, from 1; set by register
	number  uint64 // unique over members and their restarts: ordinal above Config.ConnBase

	identity clientIdentity

	stream       stream.Stream
	tls          *tlsState // nil: the connection does not speak TLS
	session      session
	replies      replies
	slot         bool // has one of the server's session-create slots
	used         bool // a request was served that does more than prove an identity
	greeted      bool // the owner has had the first frame; only the reader or the loop uses it
	created      bool // this connection has opened the session, and not resumed it
	refused      bool // the client was refused for want of an identity, and its session was never used
	closeApplied bool // its own closeSession is applied: no lease is needed any more
	command      bool // a four-letter command instead of a handshake
	missed       missedCheck

	// readOnly says that the session is one of the read-only mode: it is this connection's alone, and
	// Config.Member does not know it. It is set, once, before the stream is opened.
	readOnly bool
}

var (
	_ stream.Owner  = (*conn)(nil)
	_ znode.Watcher = (*conn)(nil)
)

func newConn(s *Server, addr net.Addr, l *listener) *conn {
	c := &conn{srv: s, listener: l, addr: addr}
	c.session = session{tree: s.cfg.State, limits: &s.cfg.Limits, client: c}
	c.replies = replies{session: &c.session, stream: &c.stream, stats: &s.stats}
	c.missed = missedCheck{session: &c.session, stream: &c.stream, turn: &s.missed.turn}
	c.identity.init(s.auth, hostOf(addr))
	return c
}

// hostOf returns the address without port and zone, IPv4 in its own form.
func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("").String()
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap().WithZone("").String()
	}
	return a.String() // not TCP: a pipe
}

// run serves the connection until it ends, or until its stream needs no reader.
func (c *conn) run(sock net.Conn) {
	c.stream.Limit(c.srv.cfg.Limits.Handshake, handshakeLate)
	c.stream.Serve(c.srv.secure.secured(c, sock) && c.handshake())
}

// MaySend implements stream.Permit. Every byte to a client that has a session tells it that the
// session lives, so a valid lease is needed. A session of the read-only mode lives as long as its connection. A client that may have
// missed a change of what it watches is sent nothing until that is known: see missed.go.
func (c *conn) MaySend() bool {
	return c.missed.nothing() && c.mayTell()
}

// mayTell reports whether the client may learn that its session lives.
func (c *conn) mayTell() bool {
	return c.closeApplied || c.readOnly || c.stream.Life.Timeout() == 0 || c.srv.cfg.Member.Vouched(c.session.id)
}

// AwaitPermit implements stream.Permit. It waits half a tick at most, and as long as a search of the connection's watches takes.
func (c *conn) AwaitPermit(ctx context.Context) bool {
	if !c.missed.nothing() && !c.missed.search() {
		return false
	}
	if c.readOnly || c.srv.cfg.Member.Vouch(ctx, c.session.id) == nil {
		return true
	}
	// A session that was closed meanwhile has no lease any more. If this connection closed it, the
	// client may get the reply, because the session lived until then. Apply notes that under the
	// tree's lock.
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	return c.closeApplied
}

// Waiting implements stream.Frames.
func (c *conn) Waiting() (frames, bytes int) { return c.replies.queue.n, c.replies.queue.bytes }

// Due implements stream.Frames.
func (c *conn) Due() bool { return c.replies.queue.first != nil && c.replies.queue.first.due() }

// Resume implements stream.Frames.
func (c *conn) Resume() {
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	c.replies.answerReady(false)
}

// Ended implements stream.Frames. It removes the connection from everything that knows it.
func (c *conn) Ended(why stream.Reason) {
	defer c.listener.conns.Done()
	for more := true; more; {
		more = c.missed.dropWatches()
	}
	c.stream.Lock()
	session, unanswered, refused, readOnly := c.session.id, c.replies.queue.n, c.refused, c.readOnly
	c.releaseCreateSlot()
	c.stream.Unlock()
	c.srv.stats.ended[why].Add(1) // before it is no longer one of those that are open
	c.srv.stats.outstanding.Add(-int64(unanswered))
	if refused {
		c.closeRejectedSession(session)
	}
	switch {
	case session == 0:
	case readOnly:
		c.srv.stats.readOnly.Add(-1)
	default:
		c.srv.cfg.Member.Detach(session, c.number)
	}
	c.srv.conns.remove(c, session)
	c.srv.log.Debug("connection ended", "client", c.addr, "session", session, "reason", reasonNames[why])
}

// noteCloseApplied notes that the connection's own closeSession is applied.
func (c *conn) noteCloseApplied() {
	c.stream.Lock()
	defer c.stream.Unlock()
	c.closeApplied = true
}

// swept answers the connection's own closeSession, if that is applied: the last node of the session
// is gone.
func (c *conn) swept(zxid int64) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.closeApplied && !c.stream.Closing() {
		closing := c.replies.queue.last // no request is taken after it
		closing.applied(&znode.Result{Zxid: zxid})
	}
}

// QueueEvent implements znode.Watcher, under the tree's write lock.
func (c *conn) QueueEvent(t jute.EventType, path string, zxid int64) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.Closing() {
		return
	}
	c.replies.event(t, path, zxid)
	c.noteFilled(withEvent)
}

// noteFilled makes the Flush after the entry that is being applied send the queued output. The caller
// holds the lock and the tree's.
func (c *conn) noteFilled(with int) {
	if c.stream.NoteOutput() {
		c.srv.unflushed.add(c, with)
	}
}

// AddWatchMemory implements znode.Watcher.
func (c *conn) AddWatchMemory(more int) { c.stream.Account.Keep(int64(more)) }

// Identities implements znode.Watcher.
func (c *conn) Identities() []*proto.Identity { return c.identity.all() }
