package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"rollcall/jute"
)

// Record is the body of a request. Append runs under the Client's lock: it only writes.
type Record interface {
	Append(b []byte) []byte
}

// Readable is the body of a reply.
type Readable interface {
	Decode(d *jute.Decoder)
}

// Reply is a server's answer. Err is its code, OK or an error. Body follows the header; it is
// good until the function it is given to returns.
type Reply struct {
	jute.ReplyHeader
	Body []byte
}

// Into decodes the body, whose memory rec then refers to.
func (r Reply) Into(rec Readable) error {
	return r.decode(new(jute.Decoder), rec)
}

func (r Reply) decode(d *jute.Decoder, rec Readable) error {
	*d = jute.NewDecoder(r.Body)
	rec.Decode(d)
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, d.Err())
	}
	return nil
}

// call is a request under way.
type call struct {
	done func(Reply, error)
	path string // that it watches if it succeeds
	xid  int32
	op   jute.Op
	set  watch // the kind of that watch, as the request asks for it; 0: none
}

// Bounds of what waits to be sent.
const (
	maxUnsent  = 4 << 20  // bytes not yet taken to be written, past which Go waits
	maxRequest = 64 << 20 // bytes of one request; servers take 1 MiB unless told otherwise
)

// Go sends a request: op with the record rec, nil if it has none. done is called once, in the
// order of requests, with the reply, whose Err is the server's code, or with an error:
// ErrConnectionLost, ErrExpired or ErrClosed. It runs on the reader and must not block; it may
// call Go. rec is encoded before Go returns.
//
// Go waits, until ctx ends, while MaxInFlight requests are under way, or 4 MiB of them unsent.
// It does not wait for a connection: without one it returns ErrNotConnected (Ready waits).
// While a function of the caller runs on the reader it lets twice as many pass, so that one
// that sends a request in place of the one that ended does not wait for itself. When Go returns
// an error, nothing was sent and done will not be called.
func (c *Client) Go(ctx context.Context, op jute.Op, rec Record, done func(Reply, error)) error {
	return c.send(ctx, op, rec, done, false)
}

func (c *Client) send(ctx context.Context, op jute.Op, rec Record, done func(Reply, error), last bool) error {
	c.mu.Lock()
	for {
		if err := c.refusal(last); err != nil {
			c.mu.Unlock()
			return err
		}
		if c.room() {
			break
		}
		if err := c.waitRoom(ctx); err != nil {
			return err
		}
	}
	l, write, err := c.push(op, rec, done)
	if write {
		l.write()
	}
	return err
}

// push queues a request on the connection, and reports if the caller has to call write. It
// gives up the lock.
func (c *Client) push(op jute.Op, rec Record, done func(Reply, error)) (l *link, write bool, err error) {
	defer c.mu.Unlock()
	l = c.link
	xid := c.xid%(1<<31-1) + 1
	out, mark := jute.BeginFrame(l.out)
	out = jute.RequestHeader{Xid: xid, Op: op}.Append(out)
	body := len(out)
	if rec != nil {
		out = rec.Append(out)
	}
	if len(out)-mark > maxRequest {
		return l, false, ErrTooLong
	}
	next := call{done: done, xid: xid, op: op}
	next.path, next.set = watchOf(op, out[body:])
	l.out = jute.EndFrame(out, mark)
	c.xid = xid
	c.calls.Push(next)
	return l, l.startFlush(), nil
}

// refusal is why no request passes at the moment, nil if one may. last is for Close.
func (c *Client) refusal(last bool) error {
	switch {
	case c.end != nil:
		return c.end
	case c.closing && !last:
		return ErrClosed
	case c.link == nil:
		return ErrNotConnected
	}
	return nil
}

func (c *Client) room() bool {
	if c.link.reading { // what is unsent waits for the reader, which may be who calls
		return c.calls.Len() < 2*c.cfg.MaxInFlight
	}
	return c.calls.Len() < c.cfg.MaxInFlight && len(c.link.out) < maxUnsent
}

// waitRoom gives the lock up until there may be room, and takes it again; not if it returns
// an error, which is ctx's.
func (c *Client) waitRoom(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	c.waiting = append(c.waiting, wake)
	c.mu.Unlock()
	select {
	case <-wake:
		c.mu.Lock()
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if i := slices.Index(c.waiting, wake); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else {
		c.wakeOne() // it was this one's turn
	}
	c.mu.Unlock()
	return ctx.Err()
}

// wakeOne lets the first that waits for room look again. The lock is held.
func (c *Client) wakeOne() {
	if len(c.waiting) == 0 {
		return
	}
	c.waiting[0] <- struct{}{}
	c.waiting = slices.Delete(c.waiting, 0, 1)
}

// Do sends a request, waiting for a connection and for room as long as ctx allows, and waits
// for the reply, which it decodes into into (nil: not at all). What into then refers to is its
// own. zxid is the reply's. The error is the server's code, ErrConnectionLost, ErrExpired,
// ErrClosed, ErrProtocol or ctx's: then a request that was sent may still be carried out.
func (c *Client) Do(ctx context.Context, op jute.Op, rec Record, into Readable) (zxid int64, err error) {
	return c.do(ctx, op, rec, into, false)
}

func (c *Client) do(ctx context.Context, op jute.Op, rec Record, into Readable, last bool) (zxid int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	w := c.takeWaiter()
	for {
		err := c.send(ctx, op, rec, w.done, last)
		if err == nil {
			break
		}
		if errors.Is(err, ErrNotConnected) {
			err = c.Ready(ctx)
		}
		if err != nil {
			c.waiters.Put(w)
			return 0, err
		}
	}
	select {
	case <-w.answered:
	case <-ctx.Done():
		if w.given.Swap(true) {
			<-w.answered
			c.waiters.Put(w)
		}
		return 0, ctx.Err()
	}
	r, err := w.reply, w.err
	if err == nil {
		err = r.Err.Err()
	}
	if err == nil && into != nil {
		err = r.decode(&w.decoder, into)
		if !isFlat(into) {
			w.body = nil // it is into's now
		}
	}
	c.waiters.Put(w)
	return r.Zxid, err
}

// isFlat reports whether a decoded record refers to nothing.
func isFlat(into Readable) bool {
	switch into.(type) {
	case *jute.StatRecord, *jute.ErrorResponse:
		return true
	}
	return false
}

// waiter is one Do that waits for its reply.
type waiter struct {
	pool     *sync.Pool
	done     func(Reply, error) // finish, bound once
	answered chan struct{}      // one place
	decoder  jute.Decoder       // here, it is not allocated for each reply
	given    atomic.Bool        // by who comes first: the reply, or the caller who gives up
	reply    Reply              // its body in body
	body     []byte
	err      error
}

// maxBody is how many bytes of a reply a waiter keeps room for between calls.
const maxBody = 4 << 10

func (c *Client) takeWaiter() *waiter {
	w, _ := c.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{pool: &c.waiters, answered: make(chan struct{}, 1)}
		w.done = w.finish
	}
	w.given.Store(false)
	w.reply, w.err = Reply{}, nil
	if cap(w.body) > maxBody {
		w.body = nil
	}
	return w
}

func (w *waiter) finish(r Reply, err error) {
	w.body = append(w.body[:0], r.Body...)
	w.reply, w.err = Reply{ReplyHeader: r.ReplyHeader, Body: w.body}, err
	if w.given.Swap(true) {
		w.pool.Put(w)
		return
	}
	w.answered <- struct{}{}
}
