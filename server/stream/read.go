package stream

import (
	"io"
	"time"

	"rollcall/jute"
)

// Serve hands the client's frames to the owner until the stream ends or is in a loop. If more is
// false, the owner takes no frames. The reader calls Serve as its last action.
func (s *Stream) Serve(more bool) {
	for more {
		if more = s.next(); more && s.promote() {
			return
		}
	}
	s.linger()
	s.leave()
}

// next serves one frame. It returns false once the reader has nothing more to do.
func (s *Stream) next() bool {
	frame, ok := s.ReadFrame()
	if !ok || !s.room() {
		return false
	}
	more := s.owner.Frame(frame)
	s.reader.served++
	if !s.reader.in.holdsFrame() || !more {
		s.Flush()
	}
	return more
}

// ReadFrame returns the next frame, which is valid until the next call. While it waits for a frame
// to begin, it holds no memory. If no frame comes, it ends the stream and returns false. Only the
// reader calls it. An owner may read the first frame with it before Serve.
func (s *Stream) ReadFrame() ([]byte, bool) {
	r := &s.reader
	if !r.in.holdsFrame() {
		s.arm()
	}
	if r.gate.in {
		r.frame = nil
		s.taken()
	}
	r.gate.begin()
	if len(r.in.rest) == 0 {
		r.frame.free()
		r.frame = nil
		if err := r.in.wait(); err != nil {
			return nil, s.Lost(err)
		}
	}
	if r.frame == nil {
		r.frame = takeBuffer()
	}
	b, err := jute.ReadFrame(&r.gate, r.frame.B, s.mostFrame())
	if err != nil {
		return nil, s.Lost(err)
	}
	r.framed = true
	r.frame.B = b
	s.group.BytesIn.Add(uint64(len(b) + LengthSize))
	return b, true
}

// mostFrame returns how many bytes the next frame may have.
func (s *Stream) mostFrame() int {
	if s.reader.framed {
		return s.group.MaxFrame
	}
	return s.group.MaxFirst
}

// Peek waits for the client's first four bytes and returns them without consuming them. If they do
// not come, it ends the stream and returns false. Only the reader calls it.
func (s *Stream) Peek() (word [4]byte, ok bool) {
	word, err := s.reader.in.word()
	if err != nil {
		return word, s.Lost(err)
	}
	return word, true
}

// Plain returns the stream after the four bytes of Peek, for an exchange without frames. Its
// methods block. Each write has the deadline of a client that has not been opened. Only the reader
// uses it, and no other goroutine sends meanwhile.
func (s *Stream) Plain() io.ReadWriter {
	s.reader.in.rest = s.reader.in.rest[4:]
	return plain{s}
}

type plain struct{ s *Stream }

func (p plain) Read(b []byte) (int, error) { return p.s.reader.in.Read(b) }

func (p plain) Write(b []byte) (int, error) {
	p.s.mu.Lock()
	p.s.armWrite(time.Now())
	p.s.mu.Unlock()
	return p.s.sock.Write(b)
}

// arm sets the deadline by which the client must be heard. It sets it once per tick and not for
// every frame.
func (s *Stream) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.opened() && !s.Closing() && now.Sub(s.reader.armed) > s.group.Tick {
		s.armRead(now)
	}
}

// armRead sets that deadline. The caller holds the lock.
func (s *Stream) armRead(now time.Time) {
	s.reader.armed, s.expires = now, now.Add(s.idleAfter())
	_ = s.sock.SetReadDeadline(s.expires) // if it fails, so will the read
}

// room waits until one more frame may be served: the stream is open, and not too many frames wait.
// It returns false if no more will be served.
func (s *Stream) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.Closing() && (!s.opened() || s.full()) {
		s.FlushLater() // the client may wait for what is queued
		s.changed.Wait()
	}
	return !s.Closing()
}

// full reports whether a frame must wait. If no frame waits and the client has taken what it was
// sent, the next frame is always served. The caller holds the lock.
func (s *Stream) full() bool {
	frames, bytes := s.owner.Waiting()
	if frames >= s.group.MaxInFlight || bytes >= MaxHeld || s.Unsent() >= HighWater {
		return true
	}
	held := s.account.held.Load()
	return held > 0 && (frames > 0 || s.Unsent() > 0) && !s.group.Budget.room(held, 0)
}
