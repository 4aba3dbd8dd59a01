package server

import (
	"bytes"

	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// auditShare is the part of the session's timeout, as one in so many, that a write waits at most for its line in the audit log. The client is not
// read meanwhile, so its session must not expire.
const auditShare = 4

// Frame implements stream.Frames: a frame is a request. Frame returns false after the last request
// that the connection takes.
func (c *conn) Frame(frame []byte) (more bool) {
	if !c.greeted {
		return c.greet(frame)
	}
	var h jute.RequestHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	if d.Err() != nil {
		c.stream.Drop(badFrame)
		return false
	}
	served := h.Op.Class() == jute.ClassIdentity
	if !served && c.identity.entitled() {
		served, c.used = true, true
		if !c.readOnly {
			c.srv.cfg.Member.Touch(c.session.id, c.stream.Life.Timeout())
		}
	}
	c.srv.stats.received.Add(1)
	r := c.newRequest(h, d.Rest())
	if !served {
		return r.deny()
	}
	if c.readOnly {
		return r.takeReadOnly()
	}
	return r.how.take(r)
}

// write sends a write to the log, unless its record cannot be read.
func (r *request) write() bool {
	c := r.c
	if r.how.record(jute.NewDecoder(r.body)) != nil {
		c.srv.cfg.Audit.Refused(c.session.id, r.ids, r.op, jute.MarshallingError)
		r.code = jute.MarshallingError // takes no zxid
		return r.local()
	}
	return r.submitBounded()
}

// multi sends a multi to the log, unless it is too long. Apply decides whether it can be read,
// because a multi that cannot be read takes a zxid too.
func (r *request) multi() bool {
	c := r.c
	if jute.CountMultiOps(r.body) > c.srv.cfg.Limits.MaxMultiOps {
		c.srv.cfg.Audit.Refused(c.session.id, r.ids, r.op, jute.MarshallingError)
		c.stream.Drop(multiTooLong)
		return false
	}
	return r.submitBounded()
}

// takeMultiRead answers a multiRead, unless it is too long: apply waits while one is answered.
func (r *request) takeMultiRead() bool {
	c := r.c
	if jute.CountMultiOps(r.body) > c.srv.cfg.Limits.MaxMultiOps {
		c.stream.Drop(multiTooLong)
		return false
	}
	return r.look()
}

// submitBounded sends a write to the log, unless it costs too much or would add data while this member is short of memory: then
// the code is jute.NoRoom. A write that is refused takes no zxid. A multi gets the code in the header.
func (r *request) submitBounded() bool {
	c := r.c
	if r.lists, r.code = c.srv.writes.Afford(r.op, r.body, r.ids); r.code != jute.OK {
		c.srv.cfg.Audit.Refused(c.session.id, r.ids, r.op, r.code)
		return r.local()
	}
	if c.srv.writes.LacksMemory(r.op, r.body, r.ids) || len(r.ids) > c.identity.recorded && c.srv.writes.lacksRecord(r.ids) {
		r.code = jute.NoRoom
		return r.local()
	}
	if c.srv.cfg.Audit.Required() {
		return r.submitAudited()
	}
	return r.submit()
}

// submitAudited sends a write to the log when its line is in the audit log. If there is none, the code is jute.NoRoom, and the write takes
// no zxid. A reader of the connection waits for the disk, so neither the loop nor apply does, and the wait ends before the session could expire.
func (r *request) submitAudited() bool {
	c := r.c
	longest := c.stream.Life.Timeout() / auditShare
	write := func() (more bool) {
		if c.srv.cfg.Audit.Intend(c.stream.Life.Context(), longest, c.session.id, r.ids, r.op, r.body) != nil {
			r.code = jute.NoRoom
			more = r.local()
		} else {
			more = r.submit()
		}
		c.flushLater() // the reader that begins with this sends nothing by itself
		return more
	}
	return r.inReader(write)
}

// closeSession sends the close to the log. Requests after it are dropped.
func (r *request) closeSession() bool {
	r.ends, r.why = true, sessionClosed
	r.submit()
	return false
}

// auth takes an auth packet. A password of the super user waits for its turn, if many from the client's address were wrong.
func (r *request) auth() bool {
	c := r.c
	claims, right := c.srv.auth.superGuess(r.body)
	if !claims {
		return r.identified(c.identity.authenticate(r.body))
	}
	return r.attempt(c.srv.cfg.Guesses.Begin(c.identity.host), func(a *admission.Attempt) bool {
		if !right {
			r.wrongSuper(a)
		}
		return r.identified(c.identity.authenticate(r.body))
	})
}

// identified answers a request that proves an identity of the client.
func (r *request) identified(code jute.Code) bool {
	c := r.c
	if code == jute.MarshallingError { // drops the connection in this case only, as ZooKeeper does
		c.stream.Drop(badFrame)
		return false
	}
	if code != jute.OK {
		r.auditAuth(code)
		if r.op == jute.OpSASL { // after an auth packet the session stays, as in ZooKeeper
			c.rejectSession()
		}
	}
	r.code, r.noZxid = code, true
	r.ends, r.why = code != jute.OK, authFailed
	return r.local()
}

// newIdentities returns a transaction that adds the identities which the client has proved to the record of its session, by
// which its writes are judged, or nil if the record has them. It goes before the client's next write, so no write is judged
// by identities that were proved after it. It names only those that the record does not have: with all of them, a client that proves
// and writes by turns made the log twenty times as long as what it sent.
func (c *conn) newIdentities() *proto.Txn {
	added := c.identity.takeUnrecorded()
	if added == nil {
		return nil
	}
	return &proto.Txn{Session: int64(c.session.id), Conn: c.number, Op: int32(jute.OpIdentify), Ids: added}
}

// look serves a read.
func (r *request) look() bool {
	c := r.c
	if c.srv.cfg.LinearizableReads {
		return r.prove()
	}
	return r.local()
}

// unknown answers a request with an unknown opcode, and ends the connection.
func (r *request) unknown() bool {
	r.code, r.ends, r.why = jute.Unimplemented, true, unknownOp
	return r.local()
}

// submit sends a write to the log. Its record is answered when it is applied. In a loop, submit
// leaves to the reader whatever would have to wait.
func (r *request) submit() bool {
	c := r.c
	looped := c.stream.InLoop()
	if !looped && !c.awaitReads() {
		return false
	}
	r.logged = true
	txn := &proto.Txn{
		Session: int64(c.session.id), Conn: c.number, Op: int32(r.op),
		Body: bytes.Clone(r.body), Lists: r.lists, // the log keeps it longer than the frame lives
	}
	r.body = nil
	var first *proto.Txn
	if r.op != jute.OpCloseSession { // which needs no permission
		first = c.newIdentities()
	}
	if looped && (first != nil || c.late()) {
		c.stream.Later(func() bool {
			if !c.awaitReads() || first != nil && !c.hand(first, nil) {
				return false
			}
			r.wait(len(txn.Body))
			return c.hand(txn, r)
		})
		return true
	}
	if first != nil && !c.hand(first, nil) {
		return false
	}
	r.wait(len(txn.Body))
	if !looped {
		return c.hand(txn, r)
	}
	if !c.srv.cfg.Member.Offer(txn, r) {
		c.stream.Later(func() bool { return c.hand(txn, r) })
	}
	return true
}

// late reports whether awaitReads would block.
func (c *conn) late() bool {
	c.stream.Lock()
	defer c.stream.Unlock()
	return c.replies.queue.late()
}

// awaitReads waits until no earlier read of the client can be answered after a write that is submitted
// now, because such a read would show a later state than the client requested. If reads wait only for
// writes, apply answers them in their order, and awaitReads returns at once. Otherwise the client is not
// read meanwhile, so awaitReads waits no longer than a client may be silent. It returns false if the
// connection has ended.
func (c *conn) awaitReads() bool {
	c.stream.Lock()
	defer c.stream.Unlock()
	return c.stream.Wait(c.replies.queue.late)
}

// hand submits a transaction to the member. It blocks as Member.Submit does.
func (c *conn) hand(txn *proto.Txn, w znode.Waiter) bool {
	if err := c.srv.cfg.Member.Submit(c.stream.Life.Context(), txn, w); err != nil {
		c.stream.Drop(internal) // unless it has ended: then that was the error
		return false
	}
	return true
}

// sync asks the member to catch up. Its record is answered when it has.
func (r *request) sync() bool {
	var req jute.SyncRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d)
	if d.Err() != nil {
		r.code = jute.MarshallingError
		return r.local()
	}
	return r.prove()
}

// prove makes the member apply everything that was committed before now, according to a leader
// that has proved that it leads. Then a sync is answered, and a read is answered in its turn.
func (r *request) prove() bool {
	c := r.c
	r.proves, r.logged = true, r.op == jute.OpSync
	r.aside = r.how.aside != nil
	r.keep()
	r.wait(len(r.body))
	c.srv.cfg.Member.Sync(c.number, r)
	return true
}

// wait puts a request that holds so many bytes into the queue. From now on it may be applied and
// freed. Earlier replies are sent now, because the next one may take long.
func (r *request) wait(held int) {
	c := r.c
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.replies.queue.n == 0 {
		c.stream.FlushLater()
	}
	c.replies.traffic.received++
	r.held = held
	c.replies.queue.push(r)
	c.srv.stats.outstanding.Add(1)
	c.stream.Count()
}

// local answers a request that does not go through the log: at once, or after the connection's own
// unfinished writes. It queues the reply before it releases the tree's lock, so that no event
// overtakes it. It returns false if the connection has ended.
func (r *request) local() bool {
	c := r.c
	c.srv.cfg.State.RLock() // apply must wait: no write finishes between the check and the push
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.Closing() {
		return false
	}
	c.replies.traffic.received++
	long := r.long()
	if c.replies.queue.n > 0 || r.parts || long || !c.replies.affords(r) {
		r.keep()
		r.held, r.aside = len(r.body), r.how.aside != nil && r.how.aside(&c.session, r)
		c.replies.queue.push(r)
		c.srv.stats.outstanding.Add(1)
		c.stream.Count()
		switch {
		case c.replies.queue.first != r:
		case long:
			startRead(r)
		case r.parts && c.replies.affords(r):
			r.startParts()
		}
		return !r.ends
	}
	more := !r.ends // answer frees r
	c.replies.answer(r)
	return more && !c.stream.Dead()
}

// TxnApplied implements znode.Waiter. Apply calls it under the tree's lock, after the write's events.
// It answers the write and the requests that wait for it. The close of a session that leaves nodes
// waits longer, for Server.Swept.
func (r *request) TxnApplied(res *znode.Result) {
	if res.NodesLeft {
		return
	}
	c := r.c // r may belong to another connection once it is settled
	c.stream.Lock()
	defer c.stream.Unlock()
	r.applied(res)
}

// applied is Applied, under the lock.
func (r *request) applied(res *znode.Result) {
	c, proves := r.c, r.proves
	switch {
	case c.stream.Closing():
		return
	case !res.Code.OnWire():
		c.stream.DropLocked(sessionMoved) // no client may get this code
		return
	}
	if !proves {
		c.replies.queue.unapplied--
	}
	if r.moves && res.Code == jute.OK {
		r.replyWhenSettled(res)
		return
	}
	r.done = true
	switch {
	case !r.logged: // a read, which answerReady answers in its turn
	case c.replies.queue.first == r && c.stream.Unsent() < stream.HighWater:
		out := c.stream.Output()
		out.B = c.replies.appendApplied(out.B, r, res)
		c.replies.complete(c.replies.queue.pop())
	default:
		c.replies.queue.answered(r, c.replies.appendApplied(nil, r, res))
	}
	c.replies.answerReady(true)
	c.stream.Count()
	if proves {
		c.stream.FlushLater() // no Flush follows, because this is no entry
		return
	}
	c.noteFilled(withReply)
}
