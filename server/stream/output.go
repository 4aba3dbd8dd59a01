package stream

import (
	"errors"
	"os"
	"time"
)

// output is the queued output, and the state of the goroutine that sends it. The connection's lock guards it.
type output struct {
	queued       *Buffer // frames in the order the client must see; nil when empty
	sendingBytes int
	hasFlusher   bool          // a goroutine writes to the socket, or is about to
	flushClaimed bool          // the owner has arranged a Flush
	deadlineDue  time.Duration // from the stream's start until the write deadline is set again; only the flusher uses it
}

func (o *output) unsentBytes() int {
	if o.queued == nil {
		return o.sendingBytes
	}
	return o.queued.Size() + o.sendingBytes
}

// takeBatch takes the queued output for a flusher.
func (o *output) takeBatch() *Buffer {
	batch := o.queued
	o.queued = nil
	o.sendingBytes = batch.Size()
	return batch
}

func (o *output) release() {
	o.queued.free()
	o.queued = nil
}

// UnsentBytes returns the number of bytes that the client has not taken. The caller holds the lock.
func (s *Stream) UnsentBytes() int { return s.output.unsentBytes() }

// IsSending reports whether the socket has not taken all output whose sending has begun. The caller holds the lock.
func (s *Stream) IsSending() bool { return s.output.sendingBytes > 0 }

// Output returns the buffer to which the caller appends whole frames. The caller holds the lock.
func (s *Stream) Output() *Buffer {
	if s.output.queued == nil {
		s.output.queued = takeBuffer()
	}
	return s.output.queued
}

// flusher is the goroutine that sends the output of a stream. One runs at a time (output.hasFlusher).
type flusher struct{ s *Stream }

// LimitUnread drops a client that leaves too much unread, and counts its unread bytes. It is for frames that
// never wait, such as events. The caller holds the lock.
func (s *Stream) LimitUnread() {
	if s.UnsentBytes() > s.group.MaxUnread {
		s.DropLocked(SlowReader)
	}
	s.UpdateAccount()
}

// ClaimFlush reports whether the owner has to arrange a Flush for the queued output: once between two
// flushes, and only if no flusher runs. The caller holds the lock.
func (s *Stream) ClaimFlush() bool {
	if s.output.flushClaimed || s.output.hasFlusher {
		return false
	}
	s.output.flushClaimed = true
	return true
}

// Flush sends as much of the queued output as it can without waiting. A flusher does the rest.
func (s *Stream) Flush() {
	batch, now := flusher{s}.beginFlush()
	if batch == nil {
		return
	}
	n := 0
	if now {
		n = writeNow(s.rawSocket, batch.B[:min(len(batch.B), MaxWrite)])
		if n == len(batch.B) {
			batch, n = flusher{s}.batchSent(batch), 0
		}
	}
	if batch != nil {
		go flusher{s}.flush(batch, n)
	}
}

// beginFlush makes the caller the goroutine that sends, and takes the queued output. now reports whether the
// output may be written at once, without waiting. beginFlush returns nil if nothing is queued, if another
// goroutine sends already, or if the stream is in a loop and beginFlush has sent everything itself.
func (f flusher) beginFlush() (batch *Buffer, now bool) {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.output.flushClaimed = false
	if s.registration.loop != nil {
		loopVisit{s}.sendOrDemote()
		return nil, false
	}
	if s.Life.hasEnded || s.output.hasFlusher || s.output.queued == nil {
		return nil, false
	}
	s.output.hasFlusher = true
	s.Life.numHelpers++
	batch = f.nextBatchOrStopLocked()
	return batch, s.rawSocket != nil && batch.insertedBytes == 0 && f.armIfPermitted(time.Now())
}

// FlushLater starts a flusher if there is anything to send and no flusher runs. The caller holds the lock.
func (s *Stream) FlushLater() {
	if s.Life.hasEnded || s.output.hasFlusher || s.output.queued == nil {
		return
	}
	s.Life.numHelpers++
	if s.registration.loop != nil {
		go flusher{s}.flushInHelper()
		return
	}
	s.output.hasFlusher = true
	go func() { flusher{s}.flush(flusher{s}.nextBatchOrStop(), 0) }()
}

// flushInHelper is Flush in a goroutine of its own.
func (f flusher) flushInHelper() {
	s := f.s
	s.Flush()
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Life.helperDone()
}

// flush sends a batch whose first n bytes have been sent. After that it sends, in each further write, all
// that was queued meanwhile.
func (f flusher) flush(batch *Buffer, n int) {
	s := f.s
	for batch != nil {
		if why, ok := f.sendBatch(batch, n); !ok {
			batch.free()
			s.Drop(why)
			batch = f.nextBatchOrStop()
		} else {
			batch = f.batchSent(batch)
		}
		n = 0
	}
}

// sendBatch writes a batch except for its first n bytes. If that fails, it returns the reason for the
// stream's end.
func (f flusher) sendBatch(batch *Buffer, n int) (why Reason, ok bool) {
	for piece := range batch.pieces(n) {
		if why, ok := f.sendPiece(piece); !ok {
			return why, false
		}
	}
	return 0, true
}

// batchSent is called after a batch has been sent. It returns the next one, as nextBatchOrStop does.
func (f flusher) batchSent(batch *Buffer) (next *Buffer) {
	s := f.s
	batch.free()
	if f.noteAllTaken() {
		s.owner.Resume()
	}
	f.finishIfSent()
	return f.nextBatchOrStop()
}

// nextBatchOrStop returns the queued output. If there is none, it returns nil, and the caller is no longer the
// flusher.
func (f flusher) nextBatchOrStop() *Buffer {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	return f.nextBatchOrStopLocked()
}

func (f flusher) nextBatchOrStopLocked() *Buffer {
	s := f.s
	s.output.sendingBytes = 0
	s.UpdateAccount()
	if s.output.queued == nil || s.Life.hasEnded {
		s.output.hasFlusher = false
		s.Life.helperDone()
		return nil
	}
	return s.output.takeBatch()
}

// sendPiece writes b if the owner permits. Each part has its own deadline. A client that takes nothing for
// its timeout is dropped.
func (f flusher) sendPiece(b []byte) (why Reason, ok bool) {
	s := f.s
	for len(b) > 0 {
		if !f.awaitPermit(time.Now()) {
			return NotVouched, false
		}
		n, err := s.socket.Write(b[:min(len(b), MaxWrite)])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return SlowReader, false
		case err != nil:
			return ByClient, false
		}
		if b = b[n:]; n == MaxWrite {
			f.notePartTaken(n)
		}
	}
	return 0, true
}

// awaitPermit waits for the owner's permit if necessary. If the owner permits, it sets the write deadline and
// returns true.
func (f flusher) awaitPermit(now time.Time) bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if f.armIfPermitted(now) {
		return true
	}
	s.Life.mu.Unlock()
	ok := s.owner.AwaitPermit(&s.Life.context)
	s.Life.mu.Lock()
	f.armWriteDeadline(now)
	return ok
}

// armIfPermitted reports whether the owner permits sending now, and if so sets the write deadline. The caller
// holds the lock, and is the goroutine that sends.
func (f flusher) armIfPermitted(now time.Time) bool {
	s := f.s
	if !s.owner.MaySend() {
		return false
	}
	f.armWriteDeadline(now)
	return true
}

// armWriteDeadline sets the deadline by which the client must take the output, once per tick and not for
// every write. A stream that has ended keeps its deadline. The caller holds the lock.
func (f flusher) armWriteDeadline(now time.Time) {
	s := f.s
	patience := s.Life.timeout
	if !s.Life.isOpen() {
		patience = s.group.HandshakeTimeout
	}
	if !s.Life.hasEnded && s.Life.isDue(s.output.deadlineDue, now) {
		s.output.deadlineDue = s.Life.nextTick(now)
		_ = s.socket.SetWriteDeadline(now.Add(patience + s.group.Tick)) // if it fails, so will the write
	}
}

// notePartTaken notes that the client has taken n bytes of the batch that is being sent.
func (f flusher) notePartTaken(n int) {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.output.sendingBytes = max(0, s.output.sendingBytes-n)
	s.UpdateAccount()
}

// noteAllTaken notes that the client has taken the batch, and reports whether Resume is due.
func (f flusher) noteAllTaken() (due bool) {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.output.sendingBytes = 0
	s.owner.OutputTaken()
	s.UpdateAccount()
	s.Life.changed.Broadcast()
	return !s.Life.hasEnded && s.owner.CanResume()
}

// lastReplySent reports whether the last reply has been sent. Only the goroutine that sends calls it.
func (f flusher) lastReplySent() bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	return s.Life.lastQueued && !s.Life.hasEnded && s.output.queued == nil
}

// finishIfSent closes the sending side if the last reply has been sent. The reader then waits until the
// client closes its side.
func (f flusher) finishIfSent() {
	s := f.s
	if !f.lastReplySent() {
		return
	}
	half, ok := s.socket.(interface{ CloseWrite() error })
	ok = ok && half.CloseWrite() == nil // without the lock: TLS sends an alert
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Life.lastSent = true
	if !ok {
		s.DropLocked(s.Life.endReason)
	}
	if !s.Life.hasEnded {
		_ = s.socket.SetReadDeadline(time.Now().Add(LingerTime)) // if it fails, so will the read
	}
	s.Life.changed.Broadcast()
}
