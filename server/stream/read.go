package stream

import (
	"io"
	"time"

	"rollcall/zk/jute"
)

// Serve hands the client's frames to the owner until the stream ends or is in a loop. If more is
// false, the owner takes no frames. The reader calls Serve as its last action.
func (s *Stream) Serve(more bool) {
	reader := frameReader{s}
	for more {
		if more = reader.next(); more && reader.promote() {
			return
		}
	}
	reader.linger()
	s.leave()
}

// ReadFrame returns the next frame, which is valid until the next call. While it waits for a frame
// to begin, it holds no memory. If no frame comes, it ends the stream and returns false. Only the
// reader calls it. An owner may read the first frame with it before Serve.
func (s *Stream) ReadFrame() ([]byte, bool) { return frameReader{s}.readFrame() }

// frameReader is the goroutine that reads a stream which is in no loop.
type frameReader struct{ s *Stream }

// next serves one frame. It returns false once the reader has nothing more to do.
func (f frameReader) next() bool {
	s := f.s
	frame, ok := f.readFrame()
	if !ok || !f.room() {
		return false
	}
	more := s.owner.Frame(frame)
	s.reader.served++
	if !s.reader.in.holdsFrame() || !more {
		s.Flush()
	}
	return more
}

// readFrame is Stream.ReadFrame.
func (f frameReader) readFrame() ([]byte, bool) {
	s := f.s
	r := &s.reader
	if !r.in.holdsFrame() {
		f.arm()
	}
	if r.gate.in {
		r.frame = nil
		f.taken()
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
	b, err := jute.ReadFrame(&r.gate, r.frame.B, s.reader.mostFrame(s.group.Config))
	if err != nil {
		return nil, s.Lost(err)
	}
	r.framed = true
	r.frame.B = b
	s.group.BytesIn.Add(uint64(len(b) + LengthSize))
	return b, true
}

// mostFrame returns the number of bytes that the next frame may have.
func (r *reader) mostFrame(cfg *Config) int {
	if r.framed {
		return cfg.MaxFrame
	}
	return cfg.MaxFirst
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
	p.s.Life.mu.Lock()
	flusher(p).armWrite(time.Now())
	p.s.Life.mu.Unlock()
	return p.s.sock.Write(b)
}

// arm sets the deadline by which the client must be heard. It sets it once per tick and not for
// every frame.
func (f frameReader) arm() {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if now := time.Now(); s.Life.opened() && !s.Life.closing() && now.Sub(s.reader.armed) > s.group.Tick {
		f.armRead(now)
	}
}

// armRead sets that deadline. The caller holds the lock.
func (f frameReader) armRead(now time.Time) {
	s := f.s
	s.reader.armed, s.Life.expires = now, now.Add(s.Life.idleAfter())
	_ = s.sock.SetReadDeadline(s.Life.expires) // if it fails, so will the read
}

// room waits until one more frame may be served: the stream is open, and not too many frames wait.
// It returns false if no more will be served.
func (f frameReader) room() bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	for !s.Life.closing() && (!s.Life.opened() || s.full()) {
		s.FlushLater() // the client may wait for what is queued
		s.Life.changed.Wait()
	}
	return !s.Life.closing()
}

// full reports whether a frame must wait. If no frame waits and the client has taken what it was
// sent, the next frame is always served. The caller holds the lock.
func (s *Stream) full() bool {
	frames, bytes := s.owner.Waiting()
	if frames >= s.group.MaxInFlight || bytes >= MaxHeld || s.Unsent() >= HighWater {
		return true
	}
	held := s.Account.held.Load()
	return held > 0 && (frames > 0 || s.Unsent() > 0) && !s.group.Budget.room(held, 0)
}

// dropInput reads and drops what the client sends, within bounds. It gives the reader's large buffer back first,
// because very many clients may close at the same time, and each of them has LingerTime.
func (f frameReader) dropInput() {
	s := f.s
	n := len(s.reader.in.rest)
	s.reader.in.free()
	var scrap [512]byte
	for n < LingerBytes {
		k, err := s.reader.in.src.Read(scrap[:])
		if n += k; err != nil {
			return
		}
	}
}

// linger waits until the last reply is sent and the client has closed its side. It reads and drops
// what the client sends meanwhile, within bounds. If the client has gone, it waits for the reply no
// longer than a client may be silent.
func (f frameReader) linger() {
	s := f.s
	s.reader.frame.free()
	s.reader.frame = nil
	if !s.Life.alive() {
		return
	}
	f.dropInput()
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	timer := time.AfterFunc(s.Life.idleAfter(), func() { s.Drop(Idle) })
	defer timer.Stop()
	for !s.Life.dead && !s.Life.finished {
		s.Life.changed.Wait()
	}
	s.DropLocked(s.Life.why)
}
