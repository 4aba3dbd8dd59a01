package server

import (
	"errors"
	"os"
	"time"

	"rollcall/jute"
)

// unsent returns how many bytes the client has not taken. The caller holds mu.
func (c *conn) unsent() int {
	if c.out == nil {
		return c.sending
	}
	return c.out.size() + c.sending
}

// output returns the buffer to append frames to. The caller holds mu.
func (c *conn) output() *buffer {
	if c.out == nil {
		c.out = takeBuffer()
	}
	return c.out
}

// event queues a WatcherEvent. A client that leaves too much unread is cut off: events
// wait for nobody. The caller holds mu; the connection is not dead.
func (c *conn) event(t jute.EventType, path string, zxid int64) {
	out := c.output()
	b, mark := jute.BeginFrame(out.b)
	b = jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}.Append(b)
	b = jute.AppendInt32(b, int32(t))
	b = jute.AppendInt32(b, int32(jute.StateSyncConnected))
	out.b = jute.EndFrame(jute.AppendString(b, path), mark)
	c.shown = max(c.shown, zxid)
	c.traffic.sent++
	c.srv.stats.event(len(out.b) - mark - lengthSize)
	c.checkUnread()
}

// checkUnread cuts off a client that leaves too much unread, and counts what it leaves. The
// caller holds mu.
func (c *conn) checkUnread() {
	if c.unsent() > c.srv.cfg.Limits.MaxUnread {
		c.end(slowReader)
	}
	c.account()
}

// noteFilled has the Flush behind the entry that is being applied send what is queued. The
// caller holds mu and the tree's lock.
func (c *conn) noteFilled(with int) {
	if !c.noted && !c.flushing {
		c.noted = true
		c.srv.fill(c, with)
	}
}

// flushNow sends what is queued as far as it can without waiting; a flusher does the rest.
// The caller holds no lock.
func (c *conn) flushNow() {
	batch, vouch := c.begin()
	if batch == nil {
		return
	}
	now := time.Now()
	if c.raw == nil || batch.extra > 0 || vouch && !c.srv.cfg.Member.Vouched(c.session, now) {
		go c.flush(batch, 0, vouch)
		return
	}
	c.armWrite(now)
	if n := writeNow(c.raw, batch.b[:min(len(batch.b), maxWrite)]); n < len(batch.b) {
		go c.flush(batch, n, vouch)
		return
	}
	if batch, vouch = c.sent(batch); batch != nil {
		go c.flush(batch, 0, vouch)
	}
}

// begin makes the caller the one who sends, and takes what is queued; nil: there is nothing
// to send, or somebody does it already, or did it here: the connection is in a loop.
func (c *conn) begin() (batch *buffer, vouch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted = false
	if c.loop != nil {
		c.transmit()
		return nil, false
	}
	if c.dead || c.flushing || c.out == nil {
		return nil, false
	}
	c.flushing = true
	c.helpers++
	return c.takeLocked()
}

// flushLocked starts a flusher if there is anything to send and none yet. The caller holds mu.
func (c *conn) flushLocked() {
	if c.dead || c.flushing || c.out == nil {
		return
	}
	c.helpers++
	if c.loop != nil {
		go c.flushAside()
		return
	}
	c.flushing = true
	go func() {
		if batch, vouch := c.take(); batch != nil {
			c.flush(batch, 0, vouch)
		}
	}()
}

// flushAside is flushNow as a helper.
func (c *conn) flushAside() {
	c.flushNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.helpers--
	c.changed.Broadcast()
}

// flush sends a batch, of which n bytes are sent, and in each write that follows all that
// was queued meanwhile.
func (c *conn) flush(batch *buffer, n int, vouch bool) {
	for batch != nil {
		if why, ok := c.sendBatch(batch, n, vouch); !ok {
			batch.free()
			c.cut(why)
			batch, vouch = c.take()
		} else {
			batch, vouch = c.sent(batch)
		}
		n = 0
	}
}

// sendBatch writes a batch but for its first n bytes.
func (c *conn) sendBatch(batch *buffer, n int, vouch bool) (why reason, ok bool) {
	for piece := range batch.pieces(n) {
		if why, ok := c.send(piece, vouch); !ok {
			return why, false
		}
	}
	return 0, true
}

// sent is what follows a batch that has been sent; it returns the next.
func (c *conn) sent(batch *buffer) (next *buffer, vouch bool) {
	batch.free()
	c.resume()
	c.finish()
	return c.take()
}

// take returns what is queued, and whether it needs vouching; or nil: then this flusher
// is none any more, and the caller returns.
func (c *conn) take() (batch *buffer, vouch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked()
}

func (c *conn) takeLocked() (batch *buffer, vouch bool) {
	c.sending = 0
	c.account()
	if c.out == nil || c.dead {
		c.flushing = false
		c.helpers--
		c.changed.Broadcast()
		return nil, false
	}
	batch, c.out = c.out, nil
	c.sending = batch.size()
	return batch, c.open && !c.spared
}

// finish closes the sending side behind the last reply; the reader waits for the
// client's.
func (c *conn) finish() {
	if !c.allSent() {
		return
	}
	half, ok := c.sock.(interface{ CloseWrite() error })
	ok = ok && half.CloseWrite() == nil // without the lock: TLS sends a word of its own
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	if !ok {
		c.end(c.why)
	}
	if !c.dead {
		_ = c.sock.SetReadDeadline(time.Now().Add(lingerTime)) // if it fails, so will the read
	}
	c.changed.Broadcast()
}

// allSent reports whether the client has been sent the last reply.
func (c *conn) allSent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last && !c.dead && c.out == nil
}

// send writes b if the member vouches for the session. Each part has its deadline: a
// client that takes nothing for its session's timeout is cut off.
func (c *conn) send(b []byte, vouch bool) (why reason, ok bool) {
	for len(b) > 0 {
		now := time.Now()
		if vouch && !c.vouched(now) {
			return notVouched, false
		}
		c.armWrite(now)
		n, err := c.sock.Write(b[:min(len(b), maxWrite)])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return slowReader, false
		case err != nil:
			return byClient, false
		}
		if b = b[n:]; n == maxWrite {
			c.tookPart(n)
		}
	}
	return 0, true
}

// tookPart notes that the client has taken n bytes of what is being sent.
func (c *conn) tookPart(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = max(0, c.sending-n)
	c.account()
}

// armWrite sets the deadline by which the client must take what is sent, not for every
// write, but when a tick has gone by. A connection that has ended keeps its own.
func (c *conn) armWrite(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tick, patience := c.srv.cfg.Tick, c.timeout
	if !c.open {
		patience = c.srv.cfg.Limits.Handshake
	}
	if !c.dead && now.Sub(c.written) > tick {
		c.written = now
		_ = c.sock.SetWriteDeadline(now.Add(patience + tick)) // if it fails, so will the write
	}
}

// vouched reports whether the client may be told, now, that its session lives. It waits
// for that, half a tick at most.
func (c *conn) vouched(now time.Time) bool {
	member := c.srv.cfg.Member
	if member.Vouched(c.session, now) || member.Vouch(c.life, c.session) == nil {
		return true
	}
	// Nobody vouches for a session that was closed meanwhile. If this connection did that
	// the client may know: it lived up to there. Apply tells so under the tree's lock.
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spared
}

// resume answers requests that wait only because too much was unsent.
func (c *conn) resume() {
	if !c.ready() {
		return
	}
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = 0
	c.account()
	c.answerReady(false)
}

// ready also tells the reader that the client has taken what was sent.
func (c *conn) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = 0
	c.account()
	c.changed.Broadcast()
	return !c.dead && c.queue.first != nil && c.queue.first.due()
}
