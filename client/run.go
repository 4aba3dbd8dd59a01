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

// backoffSteps is how often the pause between attempts doubles: from a 128th of the session's
// timeout to an 8th, so that there are several attempts in a session's life.
const backoffSteps = 4

// minLife is how long a connection lives that counts as a success: a server that lets clients
// in only to drop them is not asked at once again.
const minLife = 100 * time.Millisecond

// backoff is the pause after so many attempts in a row have failed, half of it by chance: many
// clients that lost the same server do not come back at once.
func backoff(timeout time.Duration, failed int) time.Duration {
	d := timeout / 128 << min(failed-1, backoffSteps)
	return d/2 + rand.N(d/2+1)
}

// run is the reader: it keeps a connection until the session or the Client ends, or a Loop has
// taken it over. What waits on an idle connection stands on little stack: run, serve and next.
func (c *Client) run() {
	for {
		passed := false
		l, err := c.connect()
		if err == nil {
			if c.cfg.Loop.take(l) {
				return // dropped goes on
			}
			c.connected(l)
			err = l.serve()
			passed = c.lost(l, err)
		}
		if c.ends(err) {
			return
		}
		c.pause(passed, err)
	}
}

// dropped is what a Loop calls when a connection that it served has ended.
func (c *Client) dropped(l *link, err error) {
	passed := c.lost(l, err)
	if c.ends(err) {
		return
	}
	go func() { // run ends it, or the next connection
		c.pause(passed, err)
		c.run()
	}()
}

// ends ends the Client if there is nothing left to connect for.
func (c *Client) ends(err error) bool {
	switch {
	case c.ctx.Err() != nil:
		c.over(Closed, nil, ErrClosed)
	case errors.Is(err, ErrExpired):
		c.over(Expired, err, ErrExpired)
	case errors.Is(err, jute.AuthFailed):
		c.over(Closed, err, err)
	default:
		return false
	}
	return true
}

// pause waits before the next attempt, the longer the more have failed; not at all after a
// connection on which requests passed for a while.
func (c *Client) pause(passed bool, err error) {
	if passed && c.now()-c.begun > minLife {
		c.failed = 0
		return
	}
	c.failed++
	if c.failed == len(c.servers) {
		c.log.Warn("no server could be connected to", "session", c.session.ID, "err", err)
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

// over ends the Client: nothing will pass any more, because of end.
func (c *Client) over(s State, why, end error) {
	c.stop()
	c.mu.Lock()
	c.end = end
	c.link = nil
	close(c.changed)
	c.wakeAll()
	c.mu.Unlock()
	c.fail(end)
	c.tell(s, why)
	close(c.ended)
}

func (c *Client) tell(s State, why error) {
	if s != Closed || why != nil {
		id, _ := c.Session()
		c.log.Info("session "+s.String(), "session", id, "server", c.Server(), "why", why)
	}
	if c.cfg.State != nil {
		c.callsOut()
		c.cfg.State(s, why)
	}
}

// callsOut notes that the reader enters a function of the caller, which may send requests:
// what it sends on the connection is written when the reader is about to wait.
func (c *Client) callsOut() {
	c.mu.Lock()
	if c.link != nil {
		c.link.reading = true
	}
	c.mu.Unlock()
}

// connect opens a connection to the next server, with the session or a new one. The server has
// its share of the session's timeout for that and for all that goes before requests.
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
	_ = conn.SetDeadline(by) // until requests pass
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
	switch {
	case l.looped:
	case c.timer == nil:
		c.timer = time.AfterFunc(c.timeout/3, c.look)
	default:
		c.timer.Reset(c.timeout / 3)
	}
	c.mu.Unlock()
	c.tell(Connected, nil)
}

// lost ends a connection that has broken, and what was under way on it. It reports whether
// requests had passed.
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
	c.mu.Unlock()
	if !passed || c.ctx.Err() != nil || errors.Is(why, jute.AuthFailed) {
		return passed
	}
	c.fail(ErrConnectionLost)
	c.tell(Disconnected, why)
	return passed
}

// wakeAll lets all that wait for room look again. The lock is held.
func (c *Client) wakeAll() {
	for len(c.waiting) > 0 {
		c.wakeOne()
	}
}

// fail ends all requests under way. Nothing can pass meanwhile.
func (c *Client) fail(err error) {
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

// look is what the timer runs: it looks after the connection, and sets the timer to when it
// has to look next.
func (c *Client) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.link
	if l == nil {
		return
	}
	next, _, end := c.pings(l, c.now())
	if end != nil {
		l.endsWith(end)
		return
	}
	c.timer.Reset(next)
}

// pings pings when nothing has been sent for a third of the timeout, and gives up a connection
// that has said nothing for two thirds: then it returns why. It returns when it has to look
// next, and if the caller has to call write. The lock is held.
func (c *Client) pings(l *link, now time.Duration) (next time.Duration, write bool, end error) {
	silent := now - time.Duration(l.heard.Load())
	if silent >= c.timeout*2/3 {
		return 0, false, fmt.Errorf("%w: nothing heard for %v", errSilent, silent)
	}
	next = c.timeout / 3 // while something is being written, that is what will be heard of
	if !l.writing && len(l.out) == 0 && l.rest() == 0 {
		if now-l.sent >= c.timeout/3 {
			write = l.ping(now)
		}
		next = c.timeout/3 - (now - l.sent)
	}
	return min(next, c.timeout*2/3-silent), write, nil
}

var errSilent = errors.New("client: server is silent")
