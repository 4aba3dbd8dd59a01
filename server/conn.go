package server

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"

	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const lengthSize = stream.LengthSize // of the field at the head of a frame

// conn is one client connection: its handshake, its session, and the order of its requests and replies. Its
// stream owns bytes, buffers, deadlines and the end. The stream's lock guards the fields below it. Locks are
// taken in the order tree, stream.
type conn struct {
	srv      *Server
	listener *listener
	addr     net.Addr

	localNumber  uint64 // from 1, in the order of accept
	uniqueNumber uint64 // unique over members and their restarts: Config.ConnBase + localNumber

	identity clientIdentity

	stream            stream.Stream
	tls               *tlsState // nil: the connection does not speak TLS
	session           session
	replies           replies
	hasCreateSlot     bool
	servedRequest     bool // other than auth and sasl
	gotFirstFrame     bool // only the reader or the loop uses it
	createdSession    bool // not resumed
	closeSessionOnEnd bool // rejected for want of an identity, and the session was never used
	closeApplied      bool // the connection's own closeSession; no lease is needed any more
	isCommand         bool
	linearReads       bool   // no read is stale; only the reader or the loop uses it
	readOnly          bool   // the session is of the read-only mode: it belongs to this connection alone, and Config.Member does not know it
	holdsPlace        bool   // of the throttle, for the request that is being handled; only the reader or the loop uses it
	awaitedInput      uint32 // the Stream.InputReads in which a read has waited; only the reader uses it
	missedCheck       missedCheck
	watches           atomic.Int32            // numbers of watches, for tenancy
	tenancy           atomic.Pointer[tenancy] // nil: there are no limits, or no request since; changed under the lock
	replay            *watchReplay            // nil unless a setWatches2 is being served whose watches have missed events
}

var (
	_ stream.Owner  = (*conn)(nil)
	_ znode.Watcher = (*conn)(nil)
)

func newConn(s *Server, addr net.Addr, l *listener) *conn {
	c := &conn{srv: s, listener: l, addr: addr, linearReads: s.cfg.LinearizableReads}
	c.session = session{tree: s.cfg.State, limits: &s.cfg.Limits, watchOwner: c}
	c.replies = replies{session: &c.session, stream: &c.stream, stats: &s.stats, stages: s.cfg.Stages}
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

// networkOrHost returns the address that turns are shared by.
func (c *conn) networkOrHost() string { return admission.IPv6NetworkOrHost(c.identity.host) }

// runReader serves the connection until it ends, or until its stream needs no reader.
func (c *conn) runReader(sock net.Conn) {
	c.stream.DropAfter(c.srv.cfg.Limits.Handshake, handshakeLate)
	c.stream.Serve(c.srv.tls.startTLS(c, sock) && c.BeginInReader())
}

// lockWithTree takes the tree's read lock and the connection's.
func (c *conn) lockWithTree() {
	c.srv.cfg.State.RLock()
	c.stream.Lock()
}

func (c *conn) unlockWithTree() {
	c.stream.Unlock()
	c.srv.cfg.State.RUnlock()
}

// MaySend implements stream.Permit. Every byte to a client with a session confirms that the session lives, so
// it needs a valid lease. A session of the read-only mode lives as long as its connection. Nothing is sent to
// a client that may have missed a change of a watched node until that is known: see missed.go.
func (c *conn) MaySend() bool {
	return c.missedCheck.missedNothing() && c.mayConfirmSession()
}

func (c *conn) mayConfirmSession() bool {
	return c.closeApplied || c.readOnly || c.stream.Life.Timeout() == 0 || c.srv.cfg.Member.IsVouched(c.session.id)
}

// AwaitPermit implements stream.Permit. It waits at most half a tick and as long as a search of the
// connection's watches takes.
func (c *conn) AwaitPermit(ctx context.Context) bool {
	if !c.missedCheck.missedNothing() && !c.missedCheck.keepUnlessMissed() {
		return false
	}
	if c.readOnly || c.srv.cfg.Member.Vouch(ctx, c.session.id) == nil {
		return true
	}
	// A session that was closed meanwhile has no lease any more. If this connection closed it, the client may
	// receive the reply, because the session lived until then. Apply notes that under the tree's lock.
	c.lockWithTree()
	defer c.unlockWithTree()
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
	c.lockWithTree()
	defer c.unlockWithTree()
	c.replies.queueReadyReplies(false)
}

// StreamEnded implements stream.Frames. It removes the connection from everything that refers to it.
func (c *conn) StreamEnded(why stream.Reason) {
	defer c.listener.openConns.Done()
	for more := true; more; {
		more = c.missedCheck.removeWatchesPart()
	}
	c.stream.Lock()
	c.replies.finishUntaken()
	c.replies.keepUnreplied()
	for r := c.replies.queue.first; r != nil; r = r.next {
		c.srv.requestThrottle.leaveIfInProcess(r)
	}
	clientTenants{c}.leave()
	session, unanswered, refused, readOnly := c.session.id, c.replies.queue.n, c.closeSessionOnEnd, c.readOnly
	c.releaseCreateSlot()
	c.stream.Unlock()
	c.srv.stats.endedByReason[why].Add(1) // before the connection leaves the table
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
	c.srv.faultLog.add(why, c.addr.String(), session)
	c.srv.log.Debug("connection ended", "client", c.addr, "session", session, "reason", reasonNames[why])
}

func (c *conn) noteCloseApplied() {
	c.stream.Lock()
	defer c.stream.Unlock()
	c.closeApplied = true
}

// replyIfCloseApplied replies to the connection's own closeSession, if that is applied: the last node of the session
// is gone.
func (c *conn) replyIfCloseApplied(zxid int64) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.closeApplied && !c.stream.IsClosing() {
		closing := c.replies.queue.last // no request is taken after it
		closing.completeApplied(&znode.Result{Zxid: zxid})
	}
}

// QueueEvent implements znode.Watcher, under the tree's write lock.
func (c *conn) QueueEvent(t jute.EventType, path string, zxid int64) {
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.IsClosing() {
		return
	}
	if c.replay != nil {
		c.replay.queueLive(t, path, zxid)
		return
	}
	c.replies.queueEvent(t, path, zxid)
	c.scheduleFlush(withEvent)
}

// scheduleFlush has the flush after the current entry send the queued output. The caller holds the lock and
// the tree's.
func (c *conn) scheduleFlush(with int) {
	if c.stream.ClaimFlush() {
		c.srv.unflushed.add(c, with)
	}
}

// AdjustWatchMemory implements znode.Watcher. Each call is about one watch.
func (c *conn) AdjustWatchMemory(more int) {
	c.stream.Account.AddOwnerBytes(int64(more))
	n := int32(1)
	if more < 0 {
		n = -1
	}
	n = c.watches.Add(n)
	c.tenancy.Load().countWatches(int64(n))
}

// Identities implements znode.Watcher.
func (c *conn) Identities() []*proto.Identity { return c.identity.all() }
