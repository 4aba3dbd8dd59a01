package before

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/zk/jute"
)

// These limits apply to one connection's input and output.
const (
	smallRead    = 256       // bytes of a link's own read buffer, enough for an idle link
	readSize     = 32 << 10  // bytes of a buffer that is lent to a link with more to read
	maxKept      = 64 << 10  // bytes of output memory that are kept for the next batch
	maxReply     = 64 << 20  // the longest reply in bytes: a list of a million children
	maxHandshake = 4 << 10   // the longest first reply in bytes
	maxPassword  = 1 << 10   // the longest password in it, in bytes
	maxBatch     = 128 << 10 // bytes of paths in one setWatches, as in ZooKeeper
)

// link is one connection.
type link struct {
	c              *Client
	watches        *watches // the reader's
	conn           *nonblockingConn
	addr           string
	stopCloseOnEnd func() bool  // stops the end of the Client from closing conn
	lastReceived   atomic.Int64 // by the Client's clock

	// The next fields belong to the reader.
	repliesBeforeRequests int
	buf                   []byte
	r, w                  int  // buf[r:w] has been read and not handled
	lastReadFilled        bool // the last read filled buf, so there may be more
	lentBuffer            *[readSize]byte
	smallBuffer           [smallRead]byte

	// The next fields are guarded by the Client's lock.
	out             []byte // frames to be sent
	batch           []byte // frames being written
	unwritten       []byte // the part of batch that is not yet written
	spareBatch      []byte // the memory of the last batch
	writeRunning    bool   // write is running
	readerWillWrite bool   // replies are being handled; the reader writes after them
	writeEnded      *sync.Cond
	lastSent        time.Duration
	pingSent        time.Duration // 0: no ping is unanswered
	closeReason     error         // why this side closed the connection
	pendingAuths    []chan error  // calls of AddAuth that wait for their reply, in order; each has room for one
}

var readBufferPool = sync.Pool{New: func() any { return new([readSize]byte) }}

func newLink(r *reader, conn net.Conn, addr string) *link {
	c := r.c
	l := &link{c: c, watches: &r.watches, conn: newNonblockingConn(conn), addr: addr}
	l.writeEnded = sync.NewCond(&c.mu)
	l.buf = l.smallBuffer[:]
	l.stopCloseOnEnd = context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	l.lastReceived.Store(int64(c.monotonicNow()))
	return l
}

// claimWrite reports whether the caller has to call write, after it has released the lock, which is
// held. If not, a write is running, or the reader will start one.
func (l *link) claimWrite() bool {
	if l.writeRunning || l.readerWillWrite {
		return false
	}
	l.writeRunning = true
	return true
}

// writeOutput writes the output batch by batch. If it may not wait, it leaves what the connection does not
// take at once to a goroutine.
func (l *link) writeOutput(wait bool) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for l.prepareBatch() {
		c.mu.Unlock()
		n, err := l.conn.write(l.unwritten, wait)
		now := c.monotonicNow()
		c.mu.Lock()
		l.unwritten = l.unwritten[n:]
		l.lastSent = now
		if err != nil {
			l.abort(fmt.Errorf("client: write: %w", err))
			break
		}
		if len(l.unwritten) > 0 {
			go l.writeOutput(true) // returns when there is no output left, or when the connection ends
			return
		}
	}
	l.writeRunning = false
	l.writeEnded.Broadcast()
}

// prepareBatch turns queued output into the next batch when the last one is written. It reports whether
// there is anything to write. The lock is held.
func (l *link) prepareBatch() bool {
	if len(l.unwritten) > 0 {
		return true
	}
	if cap(l.batch) <= maxKept && l.batch != nil {
		l.spareBatch = l.batch
	}
	l.batch = nil
	if len(l.out) == 0 {
		return false
	}
	l.batch, l.unwritten, l.out = l.out, l.out, l.spareBatch[:0]
	l.spareBatch = nil
	if len(l.batch) >= maxUnsent {
		l.c.wakeRoomWaiters()
	}
	return true
}

// abort closes the connection because of why; the reader then cleans up. The lock is held, but
// released while the connection is closed.
func (l *link) abort(why error) {
	if l.closeReason == nil {
		l.closeReason = why
	}
	l.c.mu.Unlock()
	_ = l.conn.Close()
	l.c.mu.Lock()
}

// queuePing queues a ping and reports whether the caller has to call write. The lock is held.
func (l *link) queuePing(now time.Duration) (write bool) {
	l.out = appendRequest(l.out, jute.XidPing, jute.OpPing, nil)
	l.lastSent = now
	if l.pingSent == 0 {
		l.pingSent = now
	}
	return l.claimWrite()
}

func appendRequest(b []byte, xid int32, op jute.Op, rec Record) []byte {
	b, mark := jute.BeginFrame(b)
	b = jute.RequestHeader{Xid: xid, Op: op}.Append(b)
	if rec != nil {
		b = rec.Append(b)
	}
	return jute.EndFrame(b, mark)
}

// handshake opens or resumes the session, and queues the frames that precede all requests.
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
	frame, err := l.nextFrame(maxHandshake)
	if err != nil {
		return err
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	switch refused := resp.TimeOut <= 0 || resp.SessionID == 0; {
	case d.Err() != nil || len(resp.Passwd) > maxPassword:
		return fmt.Errorf("%w: no reply to a handshake", ErrProtocol)
	case refused && session.ID != 0:
		return ErrExpired
	case refused:
		return fmt.Errorf("%w: a new session was rejected", ErrProtocol)
	case session.ID != 0 && resp.SessionID != session.ID:
		return fmt.Errorf("%w: session %v instead of %v", ErrProtocol, resp.SessionID, session.ID)
	}
	c.mu.Lock()
	c.session = ResumeToken{ID: resp.SessionID, Password: append([]byte(nil), resp.Passwd...)}
	c.timeout = time.Duration(resp.TimeOut) * time.Millisecond
	c.mu.Unlock()
	if err := l.logIn(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.cfg.Auth {
		l.out = appendRequest(l.out, jute.XidAuth, jute.OpAuth, a.packet())
		l.repliesBeforeRequests++
	}
	l.repliesBeforeRequests += l.watches.appendSetWatches(&l.out, c.zxid.Load())
	return nil // the reader writes them when it waits for the replies
}

// awaitInitialReplies reads until every reply that must precede requests has arrived.
func (l *link) awaitInitialReplies() error {
	for l.repliesBeforeRequests > 0 {
		if err := l.handleNext(); err != nil {
			return err
		}
	}
	return nil
}

// handleFrames reads until the connection ends, and returns the reason.
func (l *link) handleFrames() error {
	for {
		if err := l.handleNext(); err != nil {
			return err
		}
	}
}

func (l *link) handleNext() error {
	frame, err := l.nextFrame(maxReply)
	if err != nil {
		return err
	}
	return l.handleFrame(frame)
}

// handleFrame handles one frame: a reply or an event.
func (l *link) handleFrame(frame []byte) error {
	d := jute.NewDecoder(frame)
	var r Reply
	r.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, len(frame))
	}
	r.Body = d.Rest()
	switch r.Xid {
	case jute.XidNotification:
		return l.handleEvent(r)
	case jute.XidPing:
		l.handlePong()
		return nil
	case jute.XidAuth:
		return l.handleAuthReply(r.Err)
	case jute.XidSetWatches:
		return l.countInitialReply()
	}
	return l.handleReply(r)
}

// countInitialReply counts one of the replies that must arrive before requests can be sent.
func (l *link) countInitialReply() error {
	if l.repliesBeforeRequests == 0 {
		return fmt.Errorf("%w: a reply to nothing", ErrProtocol)
	}
	l.repliesBeforeRequests--
	return nil
}

func (l *link) handleEvent(r Reply) error {
	var e jute.WatcherEvent
	if err := r.DecodeBody(&e); err != nil {
		return err
	}
	l.watches.removeFired(e)
	if l.c.cfg.OnEvent != nil {
		l.c.deferWritesToReader()
		l.c.cfg.OnEvent(e, r.Zxid)
	}
	return nil
}

func (l *link) handlePong() {
	c := l.c
	c.mu.Lock()
	since := l.pingSent
	l.pingSent = 0
	c.mu.Unlock()
	if since > 0 && c.cfg.OnPong != nil {
		c.deferWritesToReader()
		c.cfg.OnPong(c.monotonicNow() - since)
	}
}

// handleReply ends the oldest request in flight.
func (l *link) handleReply(r Reply) error {
	c := l.c
	c.mu.Lock()
	if c.link != l || c.calls.Len() == 0 || c.calls.At(0).xid != r.Xid {
		c.mu.Unlock()
		return fmt.Errorf("%w: a reply to no request, xid %d", ErrProtocol, r.Xid)
	}
	next := c.calls.Pop()
	l.readerWillWrite = true
	c.mu.Unlock()
	if r.Zxid > c.zxid.Load() {
		c.zxid.Store(r.Zxid)
	}
	if next.watchKind != 0 {
		l.watches.updateAfterReply(next, r.Err)
	}
	if next.op == jute.OpCloseSession && r.Err == jute.OK {
		c.stop() // the connection's end that follows is expected, not a loss
	}
	next.done(r, nil)
	return nil
}

// nextFrame returns the next frame, blocking until there is one. The frame lies in the link's memory
// until the next call. limit is the greatest length accepted.
func (l *link) nextFrame(limit int) ([]byte, error) {
	for {
		frame, need, err := l.takeFrame(limit)
		if need == 0 || err != nil {
			return frame, err
		}
		l.beforeReaderWaits()
		l.makeReadRoom(need)
		n, err := l.conn.Read(l.buf[l.w:])
		l.w += n
		l.lastReadFilled = l.w == len(l.buf)
		if n > 0 {
			l.lastReceived.Store(int64(l.c.monotonicNow()))
		} else if err != nil {
			return nil, err
		}
	}
}

// takeFrame takes the next frame from the input read so far. If it is incomplete, frame returns need,
// the length of the whole frame as far as it is known; need is 0 if the frame is complete.
func (l *link) takeFrame(limit int) (frame []byte, need int, err error) {
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

// beforeReaderWaits is called when the reader is about to wait. It writes what done functions have sent
// meanwhile, and wakes callers that wait for the room that is now free.
func (l *link) beforeReaderWaits() {
	c := l.c
	c.mu.Lock()
	l.readerWillWrite = false
	for n := c.cfg.MaxInFlight - c.calls.Len(); n > 0 && len(c.roomWaiters) > 0; n-- {
		c.wakeRoomWaiter()
	}
	write := len(l.out) > 0 && l.claimWrite()
	c.mu.Unlock()
	if write {
		l.writeOutput(false)
	}
}

// makeReadRoom makes room to read the rest of a frame of need bytes, which begins with buf[r:w]. A link
// that reads little uses memory of its own; one that reads more is lent a buffer. Beyond that,
// memory grows as bytes arrive.
func (l *link) makeReadRoom(need int) {
	have := l.buf[l.r:l.w]
	to := l.buf
	switch {
	case len(have) == 0 && !l.lastReadFilled && l.w < smallRead:
		to = l.smallBuffer[:]
	case len(l.buf) == smallRead && !l.lastReadFilled && need <= smallRead:
	case len(have) < readSize:
		if l.lentBuffer == nil {
			l.lentBuffer, _ = readBufferPool.Get().(*[readSize]byte)
		}
		to = l.lentBuffer[:]
	case len(have) == len(l.buf):
		to = make([]byte, min(need, 2*len(have)))
	}
	l.w = copy(to, have)
	l.r = 0
	l.buf = to
	if l.lentBuffer != nil && &to[0] != &l.lentBuffer[0] {
		l.returnLentBuffer()
	}
}

// returnLentBuffer returns a lent buffer, to which nothing refers any more.
func (l *link) returnLentBuffer() {
	if l.lentBuffer != nil {
		readBufferPool.Put(l.lentBuffer)
		l.lentBuffer = nil
	}
}

// closeAndRelease closes the connection and returns a lent buffer. Nothing is read after that.
func (l *link) closeAndRelease() {
	_ = l.conn.Close()
	l.stopCloseOnEnd()
	l.buf = nil
	l.returnLentBuffer()
}
