package stream

import (
	"errors"
	"os"
	"time"
)

// output is what is queued to be sent, and the state of the goroutine that sends it.
type output struct {
	queued   *Buffer   // frames in the order the client must see; nil when empty
	sending  int       // bytes that the flusher is writing
	flushing bool      // a goroutine writes to the socket, or is about to
	noted    bool      // the owner knows that it has to call Flush
	written  time.Time // when the write deadline was last set; only the flusher uses it
}

// Unsent returns how many bytes the client has not taken. The caller holds the lock.
func (s *Stream) Unsent() int {
	if s.out.queued == nil {
		return s.out.sending
	}
	return s.out.queued.Size() + s.out.sending
}

// Output returns the buffer to which the caller appends whole frames. The caller holds the lock.
func (s *Stream) Output() *Buffer {
	if s.out.queued == nil {
		s.out.queued = takeBuffer()
	}
	return s.out.queued
}

// CheckUnread drops a client that leaves too much unread, and counts what it leaves. It is for
// frames that never wait, such as events. The caller holds the lock.
func (s *Stream) CheckUnread() {
	if s.Unsent() > s.group.MaxUnread {
		s.drop(SlowReader)
	}
	s.Count()
}

// NoteOutput reports whether the owner has to arrange a Flush for what is queued. That is so once
// between two flushes, and only if no flusher runs. The caller holds the lock.
func (s *Stream) NoteOutput() bool {
	if s.out.noted || s.out.flushing {
		return false
	}
	s.out.noted = true
	return true
}

// Flush sends what is queued, as much as it can without waiting. A flusher does the rest.
func (s *Stream) Flush() {
	batch, now := s.begin()
	if batch == nil {
		return
	}
	n := 0
	if now {
		n = writeNow(s.raw, batch.B[:min(len(batch.B), MaxWrite)])
		if n == len(batch.B) {
			batch, n = s.sent(batch), 0
		}
	}
	if batch != nil {
		go s.flush(batch, n)
	}
}

// begin makes the caller the goroutine that sends, and takes what is queued. now reports whether
// that may be written at once, without waiting. begin returns nil in three cases: nothing is
// queued, another goroutine sends already, or the stream is in a loop and begin has sent everything
// itself.
func (s *Stream) begin() (batch *Buffer, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.noted = false
	if s.seat.loop != nil {
		s.transmit()
		return nil, false
	}
	if s.end.dead || s.out.flushing || s.out.queued == nil {
		return nil, false
	}
	s.out.flushing = true
	s.helpers++
	batch = s.takeLocked()
	return batch, s.raw != nil && batch.extra == 0 && s.maySend(time.Now())
}

// FlushLater starts a flusher if there is anything to send and no flusher runs. The caller holds
// the lock.
func (s *Stream) FlushLater() {
	if s.end.dead || s.out.flushing || s.out.queued == nil {
		return
	}
	s.helpers++
	if s.seat.loop != nil {
		go s.flushAside()
		return
	}
	s.out.flushing = true
	go func() { s.flush(s.take(), 0) }()
}

// flushAside is Flush in a goroutine of its own.
func (s *Stream) flushAside() {
	s.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.helped()
}

// flush sends a batch whose first n bytes have been sent. After that it sends, in each further
// write, all that was queued meanwhile.
func (s *Stream) flush(batch *Buffer, n int) {
	for batch != nil {
		if why, ok := s.sendBatch(batch, n); !ok {
			batch.free()
			s.Drop(why)
			batch = s.take()
		} else {
			batch = s.sent(batch)
		}
		n = 0
	}
}

// sendBatch writes a batch except for its first n bytes. If that fails, it returns the reason why
// the stream ends.
func (s *Stream) sendBatch(batch *Buffer, n int) (why Reason, ok bool) {
	for piece := range batch.pieces(n) {
		if why, ok := s.send(piece); !ok {
			return why, false
		}
	}
	return 0, true
}

// sent is called after a batch has been sent. It returns the next one, as take does.
func (s *Stream) sent(batch *Buffer) (next *Buffer) {
	batch.free()
	if s.tookAll() {
		s.owner.Resume()
	}
	s.finishSent()
	return s.take()
}

// take returns what is queued. If that is nothing, take returns nil, the caller is no longer the
// flusher, and it returns.
func (s *Stream) take() *Buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked()
}

func (s *Stream) takeLocked() *Buffer {
	s.out.sending = 0
	s.Count()
	if s.out.queued == nil || s.end.dead {
		s.out.flushing = false
		s.helped()
		return nil
	}
	batch := s.out.queued
	s.out.queued = nil
	s.out.sending = batch.Size()
	return batch
}

// send writes b if the client may be sent anything. Each part has its own deadline. A client that
// takes nothing for its timeout is dropped.
func (s *Stream) send(b []byte) (why Reason, ok bool) {
	for len(b) > 0 {
		if !s.permitted(time.Now()) {
			return NotVouched, false
		}
		n, err := s.sock.Write(b[:min(len(b), MaxWrite)])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return SlowReader, false
		case err != nil:
			return ByClient, false
		}
		if b = b[n:]; n == MaxWrite {
			s.tookPart(n)
		}
	}
	return 0, true
}

// permitted asks the owner for its permit, and waits for that if necessary. If the owner permits,
// it sets the write deadline and returns true.
func (s *Stream) permitted(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maySend(now) {
		return true
	}
	s.mu.Unlock()
	ok := s.owner.AwaitPermit(s.life)
	s.mu.Lock()
	s.armWrite(now)
	return ok
}

// maySend asks the owner for its permit. If the owner permits, it sets the write deadline and
// returns true. The caller holds the lock, and is the goroutine that sends.
func (s *Stream) maySend(now time.Time) bool {
	if !s.owner.MaySend() {
		return false
	}
	s.armWrite(now)
	return true
}

// armWrite sets the deadline by which the client must take what is sent. It sets it once per tick
// and not for every write. A stream that has ended keeps its deadline. The caller holds the lock.
func (s *Stream) armWrite(now time.Time) {
	patience := s.timeout
	if !s.opened() {
		patience = s.group.Handshake
	}
	if tick := s.group.Tick; !s.end.dead && now.Sub(s.out.written) > tick {
		s.out.written = now
		_ = s.sock.SetWriteDeadline(now.Add(patience + tick)) // if it fails, so will the write
	}
}

// tookPart notes that the client has taken n bytes of the batch that is being sent.
func (s *Stream) tookPart(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.sending = max(0, s.out.sending-n)
	s.Count()
}

// tookAll notes that the client has taken what was sent, and reports whether Resume is due.
func (s *Stream) tookAll() (due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.sending = 0
	s.Count()
	s.changed.Broadcast()
	return !s.end.dead && s.owner.Due()
}
