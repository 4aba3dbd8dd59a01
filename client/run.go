package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"rollcall/jute"
)

// backoffSteps is how often the pause between attempts doubles. It grows from a 128th of the
// session's timeout to an 8th, so there are several attempts within the timeout.
const backoffSteps = 4

// minLife is how long a connection must last to count as a success. A server that accepts clients
// only to drop them is not tried again at once.
const minLife = 100 * time.Millisecond

// backoff returns the pause after so many failed attempts in a row. Half of it is random, so that
// many clients that lost the same server do not come back at once.
func backoff(timeout time.Duration, failed int) time.Duration {
	d := timeout / 128 << min(failed-1, backoffSteps)
	return d/2 + rand.N(d/2+1)
}

// run is the reader: it keeps a connection until the session or the Client ends. While a connection
// is idle, only run, serve, next and Read are on its stack, which therefore stays small.
func (c *Client) run() {
	for {
		passed := false
		l, err := c.connect()
		if err == nil {
			c.connected(l)
			err = l.serve()
			passed = c.lost(l, err)
		}
		if c.endIfFinal(err) {
			return
		}
		c.pause(passed, err)
	}
}

// endIfFinal ends the Client if there is no reason left to connect, and reports whether it did.
func (c *Client) endIfFinal(err error) bool {
	switch {
	case c.ctx.Err() != nil:
		c.shutDown(Closed, nil, ErrClosed)
	case errors.Is(err, ErrExpired):
		c.shutDown(Expired, err, ErrExpired)
	case errors.Is(err, jute.AuthFailed):
		c.shutDown(Closed, err, err)
	default:
		return false
	}
	return true
}

// pause waits before the next attempt; the wait grows with the number of failures. It does not wait
// after a connection on which requests passed for a while.
func (c *Client) pause(passed bool, err error) {
	if passed && c.now()-c.begun > minLife {
		c.failed = 0
		return
	}
	c.failed++
	if c.failed == len(c.servers) {
		c.log.Warn("cannot connect to any server", "session", c.session.ID, "err", err)
	}
	c.mu.Lock()
	c.lastFail = err
	timeout := c.timeout
	c.mu.Unlock()
	select {
	case <-time.After(backoff(timeout, c.failed)):
	case <-c.ctx.Done():
	}
}

// shutDown ends the Client: no request will be sent any more, because of end.
func (c *Client) shutDown(s State, why, end error) {
	c.stop()
	c.mu.Lock()
	c.end = end
	c.link = nil
	close(c.changed)
	c.wakeAll()
	c.mu.Unlock()
	c.failCalls(end)
	c.reportState(s, why)
	close(c.ended)
}

func (c *Client) reportState(s State, why error) {
	if s != Closed || why != nil {
		id, _ := c.Session()
		c.log.Info("session "+s.String(), "session", id, "server", c.Server(), "reason", why)
	}
	if c.cfg.State != nil {
		c.callsOut()
		c.cfg.State(s, why)
	}
}

// callsOut records that the reader is about to call a function of the caller, which may send
// requests. What it sends on the connection is written when the reader is about to wait.
func (c *Client) callsOut() {
	c.mu.Lock()
	if c.link != nil {
		c.link.reading = true
	}
	c.mu.Unlock()
}

// connect opens a connection to the next server and resumes the session on it, or opens a new one.
// The server gets its share of the session's timeout for that and for everything that precedes
// requests.
func (c *Client) connect() (*link, error) {
	addr := c.servers[c.turn%len(c.servers)]
	c.turn++
	c.begun = c.now()
	_, timeout := c.Session()
	by := time.Now().Add(max(timeout/time.Duration(len(c.servers)), time.Millisecond))
	conn, err := c.dial(addr, by)
	if err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", addr, err)
	}
	_ = conn.SetDeadline(by) // until requests can be sent
	l := newLink(c, conn, addr)
	err = l.handshake()
	if err == nil {
		err = l.open()
	}
	if err != nil {
		c.lost(l, err)
		return nil, fmt.Errorf("client: connect to %s: %w", addr, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return l, nil
}

func (c *Client) dial(addr string, by time.Time) (net.Conn, error) {
	ctx, cancel := context.WithDeadline(c.ctx, by)
	defer cancel()
	return c.cfg.Dial(ctx, addr)
}

// connected lets requests pass on l.
func (c *Client) connected(l *link) {
	c.mu.Lock()
	c.link = l
	c.lastFail = nil
	close(c.changed)
	c.changed = make(chan struct{})
	l.sent = c.now()
	if c.timer == nil {
		c.timer = time.AfterFunc(c.pingPause(), c.look)
	} else {
		c.timer.Reset(c.pingPause())
	}
	c.mu.Unlock()
	c.reportState(Connected, nil)
}

// lost cleans up after a connection that has broken and ends the requests that were in flight on
// it. It reports whether requests had passed.
func (c *Client) lost(l *link, why error) bool {
	l.release()
	c.mu.Lock()
	passed := c.link == l
	if passed {
		c.link = nil
		if c.timer != nil {
			c.timer.Stop()
		}
		c.wakeAll()
	}
	for l.writing {
		l.idle.Wait()
	}
	if l.end != nil {
		why = l.end
	}
	l.failAuths(why)
	c.mu.Unlock()
	if !passed || c.ctx.Err() != nil || errors.Is(why, jute.AuthFailed) {
		return passed
	}
	c.failCalls(ErrConnectionLost)
	c.reportState(Disconnected, why)
	return passed
}

// wakeAll wakes all callers that wait for room. The lock is held.
func (c *Client) wakeAll() {
	for len(c.waiting) > 0 {
		c.wakeOne()
	}
}

// failCalls ends all requests in flight with err. No request can be sent meanwhile.
func (c *Client) failCalls(err error) {
	for {
		c.mu.Lock()
		if c.calls.Len() == 0 {
			c.mu.Unlock()
			return
		}
		next := c.calls.Pop()
		c.mu.Unlock()
		next.done(Reply{}, err)
	}
}

// look is called by the timer. It checks the connection, and sets the timer to the next check.
func (c *Client) look() {
	c.mu.Lock()
	l := c.link
	if l == nil {
		c.mu.Unlock()
		return
	}
	next, write, end := c.pings(l, c.now())
	if end != nil {
		l.abort(end)
	} else {
		c.timer.Reset(next)
	}
	c.mu.Unlock()
	if write {
		l.write(false)
	}
}

// maxPingPause is the longest time without a ping, as for ZooKeeper's Java client, and maxSilence is three of them:
// the client of a session of half an hour notices within 30 s that its connection is dead.
const (
	maxPingPause = 10 * time.Second
	maxSilence   = 3 * maxPingPause
)

// pings sends a ping if nothing has been sent for a third of the timeout, or for maxPingPause. If nothing has been
// received for two thirds, or for maxSilence, it gives the connection up and returns the reason. It returns when it
// has to be called next, and reports whether the caller has to call write. The lock is held.
func (c *Client) pings(l *link, now time.Duration) (next time.Duration, write bool, end error) {
	pause, limit := c.pingPause(), min(c.timeout*2/3, maxSilence)
	silent := now - time.Duration(l.heard.Load())
	if silent >= limit {
		return 0, false, fmt.Errorf("%w: nothing received for %v", errSilent, silent)
	}
	next = pause // while a write is running, its reply or its failure will tell
	if !l.writing && len(l.out) == 0 {
		if now-l.sent >= pause {
			write = l.ping(now)
		}
		next = pause - (now - l.sent)
	}
	return min(next, limit-silent), write, nil
}

func (c *Client) pingPause() time.Duration { return min(c.timeout/3, maxPingPause) }

var errSilent = errors.New("client: server is silent")
