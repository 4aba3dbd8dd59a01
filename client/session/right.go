package session

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// marginDivisor makes the default margin a tenth of the timeout. The servers count a session's timeout by the leader's
// clock, and the speeds of two machines' clocks may differ by at most 10 %: see docs/sessions.md, "Limits to know". A
// leader whose clock runs 10 % fast ends a session after T/1.1, which is more than 0.9 T.
const marginDivisor = 10

// maxRightPause is the longest time between two reads of the clock while functions wait for the end of a right. Go's
// timers stop during a suspend, so after a suspend a function is called at most this much too late.
const maxRightPause = time.Second

// Right is a client's right to act on its session: on locks and ephemeral nodes that it holds.
//
// It lasts until (the time at which the last answered request was sent) + timeout − margin, by a clock that continues
// while the machine is suspended. The handshake and pings are requests too. If many requests are sent, one in each
// hundredth of the timeout counts, so the right may end that much early. A reply with an error counts, except
// jute.SessionExpired, with which the right ends at once. Replies of a read-only server do not count. The right also
// ends when the session has expired, and when Close begins.
//
// A server may resume the session after its right has ended, because the session lives a little longer than the right.
// The Session then has its right again. Functions of AfterEnd that were called stay called.
//
// The right counts on two things: the clocks of the servers and of this machine differ in speed by no more than the
// margin allows, and all servers grant the same timeout. If a server grants a shorter one, the right ends by that from
// the reply to the handshake on.
//
// What a reply proves. A member of Rollcall replies to its clients on a lease, for at most 0.9 of the timeout after the
// leader has last acknowledged what it heard. So while the member is cut off, its replies say nothing about the leader.
// Two requests do: a handshake goes through the log, and the leader touches the session of a sync and proves that it
// leads after that. While functions wait for the end of the right, only these two count. The Session then sends a sync
// at least every third of the timeout. The rule is:
//
//	The reply to a sync proves that the leader has heard of the session after the sync was sent.
//	So no leader ends it within its timeout from then, by the leader's clock, and the margin makes up for that clock.
//
// An operator who kills the session, or deletes its nodes, is not bound by that. Neither is ZooKeeper, whose leader
// does not touch the session of a sync: there, a write must carry a token or a check of the node.
//
// It is safe for concurrent use.
type Right struct {
	clock  Clock
	margin time.Duration // 0: a tenth of the timeout
	ends   atomic.Int64  // by clock; 0: there is no right

	// wantProof is called when the first function begins to wait for the end: a proof is wanted now.
	wantProof func()

	mu         sync.Mutex
	answered   time.Duration // when the last answered request was sent
	known      bool          // answered is set
	timeout    time.Duration // that counted for the last renewal; 0: there was none
	anyEnds    time.Duration // when the right ends if every reply counts; 0: there is no right
	provenEnds time.Duration // when it ends if only proofs count
	graceEnds  time.Duration // when it ended as the first function began to wait; 0 if a proof was known, or since the next
	over       bool          // no right will begin again
	timer      *time.Timer   // runs while there are functions; nil before the first
	functions  []*rightFunction
	calling    int // calls of callFunctions under way
}

// rightFunction is a function to call at the end of a right.
type rightFunction struct{ call func() }

// Held reports whether the client holds its right at this moment. It reads the clock.
func (r *Right) Held() bool { return r.Remaining() > 0 }

// Remaining returns the time until the right ends, or 0 if it has ended. It reads the clock.
func (r *Right) Remaining() time.Duration {
	end, ok := r.Ends()
	if !ok {
		return 0
	}
	return max(end-r.clock(), 0)
}

// Ends returns the time by Config.Clock at which the right ends unless another request is answered. The time may be
// over. ok is false if there is no right: before the first handshake, and when the session has ended.
func (r *Right) Ends() (end time.Duration, ok bool) {
	end = time.Duration(r.ends.Load())
	return end, end != 0
}

// AfterEnd registers f to be called once, when the right has ended. If the right is not held, AfterEnd calls f before
// it returns. The functions are called in the order of their registration, by a timer's goroutine, by the reader, or by
// the caller of Close. They must not block, and must not call Close, Abandon, Do or anything that waits like Do.
// stop reports whether it keeps f from being called; if it returns false, f may still run.
//
// After a suspend f is called within a second, because Go's timers stand still meanwhile. Held is exact at once.
// The caller bounds the number of functions.
func (r *Right) AfterEnd(f func()) (stop func() bool) { return r.afterEnd(f, false) }

// AfterProvenEnd is AfterEnd, but it also calls f at once if the right would not be held if only proofs counted.
func (r *Right) AfterProvenEnd(f func()) (stop func() bool) { return r.afterEnd(f, true) }

func (r *Right) afterEnd(f func(), mustBeProven bool) (stop func() bool) {
	r.mu.Lock()
	left := r.Remaining()
	if left == 0 || mustBeProven && r.provenEnds <= r.clock() {
		r.mu.Unlock()
		f()
		return func() bool { return false }
	}
	entry := &rightFunction{call: f}
	r.functions = append(r.functions, entry)
	first := len(r.functions) == 1
	if first {
		r.beginProofs()
		r.setTimer(left)
	}
	r.mu.Unlock()
	if first && r.wantProof != nil {
		r.wantProof()
	}
	return func() bool { return r.remove(entry) }
}

// beginProofs makes only proofs count from now on. If the last proof is too old, the present end stays until the next
// one. The lock is held.
func (r *Right) beginProofs() {
	r.graceEnds = 0
	if r.provenEnds <= r.clock() {
		r.graceEnds = r.anyEnds
	}
	r.updateEnd()
}

// updateEnd sets the end of the right: only proofs count while functions wait for it or are being called, and every
// reply at other times. The lock is held.
func (r *Right) updateEnd() {
	end := r.anyEnds
	if r.proofsCount() {
		end = max(r.provenEnds, r.graceEnds)
	}
	r.ends.Store(int64(end))
}

// needsProofs reports whether only proofs count: while functions wait for the end, and until all of them are called.
func (r *Right) needsProofs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proofsCount()
}

// proofsCount is needsProofs for callers that hold the lock.
func (r *Right) proofsCount() bool { return len(r.functions) > 0 || r.calling > 0 }

// IsProven reports whether the right would still be held if only proofs counted.
func (r *Right) IsProven() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.over && r.provenEnds > r.clock()
}

func (r *Right) remove(entry *rightFunction) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.functions, entry)
	if i < 0 {
		return false
	}
	r.functions = slices.Delete(r.functions, i, i+1)
	if len(r.functions) == 0 {
		r.timer.Stop()
		r.updateEnd()
	}
	return true
}

// setTimer sets the timer to the next read of the clock. The lock is held.
func (r *Right) setTimer(left time.Duration) {
	pause := min(left, maxRightPause)
	if r.timer == nil {
		r.timer = time.AfterFunc(pause, r.checkEnd)
		return
	}
	r.timer.Reset(pause)
}

// checkEnd is called by the timer. It calls the functions if the right has ended, and sets the timer again otherwise.
func (r *Right) checkEnd() {
	r.mu.Lock()
	if len(r.functions) == 0 {
		r.mu.Unlock()
		return
	}
	if left := r.Remaining(); left > 0 {
		r.setTimer(left)
		r.mu.Unlock()
		return
	}
	r.callFunctions()
}

// callFunctions calls all functions. Every reply counts again only after that: until then, those who wait do not know
// that the right has ended, and may call Held. It releases the lock.
func (r *Right) callFunctions() {
	list := r.functions
	r.functions = nil
	r.calling++
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	for _, entry := range list {
		entry.call()
	}
	r.mu.Lock()
	r.calling--
	r.updateEnd()
	r.mu.Unlock()
}

// evidence is the strength of a reply as a proof that the session lives.
type evidence int

const (
	serverReplied evidence = iota // a read-only server, which does not know whether the session lives
	sessionKnown                  // a server that knows the session
	leaderHeard                   // the leader has heard of the session since the request was sent: a handshake, a sync
)

// renew records that a request, which was sent at sent, has been answered.
func (r *Right) renew(sent, timeout time.Duration, says evidence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.answered, r.known = max(r.answered, sent), true
	if says == serverReplied {
		return
	}
	end := sent + timeout - cmp.Or(r.margin, timeout/marginDivisor)
	if timeout < r.timeout { // servers end the session by the timeout of the last handshake, whatever came before
		r.anyEnds, r.provenEnds, r.graceEnds = min(r.anyEnds, end), min(r.provenEnds, end), min(r.graceEnds, end)
	}
	r.timeout = timeout
	r.anyEnds = max(r.anyEnds, end)
	if says == leaderHeard {
		r.provenEnds, r.graceEnds = max(r.provenEnds, end), 0
	}
	r.updateEnd()
}

// end ends the right now. It is for good, unless a server has said that the session has expired.
func (r *Right) end(forGood bool) {
	r.mu.Lock()
	r.over = r.over || forGood
	r.anyEnds, r.provenEnds, r.graceEnds = 0, 0, 0
	r.updateEnd()
	r.callFunctions()
}

// lastAnswered returns the time at which the last answered request was sent. known is false if no request was answered.
func (r *Right) lastAnswered() (sent time.Duration, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered, r.known
}
