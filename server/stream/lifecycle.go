package stream

import (
	"context"
	"sync"
	"time"
)

// Lifecycle is the state of a stream: whether it is open, how long its client may be silent, its goroutines,
// and its end. Its lock is the connection's lock. It guards all fields but context, startedAt and tick.
//
// There are four ways to end a stream, and one verb for each:
//
//	verb        queued output   client sees                  caller
//	Drop        dropped         the end, at once             anyone: an error, a limit, a session that is elsewhere
//	HangUp      dropped         the end, even if the reader  a member that cannot serve, whose apply may hang
//	                            or the loop is stuck
//	Finish      sent, the last  the reply, then the end of   the owner, after the last reply
//	                            the stream; it has
//	                            LingerTime to close its side
//	ReadFailed  dropped         nothing: it has gone, or its the reader and the loop, when a read fails
//	                            bytes make no sense
//
// A DropAfter or a client's timeout that runs out is a Drop. DropLocked is Drop for callers that hold the
// lock.
//
// However the end began, Stream.cleanUp completes it. It runs once, in the reader's goroutine. For a stream
// in a loop, it runs in a goroutine of its own.
type Lifecycle struct {
	mu            sync.Mutex
	changed       change   // a goroutine may wait for it
	context       lifetime // ends with the stream
	startedAt     time.Time
	idleSlackUnit time.Duration
	timeout       time.Duration // longest silence of the client; 0: the stream has not been opened
	expiry        time.Duration // from startedAt until the stream ends if the client stays silent
	limitTimer    *time.Timer   // of DropAfter; nil before it, and once the stream is open
	numHelpers    int           // besides the reader
	endReason     Reason
	limitReason   Reason // the reason of limitTimer
	lastQueued    bool   // nothing may follow
	lastSent      bool
	hasEnded      bool // the stream is over
}

func (l *Lifecycle) init(tick time.Duration) {
	l.startedAt, l.idleSlackUnit = time.Now(), tick
}

// StartedAt returns the time of Init.
func (l *Lifecycle) StartedAt() time.Time { return l.startedAt }

// Context returns a context that ends with the stream.
func (l *Lifecycle) Context() context.Context { return &l.context }

// Timeout returns the timeout that was passed to Open. ServeFrame may call it without the lock; other callers
// hold the lock.
func (l *Lifecycle) Timeout() time.Duration { return l.timeout }

// ExpiresAt returns the time at which the stream ends if the client stays silent. The caller holds the lock.
func (l *Lifecycle) ExpiresAt() time.Time { return l.startedAt.Add(l.expiry) }

// expireAt sets the time at which the stream ends if the client stays silent. The caller holds the lock.
func (l *Lifecycle) expireAt(t time.Time) { l.expiry = t.Sub(l.startedAt) }

// WakeWaiters wakes the goroutines in Stream.WaitWhile. The caller holds the lock.
func (l *Lifecycle) WakeWaiters() { l.changed.Broadcast() }

// Go runs f in a goroutine that StreamEnded waits for. The caller holds the lock; the stream has not ended.
func (l *Lifecycle) Go(f func()) {
	l.numHelpers++
	go func() {
		f()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.helperDone()
	}()
}

// nextTick returns the time from the start until more than a tick after now, when a deadline that was set now is set again: once per tick and
// not for each frame.
func (l *Lifecycle) nextTick(now time.Time) time.Duration {
	return now.Sub(l.startedAt) + l.idleSlackUnit + 1
}

// isDue reports whether a time of nextTick has come. The zero value has.
func (l *Lifecycle) isDue(at time.Duration, now time.Time) bool { return now.Sub(l.startedAt) >= at }

// Finish makes the queued output the last that the client is sent. Flush or FlushLater sends it. The caller
// holds the lock.
func (l *Lifecycle) Finish(why Reason) {
	l.lastQueued, l.endReason = true, why
	l.changed.Broadcast()
}

// helperDone notes that a helper is about to return. The caller holds the lock.
func (l *Lifecycle) helperDone() {
	l.numHelpers--
	l.changed.Broadcast()
}

// awaitHelpers waits until all helpers are about to return. The caller holds the lock.
func (l *Lifecycle) awaitHelpers() {
	for l.numHelpers > 0 {
		l.changed.await(&l.mu)
	}
}

func (l *Lifecycle) isOpen() bool { return l.timeout > 0 }

// maxSilence returns the longest that the client may be silent.
func (l *Lifecycle) maxSilence() time.Duration { return l.timeout + IdleSlack*l.idleSlackUnit }

// isClosing reports whether the stream is over or its last reply is queued. The caller holds the lock.
func (l *Lifecycle) isClosing() bool { return l.hasEnded || l.lastQueued }

// isAlive reports whether the stream is not over. The caller does not hold the lock.
func (l *Lifecycle) isAlive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.hasEnded
}

// open ends the limit of a stream, and sets the timeout of its client. The caller holds the lock.
func (l *Lifecycle) open(timeout time.Duration) {
	l.timeout = timeout
	l.endTimeLimit()
	l.expireAt(time.Now().Add(l.maxSilence()))
}

// end notes that the stream is over, and returns false if it was before. The caller holds the lock.
func (l *Lifecycle) end(why Reason) bool {
	if l.hasEnded {
		return false
	}
	if !l.lastQueued {
		l.endReason = why
	}
	l.hasEnded = true
	l.context.end()
	l.endTimeLimit()
	l.changed.Broadcast()
	return true
}

// setTimeLimit calls late after d, unless the stream is opened or setTimeLimit is called again before that.
// It returns false and does nothing if the stream has ended.
func (l *Lifecycle) setTimeLimit(d time.Duration, why Reason, late func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		return false
	}
	l.expireAt(time.Now().Add(d))
	l.limitReason = why
	if l.limitTimer == nil {
		l.limitTimer = time.AfterFunc(d, late)
	} else {
		l.limitTimer.Reset(d)
	}
	return true
}

// endTimeLimit stops the timer of setTimeLimit, and forgets it: an idle stream has none. The caller holds the lock.
func (l *Lifecycle) endTimeLimit() {
	if l.limitTimer != nil {
		l.limitTimer.Stop()
		l.limitTimer = nil
	}
}
