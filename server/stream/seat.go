package stream

import (
	"errors"
	"time"
)

// CalmAfter is how many frames a stream that has left its loop is read by its reader before it goes
// back, because the cause for leaving may recur.
const CalmAfter = 8

// seat is the state of a stream in a loop.
type seat struct {
	loop   *loop // nil: the stream has a reader
	fd     int   // the socket while the stream is in a loop: used, closed or handed over under mu
	busy   bool  // the loop is serving its frames
	deaf   bool  // the loop reads no more frames
	scrap  int   // bytes that the loop has dropped since it became deaf
	wanted bool  // the stream needs a reader when the loop has served it
	fresh  bool  // the stream began in a loop, and the owner has not had its first frame
}

// InLoop reports whether a loop serves the present frame. Only Frame and its callees may call it.
func (s *Stream) InLoop() bool { return s.seat.busy }

// Later leaves f to a reader. The stream gets a reader for that, and it calls f before it reads
// more. f reports whether more frames will be taken. Only Frame may call Later, at most once, and
// only if InLoop is true.
func (s *Stream) Later(f func() (more bool)) { s.later = f }

// promote gives the stream to a loop if it is calm: nothing waits to be sent, and all that the
// client has sent is served. Only the reader calls it. The reader ends after that.
func (s *Stream) promote() bool {
	r := &s.reader
	if s.raw == nil || len(r.in.rest) > 0 || r.served < r.calm {
		return false
	}
	l := s.group.loopOf(s)
	if l == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened() || s.Closing() || s.out.flushing || s.out.queued != nil {
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
	s.account.taking = 0
	r.gate.begin()
	s.Count()
	s.seat.loop, s.seat.fd = l, fd
	s.expires = time.Now().Add(s.idleAfter())
	return true
}

// receive reads what the client has sent, and appends it to the rest of the last read. It returns
// nil if there is nothing to serve.
func (s *Stream) receive(l *loop, fd int, now time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seat.loop != l || s.seat.fd != fd || s.end.dead {
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
	case s.seat.deaf:
		s.discard(n)
		return nil
	case n == 0:
		s.lostHere(ByClient)
		return nil
	}
	if kept == 0 && s.opened() { // as with a reader, the rest of a frame is no new sign of life
		s.expires = now.Add(s.idleAfter())
	}
	s.reader.frame.free()
	s.reader.frame = nil
	s.seat.busy = true
	return l.buf[:kept+n]
}

// discard drops the n bytes that a client sent after its last frame; n is 0 at the end of the stream.
// At the end of the stream it ends if the last reply has been sent. Otherwise it leaves the loop to
// wait for that. The caller holds the lock.
func (s *Stream) discard(n int) {
	s.seat.scrap += n
	switch {
	case n > 0 && s.seat.scrap < LingerBytes:
	case s.end.finished:
		s.lostHere(s.end.why)
	default:
		s.demote(nil, false)
	}
}

// lostHere is Lost in a loop. It closes the socket at once, because otherwise the poller would
// report the end again and again. The caller holds the lock.
func (s *Stream) lostHere(why Reason) {
	s.closeHere()
	s.drop(why)
	go s.leave()
}

// easy reports whether the loop may serve another frame of the stream.
func (s *Stream) easy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.Closing() && !s.seat.wanted && (s.seat.fresh || s.opened() && !s.full())
}

// received completes what receive began: it sends what is queued, and takes the stream out of the
// loop if necessary. rest is the unserved remainder of the input; more reports whether the owner
// takes more frames.
func (s *Stream) received(rest []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seat.busy = false
	switch {
	case s.end.dead:
		go s.leave()
	case s.seat.wanted || s.later != nil || more && !s.keep(rest):
		s.demote(rest, more)
	default:
		s.seat.deaf = !more
		s.transmit()
	}
}

// keep keeps the beginning of a frame until the next read, and reports whether it did. It does not
// if the frame is already whole, or is too long for a read to complete it. The caller holds the
// lock.
func (s *Stream) keep(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	if len(rest) >= LengthSize {
		n, ok := frameSize(rest, s.mostFrame())
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
func (s *Stream) transmit() {
	s.out.noted = false
	out := s.out.queued
	if s.end.dead || out == nil {
		return
	}
	if out.extra > 0 || !s.owner.MaySend() {
		s.demote(nil, true)
		return
	}
	send := writeSocket
	if s.end.last {
		send = writeLast // finishHere closes the sending side next
	}
	n, _ := send(s.seat.fd, out.B[:min(len(out.B), MaxWrite)]) // the next read returns the error
	if n < len(out.B) {
		out.B = out.B[:copy(out.B, out.B[n:])]
		s.Count()
		s.demote(nil, true)
		return
	}
	out.free()
	s.out.queued = nil
	s.Count()
	if s.end.last {
		s.finishHere()
		return
	}
	if s.owner.Due() {
		s.demote(nil, true) // not here, because Resume takes locks of the owner
	}
}

// finishHere is finishSent in a loop. The caller holds the lock.
func (s *Stream) finishHere() {
	endSocket(s.seat.fd) // if it fails, so will the read
	s.end.finished = true
	s.expires = time.Now().Add(LingerTime)
}

// demote gives the stream a reader again when the loop has finished serving it. rest is input that
// the loop has read and not served; the reader begins with it. If more is false, the reader reads
// no frames. The caller holds the lock.
func (s *Stream) demote(rest []byte, more bool) {
	if s.seat.busy {
		s.seat.wanted = true
		return
	}
	s.seat.wanted = false
	r := &s.reader
	if r.frame != nil {
		rest = r.frame.B
	}
	r.in.rest = append([]byte(nil), rest...)
	r.frame.free()
	r.frame = nil
	s.giveReader(s.leaveLoop(), more && !s.seat.deaf)
}

// giveReader starts the reader of a stream whose socket is fd, which is in no loop. The caller holds the lock.
func (s *Stream) giveReader(fd int, more bool) {
	if s.seat.fresh {
		s.seat.fresh = false
		s.later = s.owner.Begin
	}
	s.seat.fd = -1
	// While there is no socket, no other goroutine may send.
	s.out.flushing = true
	s.helpers++
	go s.readOn(fd, more)
}

// closeHere closes the socket of a stream in a loop. The caller holds the lock.
func (s *Stream) closeHere() {
	s.seat.loop.forget(s.seat.fd) // the poller forgets a closed socket by itself
	closeSocket(s.seat.fd)
	s.seat.loop, s.seat.fd = nil, -1
}

// leaveLoop takes the socket out of the loop and returns it. From now on the caller owns fd. The
// caller holds the lock.
func (s *Stream) leaveLoop() (fd int) {
	fd = s.seat.fd
	s.seat.loop.leave(fd)
	s.seat.loop, s.seat.fd = nil, -1
	return fd
}

// readOn is the reader of an accepted stream that is in no loop.
func (s *Stream) readOn(fd int, more bool) {
	sock := newFileSocket(fd)
	r := &s.reader
	s.mu.Lock()
	s.sock, s.raw, r.in.src = sock, rawOf(sock), sock
	r.armed, s.out.written = time.Time{}, time.Time{}
	r.served, r.calm = 0, CalmAfter
	switch {
	case s.end.dead:
		_ = sock.SetDeadline(longAgo)
	case s.opened() || s.end.finished: // until then its Limit ends it
		_ = sock.SetReadDeadline(s.expires) // if it fails, so will the read
	}
	later := s.later
	s.later = nil
	s.mu.Unlock()
	go func() { s.flush(s.sent(nil), 0) }() // flush also calls Resume if that is due
	s.Serve((later == nil || later()) && more)
}

// dropSilent drops a stream of the loop if its client has been silent for too long.
func (s *Stream) dropSilent(l *loop, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seat.loop == l && !s.seat.busy && (s.opened() || s.end.finished) && now.After(s.expires) {
		s.drop(Idle)
	}
}
