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

	localNumber  uint64 // counts the server's connections, from 1; set by register
	uniqueNumber uint64 // unique over members and their restarts: ordinal above Config.ConnBase

	identity clientIdentity

	stream            stream.Stream
	tls               *tlsState // nil: the connection does not speak TLS
	session           session
	replies           replies
	hasCreateSlot     bool // has one of the server's session-create slots
	servedRequest     bool // a request was served that does more than prove an identity
	gotFirstFrame     bool // the owner has had the first frame; only the reader or the loop uses it
	createdSession    bool // this connection has opened the session, and not resumed it
	closeSessionOnEnd bool // the client was refused for want of an identity, and its session was never used
	closeApplied      bool // its own closeSession is applied: no lease is needed any more
	isCommand         bool // a four-letter command instead of a handshake
	missedCheck       missedCheck

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
	c.session = session{tree: s.cfg.State, limits: &s.cfg.Limits, watchOwner: c}
	c.replies = replies{session: &c.session, stream: &c.stream, stats: &s.stats}
	c.missedCheck = missedCheck{session: &c.session, stream: &c.stream, searchTurn: &s.missedSweep.searchTurn}
	c.identity.init(s.authenticator, hostOf(addr))
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

// runReader serves the connection until it ends, or until its stream needs no reader.
func (c *conn) runReader(sock net.Conn) {
	c.stream.DropAfter(c.srv.cfg.Limits.Handshake, handshakeLate)
	c.stream.Serve(c.srv.tls.startTLS(c, sock) && c.serveHandshake())
}

// MaySend implements stream.Permit. Every byte to a client that has a session tells it that the
// session lives, so a valid lease is needed. A session of the read-only mode lives as long as its connection. A client that may have
// missed a change of what it watches is sent nothing until that is known: see missed.go.
func (c *conn) MaySend() bool {
	return c.missedCheck.missedNothing() && c.mayConfirmSession()
}

// mayConfirmSession reports whether the client may learn that its session lives.
func (c *conn) mayConfirmSession() bool {
	return c.closeApplied || c.readOnly || c.stream.Life.Timeout() == 0 || c.srv.cfg.Member.IsVouched(c.session.id)
}

// AwaitPermit implements stream.Permit. It waits half a tick at most, and as long as a search of the connection's watches takes.
func (c *conn) AwaitPermit(ctx context.Context) bool {
	if !c.missedCheck.missedNothing() && !c.missedCheck.dropIfMissed() {
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

// WaitingFrames implements stream.Frames.
func (c *conn) WaitingFrames() (frames, bytes int) {
	return c.replies.queue.n, c.replies.queue.heldBytes
}

// CanResume implements stream.Frames.
func (c *conn) CanResume() bool {
	return c.replies.queue.first != nil && c.replies.queue.first.canReply()
}

// Resume implements stream.Frames.
func (c *conn) Resume() {
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	c.replies.queueReadyReplies(false)
}

// StreamEnded implements stream.Frames. It removes the connection from everything that knows it.
func (c *conn) StreamEnded(why stream.Reason) {
	defer c.listener.openConns.Done()
	for more := true; more; {
		more = c.missedCheck.dropWatchesPart()
	}
	c.stream.Lock()
	session, unanswered, refused, readOnly := c.session.id, c.replies.queue.n, c.closeSessionOnEnd, c.readOnly
	c.releaseCreateSlot()
	c.stream.Unlock()
	c.srv.stats.endedByReason[why].Add(1) // before it is no longer one of those that are open
	c.srv.stats.outstanding.Add(-int64(unanswered))
	if refused {
		c.closeUnusedSession(session)
	}
	switch {
	case session == 0:
	case readOnly:
		c.srv.stats.readOnly.Add(-1)
	default:
		c.srv.cfg.Member.Detach(session, c.uniqueNumber)
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

// replyToClose answers the connection's own closeSession, if that is applied: the last node of the session
// is gone.
func (c *conn) replyToClose(zxid int64) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.closeApplied && !c.stream.IsClosing() {
		closing := c.replies.queue.last // no request is taken after it
		closing.noteApplied(&znode.Result{Zxid: zxid})
	}
}

// QueueEvent implements znode.Watcher, under the tree's write lock.
func (c *conn) QueueEvent(t jute.EventType, path string, zxid int64) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.IsClosing() {
		return
	}
	c.replies.queueEvent(t, path, zxid)
	c.scheduleFlush(withEvent)
}

// scheduleFlush makes the Flush after the entry that is being applied send the queued output. The caller
// holds the lock and the tree's.
func (c *conn) scheduleFlush(with int) {
	if c.stream.NoteOutput() {
		c.srv.unflushed.add(c, with)
	}
}

// AddWatchMemory implements znode.Watcher.
func (c *conn) AddWatchMemory(more int) { c.stream.Account.AddOwnerBytes(int64(more)) }

// Identities implements znode.Watcher.
func (c *conn) Identities() []*proto.Identity { return c.identity.all() }
