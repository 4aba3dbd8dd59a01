package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/zk/jute"
)

// reader keeps a connection until the session ends or the Session is closed. Only its goroutine uses it.
type reader struct {
	c            *Session
	watches      watches
	search       *writerSearch // runs while the server is read-only; nil: none
	wasConnected bool          // to a server that can write
	lastServer   string        // the server of the last connection on which requests passed
	failures     int           // how many of the last attempts failed in a row
	attemptBegun time.Duration // when the last attempt began
}

// keepConnected keeps a connection until the session ends or the Session is closed. While a connection
// is idle, its stack has only this function, the loop over frames and a read, and therefore stays small.
func (r *reader) keepConnected() {
	r.reportState(Connecting, nil)
	for {
		passed := false
		l, err := r.openLink()
		if err == nil {
			r.admitRequests(l)
			err = l.handleFrames()
			passed = r.cleanUp(l, err)
		}
		if r.endIfFinal(err) {
			return
		}
		r.waitToRetry(passed, err)
	}
}

// endIfFinal ends the Session if there is no reason left to connect, and reports whether it did.
func (r *reader) endIfFinal(err error) bool {
	switch {
	case r.c.ctx.Err() != nil:
		r.shutDown(Closed, nil, ErrClosed)
	case errors.Is(err, ErrGaveUp):
		r.shutDown(Expired, err, ErrGaveUp)
	case errors.Is(err, ErrExpired):
		r.shutDown(Expired, err, ErrExpired)
	case errors.Is(err, jute.AuthFailed):
		r.shutDown(AuthFailed, err, err)
	default:
		return false
	}
	return true
}

// shutDown ends the Session: no request will be sent any more, because of end.
func (r *reader) shutDown(s State, why, end error) {
	r.c.stop()
	r.c.mu.Lock()
	r.c.endError = end
	r.c.link = nil
	close(r.c.linkChanged)
	r.c.wakeRoomWaiters()
	r.c.mu.Unlock()
	r.failCalls(end)
	r.c.right.end(true)
	r.reportState(s, why)
	close(r.c.readerEnded)
}

// deferWritesToReader records that the reader is about to call a function of the caller, which may send
// requests. What it sends on the connection is written when the reader is about to wait.
func (c *Session) deferWritesToReader() {
	c.mu.Lock()
	if c.link != nil {
		c.link.readerWillWrite = true
	}
	c.mu.Unlock()
}

// openLink opens a connection to the next server and resumes the session on it, or opens a new one.
// The server gets its share of the session's timeout for that and for everything that precedes
// requests.
func (r *reader) openLink() (*link, error) {
	r.attemptBegun = r.c.monotonicNow()
	server, by, err := r.nextAttempt()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(r.c.ctx, by)
	conn, err := r.dial(ctx, server.addr)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", server.addr, err)
	}
	_ = conn.SetDeadline(by) // until requests can be sent
	l := newLink(r, conn, server)
	err = l.handshake()
	if err == nil {
		err = l.awaitInitialReplies()
	}
	if err != nil {
		r.cleanUp(l, err)
		return nil, fmt.Errorf("client: connect to %s: %w", server.addr, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return l, nil
}

// nextAttempt returns the next server to try, and the end of its share of the session's timeout. A lookup of servers
// before it has a limit of its own.
func (r *reader) nextAttempt() (server candidate, by time.Time, err error) {
	left := r.timeToGiveUp()
	if left <= 0 {
		return candidate{}, time.Time{}, r.giveUpReason()
	}
	_, timeout := r.c.Identity()
	ctx, cancel := context.WithTimeout(r.c.ctx, min(timeout/lookupShare, left))
	defer cancel()
	server, count, err := r.takeServer(ctx)
	if err != nil {
		return candidate{}, time.Time{}, fmt.Errorf("client: look up servers: %w", err)
	}
	share := max(timeout/time.Duration(count), time.Millisecond)
	return server, time.Now().Add(min(share, r.timeToGiveUp())), nil
}

// timeToGiveUp returns the time after which the Session gives up connecting. While there is no session that could
// expire, that is longer than any wait.
func (r *reader) timeToGiveUp() time.Duration {
	_, timeout := r.c.Identity()
	after := cmp.Or(r.c.cfg.GiveUpAfter, timeout/3*4)
	sent, known := r.c.right.lastAnswered()
	r.c.mu.Lock()
	local := r.c.local
	r.c.mu.Unlock()
	if after < 0 || !known || local {
		return maxTimeout
	}
	return after - (r.c.cfg.Clock() - sent)
}

// giveUpReason returns ErrGaveUp with the last failure.
func (r *reader) giveUpReason() error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.lastFailure == nil {
		return ErrGaveUp
	}
	return fmt.Errorf("%w; last: %w", ErrGaveUp, r.c.lastFailure)
}

// admitRequests lets requests pass on l.
func (r *reader) admitRequests(l *link) {
	r.c.mu.Lock()
	r.c.link = l
	r.c.lastFailure = nil
	close(r.c.linkChanged)
	r.c.linkChanged = make(chan struct{})
	l.trips.lastSent = r.c.monotonicNow()
	if !slices.Contains(r.c.servers.entries, l.server.entry) {
		l.abort(errServersChanged) // the list changed during the handshake
	}
	if r.c.timer == nil {
		r.c.timer = time.AfterFunc(r.c.pingPause(), r.c.onPingTimer)
	} else {
		r.c.timer.Reset(r.c.pingPause())
	}
	r.c.mu.Unlock()
	if l.readOnly {
		r.search = r.startSearch(l)
	}
	r.reportConnected(l)
}

// cleanUp cleans up after a connection that has broken and ends the requests that were in flight on
// it. It reports whether requests had passed.
func (r *reader) cleanUp(l *link, why error) bool {
	l.closeAndRelease()
	r.c.mu.Lock()
	passed := r.c.link == l
	if passed {
		r.c.servers.forgetRound()
		r.c.link = nil
		if r.c.timer != nil {
			r.c.timer.Stop()
		}
		r.c.wakeRoomWaiters()
	}
	for l.writeRunning {
		l.writeEnded.Wait()
	}
	if l.closeReason != nil {
		why = l.closeReason
	}
	l.failPendingAuths(why)
	r.c.mu.Unlock()
	if r.search != nil {
		if found, ok := r.search.stop(); ok {
			r.c.mu.Lock()
			r.c.servers.prefer(found)
			r.c.mu.Unlock()
		}
		r.search = nil
	}
	if !passed || r.c.ctx.Err() != nil || errors.Is(why, jute.AuthFailed) {
		return passed
	}
	r.failCalls(ErrConnectionLost)
	r.reportState(Suspended, why)
	return passed
}

// wakeRoomWaiters wakes all callers that wait for room. The lock is held.
func (c *Session) wakeRoomWaiters() {
	for len(c.roomWaiters) > 0 {
		c.wakeRoomWaiter()
	}
}

// failCalls ends all requests in flight with err. No request can be sent meanwhile.
func (r *reader) failCalls(err error) {
	for {
		r.c.mu.Lock()
		if r.c.calls.count() == 0 {
			r.c.mu.Unlock()
			return
		}
		next := r.c.calls.pop()
		r.c.mu.Unlock()
		next.done(Reply{}, err)
	}
}

// onPingTimer is called by the timer. It checks the connection, and sets the timer to the next check.
func (c *Session) onPingTimer() {
	c.mu.Lock()
	l := c.link
	if l == nil {
		c.mu.Unlock()
		return
	}
	next, write, end := l.pingOrGiveUp(c.monotonicNow())
	if end != nil {
		l.abort(end)
	} else {
		c.timer.Reset(next)
	}
	c.mu.Unlock()
	if write {
		l.writeOutput(false)
	}
}

// proveNow fires the connection's timer now, because functions wait for the end of the right.
func (c *Session) proveNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && c.timer != nil {
		c.timer.Reset(0)
	}
}

// maxPingPause is the longest time without a ping, as for ZooKeeper's Java client, and maxSilence is three of them:
// the client of a session of half an hour notices within 30 s that its connection is dead.
const (
	maxPingPause = 10 * time.Second
	maxSilence   = 3 * maxPingPause
)

// pingOrGiveUp sends a ping if nothing has been sent for a third of the timeout, or for maxPingPause. If
// nothing has been received for two thirds, or for maxSilence, it gives the connection up and returns the
// reason. It returns when it has to be called next, and reports whether the caller has to call writeOutput. The lock
// is held.
func (l *link) pingOrGiveUp(now time.Duration) (next time.Duration, write bool, end error) {
	c := l.c
	pause, limit := c.pingPause(), min(c.timeout*2/3, maxSilence)
	silent := now - time.Duration(l.lastReceived.Load())
	if silent >= limit {
		return 0, false, fmt.Errorf("%w: nothing received for %v", errSilent, silent)
	}
	next = pause // a running write ends with a reply or a failure
	if c.right.needsProofs() && l.trips.proof.xid == 0 {
		untilSync := l.trips.proof.lastSent + pause - now
		if untilSync <= 0 {
			write, untilSync = l.queueSync(now), pause
		}
		next = min(next, untilSync)
	}
	if !l.writeRunning && len(l.out) == 0 {
		if now-l.trips.lastSent >= pause {
			write = l.queuePing(now) || write
		}
		next = min(next, pause-(now-l.trips.lastSent))
	}
	return min(next, limit-silent), write, nil
}

func (c *Session) pingPause() time.Duration { return min(c.timeout/3, maxPingPause) }

var errSilent = errors.New("client: server is silent")
