package stream

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// account is what the budget knows of a stream.
type account struct {
	held    atomic.Int64 // bytes that the stream was last counted with; changed under the stream's lock
	took    atomic.Int64 // when its client last sent or took some of them, in nanoseconds since Init
	taking  int          // bytes of the frame that is being read, if it is a long one
	granted bool         // the budget has room for what the stream waited for
}

// Count tells the budget what the stream holds: what the client has not taken, the owner's frames that
// wait, and a long one that is being read. The owner calls it when what its frames hold has changed.
// The caller holds the lock.
func (s *Stream) Count() {
	_, waiting := s.owner.Waiting()
	n := int64(s.Unsent() + waiting + s.account.taking)
	if s.end.dead {
		n = 0
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
	s.group.Budget.Add(d)
}

// progress notes that the client has sent or taken something.
func (s *Stream) progress() { s.account.took.Store(int64(time.Since(s.begun))) }

// HasRoom reports whether the budget has room for n bytes more of this stream. The caller holds the
// lock.
func (s *Stream) HasRoom(n int64) bool { return s.group.Budget.room(s.account.held.Load(), n) }

// Claim reports whether the stream may have n bytes more. If not, Resume is called once it may. Few
// bytes need no room. The caller holds the lock.
func (s *Stream) Claim(n int64) bool {
	return n < AccountStep || s.has(n)
}

// has reports whether the stream may have n bytes more. If not, the budget calls grant once it may. The
// caller holds the lock.
func (s *Stream) has(n int64) bool {
	if !s.account.granted && !s.HasRoom(n) {
		s.group.Budget.wait(s, n)
		return false
	}
	s.account.granted = false
	return true
}

// grant lets the stream go on with what it has waited for.
func (s *Stream) grant() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.granted = true
	s.changed.Broadcast()
	s.ResumeLater()
}

// takeIn counts the n bytes of a long frame, of which the reader is about to read the rest. It waits
// until the budget has room for them, and returns false if the stream has ended.
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

// taken ends what takeIn began: the frame's memory is free.
func (s *Stream) taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.taking = 0
	s.Count()
}

// gate is what a frame is read through. Once as much of one has come as a loop would serve, all of it
// is counted. So a length alone costs nothing, and a frame that has been let in does not wait in the
// middle. Of such a frame each further gateStep bytes count as a sign of life.
type gate struct {
	s      *Stream
	length [LengthSize]byte
	got    int  // bytes of this frame, with its length
	in     bool // it is counted
}

// gateStep is also what a frame may have come to before it is counted.
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
