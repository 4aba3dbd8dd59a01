package session

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/zk/jute"
)

// These limits apply to one connection's input and output.
const (
	smallRead    = 256       // bytes of a link's own read buffer, enough for an idle link
	readSize     = 32 << 10  // bytes of a buffer that is lent to a link with more to read
	longReadSize = 256 << 10 // bytes of a buffer that is lent to a link with a longer frame to read, such as a list
	maxKept      = 64 << 10  // bytes of output memory that a link keeps for its next batch
	maxShared    = 1 << 20   // bytes of output memory that links keep for each other until the next garbage collection
	maxReply     = 64 << 20  // the longest reply in bytes: a list of a million children
	maxHandshake = 4 << 10   // the longest first reply in bytes
	maxPassword  = 1 << 10   // the longest password in it, in bytes
	maxBatch     = 128 << 10 // bytes of paths in one setWatches, as in ZooKeeper
)

// link is one connection.
type link struct {
	c              *Session
	watches        *watches // the reader's
	conn           *nonblockingConn
	server         candidate
	readOnly       bool         // the server has no leader
	stopCloseOnEnd func() bool  // stops the end of the Session from closing conn
	lastReceived   atomic.Int64 // by the Session's clock

	// The next fields belong to the reader.
	initial        initialReplies
	buf            []byte
	r, w           int     // buf[r:w] has been read and not handled
	lastReadFilled bool    // the last read filled buf, so there may be more
	lent           *[]byte // readSize or longReadSize; nil if buf is the link's own memory
	smallBuffer    [smallRead]byte

	// The next fields are guarded by the Session's lock.
	out             []byte // frames to be sent
	batch           []byte // frames being written
	unwritten       []byte // the part of batch that is not yet written
	spareBatch      []byte // the memory of the last batch
	isBatchLong     bool   // the last batch needed more memory than maxKept, and the next one may
	writeRunning    bool   // write is running
	readerWillWrite bool   // replies are being handled; the reader writes after them
	writeEnded      *sync.Cond
	trips           roundTrips
	closeReason     error        // why this side closed the connection
	pendingAuths    []chan error // calls of AddAuth that wait for their reply, in order; each has room for one
}

// largeBatchPool has the memory of batches that are longer than maxKept.
var largeBatchPool sync.Pool

// readBufferPools have the buffers that are lent to links, by size.
var readBufferPools = map[int]*sync.Pool{readSize: {}, longReadSize: {}}

func newLink(r *reader, conn net.Conn, server candidate) *link {
	c := r.c
	l := &link{c: c, watches: &r.watches, conn: newNonblockingConn(conn), server: server}
	l.writeEnded = sync.NewCond(&c.mu)
	l.buf = l.smallBuffer[:]
	l.stopCloseOnEnd = context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	l.trips.proof.lastSent = c.monotonicNow() // the handshake is a proof, too
	l.lastReceived.Store(int64(l.trips.proof.lastSent))
	return l
}

// claimWrite reports whether the caller has to call writeOutput, after it has released the lock, which is
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
		l.trips.lastSent = now
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

// gatherFrom is the number of requests in flight from which a request is not written by its caller, but together with
// those that follow. A system call for each of them would take most of a request's processor time, and the server
// would get them one by one.
const gatherFrom = 8

// gatherAndWrite lets goroutines that can run send their requests, and then writes all of them at once.
func (l *link) gatherAndWrite() {
	runtime.Gosched()
	l.writeOutput(false)
}

// prepareBatch turns queued output into the next batch when the last one is written. It reports whether
// there is anything to write. The lock is held.
func (l *link) prepareBatch() bool {
	c := l.c
	if len(l.unwritten) > 0 {
		return true
	}
	l.keepBatchMemory()
	if len(l.out) == 0 {
		return false
	}
	l.trips.sampled.begin(l.out, c.cfg.Clock, c.timeout)
	l.batch, l.unwritten, l.out = l.out, l.out, nil
	l.isBatchLong = cap(l.batch) > maxKept
	if len(l.batch) >= maxUnsent {
		c.wakeRoomWaiters()
	}
	return true
}

// keepBatchMemory keeps the memory of a batch that is written for a later one: its link does so unless it is long. The
// lock is held.
func (l *link) keepBatchMemory() {
	switch {
	case l.batch == nil:
	case cap(l.batch) <= maxKept:
		l.spareBatch = l.batch
	case cap(l.batch) <= maxShared:
		large := l.batch
		largeBatchPool.Put(&large)
	}
	l.batch = nil
}

// output returns the memory for the next frame to be sent: that of the frames that wait, or of an earlier batch. The
// lock is held.
func (l *link) output() []byte {
	if l.out != nil {
		return l.out
	}
	if l.isBatchLong {
		if large, ok := largeBatchPool.Get().(*[]byte); ok {
			return (*large)[:0]
		}
	}
	spare := l.spareBatch[:0]
	l.spareBatch = nil
	return spare
}

// abort closes the connection because of why; the reader then cleans up. The lock is held, but
// released while the connection is closed.
func (l *link) abort(why error) {
	l.closeReason = cmp.Or(l.closeReason, why)
	l.c.mu.Unlock()
	_ = l.conn.Close()
	l.c.mu.Lock()
}

// queuePing queues a ping and reports whether the caller has to call writeOutput. The lock is held.
func (l *link) queuePing(now time.Duration) (write bool) {
	l.out = appendRequest(l.output(), jute.XidPing, jute.OpPing, nil)
	l.trips.lastSent = now
	l.trips.sampled.addPing(now)
	return l.claimWrite()
}

// queueSync queues a sync, whose reply proves that the session lives, and reports whether the caller has to call write.
// It is a request like those of callers, but it does not wait for room. The lock is held.
func (l *link) queueSync(now time.Duration) (write bool) {
	c := l.c
	c.xid = nextXid(c.xid)
	l.trips.proof.begin(c.xid, jute.OpSync, c)
	l.out = appendRequest(l.output(), c.xid, jute.OpSync, jute.SyncRequest{Path: []byte("/")})
	c.calls.push(call{done: func(Reply, error) {}, xid: c.xid, op: jute.OpSync})
	l.trips.lastSent = now
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
	if c.local {
		session = ResumeToken{}
	}
	c.mu.Unlock()
	req := jute.ConnectRequest{
		LastZxidSeen: c.zxid.Load(), TimeOut: int32(timeout.Milliseconds()), SessionID: session.ID,
		Passwd: session.Password, ReadOnly: c.cfg.AllowReadOnly, HasReadOnly: true,
	}
	if session.ID == 0 {
		req.Passwd = make([]byte, 16)
	}
	sent := c.cfg.Clock()
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
	case resp.ReadOnly && !c.cfg.AllowReadOnly:
		return fmt.Errorf("%w: the server is read-only, and Config.AllowReadOnly is not set", ErrProtocol)
	}
	l.readOnly = resp.ReadOnly
	c.mu.Lock()
	c.local = resp.ReadOnly && session.ID == 0
	c.session = ResumeToken{ID: resp.SessionID, Password: append([]byte(nil), resp.Passwd...)}
	c.timeout = time.Duration(resp.TimeOut) * time.Millisecond
	says := leaderHeard
	if resp.ReadOnly {
		says = serverReplied
	}
	c.right.renew(sent, c.timeout, says)
	c.mu.Unlock()
	if err := l.logIn(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.cfg.Auth {
		l.out = appendRequest(l.output(), jute.XidAuth, jute.OpAuth, a.packet())
		l.initial.missing++
	}
	l.initial.missing += l.watches.appendSetWatches(&l.out, c.zxid.Load())
	return nil // the reader writes them when it waits for the replies
}

// initialReplies are the replies that must arrive before requests can be sent.
type initialReplies struct {
	missing int
	zxid    int64 // the greatest one of those that came after the watches were set again
}

// awaitInitialReplies reads until every reply that must precede requests has arrived.
func (l *link) awaitInitialReplies() error {
	for l.initial.missing > 0 {
		if err := l.handleNext(); err != nil {
			return err
		}
	}
	// All events up to this zxid have come. While some watches are not set, that does not hold.
	if l.initial.zxid > l.c.zxid.Load() {
		l.c.zxid.Store(l.initial.zxid)
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
		l.initial.zxid = max(l.initial.zxid, r.Zxid)
		return l.countInitialReply()
	}
	return l.handleReply(r)
}

// countInitialReply counts one of the replies that must arrive before requests can be sent.
func (l *link) countInitialReply() error {
	if l.initial.missing == 0 {
		return fmt.Errorf("%w: a reply to nothing", ErrProtocol)
	}
	l.initial.missing--
	return nil
}

func (l *link) handleEvent(r Reply) error {
	var e jute.WatcherEvent
	if err := r.DecodeBody(&e); err != nil {
		return err
	}
	if l.isRepeat(r.Zxid) {
		if l.c.cfg.OnRepeat != nil {
			l.c.deferWritesToReader()
			l.c.cfg.OnRepeat(e, r.Zxid)
		}
		return nil
	}
	l.watches.removeFired(e)
	if l.c.cfg.OnEvent != nil {
		l.c.deferWritesToReader()
		l.c.cfg.OnEvent(e, r.Zxid)
	}
	l.noteEvent(r.Zxid)
	return nil
}

// isRepeat reports whether all watches that were set before a setWatches2 of a caller have had an event.
func (l *link) isRepeat(zxid int64) bool {
	if zxid <= 0 || zxid > l.c.zxid.Load() {
		return false // the usual case, without the lock
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.calls.resumes > 0
}

// noteEvent notes that all events before the one with a zxid have come, so that a server does not send them again when the watches are
// set again. A transaction may have more events than this one. While some watches are not set, earlier events may still come.
func (l *link) noteEvent(zxid int64) {
	if l.initial.missing == 0 && zxid-1 > l.c.zxid.Load() {
		l.c.zxid.Store(zxid - 1)
	}
}

func (l *link) handlePong() {
	c := l.c
	c.mu.Lock()
	l.renewRight(jute.XidPing, jute.OK)
	sent := l.trips.sampled.endPing()
	c.mu.Unlock()
	if sent > 0 && c.cfg.OnPong != nil {
		c.deferWritesToReader()
		c.cfg.OnPong(c.monotonicNow() - sent)
	}
}

// renewRight renews the session's right if the reply to xid, with code, ends the round trip. A server that has said
// that the session has ended or moved does not count. The lock is held.
func (l *link) renewRight(xid int32, code jute.Code) {
	says := sessionKnown
	if l.readOnly {
		says = serverReplied
	}
	sent, ok := l.trips.sampled.finish(xid)
	if ok && code != jute.SessionExpired && code != jute.SessionMoved {
		l.c.right.renew(sent, l.c.timeout, says)
	}
	if sent, ok := l.trips.proof.finish(xid); ok && code == jute.OK && !l.readOnly {
		l.c.right.renew(sent, l.c.timeout, leaderHeard)
	}
}

// handleReply ends the oldest request in flight.
func (l *link) handleReply(r Reply) error {
	c := l.c
	c.mu.Lock()
	if c.link != l || c.calls.count() == 0 || c.calls.oldest().xid != r.Xid {
		c.mu.Unlock()
		return fmt.Errorf("%w: a reply to no request, xid %d", ErrProtocol, r.Xid)
	}
	next := c.calls.pop()
	l.readerWillWrite = true
	l.renewRight(r.Xid, r.Err)
	c.mu.Unlock()
	if r.Err == jute.SessionExpired {
		c.right.end(false)
	}
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
		return nil, need, fmt.Errorf("%w: %s", ErrProtocol, describeLength(have[:need], l.c.cfg.TLS != nil))
	}
	if need += n; len(have) < need {
		return nil, need, nil
	}
	l.r += need
	return have[4:need], 0, nil
}

// describeLength describes the length of a frame that is too long. It says so if these bytes begin what a port of another
// kind sends: HTTP, or a record of TLS.
func describeLength(b []byte, overTLS bool) string {
	const alert, handshake, majorVersion = 21, 22, 3
	switch {
	case string(b) == "HTTP":
		return "the server speaks HTTP: this port is not for clients"
	case !overTLS && (b[0] == alert || b[0] == handshake) && b[1] == majorVersion:
		return "the server speaks TLS: set Config.TLS, or use a port without TLS"
	}
	return fmt.Sprintf("a frame of %d bytes", int32(binary.BigEndian.Uint32(b)))
}

// beforeReaderWaits is called when the reader is about to wait. It writes what done functions have sent
// meanwhile, and wakes callers that wait for the room that is now free.
func (l *link) beforeReaderWaits() {
	c := l.c
	c.mu.Lock()
	l.readerWillWrite = false
	for n := c.cfg.MaxInFlight - c.calls.count(); n > 0 && len(c.roomWaiters) > 0; n-- {
		c.wakeRoomWaiter()
	}
	write := len(l.out) > 0 && l.claimWrite()
	c.mu.Unlock()
	if write {
		l.writeOutput(false)
	}
}

// makeReadRoom makes room to read the rest of a frame of need bytes, which begins with buf[r:w]. A link
// that reads little uses memory of its own; one that reads more is lent a buffer, and a larger one for a frame that
// needs it. Beyond that, memory grows as bytes arrive.
func (l *link) makeReadRoom(need int) {
	have, before := l.buf[l.r:l.w], l.lent
	to := l.buf
	switch {
	case len(have) == 0 && !l.lastReadFilled && l.w < smallRead:
		to, l.lent = l.smallBuffer[:], nil
	case len(l.buf) == smallRead && !l.lastReadFilled && need <= smallRead:
	case need <= readSize:
		to = l.borrowBuffer(readSize)
	case len(have) < longReadSize:
		to = l.borrowBuffer(longReadSize)
	case len(have) == len(l.buf):
		to, l.lent = make([]byte, min(need, 2*len(have))), nil
	}
	l.w = copy(to, have)
	l.r = 0
	l.buf = to
	if before != l.lent {
		returnBuffer(before)
	}
}

// borrowBuffer returns the buffer of this size that the link has, or one from the pool.
func (l *link) borrowBuffer(size int) []byte {
	if l.lent == nil || len(*l.lent) != size {
		lent, ok := readBufferPools[size].Get().(*[]byte)
		if !ok {
			lent = new([]byte)
			*lent = make([]byte, size)
		}
		l.lent = lent
	}
	return *l.lent
}

// returnBuffer returns a lent buffer, to which nothing refers any more. It may be nil.
func returnBuffer(lent *[]byte) {
	if lent != nil {
		readBufferPools[len(*lent)].Put(lent)
	}
}

// closeAndRelease closes the connection and returns a lent buffer. Nothing is read after that.
func (l *link) closeAndRelease() {
	_ = l.conn.Close()
	l.stopCloseOnEnd()
	l.buf = nil
	returnBuffer(l.lent)
	l.lent = nil
}
