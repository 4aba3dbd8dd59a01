package stream

import (
	"errors"
	"time"
)

// CalmAfter is how many frames a stream that has left its loop must be seen to read before it goes
// back: it may go on as it left.
const CalmAfter = 8

// seat is a stream's place in a loop.
type seat struct {
	loop   *loop // nil: it has a reader
	fd     int   // its socket while it is in a loop: used, closed or given away under mu
	busy   bool  // the loop is serving its frames
	deaf   bool  // the loop reads no more frames
	scrap  int   // bytes that the loop has thrown away since
	wanted bool  // by a reader, once the loop is done
}

// InLoop reports whether a loop serves the frame in hand. Only Frame may ask, and what it calls.
func (s *Stream) InLoop() bool { return s.seat.busy }

// Later leaves f to the reader, which the stream gets for that: it calls f before it reads more. f
// reports whether there will be more frames. Only Frame may call it, once, and only if InLoop.
func (s *Stream) Later(f func() (more bool)) { s.later = f }

// promote gives the stream to a loop, if it is calm: nothing waits to be sent, and the client has sent
// nothing that is not served. Only the reader calls it, which then ends.
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

// receive reads what the client has sent, and puts it after what is left of the last time. It returns
// nil if there is nothing to serve.
func (s *Stream) receive(l *loop, fd int, now time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seat.loop != l || s.seat.fd != fd || s.end.dead {
		return nil // it has left meanwhile
	}
	kept := 0
	if frame := s.reader.frame; frame != nil {
		kept = copy(l.buf[:], frame.B)
	}
	n, err := readSocket(fd, l.buf[kept:])
	switch {
	case errors.Is(err, errNotNow):
		return nil // the event was of another stream that had this descriptor
	case s.seat.deaf:
		s.discard(n)
		return nil
	case n == 0:
		s.lostHere(ByClient)
		return nil
	}
	if kept == 0 { // the rest of a frame counts no more than for a reader
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

// lostHere is Lost in a loop. It closes the socket at once, because the loop would be told of the end
// again until that is closed. The caller holds the lock.
func (s *Stream) lostHere(why Reason) {
	closeSocket(s.leaveLoop())
	s.drop(why)
	go s.leave()
}

// easy reports whether the loop may serve one more frame of the stream.
func (s *Stream) easy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.Closing() && !s.seat.wanted && !s.full()
}

// received ends what receive began: what is queued is sent, and the stream leaves the loop if it must.
// rest is the unserved remainder of the input; more reports whether the owner takes more frames.
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

// keep keeps the beginning of a frame until the next read, unless no read can make it a whole one, or
// it is one already. It reports whether it has kept it. The caller holds the lock.
func (s *Stream) keep(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	if len(rest) >= LengthSize {
		n, ok := frameSize(rest, s.group.MaxFrame)
		if !ok || n <= len(rest) || n > LoopBuffer {
			return false
		}
	}
	frame := takeBuffer()
	frame.B = append(frame.B, rest...)
	s.reader.frame = frame
	return true
}

// transmit writes what is queued, without waiting. The stream is demoted if the socket does not take
// all of it, if there are inserted bytes to send, or if the owner does not permit it at the moment. The
// caller holds the lock, under which all is done that uses fd. The stream is in a loop.
func (s *Stream) transmit() {
	s.out.noted = false
	out := s.out.queued
	if s.end.dead || out == nil {
		return
	}
	if out.extra > 0 || !s.owner.MaySend(time.Now()) {
		s.demote(nil, true)
		return
	}
	n, _ := writeSocket(s.seat.fd, out.B[:min(len(out.B), MaxWrite)]) // the next read says what is wrong
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
		s.demote(nil, true) // Resume takes locks of the owner's
	}
}

// finishHere is finishSent in a loop. The caller holds the lock.
func (s *Stream) finishHere() {
	endSocket(s.seat.fd) // if it fails, so will the read
	s.end.finished = true
	s.expires = time.Now().Add(LingerTime)
}

// demote gives the stream a reader again, as soon as the loop is done with it. rest is what the reader
// finds read already. If more is false, the reader reads no frames. The caller holds the lock.
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
	// Until there is a socket again nobody else sends.
	s.out.flushing = true
	s.helpers++
	go s.readOn(s.leaveLoop(), more && !s.seat.deaf)
}

// leaveLoop takes the socket out of the loop and returns it. The caller holds the lock, and owns fd
// from here on.
func (s *Stream) leaveLoop() (fd int) {
	fd = s.seat.fd
	s.seat.loop.leave(fd)
	s.seat.loop, s.seat.fd = nil, -1
	return fd
}

// readOn is the reader of a stream that has left its loop.
func (s *Stream) readOn(fd int, more bool) {
	sock := newFileSocket(fd)
	r := &s.reader
	s.mu.Lock()
	s.sock, s.raw, r.in.src = sock, rawOf(sock), sock
	r.armed, s.out.written = time.Time{}, time.Time{}
	r.served, r.calm = 0, CalmAfter
	if _ = sock.SetReadDeadline(s.expires); s.end.dead { // if it fails, so will the read
		_ = sock.SetDeadline(longAgo)
	}
	later := s.later
	s.later = nil
	s.mu.Unlock()
	go func() { s.flush(s.sent(nil), 0) }() // Resume may be due, too
	s.Serve((later == nil || later()) && more)
}

// dropSilent drops a stream of the loop from which nothing has come for too long.
func (s *Stream) dropSilent(l *loop, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seat.loop == l && !s.seat.busy && now.After(s.expires) {
		s.drop(Idle)
	}
}
