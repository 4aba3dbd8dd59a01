package stream

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// account is what the budget records about a stream.
type account struct {
	held    atomic.Int64 // bytes that the budget counted for the stream last; changed under the stream's lock
	took    atomic.Int64 // when its client last sent or took any bytes, in nanoseconds since Init
	taking  int          // bytes of the frame that is being read, if it is long; else 0
	granted bool         // the budget has granted what the stream waited for
	keeps   atomic.Int64 // see Keep
	kept    atomic.Int64 // the part of held that is kept; changed under the stream's lock
}

// passing returns how many bytes the stream holds for a time. What is kept does not make a stream wait, because waiting would not free it.
func (a *account) passing() int64 { return a.held.Load() - a.kept.Load() }

// Keep counts n more bytes, or fewer if n is negative, that the owner keeps for the client for as long as the connection lasts. The
// budget learns of them with the next Count. Keep takes no lock.
func (s *Stream) Keep(n int64) { s.account.keeps.Add(n) }

// Keeps reports whether the owner keeps anything. It takes no lock.
func (s *Stream) Keeps() bool { return s.account.keeps.Load() != 0 }

// Count updates what the budget counts for the stream: bytes that the client has not taken, frames
// that wait at the owner, a long frame that is being read, and what the owner keeps. The owner calls it when the size of
// its waiting frames has changed. The caller holds the lock.
func (s *Stream) Count() {
	_, waiting := s.owner.Waiting()
	kept := s.account.keeps.Load()
	n := int64(s.Unsent()+waiting+s.account.taking) + kept
	if s.end.dead {
		n, kept = 0, 0
	}
	held := s.account.held.Load()
	d := n - held
	if d == 0 || d < AccountStep && d > -AccountStep && n != 0 {
		return
	}
	s.account.held.Store(n)
	if d < 0 || held == 0 {
		s.progress()
	}
	s.group.Budget.keep(kept - s.account.kept.Swap(kept))
	s.group.Budget.Add(d)
}

// progress notes that the client has sent or taken bytes.
func (s *Stream) progress() { s.account.took.Store(int64(time.Since(s.begun))) }

// HasRoom reports whether the budget has room for n more bytes of this stream. The caller holds the
// lock.
func (s *Stream) HasRoom(n int64) bool { return s.group.Budget.room(s.account.passing(), n) }

// Claim reports whether the stream may have n more bytes. If not, Resume is called when it may. A
// small n is always allowed. The caller holds the lock.
func (s *Stream) Claim(n int64) bool {
	return n < AccountStep || s.has(n)
}

// has reports whether the stream may have n more bytes. If not, the budget calls grant when it may.
// The caller holds the lock.
func (s *Stream) has(n int64) bool {
	if !s.account.granted && !s.HasRoom(n) {
		s.group.Budget.wait(s, n)
		return false
	}
	s.account.granted = false
	return true
}

// grant tells the stream that it may have the bytes for which it waited.
func (s *Stream) grant() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.granted = true
	s.changed.Broadcast()
	s.ResumeLater()
}

// takeIn counts the n bytes of a long frame before the reader reads the rest of it. It waits until
// the budget has room for them, and returns false if the stream has ended.
func (s *Stream) takeIn(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has(int64(n)) {
		s.Wait(func() bool { return !s.has(int64(n)) })
		if s.opened() && !s.end.dead { // the client was not read meanwhile
			s.armRead(time.Now())
		}
	}
	s.account.taking = n
	s.Count()
	return !s.end.dead
}

// taken ends what takeIn began: the memory of the frame is free again.
func (s *Stream) taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.taking = 0
	s.Count()
}

// gate is the io.Reader through which the reader reads a frame. When as many bytes of the frame
// have come as a loop would serve, gate counts the whole frame in the budget. A client that sends
// only a length therefore uses no budget, and a frame that has been counted never waits in the
// middle. Each further gateStep bytes of a counted frame are a sign of life.
type gate struct {
	s      *Stream
	length [LengthSize]byte
	got    int  // bytes of this frame so far, with its length
	in     bool // the frame is counted
}

// gateStep is also how many bytes of a frame may come before it is counted.
const gateStep = LoopBuffer

// begin makes the gate ready for the next frame.
func (g *gate) begin() { g.got, g.in = 0, false }

// Read implements io.Reader for jute.ReadFrame.
func (g *gate) Read(p []byte) (int, error) {
	if g.got >= gateStep && !g.in {
		if !g.s.takeIn(int(binary.BigEndian.Uint32(g.length[:]))) {
			return 0, net.ErrClosed
		}
		g.in = true
	}
	n, err := g.s.reader.in.Read(p[:min(len(p), gateStep-g.got%gateStep)])
	if g.got < LengthSize {
		copy(g.length[g.got:], p[:n])
	}
	if g.got += n; g.in && g.got%gateStep == 0 {
		g.s.progress()
	}
	return n, err
}
