package stream

import (
	"errors"
	"time"
)

// PromoteAfterFrames is the number of frames that a reader serves after its stream has left a loop, before
// the stream goes back: the cause for leaving may recur.
const PromoteAfterFrames = 8

// pollerRegistration is the state of a stream in a loop. The connection's lock guards it.
type pollerRegistration struct {
	loop             *loop  // nil: the stream has a reader
	fd               int    // the socket in the loop: used, closed or handed over under the lock
	discardedBytes   uint32 // LingerBytes and a read at most
	isServing        bool   // in the loop
	isDiscarding     bool   // no more frames are read
	needsReader      bool   // after this turn of the loop
	awaitsFirstFrame bool   // the stream began in a loop
}

// InLoop reports whether a loop serves the present frame. Only ServeFrame and its callees may call it.
func (s *Stream) InLoop() bool { return s.registration.isServing }

// InputReads returns the number of times that the reader has got input. Frames between which it does not change came
// together. It wraps, and it says nothing in a loop. Only ServeFrame and its callees, and the f of LeaveToReader, may call it.
func (s *Stream) InputReads() uint32 { return s.reader.input.numReads }

// LeaveToReader leaves f to a reader: the stream gets one, which calls f before it reads more. f reports
// whether more frames will be taken. Only ServeFrame may call LeaveToReader, at most once, and only if InLoop
// is true.
func (s *Stream) LeaveToReader(f func() (more bool)) { s.readerTask = f }

// promoteIfCalm gives the stream to a loop if it is calm: nothing waits to be sent, and all input is served. Only
// the reader calls it, and ends after that.
func (f frameReader) promoteIfCalm() bool {
	s := f.s
	r := &s.reader
	if s.rawSocket == nil || len(r.input.unread) > 0 || r.framesServed < r.promoteAfter {
		return false
	}
	l := s.group.loopOf(s)
	if l == nil {
		return false
	}
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if !s.Life.isOpen() || s.Life.isClosing() || s.output.hasFlusher || s.output.queued != nil {
		return false
	}
	fd, err := dupSocket(s.rawSocket)
	if err != nil {
		return false // too many open files
	}
	if err := l.addStream(s, fd); err != nil {
		closeSocket(fd)
		return false
	}
	_ = s.socket.Close() // the stream continues with fd
	s.socket, s.rawSocket = nil, nil
	r.frame.free()
	r.input.free()
	r.frame, r.input.source = nil, nil
	s.Account.frameBytes = 0
	r.gate.reset()
	s.UpdateAccount()
	s.registration.loop, s.registration.fd = l, fd
	s.Life.expireAt(time.Now().Add(s.Life.maxSilence()))
	return true
}

// loopVisit is one turn of a loop at a stream: the loop reads once from the socket, and serves and sends as
// much as it can without waiting.
type loopVisit struct{ s *Stream }

// readInput reads from the socket, and appends to the rest of the last read. It returns nil if there is
// nothing to serve.
func (v loopVisit) readInput(l *loop, fd int, now time.Time) []byte {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if s.registration.loop != l || s.registration.fd != fd || s.Life.hasEnded {
		return nil // the stream has left the loop meanwhile
	}
	kept := 0
	if frame := s.reader.frame; frame != nil {
		kept = copy(l.readBuffer[:], frame.B)
	}
	n, err := readSocket(fd, l.readBuffer[kept:])
	switch {
	case errors.Is(err, errWouldBlock):
		return nil // the event belongs to another stream that had this descriptor before
	case s.registration.isDiscarding:
		v.countDiscarded(n)
		return nil
	case n == 0:
		v.endNow(ByClient)
		return nil
	}
	if kept == 0 && s.Life.isOpen() { // as with a reader, the rest of a frame is no new sign of life
		s.Life.expireAt(now.Add(s.Life.maxSilence()))
	}
	s.reader.frame.free()
	s.reader.frame = nil
	s.registration.isServing = true
	return l.readBuffer[:kept+n]
}

// countDiscarded drops n bytes after the client's last frame; n is 0 at end of stream. At end of stream the
// connection ends if the last reply has been sent; otherwise it leaves the loop to wait for that. The caller
// holds the lock.
func (v loopVisit) countDiscarded(n int) {
	s := v.s
	s.registration.discardedBytes += uint32(n)
	switch {
	case n > 0 && s.registration.discardedBytes < LingerBytes:
	case s.Life.lastSent:
		v.endNow(s.Life.endReason)
	default:
		v.demote(nil, false)
	}
}

// endNow is ReadFailed in a loop. It closes the socket at once, because otherwise the poller would report the
// end again and again. The caller holds the lock.
func (v loopVisit) endNow(why Reason) {
	s := v.s
	s.registration.closeSocket()
	s.DropLocked(why)
	go s.cleanUp()
}

// mayServe reports whether the loop may serve another frame of the stream.
func (v loopVisit) mayServe() bool {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	return !s.Life.isClosing() && !s.registration.needsReader &&
		(s.registration.awaitsFirstFrame || s.Life.isOpen() && !s.mustWait())
}

// finishVisit completes the turn: it sends the output, and takes the stream out of the loop if necessary.
// rest is the unserved remainder of the input; more reports whether the owner takes more frames.
func (v loopVisit) finishVisit(rest []byte, more bool) {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.registration.isServing = false
	switch {
	case s.Life.hasEnded:
		go s.cleanUp()
	case s.registration.needsReader || s.readerTask != nil || more && !v.keepPartial(rest):
		v.demote(rest, more)
	default:
		s.registration.isDiscarding = !more
		v.sendOrDemote()
	}
}

// keepPartial keeps the beginning of a frame until the next read. It returns false if the frame is already
// whole, or too long for a read to complete it. The caller holds the lock.
func (v loopVisit) keepPartial(rest []byte) bool {
	s := v.s
	if len(rest) == 0 {
		return true
	}
	if len(rest) >= LengthSize {
		n, ok := frameSize(rest, s.reader.maxNextFrame(s.group.Config))
		if !ok || n <= len(rest) || n > LoopBuffer {
			return false
		}
	}
	frame := takeBuffer()
	frame.B = append(frame.B, rest...)
	s.reader.frame = frame
	return true
}

// sendOrDemote writes the output without waiting. It demotes the stream if the socket does not take all of it,
// if there are inserted bytes, or if the owner does not permit it now. The stream is in a loop. The caller
// holds the lock, as for every use of fd.
func (v loopVisit) sendOrDemote() {
	s := v.s
	s.output.flushClaimed = false
	out := s.output.queued
	if s.Life.hasEnded || out == nil {
		return
	}
	if out.insertedBytes > 0 || !s.owner.MaySend() {
		v.demote(nil, true)
		return
	}
	send := writeSocket
	if s.Life.lastQueued {
		send = writeLast // finishSending closes the sending side next
	}
	n, _ := send(s.registration.fd, out.B[:min(len(out.B), MaxWrite)]) // the next read returns the error
	if n < len(out.B) {
		out.B = out.B[:copy(out.B, out.B[n:])]
		s.UpdateAccount()
		v.demote(nil, true)
		return
	}
	out.free()
	s.output.queued = nil
	s.owner.OutputTaken()
	s.UpdateAccount()
	if s.Life.lastQueued {
		v.finishSending()
		return
	}
	if s.owner.CanResume() {
		v.demote(nil, true) // not here, because Resume takes locks of the owner
	}
}

// finishSending is finishIfSent in a loop. The caller holds the lock.
func (v loopVisit) finishSending() {
	s := v.s
	shutdownWrite(s.registration.fd) // if it fails, so will the read
	s.Life.lastSent = true
	s.Life.expireAt(time.Now().Add(LingerTime))
}

// demote gives the stream a reader again when the loop has finished serving it. The reader begins with rest,
// the unserved input. If more is false, it reads no frames. The caller holds the lock.
func (v loopVisit) demote(rest []byte, more bool) {
	s := v.s
	if s.registration.isServing {
		s.registration.needsReader = true
		return
	}
	s.registration.needsReader = false
	r := &s.reader
	if r.frame != nil {
		rest = r.frame.B
	}
	r.input.unread = append([]byte(nil), rest...)
	r.input.numReads++
	r.frame.free()
	r.frame = nil
	v.startReader(s.registration.takeSocket(), more && !s.registration.isDiscarding)
}

// startReader starts the reader of a stream whose socket fd is in no loop. The caller holds the lock.
func (v loopVisit) startReader(fd int, more bool) {
	s := v.s
	if s.registration.awaitsFirstFrame {
		s.registration.awaitsFirstFrame = false
		s.readerTask = s.owner.BeginInReader
	}
	s.registration.fd = -1
	// While there is no socket, no other goroutine may send.
	s.output.hasFlusher = true
	s.Life.numHelpers++
	go frameReader{s}.runReader(fd, more)
}

// closeSocket closes the socket of a stream in a loop. The caller holds the lock.
func (p *pollerRegistration) closeSocket() {
	p.loop.forgetSocket(p.fd) // the poller forgets a closed socket by itself
	closeSocket(p.fd)
	p.loop, p.fd = nil, -1
}

// takeSocket takes the socket out of the loop. The caller owns it from now on, and holds the lock.
func (p *pollerRegistration) takeSocket() (fd int) {
	fd = p.fd
	p.loop.removeStream(fd)
	p.loop, p.fd = nil, -1
	return fd
}

// runReader is the reader of an accepted stream that is in no loop.
func (f frameReader) runReader(fd int, more bool) {
	s := f.s
	sock := newFileSocket(fd)
	r := &s.reader
	s.Life.mu.Lock()
	s.socket, s.rawSocket, r.input.source = sock, rawOf(sock), sock
	r.deadlineDue, s.output.deadlineDue = 0, 0
	r.framesServed, r.promoteAfter = 0, PromoteAfterFrames
	switch {
	case s.Life.hasEnded:
		_ = sock.SetDeadline(pastDeadline)
	case s.Life.isOpen() || s.Life.lastSent: // until then its DropAfter ends it
		_ = sock.SetReadDeadline(s.Life.ExpiresAt()) // if it fails, so will the read
	}
	later := s.readerTask
	s.readerTask = nil
	s.Life.mu.Unlock()
	go func() { flusher{s}.flush(flusher{s}.batchSent(nil), 0) }() // flush also calls Resume if that is due
	s.Serve((later == nil || later()) && more)
}

// dropIfSilent drops a stream of the loop if its client has been silent for too long.
func (v loopVisit) dropIfSilent(l *loop, now time.Time) {
	s := v.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if s.registration.loop == l && !s.registration.isServing && (s.Life.isOpen() || s.Life.lastSent) &&
		now.After(s.Life.ExpiresAt()) {
		s.DropLocked(Idle)
	}
}
