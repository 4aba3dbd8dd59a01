package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/znode"
)

const (
	// highWater is how many bytes may wait to be sent before no more requests are
	// answered, until the client has taken some.
	highWater = 256 << 10
	// maxHeld bounds the bytes of one connection's requests that wait, beside their number.
	maxHeld = 4 << 20
	// maxWrite is what one write to a socket sends: a slow but willing client gets its
	// deadline anew for each.
	maxWrite = 256 << 10
	// lingerTime and lingerBytes bound what is read and thrown away behind the last reply.
	// To close with bytes unread would reset the connection, and the reply might be lost.
	lingerTime  = time.Second
	lingerBytes = 4 << 20
	lengthSize  = 4 // of a frame
	// idleSlack, in ticks, is how long after its session's timeout a silent connection is
	// closed: by then an expiry has closed it, if there is a leader.
	idleSlack = 3
)

// conn is one client connection. A reader or a loop takes its requests; a flusher runs only
// while there is something to send that does not leave at once. Locks are taken in the
// order tree, mu, loop.mu.
type conn struct {
	srv      *Server
	port     *port
	addr     net.Addr        // the client's
	sock     socket          // nil while it is in a loop; only the reader changes it, and raw, under mu
	raw      syscall.RawConn // of sock; nil: it cannot be written to without waiting
	begun    time.Time
	number   uint64      // unique over members and their restarts
	host     string      // the client's address without port
	life     lifetime    // ends with the connection
	deadline *time.Timer // of the handshake

	// The reader's own, or the loop's.
	in     input
	frame  *buffer     // the request in hand, in a loop the beginning of one; nil when idle
	armed  time.Time   // when the read deadline was last set
	served int         // requests since there is a reader
	calm   int         // served, at which a loop may have it
	after  func() bool // what the loop could not do without waiting; the reader begins with it
	gate   gate        // that frames are read through

	subject string // of the client's certificate; "": it has none that was verified

	// ids are whom the client has shown to be. Swapped whole: transactions share them.
	ids atomic.Pointer[[]*proto.Identity]

	// For the server's budget: what the connection was last counted with, in bytes, changed under
	// mu only; and when its client last sent or took some of it, since it was accepted.
	held, took atomic.Int64

	mu        sync.Mutex
	changed   sync.Cond      // any of the fields below that some goroutine waits for
	loop      *loop          // that it is in; nil: it has a reader
	fd        int            // its socket while it is in a loop: used, closed or given away under mu
	busy      bool           // the loop is serving its requests
	deaf      bool           // the loop reads no more requests
	scrap     int            // bytes that the loop has thrown away since
	wanted    bool           // by a reader, once the loop is done
	session   jute.SessionID // 0 until the handshake has drawn or read one
	timeout   time.Duration  // granted
	queue     queue          // requests not answered; the first waits for the log, or for out to drain
	out       *buffer        // frames in the order the client must see; nil when empty
	sending   int            // bytes that the flusher is writing
	taking    int            // bytes that the request in hand takes, of a long one
	granted   bool           // the budget has room for what the connection waited for
	answering bool           // a goroutine is about to answer what waits
	shown     int64          // greatest zxid in a reply or event
	why       reason         // it ends or ended
	helpers   int            // goroutines beside the reader
	open      bool           // the handshake has succeeded
	spared    bool           // its own closeSession is applied: it need not be vouched for any more
	last      bool           // the last reply is queued: nothing follows
	finished  bool           // and has been sent
	dead      bool           // closed
	flushing  bool
	word      bool      // a four-letter word instead of a handshake
	traffic   traffic   // for operators
	expires   time.Time // when the connection ends unless something is heard
	noted     bool      // in Server.filled
	written   time.Time // when the write deadline was last set; the flusher's own
}

// socket is what a connection needs of a net.Conn.
type socket interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

func newConn(s *Server, sock net.Conn, p *port) *conn {
	c := &conn{
		srv: s, port: p, addr: sock.RemoteAddr(), sock: sock, fd: -1, begun: time.Now(), number: s.number.Add(1),
		host: hostOf(sock.RemoteAddr()), life: make(lifetime), in: input{src: sock},
	}
	c.changed.L = &c.mu
	c.gate.c = c
	c.raw = rawOf(sock)
	ids := []*proto.Identity{identity("ip", c.host)}
	c.ids.Store(&ids)
	return c
}

// hostOf returns the address without port and zone, IPv4 in its own form.
func hostOf(a net.Addr) string {
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap().WithZone("").String()
	}
	return a.String() // not TCP: a pipe
}

// run serves the connection until it ends.
func (c *conn) run() {
	c.mu.Lock()
	if !c.dead {
		c.deadline = time.AfterFunc(c.srv.cfg.Limits.Handshake, func() { c.cut(handshakeLate) })
		c.expires = c.begun.Add(c.srv.cfg.Limits.Handshake)
	}
	c.mu.Unlock()
	c.read(c.handshake())
}

// read serves requests until the connection ends or is in a loop.
func (c *conn) read(more bool) {
	for more {
		if more = c.next(); more && c.promote() {
			return
		}
	}
	c.linger()
	c.leave()
}

// next serves one request. It returns false once the reader has nothing more to do.
func (c *conn) next() bool {
	frame, ok := c.readFrame()
	if !ok || !c.room() {
		return false
	}
	more := c.request(frame)
	c.served++
	if !c.in.holdsFrame() || !more {
		c.flushNow()
	}
	return more
}

// readFrame returns the next frame, which is good until the next call. It holds no
// memory while it waits for a frame to begin.
func (c *conn) readFrame() ([]byte, bool) {
	if !c.in.holdsFrame() {
		c.arm()
	}
	if c.gate.in {
		c.frame = nil
		c.taken()
	}
	c.gate.begin()
	if len(c.in.rest) == 0 {
		c.frame.free()
		c.frame = nil
		if err := c.in.wait(); err != nil {
			return nil, c.lost(err)
		}
	}
	if c.frame == nil {
		c.frame = takeBuffer()
	}
	b, err := jute.ReadFrame(&c.gate, c.frame.b, c.srv.cfg.Limits.MaxBuffer)
	if err != nil {
		return nil, c.lost(err)
	}
	c.frame.b = b
	c.srv.stats.bytesIn.Add(uint64(len(b) + lengthSize))
	return b, true
}

// arm sets the deadline by which a client with a session must be heard, not for every
// frame, but when a tick has gone by.
func (c *conn) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.open && !c.last && !c.dead && now.Sub(c.armed) > c.srv.cfg.Tick {
		c.armed, c.expires = now, now.Add(c.idleAfter())
		_ = c.sock.SetReadDeadline(c.expires) // if it fails, so will the read
	}
}

func (c *conn) idleAfter() time.Duration {
	return c.timeout + idleSlack*c.srv.cfg.Tick
}

// lost ends the connection after a read failed, unless its last reply is under way.
func (c *conn) lost(err error) bool {
	why := byClient
	switch {
	case errors.Is(err, jute.ErrFrameLength):
		why = badFrame
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = idle
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last {
		c.end(why)
	}
	return false
}

// room waits until the connection may take one more request: the handshake is done, and
// not too much waits already. It returns false if there will be no more.
func (c *conn) room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.dead && !c.last && (!c.open || c.full()) {
		c.flushLocked() // what is queued may be what the client waits for
		c.changed.Wait()
	}
	return !c.dead && !c.last
}

// full reports whether a request must wait. A connection with nothing in flight is
// always read, once it has taken what was sent.
func (c *conn) full() bool {
	if c.queue.n >= c.srv.cfg.Limits.MaxInFlight || c.queue.bytes >= maxHeld || c.unsent() >= highWater {
		return true
	}
	held := c.held.Load()
	return held > 0 && (c.queue.n > 0 || c.unsent() > 0) && !c.srv.budget.room(held, 0)
}

// cut closes the connection without a byte more. It never blocks.
func (c *conn) cut(why reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(why)
}

// end is cut, under mu.
func (c *conn) end(why reason) {
	if c.dead {
		return
	}
	if !c.last {
		c.why = why
	}
	c.dead = true
	c.account()
	close(c.life)
	if c.deadline != nil {
		c.deadline.Stop()
	}
	c.changed.Broadcast()
	switch {
	case c.sock != nil:
		// From now on reads and writes fail, those under way too. To close the socket would
		// wait for them to return, so the reader does it: apply may stand here.
		_ = c.sock.SetDeadline(longAgo)
	case c.loop != nil && !c.busy:
		go c.leave()
	} // else the loop, or the reader that begins, sees it
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// endAfter makes what is queued the last the client gets. The caller holds mu.
func (c *conn) endAfter(why reason) {
	c.last, c.why = true, why
	c.changed.Broadcast()
}

// spare notes that the connection's own closeSession is applied.
func (c *conn) spare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spared = true
}

// swept answers the connection's own closeSession, if that is applied: what the session had
// left is gone.
func (c *conn) swept(zxid int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spared && !c.dead && !c.last {
		closing := c.queue.last // nothing is taken behind it
		closing.applied(&znode.Result{Zxid: zxid})
	}
}

// linger waits until the last reply is sent and the client has closed its side, and
// throws away what it sends meanwhile, within bounds: of a client that has gone, it does
// not wait for the log longer than for a silent one.
func (c *conn) linger() {
	c.frame.free()
	c.frame = nil
	if !c.alive() {
		return
	}
	var scrap [512]byte
	for n := 0; n < lingerBytes; {
		k, err := c.in.Read(scrap[:])
		if n += k; err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := time.AfterFunc(c.idleAfter(), func() { c.cut(idle) })
	defer timer.Stop()
	for !c.dead && !c.finished {
		c.changed.Wait()
	}
	c.end(c.why)
}

// hangUp closes the socket of a connection that has ended, or has the client see its end: the
// descriptor of one in a loop is closed by leave.
func (c *conn) hangUp() {
	c.mu.Lock()
	sock := c.sock
	if c.loop != nil {
		hangUpSocket(c.fd)
	}
	c.mu.Unlock()
	if sock != nil {
		_ = sock.Close() // nothing more is to be sent; the reader closes it again
	}
}

// closeSocket closes the socket for good. There is nothing more to send.
func (c *conn) closeSocket() {
	c.mu.Lock()
	sock := c.sock
	if c.loop != nil {
		closeSocket(c.leaveLoop())
	}
	c.mu.Unlock()
	if sock != nil {
		_ = sock.Close()
	}
}

func (c *conn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead
}

// leave ends the connection's part in everything, and returns when its goroutines have
// ended.
func (c *conn) leave() {
	defer c.port.conns.Done()
	c.closeSocket()
	for tree, more := c.srv.cfg.State, true; more; {
		tree.RLock()
		more = tree.DropWatcher(c) // no request of a dead connection sets another
		tree.RUnlock()
	}

	c.mu.Lock()
	for c.helpers > 0 {
		c.changed.Wait()
	}
	c.out.free()
	c.frame.free()
	c.out, c.frame = nil, nil
	c.in.free()
	c.srv.stats.outstanding.Add(-int64(c.queue.n))
	session, why := c.session, c.why
	c.mu.Unlock()

	if session != 0 {
		c.srv.cfg.Member.Detach(session, c.number)
	}
	c.srv.forget(c)
	c.srv.stats.ended[why].Add(1)
	c.srv.log.Debug("connection ended", "client", c.addr, "session", session, "why", why)
}

// Event implements znode.Watcher, under the tree's write lock.
func (c *conn) Event(t jute.EventType, path string, zxid int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.last {
		return
	}
	c.event(t, path, zxid)
	c.noteFilled(withEvent)
}

// Identities implements znode.Watcher.
func (c *conn) Identities() []*proto.Identity { return *c.ids.Load() }

var _ znode.Watcher = (*conn)(nil)

// lifetime is a context that ends when it is closed.
type lifetime chan struct{}

var _ context.Context = lifetime(nil)

func (l lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l lifetime) Done() <-chan struct{}       { return l }
func (l lifetime) Value(any) any               { return nil }

func (l lifetime) Err() error {
	select {
	case <-l:
		return context.Canceled
	default:
		return nil
	}
}
