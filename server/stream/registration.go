package stream

import (
	"errors"
	"time"
)

// CalmAfter is how many frames a stream that has left its loop is read by its reader before it goes
// back, because the cause for leaving may recur.
const CalmAfter = 8

// pollerRegistration is the state of a stream in a loop. The connection's lock guards it.
type pollerRegistration struct {
	loop             *loop // nil: the stream has a reader
	fd               int   // the socket while the stream is in a loop: used, closed or handed over under the lock
	discarded        int   // bytes that the loop has dropped while discarding
	busy             bool  // the loop is serving its frames
	discarding       bool  // the loop reads no more frames
	needsReader      bool  // the stream needs a reader when the loop has served it
	awaitsFirstFrame bool  // the stream began in a loop, and the owner has not had its first frame
}

// InLoop reports whether a loop serves the present frame. Only Frame and its callees may call it.
func (s *Stream) InLoop() bool { return s.registration.busy }

// Later leaves f to a reader. The stream gets a reader for that, and it calls f before it reads
// more. f reports whether more frames will be taken. Only Frame may call Later, at most once, and
// only if InLoop is true.
func (s *Stream) Later(f func() (more bool)) { s.later = f }

// promote gives the stream to a loop if it is calm: nothing waits to be sent, and all that the
// client has sent is served. Only the reader calls it. The reader ends after that.
func (f frameReader) promote() bool {
	s := f.s
	r := &s.reader
	if s.raw == nil || len(r.in.rest) > 0 || r.served < r.promoteAfter {
		return false
	}
	l := s.group.loopOf(s)
	if l == nil {
		return false
	}
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if !s.Life.opened() || s.Life.closing() || s.out.flushing || s.out.queued != nil {
		return false
	}
	fd, err := copySocket(s.raw)
	if err != nil {
		return false // too many open files
	}
	if err := l.enter(s, fd); err != nil {
		closeSocket(fd)
		return false
	}
	_ = s.sock.Close() // the stream goes on with fd
	s.sock, s.raw = nil, nil
	r.frame.free()
	r.in.free()
	r.frame, r.in.src = nil, nil
	s.Account.taking = 0
	r.gate.begin()
	s.Count()
	s.registration.loop, s.registration.fd = l, fd
	s.Life.expires = time.Now().Add(s.Life.idleAfter())
	return true
}

// loopVisit is one turn of a loop at a stream: the loop reads once from the socket, and serves and sends what it can without waiting.
type loopVisit struct{ s *Stream }

// receive reads what the client has sent, and appends it to the rest of the last read. It returns
// nil if there is nothing to serve.
func (v loopVisit) receive(l *loop, fd int, now time.Time) []byte {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if s.registration.loop != l || s.registration.fd != fd || s.Life.dead {
		return nil // the stream has left the loop meanwhile
	}
	kept := 0
	if frame := s.reader.frame; frame != nil {
		kept = copy(l.buf[:], frame.B)
	}
	n, err := readSocket(fd, l.buf[kept:])
	switch {
	case errors.Is(err, errNotNow):
		return nil // the event belongs to another stream that had this descriptor before
	case s.registration.discarding:
		v.discard(n)
		return nil
	case n == 0:
		v.lost(ByClient)
		return nil
	}
	if kept == 0 && s.Life.opened() { // as with a reader, the rest of a frame is no new sign of life
		s.Life.expires = now.Add(s.Life.idleAfter())
	}
	s.reader.frame.free()
	s.reader.frame = nil
	s.registration.busy = true
	return l.buf[:kept+n]
}

// discard drops the n bytes that a client sent after its last frame; n is 0 at the end of the stream.
// At the end of the stream it ends if the last reply has been sent. Otherwise it leaves the loop to
// wait for that. The caller holds the lock.
func (v loopVisit) discard(n int) {
	s := v.s
	s.registration.discarded += n
	switch {
	case n > 0 && s.registration.discarded < LingerBytes:
	case s.Life.finished:
		v.lost(s.Life.why)
	default:
		v.demote(nil, false)
	}
}

// lost is Lost in a loop. It closes the socket at once, because otherwise the poller would
// report the end again and again. The caller holds the lock.
func (v loopVisit) lost(why Reason) {
	s := v.s
	s.registration.close()
	s.DropLocked(why)
	go s.leave()
}

// easy reports whether the loop may serve another frame of the stream.
func (v loopVisit) easy() bool {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	return !s.Life.closing() && !s.registration.needsReader && (s.registration.awaitsFirstFrame || s.Life.opened() && !s.full())
}

// received completes what receive began: it sends what is queued, and takes the stream out of the
// loop if necessary. rest is the unserved remainder of the input; more reports whether the owner
// takes more frames.
func (v loopVisit) received(rest []byte, more bool) {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.registration.busy = false
	switch {
	case s.Life.dead:
		go s.leave()
	case s.registration.needsReader || s.later != nil || more && !v.keep(rest):
		v.demote(rest, more)
	default:
		s.registration.discarding = !more
		v.transmit()
	}
}

// keep keeps the beginning of a frame until the next read, and reports whether it did. It does not
// if the frame is already whole, or is too long for a read to complete it. The caller holds the
// lock.
func (v loopVisit) keep(rest []byte) bool {
	s := v.s
	if len(rest) == 0 {
		return true
	}
	if len(rest) >= LengthSize {
		n, ok := frameSize(rest, s.reader.mostFrame(s.group.Config))
		if !ok || n <= len(rest) || n > LoopBuffer {
			return false
		}
	}
	frame := takeBuffer()
	frame.B = append(frame.B, rest...)
	s.reader.frame = frame
	return true
}

// transmit writes what is queued, without waiting. It demotes the stream if the socket does not
// take all of it, if there are inserted bytes to send, or if the owner does not permit it now. The
// stream is in a loop. The caller holds the lock, as for every use of fd.
func (v loopVisit) transmit() {
	s := v.s
	s.out.noted = false
	out := s.out.queued
	if s.Life.dead || out == nil {
		return
	}
	if out.extra > 0 || !s.owner.MaySend() {
		v.demote(nil, true)
		return
	}
	send := writeSocket
	if s.Life.last {
		send = writeLast // finishHere closes the sending side next
	}
	n, _ := send(s.registration.fd, out.B[:min(len(out.B), MaxWrite)]) // the next read returns the error
	if n < len(out.B) {
		out.B = out.B[:copy(out.B, out.B[n:])]
		s.Count()
		v.demote(nil, true)
		return
	}
	out.free()
	s.out.queued = nil
	s.Count()
	if s.Life.last {
		v.finish()
		return
	}
	if s.owner.Due() {
		v.demote(nil, true) // not here, because Resume takes locks of the owner
	}
}

// finish is finishSent in a loop. The caller holds the lock.
func (v loopVisit) finish() {
	s := v.s
	endSocket(s.registration.fd) // if it fails, so will the read
	s.Life.finished = true
	s.Life.expires = time.Now().Add(LingerTime)
}

// demote gives the stream a reader again when the loop has finished serving it. rest is input that
// the loop has read and not served; the reader begins with it. If more is false, the reader reads
// no frames. The caller holds the lock.
func (v loopVisit) demote(rest []byte, more bool) {
	s := v.s
	if s.registration.busy {
		s.registration.needsReader = true
		return
	}
	s.registration.needsReader = false
	r := &s.reader
	if r.frame != nil {
		rest = r.frame.B
	}
	r.in.rest = append([]byte(nil), rest...)
	r.frame.free()
	r.frame = nil
	v.giveReader(s.registration.end(), more && !s.registration.discarding)
}

// giveReader starts the reader of a stream whose socket is fd, which is in no loop. The caller holds the lock.
func (v loopVisit) giveReader(fd int, more bool) {
	s := v.s
	if s.registration.awaitsFirstFrame {
		s.registration.awaitsFirstFrame = false
		s.later = s.owner.Begin
	}
	s.registration.fd = -1
	// While there is no socket, no other goroutine may send.
	s.out.flushing = true
	s.Life.helpers++
	go frameReader{s}.readOn(fd, more)
}

// close closes the socket of a stream in a loop. The caller holds the lock.
func (p *pollerRegistration) close() {
	p.loop.forget(p.fd) // the poller forgets a closed socket by itself
	closeSocket(p.fd)
	p.loop, p.fd = nil, -1
}

// end takes the socket out of the loop and returns it. From now on the caller owns fd. The
// caller holds the lock.
func (p *pollerRegistration) end() (fd int) {
	fd = p.fd
	p.loop.leave(fd)
	p.loop, p.fd = nil, -1
	return fd
}

// readOn is the reader of an accepted stream that is in no loop.
func (f frameReader) readOn(fd int, more bool) {
	s := f.s
	sock := newFileSocket(fd)
	r := &s.reader
	s.Life.mu.Lock()
	s.sock, s.raw, r.in.src = sock, rawOf(sock), sock
	r.armed, s.out.written = time.Time{}, time.Time{}
	r.served, r.promoteAfter = 0, CalmAfter
	switch {
	case s.Life.dead:
		_ = sock.SetDeadline(longAgo)
	case s.Life.opened() || s.Life.finished: // until then its Limit ends it
		_ = sock.SetReadDeadline(s.Life.expires) // if it fails, so will the read
	}
	later := s.later
	s.later = nil
	s.Life.mu.Unlock()
	go func() { flusher{s}.flush(flusher{s}.sent(nil), 0) }() // flush also calls Resume if that is due
	s.Serve((later == nil || later()) && more)
}

// dropSilent drops a stream of the loop if its client has been silent for too long.
func (v loopVisit) dropSilent(l *loop, now time.Time) {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if s.registration.loop == l && !s.registration.busy && (s.Life.opened() || s.Life.finished) && now.After(s.Life.expires) {
		s.DropLocked(Idle)
	}
}
