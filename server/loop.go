package server

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

const (
	// maxLoops is how many loops serve a listener's connections, but no more than run at
	// once: a loop does not wait.
	maxLoops = 16
	// loopEvents is how many sockets a loop asks for at once.
	loopEvents = 64
	// loopTurn is how long a loop that always finds more to do keeps others from running:
	// less than Go's scheduler would let it, and seldom enough to cost nothing.
	loopTurn = time.Millisecond
	// loopBuffer is what one read takes, and the longest request that a loop serves.
	loopBuffer = 64 << 10
	// calmAfter is how many requests a connection that has left its loop must be seen to
	// send before it goes back: it may go on as it left.
	calmAfter = 8
)

// loops serve the calm connections of one listener; they begin with the first.
type loops struct {
	tick    time.Duration
	log     *slog.Logger
	begin   sync.Once
	all     []*loop
	stop    context.CancelFunc // of sweep
	running sync.WaitGroup
}

// of returns the loop of a connection; nil: there are none.
func (ls *loops) of(c *conn) *loop {
	ls.begin.Do(ls.start)
	if len(ls.all) == 0 {
		return nil
	}
	return ls.all[c.number%uint64(len(ls.all))]
}

func (ls *loops) start() {
	for range min(maxLoops, runtime.GOMAXPROCS(0)) {
		p, err := newPoller()
		if err != nil {
			ls.log.Info("connections are served without loops", "loops", len(ls.all), "err", err)
			break
		}
		l := &loop{poller: p, conns: make(map[int]*conn)}
		ls.all = append(ls.all, l)
		ls.running.Go(l.run)
	}
	ctx, stop := context.WithCancel(context.Background())
	ls.stop = stop
	ls.running.Go(func() { ls.sweep(ctx) })
}

// sweep ends the connections that are silent, once a tick. It costs a lock of each.
func (ls *loops) sweep(ctx context.Context) {
	ticker := time.NewTicker(ls.tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, l := range ls.all {
				l.endSilent(now)
			}
		}
	}
}

// close ends the loops. Their connections have ended.
func (ls *loops) close() {
	if ls.stop == nil {
		return // they never began
	}
	ls.stop()
	for _, l := range ls.all {
		l.poller.close()
	}
	ls.running.Wait()
}

// loop is a goroutine that serves many connections, as long as none of them makes it
// wait: such a one is demoted. It waits for nothing but events, the tree's read lock and
// the connections' locks.
type loop struct {
	poller *poller
	buf    [loopBuffer]byte // the loop's own

	mu    sync.Mutex
	conns map[int]*conn // by descriptor
}

func (l *loop) run() {
	var begun time.Time // when it last let others run
	for {
		n, waited := l.poller.wait()
		if n == 0 {
			return
		}
		now := time.Now()
		switch {
		case waited:
			begun = now
		case now.Sub(begun) > loopTurn:
			runtime.Gosched()
			begun = now
		}
		for i := range n {
			l.serve(l.poller.at(i), now)
		}
	}
}

// serve reads once from a socket and serves the requests that came. It answers them with
// one write.
func (l *loop) serve(fd int, now time.Time) {
	c := l.connection(fd)
	if c == nil {
		return
	}
	rest := c.receive(l, fd, now)
	if rest == nil {
		return
	}
	more := true
	for more && c.after == nil {
		n := wholeFrame(rest, c.srv.cfg.Limits.MaxBuffer)
		if n == 0 || !c.easy() {
			break
		}
		c.srv.stats.bytesIn.Add(uint64(n))
		more = c.request(rest[lengthSize:n])
		rest = rest[n:]
	}
	c.received(rest, more)
}

// wholeFrame returns how many bytes the frame at the head of b has, if all of it is there
// and it is not too long; else 0.
func wholeFrame(b []byte, most int) int {
	if n, ok := frameSize(b, most); ok && n <= len(b) {
		return n
	}
	return 0
}

// frameSize returns how many bytes a frame has in all; false: unknown as yet, or too many.
func frameSize(b []byte, most int) (int, bool) {
	if len(b) < lengthSize {
		return 0, false
	}
	n := binary.BigEndian.Uint32(b)
	return int(n) + lengthSize, uint64(n) <= uint64(most)
}

func (l *loop) connection(fd int) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns[fd]
}

func (l *loop) enter(c *conn, fd int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.poller.add(fd); err != nil {
		return err
	}
	l.conns[fd] = c
	return nil
}

func (l *loop) leave(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poller.remove(fd)
	delete(l.conns, fd)
}

func (l *loop) endSilent(now time.Time) {
	l.mu.Lock()
	conns := make([]*conn, 0, len(l.conns))
	for _, c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.endSilent(l, now)
	}
}

// promote gives the connection to a loop, if it is calm: nothing waits to be sent, and
// the client has sent nothing that is not served. Only the reader calls it, which then
// ends.
func (c *conn) promote() bool {
	if c.raw == nil || len(c.in.rest) > 0 || c.served < c.calm {
		return false
	}
	l := c.port.loops.of(c)
	if l == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || c.dead || c.last || c.flushing || c.out != nil {
		return false
	}
	fd, err := copySocket(c.raw)
	if err != nil {
		return false // too many open files
	}
	if err := l.enter(c, fd); err != nil {
		closeSocket(fd)
		return false
	}
	_ = c.sock.Close() // the connection goes on with fd
	c.sock, c.raw = nil, nil
	c.frame.free()
	c.in.free()
	c.frame, c.in.src = nil, nil
	c.taking = 0
	c.gate.begin()
	c.account()
	c.loop, c.fd = l, fd
	c.expires = time.Now().Add(c.idleAfter())
	return true
}

// receive reads what the client has sent, behind what is left of before. It returns nil
// if there is nothing to serve.
func (c *conn) receive(l *loop, fd int, now time.Time) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop != l || c.fd != fd || c.dead {
		return nil // it has left meanwhile
	}
	kept := 0
	if c.frame != nil {
		kept = copy(l.buf[:], c.frame.b)
	}
	n, err := readSocket(fd, l.buf[kept:])
	switch {
	case errors.Is(err, errNotNow):
		return nil // the event was of another connection that had this descriptor
	case c.deaf:
		c.discard(n)
		return nil
	case n == 0:
		c.endHere(byClient)
		return nil
	}
	if kept == 0 { // the rest of a frame counts no more than for a reader
		c.expires = now.Add(c.idleAfter())
	}
	c.frame.free()
	c.frame = nil
	c.busy = true
	return l.buf[:kept+n]
}

// discard throws away what a client sends behind its last request, of which n bytes have
// come; 0: it has closed its side. Once it has been sent the last reply, that ends it. While
// that is awaited, and nothing more is to be read, it leaves the loop. The caller holds mu.
func (c *conn) discard(n int) {
	c.scrap += n
	switch {
	case n > 0 && c.scrap < lingerBytes:
	case c.finished:
		c.endHere(c.why)
	default:
		c.demote(nil, false)
	}
}

// endHere is end for the loop that serves the connection, when its client has closed it: the
// loop would be told of that again until the socket is closed. The caller holds mu.
func (c *conn) endHere(why reason) {
	closeSocket(c.leaveLoop())
	c.end(why)
	go c.leave()
}

// easy reports whether the loop may serve one more request of the connection.
func (c *conn) easy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead && !c.last && !c.wanted && !c.full()
}

// received ends what receive began: the replies are sent, and the connection leaves the
// loop if it must. rest is what is not served of what came; more: there will be requests.
func (c *conn) received(rest []byte, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	switch {
	case c.dead:
		go c.leave()
	case c.wanted || c.after != nil || more && !c.keep(rest):
		c.demote(rest, more)
	default:
		c.deaf = !more
		c.transmit()
	}
}

// keep keeps the beginning of a frame until the next read, unless no read can make it a
// whole one, or it is one already. The caller holds mu.
func (c *conn) keep(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	if len(rest) >= lengthSize {
		n, ok := frameSize(rest, c.srv.cfg.Limits.MaxBuffer)
		if !ok || n <= len(rest) || n > loopBuffer {
			return false
		}
	}
	c.frame = takeBuffer()
	c.frame.b = append(c.frame.b, rest...)
	return true
}

// transmit writes what is queued, as far as the socket takes it at once: a connection of
// which that is not all, or that has large data to send, or for which nobody vouches at the
// moment, is demoted. The write
// is under mu, as all that is done with fd: it waits for nothing. The caller holds mu; the
// connection is in a loop.
func (c *conn) transmit() {
	c.noted = false
	if c.dead || c.out == nil {
		return
	}
	if c.out.extra > 0 || !c.spared && !c.srv.cfg.Member.Vouched(c.session, time.Now()) {
		c.demote(nil, true)
		return
	}
	b := c.out.b
	n, _ := writeSocket(c.fd, b[:min(len(b), maxWrite)]) // what is wrong is seen by who reads
	if n < len(b) {
		c.out.b = b[:copy(b, b[n:])]
		c.account()
		c.demote(nil, true)
		return
	}
	c.out.free()
	c.out = nil
	c.account()
	if c.last {
		c.finishHere()
		return
	}
	if c.queue.first != nil && c.queue.first.due() {
		c.demote(nil, true) // who answers it needs the tree's lock
	}
}

// finishHere is finish in a loop. The caller holds mu.
func (c *conn) finishHere() {
	endSocket(c.fd) // if it fails, so will the read
	c.finished = true
	c.expires = time.Now().Add(lingerTime)
}

// demote gives the connection a reader again, as soon as the loop is done with it. rest is
// what the reader finds read already; if there is no more, it reads no requests. The
// caller holds mu.
func (c *conn) demote(rest []byte, more bool) {
	if c.busy {
		c.wanted = true
		return
	}
	c.wanted = false
	if c.frame != nil {
		rest = c.frame.b
	}
	c.in.rest = append([]byte(nil), rest...)
	c.frame.free()
	c.frame = nil
	// Until there is a socket again nobody else sends.
	c.flushing = true
	c.helpers++
	go c.readOn(c.leaveLoop(), more && !c.deaf)
}

// leaveLoop takes the socket out of the loop. The caller holds mu, and owns fd from here on.
func (c *conn) leaveLoop() (fd int) {
	fd = c.fd
	c.loop.leave(fd)
	c.loop, c.fd = nil, -1
	return fd
}

// readOn is the reader of a connection that has left its loop.
func (c *conn) readOn(fd int, more bool) {
	sock := newFileSocket(fd)
	c.mu.Lock()
	c.sock, c.raw, c.in.src = sock, rawOf(sock), sock
	c.armed, c.written = time.Time{}, time.Time{}
	c.served, c.calm = 0, calmAfter
	if _ = sock.SetReadDeadline(c.expires); c.dead { // if it fails, so will the read
		_ = sock.SetDeadline(longAgo)
	}
	after := c.after
	c.after = nil
	c.mu.Unlock()
	go func() {
		batch, vouch := c.sent(nil) // and requests may have waited for that
		c.flush(batch, 0, vouch)
	}()
	c.read((after == nil || after()) && more)
}

// endSilent ends a connection of the loop from which nothing has come for too long.
func (c *conn) endSilent(l *loop, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop == l && !c.busy && now.After(c.expires) {
		c.end(idle)
	}
}
