package stream

import (
	"errors"
	"net"
	"os"
	"time"
)

// Held is a frame that its owner serves later. Only the stream's reader calls its methods, without the lock.
type Held interface {
	// Wait returns how much longer the frame is held; 0 or less: not at all. aheadFull reports that no more of the client's input is
	// read meanwhile.
	Wait(aheadFull bool) time.Duration
	// Woken returns a channel that gets a value when Wait is to be called again.
	Woken() <-chan struct{}
	// SeeAhead sees a whole frame behind the held one, once, and decides about it. The frame is valid until SeeAhead returns.
	SeeAhead(frame []byte) Ahead
	// MayOutliveClient reports whether the frame is served although its client has closed the connection.
	MayOutliveClient() bool
	// Over is called when nothing is held any more. After it, nobody may call Waker.Interrupt.
	Over()
}

// Ahead is an owner's decision about a frame that came behind a held one.
type Ahead int

const (
	AheadWaits  Ahead = iota // for its turn
	AheadServed              // it is served, and not handed over again
	AheadLast                // it waits for its turn, and is served even if the client goes away
)

// HoldEnd is the end of a Hold.
type HoldEnd int

const (
	HoldOver    HoldEnd = iota // the frame is to be served now
	HoldSkipped                // the client is gone, and its last frame is the next one
	HoldEnded                  // the stream has ended
)

// Hold holds back the frame that the reader has handed over, as long as held wants. It reads what the client sends meanwhile, up to readSize
// bytes, so that frames that need not wait, such as pings, are served, and that the client's end is noticed. A client that is silent for too
// long is dropped, as ever. The time in which it is not read, because it has sent so much, is no silence. Only the reader calls it, from ServeFrame or from the f of LeaveToReader.
func Hold(s *Stream, held Held) HoldEnd {
	s.Flush() // the client may wait for earlier replies
	a := aheadReader{s: s, held: held, last: -1}
	a.see()
	end := a.wait()
	held.Over()
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.reader.deadlineDue = 0 // the next wait for input sets it
	if !s.Life.hasEnded && !s.Life.lastSent {
		if a.restedFull { // the client was not read meanwhile
			s.Life.expireAt(time.Now().Add(s.Life.maxSilence()))
		}
		_ = s.socket.SetReadDeadline(s.Life.ExpiresAt()) // if it fails, so will the read
	}
	return end
}

// Waker wakes the reader in a Hold without the stream's lock, so that its caller may hold another stream's.
type Waker struct{ sock socket }

// WakerOf returns the Waker of the reader's present socket. Only the reader calls it, before Hold; it is valid until Held.Over.
func WakerOf(s *Stream) Waker { return Waker{s.socket} }

// Interrupt ends the present read of Hold, which then looks at Held.Woken. It never blocks.
func (w Waker) Interrupt() { _ = w.sock.SetReadDeadline(pastDeadline) } // if it fails, so does the read

// aheadReader reads behind a held frame.
type aheadReader struct {
	s    *Stream
	held Held
	seen int  // bytes of the unread input whose frames the owner has seen, and that wait
	last int  // place in them of the client's last frame; -1: none
	gone bool // the client has closed the connection

	restedFull bool // for a time it did not read, because the input was full
}

func (a *aheadReader) wait() HoldEnd {
	for {
		if !a.s.Life.isAlive() {
			return HoldEnded
		}
		d := a.held.Wait(a.isFull())
		switch {
		case d <= 0:
			return HoldOver
		case a.gone && a.last >= 0 && !a.held.MayOutliveClient():
			a.skipToLast()
			return HoldSkipped
		case a.gone && !a.held.MayOutliveClient():
			a.s.ReadFailed(net.ErrClosed)
			return HoldEnded
		case a.gone || a.isFull():
			a.restedFull = a.restedFull || !a.gone
			a.rest(d)
		case !a.readFor(d):
			return HoldEnded
		}
	}
}

// isFull reports whether no more input is read ahead.
func (a *aheadReader) isFull() bool { return len(a.s.reader.input.unread) >= readSize }

// rest waits without reading.
func (a *aheadReader) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.held.Woken():
	case <-a.s.Life.context.Done():
	}
}

// readFor reads once, or waits for d. It returns false if the stream has ended.
func (a *aheadReader) readFor(d time.Duration) bool {
	if !a.arm(d) {
		return false
	}
	select {
	case <-a.held.Woken(): // before the deadline was set
		return true
	default:
	}
	n, err := a.s.reader.input.readAhead()
	switch {
	case n > 0:
		if a.see() { // as everywhere, a part of a frame is no sign of life
			a.noteSignOfLife()
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a.dropIfSilent()
	case err != nil:
		a.gone = true
	}
	return true
}

// arm sets the read deadline to the end of the wait, or to the time at which a silent client is dropped.
func (a *aheadReader) arm(d time.Duration) bool {
	s := a.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	until := time.Now().Add(d)
	if end := s.Life.ExpiresAt(); end.Before(until) {
		until = end
	}
	if !s.Life.hasEnded {
		_ = s.socket.SetReadDeadline(until) // if it fails, so will the read
	}
	return !s.Life.hasEnded
}

// dropIfSilent drops the stream if its client is silent for too long, and returns false then.
func (a *aheadReader) dropIfSilent() bool {
	s := a.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if !s.Life.hasEnded && !time.Now().Before(s.Life.ExpiresAt()) {
		s.DropLocked(Idle)
	}
	return !s.Life.hasEnded
}

// see shows the owner each whole frame that it has not seen, and takes those that it serves out of the input. It reports whether there
// were any frames.
func (a *aheadReader) see() (any bool) {
	unread := a.s.reader.input.unread
	to, from, served := a.seen, a.seen, false
	for {
		n := wholeFrameSize(unread[from:], a.s.group.MaxFrame)
		if n == 0 {
			break
		}
		any = true
		frame := unread[from : from+n]
		from += n
		switch a.held.SeeAhead(frame[LengthSize:]) {
		case AheadServed:
			a.s.group.BytesIn.Add(uint64(n))
			served = true
			continue
		case AheadLast:
			a.last = to
		}
		to += copy(unread[to:], frame)
	}
	a.seen = to
	a.s.reader.input.unread = unread[:to+copy(unread[to:], unread[from:])]
	if served {
		a.s.Flush()
	}
	return any
}

// noteSignOfLife renews the time that the client may be silent.
func (a *aheadReader) noteSignOfLife() {
	s := a.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Life.expireAt(time.Now().Add(s.Life.maxSilence()))
}

// skipToLast drops the input before the client's last frame.
func (a *aheadReader) skipToLast() {
	in := &a.s.reader.input
	in.unread = in.unread[a.last:]
}

// readAhead reads once from the source, behind the unread input, which has less than readSize bytes. While there is none, it waits with the
// small buffer, because very many clients may be slowed at the same time.
func (in *input) readAhead() (n int, err error) {
	if len(in.unread) == 0 {
		if in.pooledBuffer != nil {
			readBufferPool.Put(in.pooledBuffer)
			in.pooledBuffer = nil
		}
		peek := in.peeked()
		n, err = in.readSource(peek)
		in.unread = peek[:n]
		return n, err
	}
	if in.pooledBuffer == nil {
		in.pooledBuffer = readBufferPool.Get().(*[readSize]byte)
	}
	kept := copy(in.pooledBuffer[:], in.unread)
	n, err = in.readSource(in.pooledBuffer[kept:])
	in.unread = in.pooledBuffer[:kept+n]
	return n, err
}
