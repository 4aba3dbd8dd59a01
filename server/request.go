package server

import (
	"bytes"

	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// auditWaitDivisor divides the session's timeout into the longest wait of a write for its line in the audit
// log. The client is not read meanwhile, so its session must not expire.
const auditWaitDivisor = 4

// ServeFrame implements stream.Frames: a frame is a request. It returns false after the last request that the
// connection takes.
func (c *conn) ServeFrame(frame []byte) (more bool) {
	if !c.gotFirstFrame {
		return c.serveConnectRequest(frame)
	}
	var h jute.RequestHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	if d.Err() != nil {
		c.stream.Drop(badFrame)
		return false
	}
	served := h.Op.Class() == jute.ClassIdentity
	if !served && c.identity.mayBeServed() {
		served, c.servedRequest = true, true
		if !c.readOnly {
			c.srv.cfg.Member.Touch(c.session.id, c.stream.Life.Timeout())
		}
	}
	c.srv.stats.received.Add(1)
	r := c.newRequest(h, d.Rest())
	if !served {
		return r.rejectUnauthenticated()
	}
	if c.srv.limiter.Table() != nil || c.srv.requestThrottle != nil {
		return limitedRequest{r}.handle()
	}
	return r.handle()
}

func (r *request) handle() bool {
	if r.c.readOnly {
		return r.handleReadOnly()
	}
	return r.operation.handle(r)
}

func (r *request) handleWrite() bool {
	c := r.c
	if r.operation.decodeRecord(jute.NewDecoder(r.body)) != nil {
		c.srv.cfg.Audit.AddRejected(c.session.id, r.ids, r.op, jute.MarshallingError)
		r.code = jute.MarshallingError // takes no zxid
		return r.replyLocally()
	}
	return r.submitWithinLimits()
}

// handleMultiRead serves a multiRead. It waits for the last entry that any of its paths needs. Its operations are decoded
// once here, and few of them if the reply would be too long.
func (r *request) handleMultiRead() bool {
	c := r.c
	if c.session.beginsTooLong(r) && c.replies.hasEmptyQueue() {
		r.code = jute.MarshallingError
		return r.replyLocally()
	}
	if c.linearReads {
		return replyWhenFresh(r, func(note func(path []byte) (more bool)) {
			jute.EachMultiOp(r.body, func(op *jute.MultiOp) (more bool) { return note(op.Path()) })
		})
	}
	index := uint64(0)
	if c.mayAwaitEntry() && c.replies.hasEmptyQueue() {
		jute.EachMultiOp(r.body, func(op *jute.MultiOp) (more bool) {
			index = max(index, c.srv.cfg.Member.IndexToAwait(op.Path()))
			return true
		})
	}
	return replyAfterEntry(r, index)
}

// submitWithinLimits sends a write to the log unless it costs too much, or would add data while this member is
// short of memory (jute.NoRoom). A rejected write takes no zxid. A multi gets the code in the header.
func (r *request) submitWithinLimits() bool {
	c := r.c
	if r.listBytes, r.code = c.srv.writeLimits.CheckCost(r.op, r.body, r.ids); r.code != jute.OK {
		c.srv.cfg.Audit.AddRejected(c.session.id, r.ids, r.op, r.code)
		return r.replyLocally()
	}
	if c.srv.writeLimits.RejectForMemory(r.op, r.body, r.ids) || len(r.ids) > int(c.identity.numRecorded) &&
		c.srv.writeLimits.rejectIdentitiesForMemory(r.ids) {
		r.code = jute.NoRoom
		return r.replyLocally()
	}
	if c.srv.cfg.Audit.IsRequired() {
		return r.auditThenSubmit()
	}
	return r.submitToLog()
}

// auditThenSubmit sends a write to the log once its line is in the audit log. Without the line, the code is
// jute.NoRoom, and the write takes no zxid. A reader of the connection waits for the disk, not the loop or
// apply, and the wait ends before the session could expire.
func (r *request) auditThenSubmit() bool {
	c := r.c
	longest := c.stream.Life.Timeout() / auditWaitDivisor
	write := func() (more bool) {
		if c.srv.cfg.Audit.WriteChangeIfRequired(c.stream.Life.Context(), longest, c.session.id, r.ids, r.op, r.body) != nil {
			r.code = jute.NoRoom
			more = r.replyLocally()
		} else {
			more = r.submitToLog()
		}
		c.flushLater() // the reader that begins with this sends nothing by itself
		return more
	}
	return r.runInReader(write)
}

// handleCloseSession sends the close to the log. Requests after it are dropped.
func (r *request) handleCloseSession() bool {
	r.endReason = sessionClosed
	r.submitToLog()
	return false
}

// handleAuth takes an auth packet, which may also choose how fresh reads are. A password of the super user waits for its turn, if many from the client's
// address were wrong.
func (r *request) handleAuth() bool {
	c := r.c
	if len(c.srv.cfg.Login.EnsembleNames) > 0 && c.identity.namesAnotherEnsemble(r.body) {
		c.srv.authenticator.logRejection("client of another ensemble", c.addr, c.session.id, "the name that it gives is not in ensembleAuthName")
		c.stream.Drop(otherEnsemble)
		return false
	}
	if code, isChoice := chooseReadMode(c, r.body); isChoice {
		return r.replyToAuth(code)
	}
	claims, right := c.srv.authenticator.checkSuperPassword(r.body)
	if !claims {
		return r.replyToAuth(c.identity.authenticate(r.body))
	}
	return r.checkInTurn(c.srv.cfg.CredentialLimiter.NewAttempt(c.identity.host), func(a *admission.Attempt) bool {
		if !right {
			r.recordWrongSuperPassword(a)
		}
		return r.replyToAuth(c.identity.authenticate(r.body))
	})
}

// replyToAuth replies to a request that proves an identity.
func (r *request) replyToAuth(code jute.Code) bool {
	c := r.c
	if code == jute.MarshallingError { // drops the connection in this case only, as ZooKeeper does
		c.stream.Drop(badFrame)
		return false
	}
	if code != jute.OK {
		r.auditFailedAuth(code)
		if r.op == jute.OpSASL { // after an auth packet the session stays, as in ZooKeeper
			c.closeUnusedSessionOnEnd()
		}
	}
	r.code, r.noZxid = code, true
	if code != jute.OK {
		r.endReason = authFailed
	}
	return r.replyLocally()
}

// takeIdentifyTxn returns a transaction that adds newly proved identities to the session's record, by which
// its writes are judged, or nil if there are none. It goes before the client's next write, so no write is
// judged by identities that were proved after it. It names only new identities: with all of them, a client
// that proves and writes by turns made the log twenty times as long as its input.
func (c *conn) takeIdentifyTxn() *proto.Txn {
	added := c.identity.takeUnrecorded()
	if added == nil {
		return nil
	}
	return &proto.Txn{Session: int64(c.session.id), Conn: c.uniqueNumber, Op: int32(jute.OpIdentify), Ids: added}
}

// handleRead serves a read of the path with which its record begins, if it has one.
func (r *request) handleRead() bool {
	d := jute.NewDecoder(r.body)
	path := d.ReadBytes()
	if r.c.linearReads {
		return replyWhenFresh(r, func(note func(path []byte) (more bool)) { note(dependsOn(r.op, path)) })
	}
	var index uint64
	if r.c.mayAwaitEntry() {
		index = r.c.srv.cfg.Member.IndexToAwait(path)
	}
	if index > 0 && !r.c.replies.hasEmptyQueue() {
		index = 0
	}
	return replyAfterEntry(r, index)
}

// dependsOn returns the path of the node that a read of op depends on, or nil if that is more than one. path is the one that it names.
func dependsOn(op jute.Op, path []byte) []byte {
	if op == jute.OpGetEphemerals || op == jute.OpGetAllChildrenNumber {
		return nil
	}
	return path
}

// replyWhenFresh serves the read r once what it depends on is not stale. Without a path, that is everything.
func replyWhenFresh(r *request, eachPath func(note func(path []byte) (more bool))) bool {
	var index uint64
	hasLease := true
	eachPath(func(path []byte) (more bool) {
		var needed uint64
		needed, hasLease = r.c.srv.cfg.Member.IndexToRead(path)
		index = max(index, needed)
		return hasLease
	})
	switch {
	case !hasLease:
		return r.requestProof()
	case index > 0:
		return awaitHeld(r, index)
	}
	return r.replyLocally()
}

// mayAwaitEntry reports whether a read that is taken in now may wait for an entry that writes its path, if no earlier
// request waits: behind one it gets its reply in turn. A read that came together with one that has waited does not
// wait: of a thousand reads that a client sends at once, each could find the next write of a busy path.
func (c *conn) mayAwaitEntry() bool {
	return c.stream.InLoop() || c.awaitedInput != c.stream.InputReads()
}

// replyAfterEntry serves the read r once the entry of an index is applied, if index is not 0.
func replyAfterEntry(r *request, index uint64) bool {
	c := r.c
	if index == 0 {
		return r.replyLocally()
	}
	return r.runInReader(func() (more bool) {
		c.srv.cfg.Member.AwaitIndex(c.stream.Life.Context(), index)
		c.awaitedInput = c.stream.InputReads()
		r.times.readyAt = c.srv.cfg.Stages.Now()
		more = r.replyLocally()
		c.flushLater()
		return more
	})
}

// handleUnknown rejects an unknown opcode, and ends the connection.
func (r *request) handleUnknown() bool {
	r.code, r.endReason = jute.Unimplemented, unknownOp
	return r.replyLocally()
}

// submitToLog sends a write to the log. Its reply follows when it is applied. In a loop, submitToLog leaves
// whatever would have to wait to the reader.
func (r *request) submitToLog() bool {
	c := r.c
	looped := c.stream.InLoop()
	if !looped && !c.srv.requestThrottle.awaitLateReads(c) {
		return false
	}
	r.kind = kindInLog(r.op, c.srv.cfg.MembersInSync != nil)
	txn := &proto.Txn{
		Session: int64(c.session.id), Conn: c.uniqueNumber, Op: int32(r.op),
		Body: bytes.Clone(r.body), AclBytes: r.listBytes, // the log keeps it longer than the frame
	}
	r.body, r.times.txnBody = nil, txn.Body
	var first *proto.Txn
	if r.op != jute.OpCloseSession { // it needs no permission
		first = c.takeIdentifyTxn()
	}
	if looped && (first != nil || c.hasLateReads()) {
		c.stream.LeaveToReader(func() bool {
			if !c.awaitLateReads() || first != nil && !c.submitTxn(first, nil) {
				return false
			}
			r.enqueue(len(txn.Body))
			return c.submitTxn(txn, r)
		})
		return true
	}
	if first != nil && !c.submitTxn(first, nil) {
		return false
	}
	r.enqueue(len(txn.Body))
	if !looped {
		return c.submitTxn(txn, r)
	}
	if !c.srv.cfg.Member.TrySubmit(txn, r) {
		c.stream.LeaveToReader(func() bool { return c.submitTxn(txn, r) })
	}
	return true
}

func (c *conn) hasLateReads() bool {
	c.stream.Lock()
	defer c.stream.Unlock()
	return c.replies.queue.hasLateReads()
}

// awaitLateReads waits until every earlier read will get its reply before a write that is submitted now;
// otherwise such a read would show a later state than requested. If reads wait only for writes, apply serves
// them in order, and awaitLateReads returns at once. Otherwise the client is not read meanwhile, so awaitLateReads
// waits no longer than a client may be silent. It returns false if the connection has ended.
func (c *conn) awaitLateReads() bool {
	c.stream.Lock()
	defer c.stream.Unlock()
	return c.stream.WaitWhile(c.replies.queue.hasLateReads)
}

// submitTxn submits a transaction to the member. It blocks as Member.Submit does.
func (c *conn) submitTxn(txn *proto.Txn, w znode.Waiter) bool {
	if err := c.srv.cfg.Member.Submit(c.stream.Life.Context(), txn, w); err != nil {
		c.stream.Drop(internalError) // unless it has ended: then that was the error
		return false
	}
	return true
}

func (r *request) handleSync() bool {
	var req jute.SyncRequest
	d := jute.NewDecoder(r.body)
	req.Decode(&d)
	if d.Err() != nil {
		r.code = jute.MarshallingError
		return r.replyLocally()
	}
	return r.requestProof()
}

// requestProof makes the member apply everything that was committed before now, according to a leader that
// has proved that it leads. A sync then gets its reply, and a read in its turn.
func (r *request) requestProof() bool {
	enqueueUnproved(r)
	r.c.srv.cfg.Member.Sync(r.c.uniqueNumber, r.c.session.id, r)
	return true
}

// awaitHeld makes a read wait until the log is applied up to index. The read gets its reply in its turn.
func awaitHeld(r *request, index uint64) bool {
	enqueueUnproved(r)
	r.c.srv.cfg.Member.SyncRead(r.c.uniqueNumber, index, r)
	return true
}

// enqueueUnproved puts a sync, or a read that could be stale now, into the queue.
func enqueueUnproved(r *request) {
	r.kind = provedRead
	if r.op == jute.OpSync {
		r.kind = syncing
	}
	r.tooSlowForApply = r.operation.tooSlowForApply != nil
	r.copyBody()
	r.enqueue(len(r.body))
}

// enqueue puts a request that holds so many bytes into the queue. From now on it may be applied and freed.
// Earlier replies are sent now, because the next one may take long.
func (r *request) enqueue(held int) {
	c := r.c
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.replies.queue.n == 0 {
		c.stream.FlushLater()
	}
	c.replies.countRequest(held)
	r.heldBytes = held
	c.replies.queue.push(r)
	c.srv.stats.outstanding.Add(1)
	c.srv.requestThrottle.add()
	c.stream.UpdateAccount()
}

// replyLocally serves a request that does not go through the log: at once, or after the connection's own
// unfinished writes. It queues the reply before it releases the tree's lock, so that no event overtakes it.
// It returns false if the connection has ended.
func (r *request) replyLocally() bool {
	c := r.c
	if r.kind == inParts {
		r.copyBody() // long, so not under the tree's lock
	}
	c.lockWithTree() // apply must wait: no write finishes between the check and the push
	defer c.unlockWithTree()
	if c.stream.IsClosing() {
		return false
	}
	c.replies.countRequest(len(r.body))
	if r.op == jute.OpPing && c.replies.mayPingOvertake() {
		r.noZxid = true
		c.replies.queueReply(r)
		return !c.stream.HasEnded()
	}
	long := r.needsFrozenCopy()
	if c.replies.queue.n > 0 || r.kind == inParts || long || !c.replies.claimBudget(r) {
		r.copyBody()
		r.heldBytes, r.tooSlowForApply = len(r.body), r.operation.tooSlowForApply != nil &&
			r.operation.tooSlowForApply(&c.session, r)
		c.replies.queue.push(r)
		c.srv.stats.outstanding.Add(1)
		c.stream.UpdateAccount()
		switch {
		case c.replies.queue.first != r:
		case long:
			startLongRead(r)
		case r.kind == inParts && c.replies.claimBudget(r):
			r.startParts()
		}
		return !r.endsConn()
	}
	more := !r.endsConn() // queueReply frees r
	c.replies.queueReply(r)
	return more && !c.stream.HasEnded()
}

// completeInTurn marks r, which was served outside of apply, as ready, and replies to it and to the requests that
// wait for it. The caller holds no lock.
func (r *request) completeInTurn(code jute.Code) {
	c := r.c
	c.lockWithTree()
	defer c.unlockWithTree()
	if c.stream.IsClosing() {
		return
	}
	completeLocked(r, code)
}

// completeLocked is request.completeInTurn for a caller that holds the lock and the tree's.
func completeLocked(r *request, code jute.Code) {
	c := r.c // r may belong to another connection once it has its reply
	c.srv.requestThrottle.leaveIfInProcess(r)
	r.code, r.progress = code, readyToReply
	c.replies.queueReadyReplies(false)
	c.stream.UpdateAccount()
	c.stream.FlushLater()
}

// ReceiveResult implements znode.Waiter. Apply calls it under the tree's lock, after the write's events. It queues
// the reply to the write and to the requests that wait for it. The close of a session that leaves nodes waits
// longer, for Server.SessionSwept.
func (r *request) ReceiveResult(res *znode.Result) {
	if res.NodesLeft {
		return
	}
	c := r.c // r may belong to another connection once it has its reply
	c.stream.Lock()
	defer c.stream.Unlock()
	r.completeApplied(res)
}

func (r *request) completeApplied(res *znode.Result) {
	c, proves := r.c, r.kind.needsProof()
	switch {
	case c.stream.IsClosing():
		return
	case !res.Code.IsSentByServers():
		c.stream.DropLocked(sessionMoved) // no client may get this code
		return
	}
	r.times.resultAt = c.srv.cfg.Stages.Now()
	if !proves {
		r.times.entryIndex = c.srv.cfg.Stages.ApplyingIndex()
		c.replies.queue.numUnapplied--
	}
	if r.kind == reconfiguring && res.Code == jute.OK {
		r.replyWhenMembersFollow(res)
		return
	}
	c.srv.requestThrottle.leaveIfInProcess(r)
	r.progress = readyToReply
	switch {
	case !r.kind.isLogged(): // a read: queueReadyReplies serves it in its turn
	case c.replies.queue.first == r && c.stream.UnsentBytes() < stream.HighWater:
		out := c.stream.Output()
		out.B = c.replies.appendApplied(out.B, r, res)
		c.replies.finishLogged(c.replies.queue.pop())
	default:
		c.replies.queue.holdReply(r, c.replies.appendApplied(nil, r, res))
	}
	c.replies.queueReadyReplies(true)
	c.stream.UpdateAccount()
	if proves {
		c.stream.FlushLater() // no FlushApplied follows, because this is no entry
		return
	}
	c.scheduleFlush(withReply)
}
