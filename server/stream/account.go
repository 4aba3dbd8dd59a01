package stream

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// Account is what the budget records about a stream. The connection's lock guards taking and granted. Everything else is read without a lock.
type Account struct {
	budget  *Budget
	life    *Lifecycle   // of the stream
	held    atomic.Int64 // bytes that the budget counted for the stream last; changed under the stream's lock
	took    atomic.Int64 // when its client last sent or took any bytes, in nanoseconds since Init
	taking  int          // bytes of the frame that is being read, if it is long; else 0
	granted bool         // the budget has granted what the stream waited for
	keeps   atomic.Int64 // see Keep
	kept    atomic.Int64 // the part of held that is kept; changed under the stream's lock
}

// passing returns how many bytes the stream holds for a time. What is kept does not make a stream wait, because waiting would not free it.
func (a *Account) passing() int64 { return a.held.Load() - a.kept.Load() }

// Keep counts n more bytes, or fewer if n is negative, that the owner keeps for the client for as long as the connection lasts. The
// budget learns of them with the next Count. Keep takes no lock.
func (a *Account) Keep(n int64) { a.keeps.Add(n) }

// Keeps reports whether the owner keeps anything. It takes no lock.
func (a *Account) Keeps() bool { return a.keeps.Load() != 0 }

// Count updates what the budget counts for the stream: bytes that the client has not taken, frames
// that wait at the owner, a long frame that is being read, and what the owner keeps. The owner calls it when the size of
// its waiting frames has changed. The caller holds the lock.
func (s *Stream) Count() {
	_, waiting := s.owner.Waiting()
	s.Account.count(int64(s.Unsent()+waiting), s.Life.dead)
}

// count counts bytes that the stream holds beside what the account knows. If ended is true, the stream holds nothing any more.
func (a *Account) count(bytes int64, ended bool) {
	kept := a.keeps.Load()
	n := bytes + int64(a.taking) + kept
	if ended {
		n, kept = 0, 0
	}
	held := a.held.Load()
	d := n - held
	if d == 0 || d < AccountStep && d > -AccountStep && n != 0 {
		return
	}
	a.held.Store(n)
	if d < 0 || held == 0 {
		a.progress()
	}
	a.budget.keep(kept - a.kept.Swap(kept))
	a.budget.Add(d)
}

// progress notes that the client has sent or taken bytes.
func (a *Account) progress() { a.took.Store(int64(time.Since(a.life.begun))) }

// HasRoom reports whether the budget has room for n more bytes of this stream. The caller holds the
// lock.
func (a *Account) HasRoom(n int64) bool { return a.budget.room(a.passing(), n) }

// Claim reports whether the stream may have n more bytes. If not, the budget calls grant when it may, and so Resume. A
// small n is always allowed. The caller holds the lock.
func (s *Stream) Claim(n int64) bool {
	if n < AccountStep {
		return true
	}
	if !s.Account.granted && !s.Account.HasRoom(n) {
		s.group.Budget.wait(s, n)
		return false
	}
	s.Account.granted = false
	return true
}

// grant tells the stream that it may have the bytes for which it waited.
func (s *Stream) grant() {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Account.granted = true
	s.Life.changed.Broadcast()
	s.ResumeLater()
}

// takeIn counts the n bytes of a long frame before the reader reads the rest of it. It waits until
// the budget has room for them, and returns false if the stream has ended.
func (f frameReader) takeIn(n int) bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if !s.Claim(int64(n)) {
		s.Wait(func() bool { return !s.Claim(int64(n)) })
		if s.Life.opened() && !s.Life.dead { // the client was not read meanwhile
			f.armRead(time.Now())
		}
	}
	s.Account.taking = n
	s.Count()
	return !s.Life.dead
}

// taken ends what takeIn began: the memory of the frame is free again.
func (f frameReader) taken() {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Account.taking = 0
	s.Count()
}

// gate is the io.Reader through which the reader reads a frame. When as many bytes of the frame
// have come as a loop would serve, gate counts the whole frame in the budget. A client that sends
// only a length therefore uses no budget, and a frame that has been counted never waits in the
// middle. Each further gateStep bytes of a counted frame are a sign of life.
type gate struct {
	s      *Stream
	got    int // bytes of this frame so far, with its length
	length [LengthSize]byte
	in     bool // the frame is counted
}

// gateStep is also how many bytes of a frame may come before it is counted.
const gateStep = LoopBuffer

// begin makes the gate ready for the next frame.
func (g *gate) begin() { g.got, g.in = 0, false }

// Read implements io.Reader for jute.ReadFrame.
func (g *gate) Read(p []byte) (int, error) {
	if g.got >= gateStep && !g.in {
		if reader := (frameReader{g.s}); !reader.takeIn(int(binary.BigEndian.Uint32(g.length[:]))) {
			return 0, net.ErrClosed
		}
		g.in = true
	}
	n, err := g.s.reader.in.Read(p[:min(len(p), gateStep-g.got%gateStep)])
	if g.got < LengthSize {
		copy(g.length[g.got:], p[:n])
	}
	if g.got += n; g.in && g.got%gateStep == 0 {
		g.s.Account.progress()
	}
	return n, err
}
