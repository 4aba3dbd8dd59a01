package stream

import (
	"io"
	"time"

	"rollcall/zk/jute"
)

// Serve hands the client's frames to the owner until the stream ends or is in a loop. If more is false, the
// owner takes no frames. The reader calls Serve as its last action.
func (s *Stream) Serve(more bool) {
	reader := frameReader{s}
	for more {
		if more = reader.serveNext(); more && reader.promoteIfCalm() {
			return
		}
	}
	reader.linger()
	s.cleanUp()
}

// frameReader is the goroutine that reads a stream which is in no loop.
type frameReader struct{ s *Stream }

// serveNext serves one frame. It returns false once the reader has nothing more to do.
func (f frameReader) serveNext() bool {
	s := f.s
	frame, ok := s.ReadFrame()
	if !ok || !f.awaitRoom() {
		return false
	}
	more := s.owner.ServeFrame(frame)
	s.reader.framesServed++
	if !s.reader.input.holdsFrame() || !more {
		s.Flush()
	}
	return more
}

// ReadFrame returns the next frame, which is valid until the next call. While it waits for a frame to begin,
// it holds no memory. If no frame comes, it ends the stream and returns false. Only the reader calls it. An
// owner may read the first frame with it before Serve.
func (s *Stream) ReadFrame() ([]byte, bool) {
	f := frameReader{s}
	r := &s.reader
	if !r.input.holdsFrame() {
		f.armReadDeadline()
	}
	if r.gate.counted {
		r.frame = nil
		f.releaseFrame()
	}
	r.gate.reset()
	if len(r.input.unread) == 0 {
		r.frame.free()
		r.frame = nil
		if err := r.input.awaitByte(); err != nil {
			return nil, s.ReadFailed(err)
		}
	}
	if r.frame == nil {
		r.frame = takeBuffer()
	}
	b, err := jute.ReadFrame(&r.gate, r.frame.B, s.reader.maxNextFrame(s.group.Config))
	if err != nil {
		return nil, s.ReadFailed(err)
	}
	r.gotFirstFrame = true
	r.frame.B = b
	s.group.BytesIn.Add(uint64(len(b) + LengthSize))
	return b, true
}

// maxNextFrame returns the largest size of the next frame.
func (r *reader) maxNextFrame(cfg *Config) int {
	if r.gotFirstFrame {
		return cfg.MaxFrame
	}
	return cfg.MaxFirstFrame
}

// PeekWord waits for the client's first four bytes and returns them without consuming them. If they do not
// come, it ends the stream and returns false. Only the reader calls it.
func (s *Stream) PeekWord() (word [4]byte, ok bool) {
	word, err := s.reader.input.peekFourBytes()
	if err != nil {
		return word, s.ReadFailed(err)
	}
	return word, true
}

// Plain returns the stream after the four bytes of PeekWord, for an exchange without frames. Its methods
// block. Each write has the deadline of a client that has not been opened. Only the reader uses it, and no
// other goroutine sends meanwhile.
func (s *Stream) Plain() io.ReadWriter {
	s.reader.input.unread = s.reader.input.unread[4:]
	return plainConn{s}
}

type plainConn struct{ s *Stream }

func (p plainConn) Read(b []byte) (int, error) { return p.s.reader.input.Read(b) }

func (p plainConn) Write(b []byte) (int, error) {
	p.s.Life.mu.Lock()
	flusher(p).armWriteDeadline(time.Now())
	p.s.Life.mu.Unlock()
	return p.s.socket.Write(b)
}

// armReadDeadline sets the read deadline, once per tick and not for every frame.
func (f frameReader) armReadDeadline() {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if now := time.Now(); s.Life.isOpen() && !s.Life.isClosing() && s.Life.isDue(s.reader.deadlineDue, now) {
		f.setReadDeadline(now)
	}
}

// setReadDeadline sets the read deadline. The caller holds the lock.
func (f frameReader) setReadDeadline(now time.Time) {
	s := f.s
	s.Life.expireAt(now.Add(s.Life.maxSilence()))
	s.reader.deadlineDue = s.Life.nextTick(now)
	_ = s.socket.SetReadDeadline(s.Life.ExpiresAt()) // if it fails, so will the read
}

// awaitRoom waits until one more frame may be served: the stream is open, and not too many frames wait. It
// returns false if no more will be served.
func (f frameReader) awaitRoom() bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	for !s.Life.isClosing() && (!s.Life.isOpen() || s.mustWait()) {
		s.FlushLater() // the client may wait for what is queued
		s.Life.changed.await(&s.Life.mu)
	}
	return !s.Life.isClosing()
}

// mustWait reports whether a frame must wait. If no frame waits and the client has taken its output, the next
// frame is always served. The caller holds the lock.
func (s *Stream) mustWait() bool {
	frames, bytes := s.owner.WaitingFrames()
	if frames >= s.group.MaxInFlight || bytes >= MaxWaitingBytes || s.UnsentBytes() >= HighWater {
		return true
	}
	held := s.Account.heldBytes.Load()
	return held > 0 && (frames > 0 || s.UnsentBytes() > 0) && !s.group.Budget.hasRoom(held, 0)
}

// discardInput reads and drops input, within bounds. It releases the reader's large buffer first, because
// very many clients may close at the same time, and each of them has LingerTime.
func (f frameReader) discardInput() {
	s := f.s
	n := len(s.reader.input.unread)
	s.reader.input.free()
	var scrap [512]byte
	for n < LingerBytes {
		k, err := s.reader.input.source.Read(scrap[:])
		if n += k; err != nil {
			return
		}
	}
}

// linger waits until the last reply is sent and the client has closed its side, and drops input meanwhile,
// within bounds. If the client has gone, it waits for the reply no longer than a client may be silent.
func (f frameReader) linger() {
	s := f.s
	s.reader.frame.free()
	s.reader.frame = nil
	if !s.Life.isAlive() {
		return
	}
	f.discardInput()
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	timer := time.AfterFunc(s.Life.maxSilence(), func() { s.Drop(Idle) })
	defer timer.Stop()
	for !s.Life.hasEnded && !s.Life.lastSent {
		s.Life.changed.await(&s.Life.mu)
	}
	s.DropLocked(s.Life.endReason)
}
