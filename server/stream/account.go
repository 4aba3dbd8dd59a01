package stream

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// Account is the budget's record of a stream. The connection's lock guards frameBytes and hasGrant.
// Everything else is read without a lock.
type Account struct {
	budget            *Budget
	life              *Lifecycle
	heldBytes         atomic.Int64 // bytes counted in the budget; changed under the stream's lock
	lastProgress      atomic.Int64 // when the client last sent or took bytes, in nanoseconds since Init
	frameBytes        uint32       // of the frame that is being read, if it is long; else 0
	hasGrant          bool         // the budget has granted the bytes of TryClaimBytes
	ownerBytes        atomic.Int64 // see AddOwnerBytes
	countedOwnerBytes atomic.Int64 // the part of heldBytes that the owner keeps; changed under the stream's lock
}

// transientBytes returns the held bytes without the owner's. Waiting would not free the owner's, so they do
// not make a stream wait.
func (a *Account) transientBytes() int64 { return a.heldBytes.Load() - a.countedOwnerBytes.Load() }

// AddOwnerBytes counts n more bytes, or fewer if n is negative, that the owner keeps for the client for as
// long as the connection lasts. They enter the budget with the next UpdateAccount. It takes no lock.
func (a *Account) AddOwnerBytes(n int64) { a.ownerBytes.Add(n) }

func (a *Account) HasOwnerBytes() bool { return a.ownerBytes.Load() != 0 }

// UpdateAccount updates the stream's bytes in the budget: output that the client has not taken, frames that
// wait at the owner, a long frame that is being read, and the owner's bytes. The owner calls it when the size
// of its waiting frames has changed. The caller holds the lock.
func (s *Stream) UpdateAccount() {
	_, waiting := s.owner.WaitingFrames()
	s.Account.updateBudget(int64(s.UnsentBytes()+waiting), s.Life.hasEnded)
}

// updateBudget sets the stream's bytes in the budget to bytes plus those that the account knows, or to 0 if
// the stream has ended.
func (a *Account) updateBudget(bytes int64, ended bool) {
	kept := a.ownerBytes.Load()
	n := bytes + int64(a.frameBytes) + kept
	if ended {
		n, kept = 0, 0
	}
	held := a.heldBytes.Load()
	d := n - held
	if d == 0 || d < MinAccountChange && d > -MinAccountChange && n != 0 {
		return
	}
	a.heldBytes.Store(n)
	if d < 0 || held == 0 {
		a.noteProgress()
	}
	a.budget.addOwnerBytes(kept - a.countedOwnerBytes.Swap(kept))
	a.budget.AddBytes(d)
}

// noteProgress notes that the client has sent or taken bytes.
func (a *Account) noteProgress() { a.lastProgress.Store(int64(time.Since(a.life.startedAt))) }

// HasRoom reports whether the budget has room for n more bytes of this stream. The caller holds the lock.
func (a *Account) HasRoom(n int64) bool { return a.budget.hasRoom(a.transientBytes(), n) }

// TryClaimBytes reports whether the stream may have n more bytes. If not, the budget calls grantClaim when it
// may, and so Resume. A small n is always allowed. The caller holds the lock.
func (s *Stream) TryClaimBytes(n int64) bool {
	if n < MinAccountChange {
		return true
	}
	if !s.Account.hasGrant && !s.Account.HasRoom(n) {
		s.group.Budget.addWaiter(s, n)
		return false
	}
	s.Account.hasGrant = false
	return true
}

// grantClaim lets the stream have the bytes that it has waited for.
func (s *Stream) grantClaim() {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Account.hasGrant = true
	s.Life.changed.Broadcast()
	s.ResumeLater()
}

// awaitAndClaimFrame counts the n bytes of a long frame before the reader reads the rest of it. It waits until the
// budget has room for them, and returns false if the stream has ended.
func (f frameReader) awaitAndClaimFrame(n int) bool {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if !s.TryClaimBytes(int64(n)) {
		s.WaitWhile(func() bool { return !s.TryClaimBytes(int64(n)) })
		if s.Life.isOpen() && !s.Life.hasEnded { // the client was not read meanwhile
			f.setReadDeadline(time.Now())
		}
	}
	s.Account.frameBytes = uint32(n)
	s.UpdateAccount()
	return !s.Life.hasEnded
}

// releaseFrame undoes awaitAndClaimFrame: the memory of the frame is free again.
func (f frameReader) releaseFrame() {
	s := f.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.Account.frameBytes = 0
	s.UpdateAccount()
}

// frameGate is the io.Reader through which the reader reads a frame. Once gateStepBytes bytes of the frame
// have come, it counts the whole frame in the budget. A client that sends only a length therefore uses no
// budget, and a counted frame never waits in the middle. Each further gateStepBytes bytes of a counted frame
// are a sign of life.
type frameGate struct {
	s             *Stream
	receivedBytes int // of this frame, including its length
	length        [LengthSize]byte
	counted       bool // in the budget
}

// gateStepBytes is the longest frame that a loop would serve.
const gateStepBytes = LoopBuffer

func (g *frameGate) reset() { g.receivedBytes, g.counted = 0, false }

// Read implements io.Reader for jute.ReadFrame.
func (g *frameGate) Read(p []byte) (int, error) {
	if g.receivedBytes >= gateStepBytes && !g.counted {
		if reader := (frameReader{g.s}); !reader.awaitAndClaimFrame(int(binary.BigEndian.Uint32(g.length[:]))) {
			return 0, net.ErrClosed
		}
		g.counted = true
	}
	n, err := g.s.reader.input.Read(p[:min(len(p), gateStepBytes-g.receivedBytes%gateStepBytes)])
	if g.receivedBytes < LengthSize {
		copy(g.length[g.receivedBytes:], p[:n])
	}
	if g.receivedBytes += n; g.counted && g.receivedBytes%gateStepBytes == 0 {
		g.s.Account.noteProgress()
	}
	return n, err
}
