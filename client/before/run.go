package before

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"rollcall/zk/jute"
)

// The pause between attempts doubles backoffSteps times, from a 128th of the session's timeout to an 8th, so
// there are several attempts within the timeout.
const backoffSteps = 4

// A connection counts as a success after minLinkLife. A server that accepts clients only to drop them is not
// tried again at once.
const minLinkLife = 100 * time.Millisecond

// retryPause returns the pause after so many failed attempts in a row. Half of it is random, so that
// many clients that lost the same server do not come back at once.
func retryPause(timeout time.Duration, failed int) time.Duration {
	d := timeout / 128 << min(failed-1, backoffSteps)
	return d/2 + rand.N(d/2+1)
}

// reader keeps a connection until the session or the Client ends. Only its goroutine uses it.
type reader struct {
	c            *Client
	servers      []string
	watches      watches
	attempts     int           // to connect
	failures     int           // how many of the last attempts failed in a row
	attemptBegun time.Duration // when the last attempt began
}

func newReader(c *Client) *reader {
	r := &reader{c: c, servers: slices.Clone(c.cfg.Servers)}
	if c.cfg.Shuffle {
		rand.Shuffle(len(r.servers), func(i, j int) { r.servers[i], r.servers[j] = r.servers[j], r.servers[i] })
	}
	return r
}

// keepConnected keeps a connection until the session or the Client ends. While a connection
// is idle, its stack has only this function, the loop over frames and a read, and therefore stays small.
func (r *reader) keepConnected() {
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

// endIfFinal ends the Client if there is no reason left to connect, and reports whether it did.
func (r *reader) endIfFinal(err error) bool {
	switch {
	case r.c.ctx.Err() != nil:
		r.shutDown(Closed, nil, ErrClosed)
	case errors.Is(err, ErrExpired):
		r.shutDown(Expired, err, ErrExpired)
	case errors.Is(err, jute.AuthFailed):
		r.shutDown(Closed, err, err)
	default:
		return false
	}
	return true
}

// waitToRetry waits before the next attempt; the wait grows with the number of failures. It does not wait
// after a connection on which requests passed for a while.
func (r *reader) waitToRetry(passed bool, err error) {
	if passed && r.c.monotonicNow()-r.attemptBegun > minLinkLife {
		r.failures = 0
		return
	}
	r.failures++
	if r.failures == len(r.servers) {
		r.c.log.Warn("cannot connect to any server", "session", r.c.session.ID, "err", err)
	}
	r.c.mu.Lock()
	r.c.lastFailure = err
	timeout := r.c.timeout
	r.c.mu.Unlock()
	select {
	case <-time.After(retryPause(timeout, r.failures)):
	case <-r.c.ctx.Done():
	}
}

// shutDown ends the Client: no request will be sent any more, because of end.
func (r *reader) shutDown(s State, why, end error) {
	r.c.stop()
	r.c.mu.Lock()
	r.c.endError = end
	r.c.link = nil
	close(r.c.linkChanged)
	r.c.wakeRoomWaiters()
	r.c.mu.Unlock()
	r.failCalls(end)
	r.reportState(s, why)
	close(r.c.readerEnded)
}

func (r *reader) reportState(s State, why error) {
	if s != Closed || why != nil {
		id, _ := r.c.Session()
		r.c.log.Info("session "+s.String(), "session", id, "server", r.c.Server(), "reason", why)
	}
	if r.c.cfg.OnState != nil {
		r.c.deferWritesToReader()
		r.c.cfg.OnState(s, why)
	}
}

// deferWritesToReader records that the reader is about to call a function of the caller, which may send
// requests. What it sends on the connection is written when the reader is about to wait.
func (c *Client) deferWritesToReader() {
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
	addr := r.servers[r.attempts%len(r.servers)]
	r.attempts++
	r.attemptBegun = r.c.monotonicNow()
	_, timeout := r.c.Session()
	by := time.Now().Add(max(timeout/time.Duration(len(r.servers)), time.Millisecond))
	conn, err := r.dial(addr, by)
	if err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", addr, err)
	}
	_ = conn.SetDeadline(by) // until requests can be sent
	l := newLink(r, conn, addr)
	err = l.handshake()
	if err == nil {
		err = l.awaitInitialReplies()
	}
	if err != nil {
		r.cleanUp(l, err)
		return nil, fmt.Errorf("client: connect to %s: %w", addr, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return l, nil
}

func (r *reader) dial(addr string, by time.Time) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(r.c.ctx, by)
	defer cancel()
	return r.c.cfg.Dial(ctx, addr)
}

// admitRequests lets requests pass on l.
func (r *reader) admitRequests(l *link) {
	r.c.mu.Lock()
	r.c.link = l
	r.c.lastFailure = nil
	close(r.c.linkChanged)
	r.c.linkChanged = make(chan struct{})
	l.lastSent = r.c.monotonicNow()
	if r.c.timer == nil {
		r.c.timer = time.AfterFunc(r.c.pingPause(), r.c.onPingTimer)
	} else {
		r.c.timer.Reset(r.c.pingPause())
	}
	r.c.mu.Unlock()
	r.reportState(Connected, nil)
}

// cleanUp cleans up after a connection that has broken and ends the requests that were in flight on
// it. It reports whether requests had passed.
func (r *reader) cleanUp(l *link, why error) bool {
	l.closeAndRelease()
	r.c.mu.Lock()
	passed := r.c.link == l
	if passed {
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
	if !passed || r.c.ctx.Err() != nil || errors.Is(why, jute.AuthFailed) {
		return passed
	}
	r.failCalls(ErrConnectionLost)
	r.reportState(Disconnected, why)
	return passed
}

// wakeRoomWaiters wakes all callers that wait for room. The lock is held.
func (c *Client) wakeRoomWaiters() {
	for len(c.roomWaiters) > 0 {
		c.wakeRoomWaiter()
	}
}

// failCalls ends all requests in flight with err. No request can be sent meanwhile.
func (r *reader) failCalls(err error) {
	for {
		r.c.mu.Lock()
		if r.c.calls.Len() == 0 {
			r.c.mu.Unlock()
			return
		}
		next := r.c.calls.Pop()
		r.c.mu.Unlock()
		next.done(Reply{}, err)
	}
}

// onPingTimer is called by the timer. It checks the connection, and sets the timer to the next check.
func (c *Client) onPingTimer() {
	c.mu.Lock()
	l := c.link
	if l == nil {
		c.mu.Unlock()
		return
	}
	next, write, end := c.pingOrGiveUp(l, c.monotonicNow())
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

// maxPingPause is the longest time without a ping, as for ZooKeeper's Java client, and maxSilence is three of them:
// the client of a session of half an hour notices within 30 s that its connection is dead.
const (
	maxPingPause = 10 * time.Second
	maxSilence   = 3 * maxPingPause
)

// pingOrGiveUp sends a ping if nothing has been sent for a third of the timeout, or for maxPingPause. If
// nothing has been received for two thirds, or for maxSilence, it gives the connection up and returns the
// reason. It returns when it has to be called next, and reports whether the caller has to call write. The lock
// is held.
func (c *Client) pingOrGiveUp(l *link, now time.Duration) (next time.Duration, write bool, end error) {
	pause, limit := c.pingPause(), min(c.timeout*2/3, maxSilence)
	silent := now - time.Duration(l.lastReceived.Load())
	if silent >= limit {
		return 0, false, fmt.Errorf("%w: nothing received for %v", errSilent, silent)
	}
	next = pause // a running write ends with a reply or a failure
	if !l.writeRunning && len(l.out) == 0 {
		if now-l.lastSent >= pause {
			write = l.queuePing(now)
		}
		next = pause - (now - l.lastSent)
	}
	return min(next, limit-silent), write, nil
}

func (c *Client) pingPause() time.Duration { return min(c.timeout/3, maxPingPause) }

var errSilent = errors.New("client: server is silent")
