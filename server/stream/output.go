package stream

import (
	"errors"
	"os"
	"time"
)

// output is what is queued to be sent, and the state of the goroutine that sends it. The connection's lock guards it.
type output struct {
	queued   *Buffer   // frames in the order the client must see; nil when empty
	sending  int       // bytes that the flusher is writing
	flushing bool      // a goroutine writes to the socket, or is about to
	noted    bool      // the owner knows that it has to call Flush
	written  time.Time // when the write deadline was last set; only the flusher uses it
}

// unsent returns the number of bytes that the client has not taken.
func (o *output) unsent() int {
	if o.queued == nil {
		return o.sending
	}
	return o.queued.Size() + o.sending
}

// buffer returns the buffer to append to.
func (o *output) buffer() *Buffer {
	if o.queued == nil {
		o.queued = takeBuffer()
	}
	return o.queued
}

// note reports whether the owner has to arrange a flush. That is so once between two flushes, and only if no flusher runs.
func (o *output) note() bool {
	if o.noted || o.flushing {
		return false
	}
	o.noted = true
	return true
}

// take takes what is queued, to be sent by a flusher.
func (o *output) take() *Buffer {
	batch := o.queued
	o.queued = nil
	o.sending = batch.Size()
	return batch
}

// drop gives the memory of the output back.
func (o *output) drop() {
	o.queued.free()
	o.queued = nil
}

// Unsent returns the number of bytes that the client has not taken. The caller holds the lock.
func (s *Stream) Unsent() int { return s.out.unsent() }

// Output returns the buffer to which the caller appends whole frames. The caller holds the lock.
func (s *Stream) Output() *Buffer {
	return s.out.buffer()
}

// flusher is the goroutine that sends the output of a stream. One runs at a time (output.flushing).
type flusher struct{ s *Stream }

// CheckUnread drops a client that leaves too much unread, and counts what it leaves. It is for
// frames that never wait, such as events. The caller holds the lock.
func (s *Stream) CheckUnread() {
	if s.Unsent() > s.group.MaxUnread {
		s.DropLocked(SlowReader)
	}
	s.Count()
}

// NoteOutput reports whether the owner has to arrange a Flush for what is queued. That is so once
// between two flushes, and only if no flusher runs. The caller holds the lock.
func (s *Stream) NoteOutput() bool {
	return s.out.note()
}

// Flush sends what is queued, as much as it can without waiting. A flusher does the rest.
func (s *Stream) Flush() {
	batch, now := flusher{s}.begin()
	if batch == nil {
		return
	}
	n := 0
	if now {
		n = writeNow(s.raw, batch.B[:min(len(batch.B), MaxWrite)])
		if n == len(batch.B) {
			batch, n = flusher{s}.sent(batch), 0
		}
	}
	if batch != nil {
		go flusher{s}.flush(batch, n)
	}
}

// begin makes the caller the goroutine that sends, and takes what is queued. now reports whether
// that may be written at once, without waiting. begin returns nil in three cases: nothing is
// queued, another goroutine sends already, or the stream is in a loop and begin has sent everything
// itself.
func (f flusher) begin() (batch *Buffer, now bool) {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.out.noted = false
	if s.registration.loop != nil {
		loopVisit{s}.transmit()
		return nil, false
	}
	if s.Life.dead || s.out.flushing || s.out.queued == nil {
		return nil, false
	}
	s.out.flushing = true
	s.Life.helpers++
	batch = f.takeLocked()
	return batch, s.raw != nil && batch.extra == 0 && f.maySend(time.Now())
}

// FlushLater starts a flusher if there is anything to send and no flusher runs. The caller holds
// the lock.
func (s *Stream) FlushLater() {
	if s.Life.dead || s.out.flushing || s.out.queued == nil {
		return
	}
	s.Life.helpers++
	if s.registration.loop != nil {
		go flusher{s}.flushAside()
		return
	}
	s.out.flushing = true
	go func() { flusher{s}.flush(flusher{s}.take(), 0) }()
}

// flushAside is Flush in a goroutine of its own.
func (f flusher) flushAside() {
	s := f.s
	s.Flush()
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Life.helped()
}

// flush sends a batch whose first n bytes have been sent. After that it sends, in each further
// write, all that was queued meanwhile.
func (f flusher) flush(batch *Buffer, n int) {
	s := f.s
	for batch != nil {
		if why, ok := f.sendBatch(batch, n); !ok {
			batch.free()
			s.Drop(why)
			batch = f.take()
		} else {
			batch = f.sent(batch)
		}
		n = 0
	}
}

// sendBatch writes a batch except for its first n bytes. If that fails, it returns the reason why
// the stream ends.
func (f flusher) sendBatch(batch *Buffer, n int) (why Reason, ok bool) {
	for piece := range batch.pieces(n) {
		if why, ok := f.send(piece); !ok {
			return why, false
		}
	}
	return 0, true
}

// sent is called after a batch has been sent. It returns the next one, as take does.
func (f flusher) sent(batch *Buffer) (next *Buffer) {
	s := f.s
	batch.free()
	if f.tookAll() {
		s.owner.Resume()
	}
	f.finishSent()
	return f.take()
}

// take returns what is queued. If that is nothing, take returns nil, the caller is no longer the
// flusher, and it returns.
func (f flusher) take() *Buffer {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	return f.takeLocked()
}

func (f flusher) takeLocked() *Buffer {
	s := f.s
	s.out.sending = 0
	s.Count()
	if s.out.queued == nil || s.Life.dead {
		s.out.flushing = false
		s.Life.helped()
		return nil
	}
	return s.out.take()
}

// send writes b if the client may be sent anything. Each part has its own deadline. A client that
// takes nothing for its timeout is dropped.
func (f flusher) send(b []byte) (why Reason, ok bool) {
	s := f.s
	for len(b) > 0 {
		if !f.permitted(time.Now()) {
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
			f.tookPart(n)
		}
	}
	return 0, true
}

// permitted asks the owner for its permit, and waits for that if necessary. If the owner permits,
// it sets the write deadline and returns true.
func (f flusher) permitted(now time.Time) bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if f.maySend(now) {
		return true
	}
	s.Life.mu.Unlock()
	ok := s.owner.AwaitPermit(s.Life.done)
	s.Life.mu.Lock()
	f.armWrite(now)
	return ok
}

// maySend asks the owner for its permit. If the owner permits, it sets the write deadline and
// returns true. The caller holds the lock, and is the goroutine that sends.
func (f flusher) maySend(now time.Time) bool {
	s := f.s
	if !s.owner.MaySend() {
		return false
	}
	f.armWrite(now)
	return true
}

// armWrite sets the deadline by which the client must take what is sent. It sets it once per tick
// and not for every write. A stream that has ended keeps its deadline. The caller holds the lock.
func (f flusher) armWrite(now time.Time) {
	s := f.s
	patience := s.Life.timeout
	if !s.Life.opened() {
		patience = s.group.Handshake
	}
	if tick := s.group.Tick; !s.Life.dead && now.Sub(s.out.written) > tick {
		s.out.written = now
		_ = s.sock.SetWriteDeadline(now.Add(patience + tick)) // if it fails, so will the write
	}
}

// tookPart notes that the client has taken n bytes of the batch that is being sent.
func (f flusher) tookPart(n int) {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.out.sending = max(0, s.out.sending-n)
	s.Count()
}

// tookAll notes that the client has taken what was sent, and reports whether Resume is due.
func (f flusher) tookAll() (due bool) {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.out.sending = 0
	s.Count()
	s.Life.changed.Broadcast()
	return !s.Life.dead && s.owner.Due()
}

// allSent reports whether the last reply has been sent. Only the goroutine that sends calls it.
func (f flusher) allSent() bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	return s.Life.last && !s.Life.dead && s.out.queued == nil
}

// finishSent closes the sending side if the last reply has been sent. The reader then waits until
// the client closes its side.
func (f flusher) finishSent() {
	s := f.s
	if !f.allSent() {
		return
	}
	half, ok := s.sock.(interface{ CloseWrite() error })
	ok = ok && half.CloseWrite() == nil // without the lock: TLS sends an alert
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Life.finished = true
	if !ok {
		s.DropLocked(s.Life.why)
	}
	if !s.Life.dead {
		_ = s.sock.SetReadDeadline(time.Now().Add(LingerTime)) // if it fails, so will the read
	}
	s.Life.changed.Broadcast()
}
