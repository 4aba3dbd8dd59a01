package simulated

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxPipe limits the bytes that one direction of a connection holds before a write waits, like the
// buffers of two sockets.
const maxPipe = 256 << 10

var errReset = fmt.Errorf("simulated: %w", syscall.ECONNRESET)

// pipe is one direction of a connection: bytes in order, in pieces, each with the time from which
// it may be read. It is safe for one reader and one writer; faults may come from any goroutine.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond // signalled when any field below changes
	pieces  []piece
	size    int           // bytes in all pieces
	delay   time.Duration // for what is written from now on
	loss    *lossyLink    // nil: nothing is lost
	strait  *narrowLink   // the strait that it passes; nil: none
	held    bool          // nothing is delivered
	ended   time.Time     // from then on the reader sees the end after the pieces; zero: no end yet
	closed  bool          // the reader has closed its end
	gone    bool          // the writer has lost its end
	mute    bool          // written bytes are lost
	lost    bool          // the network has forgotten the connection: nothing arrives any more, not even the end
	broken  bool          // the connection was reset

	readBy, writeBy deadline
}

type piece struct {
	data []byte
	due  time.Time
}

// narrowLink is a link with a limited rate, shared by several pipes.
type narrowLink struct {
	rate int

	mu   sync.Mutex
	free time.Time // when everything sent so far will have passed
}

// passesAt returns when n bytes that are sent now will have passed.
func (s *narrowLink) passesAt(n int, now time.Time) time.Time {
	if s == nil {
		return now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(n) * time.Second / time.Duration(s.rate))
	return s.free
}

// deadline wakes goroutines that wait for a pipe when it has passed.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

func (p *pipe) readPieces(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case p.broken:
			return 0, errReset
		case p.closed:
			return 0, net.ErrClosed
		case p.readBy.hasPassed(now):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.held, p.lost:
		case len(p.pieces) > 0 && !p.pieces[0].due.After(now):
			n := copy(b, p.pieces[0].data)
			if p.pieces[0].data = p.pieces[0].data[n:]; len(p.pieces[0].data) == 0 {
				p.pieces = p.pieces[1:]
			}
			p.size -= n
			p.changed.Broadcast()
			return n, nil
		case len(p.pieces) > 0:
			p.waitUntil(p.pieces[0].due.Sub(now))
			continue
		case !p.ended.IsZero() && !p.ended.After(now):
			return 0, io.EOF
		case !p.ended.IsZero():
			p.waitUntil(p.ended.Sub(now))
			continue
		}
		p.changed.Wait()
	}
}

// waitUntil waits for a change, for at most d.
func (p *pipe) waitUntil(d time.Duration) {
	timer := time.AfterFunc(d, p.changed.Broadcast)
	defer timer.Stop()
	p.changed.Wait()
}

// hasEnded reports whether a reader who reads what has arrived finds the end after that.
func (p *pipe) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if n := len(p.pieces); n > 0 && p.pieces[n-1].due.After(now) {
		return false
	}
	return !p.held && !p.lost && !p.ended.IsZero() && !p.ended.After(now)
}

func (p *pipe) writePieces(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case p.broken, p.gone:
			return n, errReset
		case !p.ended.IsZero():
			return n, net.ErrClosed
		case p.writeBy.hasPassed(now):
			return n, os.ErrDeadlineExceeded
		case p.mute:
			return n + len(b), nil
		case p.closed:
			return n, io.ErrClosedPipe
		case len(b) == 0:
			return n, nil
		case p.size < maxPipe:
			k := min(len(b), maxPipe-p.size)
			p.appendPiece(b[:k], now)
			n, b = n+k, b[k:]
			continue
		}
		p.changed.Wait()
	}
}

// appendPiece appends a piece. It is never due before those in front of it.
func (p *pipe) appendPiece(b []byte, now time.Time) {
	due := p.strait.passesAt(len(b), p.loss.arrivalOf(now)).Add(p.delay)
	if n := len(p.pieces); n > 0 && p.pieces[n-1].due.After(due) {
		due = p.pieces[n-1].due
	}
	p.pieces = append(p.pieces, piece{append([]byte(nil), b...), due})
	p.size += len(b)
	p.changed.Broadcast()
}

// closeWriter ends the pipe after what was written.
func (p *pipe) closeWriter() {
	p.changeLocked(func() {
		if p.ended.IsZero() {
			p.ended = p.loss.arrivalOf(time.Now()).Add(p.delay)
		}
		p.writeBy.stopTimer()
	})
}

func (p *pipe) closeReader() {
	p.changeLocked(func() {
		p.closed = true
		p.readBy.stopTimer()
	})
}

func (p *pipe) resetPipe() {
	p.changeLocked(func() {
		p.broken, p.pieces, p.size = true, nil, 0
		p.readBy.stopTimer()
		p.writeBy.stopTimer()
	})
}

// orphanWriter takes the writer's end away. The reader receives nothing until late has passed.
func (p *pipe) orphanWriter(late time.Duration) {
	p.changeLocked(func() {
		then := time.Now().Add(late)
		for i := range p.pieces {
			p.pieces[i].due = then
		}
		// The end comes separately, because gRPC might drop what arrives together with it.
		p.gone, p.ended = true, then.Add(time.Millisecond)
		p.writeBy.stopTimer()
	})
}

// isLost reports whether nothing arrives any more.
func (p *pipe) isLost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// loseAll makes all bytes in flight, and all that are sent from now on, vanish.
func (p *pipe) loseAll() {
	p.changeLocked(func() { p.lost, p.mute, p.pieces, p.size = true, true, nil, 0 })
}

// limitRate sends what is written from now on through s. If s is nil, bytes in flight have arrived.
func (p *pipe) limitRate(s *narrowLink) {
	p.changeLocked(func() {
		if p.strait = s; s != nil {
			return
		}
		now := time.Now()
		for i := range p.pieces {
			if p.pieces[i].due.After(now.Add(p.delay)) {
				p.pieces[i].due = now.Add(p.delay)
			}
		}
	})
}

// swallowWrites makes writes succeed and vanish.
func (p *pipe) swallowWrites()            { p.changeLocked(func() { p.mute = true }) }
func (p *pipe) holdPieces(held bool)      { p.changeLocked(func() { p.held = held }) }
func (p *pipe) setLoss(by *lossyLink)     { p.changeLocked(func() { p.loss = by }) }
func (p *pipe) setDelay(by time.Duration) { p.changeLocked(func() { p.delay = by }) }
func (p *pipe) setReadDeadline(t time.Time) {
	p.changeLocked(func() { p.readBy.setTime(t, &p.changed) })
}

func (p *pipe) setWriteDeadline(t time.Time) {
	p.changeLocked(func() { p.writeBy.setTime(t, &p.changed) })
}
func (d *deadline) hasPassed(now time.Time) bool { return !d.at.IsZero() && !now.Before(d.at) }

func (p *pipe) changeLocked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

func (d *deadline) setTime(t time.Time, wake *sync.Cond) {
	d.stopTimer()
	d.at = t
	if left := time.Until(t); !t.IsZero() && left > 0 {
		d.timer = time.AfterFunc(left, wake.Broadcast)
	}
}

func (d *deadline) stopTimer() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
