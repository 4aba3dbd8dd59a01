package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/jute"
)

// Bounds of one connection's input and output.
const (
	smallRead    = 256       // bytes of a link's own: an idle one needs no others
	readSize     = 32 << 10  // of the buffers lent to links that have more to read
	maxKept      = 64 << 10  // bytes of output kept for the next batch
	maxReply     = 64 << 20  // bytes of one reply: a list of a million children
	maxHandshake = 4 << 10   // bytes of the first reply
	maxPassword  = 1 << 10   // bytes, within it
	maxBatch     = 128 << 10 // bytes of paths in one setWatches: ZooKeeper's
	loopReads    = 8         // by a Loop of one connection before others have their turn
)

// link is one connection.
type link struct {
	c      *Client
	conn   io.ReadWriteCloser
	addr   string
	flush  func()       // write, bound once: starting it allocates nothing
	forget func() bool  // that the end of the Client closes conn
	heard  atomic.Int64 // when bytes last came, since the Client's base

	// The reader's.
	opening int // replies that must come before requests pass
	buf     []byte
	r, w    int  // buf[r:w] is not yet handled
	filled  bool // the last read filled buf: there may be more
	lent    *[readSize]byte
	gone    bool // a Loop has dropped it
	small   [smallRead]byte

	// Guarded by the Client's lock.
	out     []byte // frames to be sent
	batch   []byte // those being written
	written int    // bytes of batch
	spare   []byte // the memory of the last batch
	looped  bool   // a Loop serves it: conn's Write never blocks, and may write a part
	writing bool   // write runs
	reading bool   // replies are being handled: write starts when they all are
	full    bool   // conn takes no more for now: write starts when it does
	space   bool   // conn took more since the last write began
	idle    *sync.Cond
	sent    time.Duration // when bytes were last written
	pinged  time.Duration // when the ping under way was; 0: none is
	end     error         // why the connection was closed from here
}

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// errNotNow is what a connection that never blocks returns when it has read nothing, or written
// less than all.
var errNotNow = errors.New("client: connection has nothing, or takes no more, for now")

func newLink(c *Client, conn io.ReadWriteCloser, addr string) *link {
	l := &link{c: c, conn: conn, addr: addr}
	l.idle = sync.NewCond(&c.mu)
	l.buf = l.small[:]
	l.flush = l.write
	l.forget = context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	l.heard.Store(int64(c.now()))
	return l
}

// startFlush has the output written, unless that is under way or the reader will see to it. It
// reports if the caller has to do it, by calling write without the lock, which is held.
func (l *link) startFlush() (write bool) {
	if l.writing || l.reading || l.full {
		return false
	}
	l.writing = true
	if !l.looped {
		go l.flush() // ends when there is no output, or with the connection
	}
	return l.looped
}

// write writes all output there is, batch by batch, or as much as the connection takes.
func (l *link) write() {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for l.nextBatch() {
		l.space = false
		c.mu.Unlock()
		n, err := l.conn.Write(l.batch[l.written:])
		now := c.now()
		c.mu.Lock()
		l.written += n
		l.sent = now
		if errors.Is(err, errNotNow) {
			if l.full = !l.space; l.full {
				break
			}
		} else if err != nil {
			l.endsWith(fmt.Errorf("client: write: %w", err))
			break
		}
	}
	l.writing = false
	l.idle.Broadcast()
}

// rest is how much of the batch is not yet written. The lock is held.
func (l *link) rest() int { return len(l.batch) - l.written }

// nextBatch reports whether there is output, having made it the batch. The lock is held.
func (l *link) nextBatch() bool {
	if l.rest() > 0 {
		return true
	}
	if cap(l.batch) <= maxKept && l.batch != nil {
		l.spare = l.batch
	}
	l.batch, l.written = nil, 0
	if len(l.out) == 0 {
		return false
	}
	l.batch, l.out = l.out, l.spare[:0]
	l.spare = nil
	if len(l.batch) >= maxUnsent {
		l.c.wakeAll()
	}
	return true
}

// endsWith closes the connection, so that the reader does the rest, and says why. The lock is
// held, but not while the connection is closed.
func (l *link) endsWith(why error) {
	if l.end == nil {
		l.end = why
	}
	l.c.mu.Unlock()
	_ = l.conn.Close()
	l.c.mu.Lock()
}

// ping sends one, and reports if the caller has to call write. The lock is held.
func (l *link) ping(now time.Duration) (write bool) {
	l.out = appendRequest(l.out, jute.XidPing, jute.OpPing, nil)
	l.sent = now
	if l.pinged == 0 {
		l.pinged = now
	}
	return l.startFlush()
}

func appendRequest(b []byte, xid int32, op jute.Op, rec Record) []byte {
	b, mark := jute.BeginFrame(b)
	b = jute.RequestHeader{Xid: xid, Op: op}.Append(b)
	if rec != nil {
		b = rec.Append(b)
	}
	return jute.EndFrame(b, mark)
}

// handshake opens a session or takes one over, and queues what goes before all requests.
func (l *link) handshake() error {
	c := l.c
	c.mu.Lock()
	session, timeout := c.session, c.cfg.Timeout
	c.mu.Unlock()
	req := jute.ConnectRequest{
		LastZxidSeen: c.zxid.Load(), TimeOut: int32(timeout.Milliseconds()), SessionID: session.ID,
		Passwd: session.Password, HasReadOnly: true,
	}
	if session.ID == 0 {
		req.Passwd = make([]byte, 16)
	}
	if err := jute.WriteFrame(l.conn, req.Append(nil)); err != nil {
		return err
	}
	frame, err := l.next(maxHandshake)
	if err != nil {
		return err
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	switch refused := resp.TimeOut <= 0 || resp.SessionID == 0; {
	case d.Err() != nil || len(resp.Passwd) > maxPassword:
		return fmt.Errorf("%w: no answer to a handshake", ErrProtocol)
	case refused && session.ID != 0:
		return ErrExpired
	case refused:
		return fmt.Errorf("%w: a new session was refused", ErrProtocol)
	case session.ID != 0 && resp.SessionID != session.ID:
		return fmt.Errorf("%w: session %v instead of %v", ErrProtocol, resp.SessionID, session.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = Resume{ID: resp.SessionID, Password: append([]byte(nil), resp.Passwd...)}
	c.timeout = time.Duration(resp.TimeOut) * time.Millisecond
	for _, a := range c.cfg.Auth {
		l.out = appendRequest(l.out, jute.XidAuth, jute.OpAuth, jute.AuthPacket{Scheme: []byte(a.Scheme), Auth: a.Auth})
		l.opening++
	}
	l.opening += c.watches.appendSet(&l.out, c.zxid.Load())
	if l.opening > 0 {
		l.startFlush()
	}
	return nil
}

// open reads until nothing stands before requests.
func (l *link) open() error {
	for l.opening > 0 {
		if err := l.handleNext(); err != nil {
			return err
		}
	}
	return nil
}

// serve reads until the connection ends, and returns why.
func (l *link) serve() error {
	for {
		if err := l.handleNext(); err != nil {
			return err
		}
	}
}

func (l *link) handleNext() error {
	frame, err := l.next(maxReply)
	if err != nil {
		return err
	}
	return l.handle(frame)
}

// handle takes one frame: a reply or an event.
func (l *link) handle(frame []byte) error {
	d := jute.NewDecoder(frame)
	var r Reply
	r.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, len(frame))
	}
	r.Body = d.Rest()
	switch r.Xid {
	case jute.XidNotification:
		return l.event(r)
	case jute.XidPing:
		l.pong()
		return nil
	case jute.XidAuth:
		if r.Err != jute.OK {
			return fmt.Errorf("client: identity refused: %w", jute.AuthFailed)
		}
		return l.opened()
	case jute.XidSetWatches:
		return l.opened()
	}
	return l.reply(r)
}

// opened counts a reply without which requests do not pass.
func (l *link) opened() error {
	if l.opening == 0 {
		return fmt.Errorf("%w: a reply to nothing", ErrProtocol)
	}
	l.opening--
	return nil
}

func (l *link) event(r Reply) error {
	var e jute.WatcherEvent
	if err := r.Into(&e); err != nil {
		return err
	}
	l.c.watches.fired(e)
	if l.c.cfg.Watch != nil {
		l.c.callsOut()
		l.c.cfg.Watch(e, r.Zxid)
	}
	return nil
}

func (l *link) pong() {
	c := l.c
	c.mu.Lock()
	since := l.pinged
	l.pinged = 0
	c.mu.Unlock()
	if since > 0 && c.cfg.Pinged != nil {
		c.callsOut()
		c.cfg.Pinged(c.now() - since)
	}
}

// reply ends the oldest request under way.
func (l *link) reply(r Reply) error {
	c := l.c
	c.mu.Lock()
	if c.link != l || c.calls.Len() == 0 || c.calls.At(0).xid != r.Xid {
		c.mu.Unlock()
		return fmt.Errorf("%w: a reply to no request, xid %d", ErrProtocol, r.Xid)
	}
	next := c.calls.Pop()
	l.reading = true
	c.mu.Unlock()
	if r.Zxid > c.zxid.Load() {
		c.zxid.Store(r.Zxid)
	}
	if next.set != 0 {
		c.watches.replied(next, r.Err)
	}
	if next.op == jute.OpCloseSession && r.Err == jute.OK {
		c.stop() // the end of the connection that follows is no loss
	}
	next.done(r, nil)
	return nil
}

// next returns the next frame, which lies in the link's memory until the next call. It blocks
// until there is one. limit is the longest it may be.
func (l *link) next(limit int) ([]byte, error) {
	for {
		frame, need, err := l.frame(limit)
		if need == 0 || err != nil {
			return frame, err
		}
		l.batchEnds(false)
		l.makeRoom(need)
		n, err := l.conn.Read(l.buf[l.w:])
		l.w += n
		l.filled = l.w == len(l.buf)
		if n > 0 {
			l.heard.Store(int64(l.c.now()))
		} else if err != nil {
			return nil, err
		}
	}
}

// receive reads what has come and handles it: for a connection that never blocks, with memory
// that is shared by many. more says that there may be more, err why the connection has ended.
func (l *link) receive(shared []byte, now time.Duration) (more bool, err error) {
	for range loopReads {
		if l.r == l.w {
			l.giveBack()
			l.buf, l.r, l.w = shared, 0, 0
		} else if _, need, _ := l.frame(maxReply); need > 0 {
			l.makeRoom(need)
		}
		n, err := l.conn.Read(l.buf[l.w:])
		l.w += n
		more = l.w == len(l.buf)
		if n > 0 {
			l.heard.Store(int64(now))
			err = l.handleAll()
		}
		l.keep(shared)
		switch {
		case errors.Is(err, errNotNow):
			return false, nil
		case err != nil || !more:
			return false, err
		}
	}
	return more, nil
}

// handleAll handles all frames that have been read.
func (l *link) handleAll() error {
	for {
		frame, need, err := l.frame(maxReply)
		if err != nil || need > 0 {
			return err
		}
		if err := l.handle(frame); err != nil {
			return err
		}
	}
}

// keep moves the begin of a frame out of the shared memory, and makes do with as little as that
// needs.
func (l *link) keep(shared []byte) {
	have := l.buf[l.r:l.w]
	var to []byte
	switch {
	case len(have) <= smallRead:
		to = l.small[:]
	case &l.buf[0] != &shared[0]:
		return
	case len(have) < readSize:
		l.lent, _ = readBuffers.Get().(*[readSize]byte)
		to = l.lent[:]
	default:
		to = make([]byte, 2*len(have))
	}
	l.w = copy(to, have)
	l.r = 0
	l.buf = to
	if l.lent != nil && &to[0] != &l.lent[0] {
		l.giveBack()
	}
}

// frame takes the next frame from what has been read, or returns how long the memory from the
// frame's begin must be to hold it, as far as that is known: 0 if it is all there.
func (l *link) frame(limit int) (frame []byte, need int, err error) {
	need = 4
	have := l.buf[l.r:l.w]
	if len(have) < need {
		return nil, need, nil
	}
	n := int(int32(binary.BigEndian.Uint32(have)))
	if n < 0 || n > limit {
		return nil, need, fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, n)
	}
	if need += n; len(have) < need {
		return nil, need, nil
	}
	l.r += need
	return have[4:need], 0, nil
}

// batchEnds has what done functions have sent meanwhile written, and lets those in who wait for
// the room that they have left: the reader is about to wait. space says that the connection
// takes output again.
func (l *link) batchEnds(space bool) {
	c := l.c
	c.mu.Lock()
	l.reading = false
	for n := c.cfg.MaxInFlight - c.calls.Len(); n > 0 && len(c.waiting) > 0; n-- {
		c.wakeOne()
	}
	if space {
		l.space, l.full = true, false
	}
	write := len(l.out)+l.rest() > 0 && l.startFlush()
	c.mu.Unlock()
	if write {
		l.write()
	}
}

// makeRoom makes room to read into: for the rest of a frame of need bytes, of which buf[r:w]
// is the beginning. A link that reads little uses memory of its own, and one with more has a
// buffer lent to it; beyond that memory grows as the bytes come.
func (l *link) makeRoom(need int) {
	have := l.buf[l.r:l.w]
	to := l.buf
	switch {
	case len(have) == 0 && !l.filled && l.w < smallRead:
		to = l.small[:]
	case len(l.buf) == smallRead && !l.filled && need <= smallRead:
	case len(have) < readSize:
		if l.lent == nil {
			l.lent, _ = readBuffers.Get().(*[readSize]byte)
		}
		to = l.lent[:]
	case len(have) == len(l.buf):
		to = make([]byte, min(need, 2*len(have)))
	}
	l.w = copy(to, have)
	l.r = 0
	l.buf = to
	if l.lent != nil && &to[0] != &l.lent[0] {
		l.giveBack()
	}
}

// giveBack gives back what was lent, which nothing refers to.
func (l *link) giveBack() {
	if l.lent != nil {
		readBuffers.Put(l.lent)
		l.lent = nil
	}
}

// release closes the connection and gives back what was lent. Nothing is read any more.
func (l *link) release() {
	_ = l.conn.Close()
	l.forget()
	l.buf = nil
	l.giveBack()
}
