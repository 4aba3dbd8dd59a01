package server

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/admission"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	passwordSize = 16
	minMaxBuffer = 64 // a ConnectRequest must fit
	// maxFirstFrame bounds a client's first frame, in bytes, so that strangers cannot make a server read and
	// hold long ones. A ConnectRequest has 45.
	maxFirstFrame = 1 << 10
	// sessionWaitDivisor divides a session's timeout into the longest wait for it here. Afterwards the client
	// still has time to try two other members.
	sessionWaitDivisor = 3
)

// handshake is a connection's create or attach in the log. As the Waiter of that transaction, it replies to
// the client only when the transaction is applied here.
type handshake struct {
	c               *conn
	startedAt       time.Time
	knownOwnerIndex uint64 // attach: the session's since when the client came, or 0 if it was unknown here
	sessionID       jute.SessionID
	isAttach        bool   // false: create
	password        []byte // attach: the client's; create: the new session's
	timeout         time.Duration
	hasReadOnly     bool // the reply has the byte too
	retried         bool // the attach was rejected once for an old since
	times           requestTimes
}

// BeginInReader implements stream.Frames. It reads the client's first bytes, and returns true if the create
// or attach is on its way. Apply then replies to the client, and the reader waits for the next frame, to
// notice a client that gives up. Without a leader, the client waits for a third of the session's timeout, and
// at most for Limits.Handshake.
func (c *conn) BeginInReader() bool {
	first, ok := c.stream.PeekWord()
	if !ok {
		return false
	}
	if commands := c.srv.cfg.Commands; commands != nil && commands.IsCommand(string(first[:])) {
		c.srv.stats.received.Add(1)
		c.serveCommand(string(first[:]))
		return false
	}
	if c.dropIfNotServing() {
		return false
	}
	frame, ok := c.stream.ReadFrame()
	return ok && c.serveConnectRequest(frame)
}

// dropIfNotServing drops the connection if this member serves no sessions, not even read-only ones, and reports whether
// it did.
func (c *conn) dropIfNotServing() bool {
	if !c.srv.obstacles.keepOutReaders() {
		return false
	}
	c.stream.Drop(droppedByMember)
	return true
}

func (c *conn) serveConnectRequest(frame []byte) bool {
	c.gotFirstFrame = true
	c.srv.stats.received.Add(1)
	if c.dropIfNotServing() {
		return false
	}
	var req jute.ConnectRequest
	d := jute.NewDecoder(frame)
	req.Decode(&d)
	if d.Err() != nil {
		c.stream.Drop(notAHandshake)
		return false
	}
	c.srv.stats.handshakes.Add(1)
	h := &handshake{c: c, times: requestTimes{receivedAt: time.Now()}}
	return h.connect(&req)
}

// connect makes the checks that need no log. It then submits the create or attach, or has it wait for a slot.
func (h *handshake) connect(req *jute.ConnectRequest) bool {
	c := h.c
	if c.srv.obstacles.any() && !(c.srv.readOnly.Load() && opensReadOnly(req)) {
		c.stream.Drop(droppedByMember)
		return false
	}
	record, known, zxid := lookupSession(c.srv.cfg.State, req.SessionID)
	if req.LastZxidSeen > zxid {
		return h.syncThenConnect(req)
	}
	if c.srv.readOnly.Load() {
		return h.connectReadOnly(req, time.Now())
	}
	h.startedAt, h.sessionID, h.isAttach, h.hasReadOnly = time.Now(), req.SessionID, req.SessionID != 0, req.HasReadOnly
	h.timeout, h.knownOwnerIndex = c.srv.grantTimeout(req.TimeOut), record.OwnerIndex
	h.password = bytes.Clone(req.Passwd[:min(len(req.Passwd), passwordSize+1)]) // enough to see that a longer one is wrong
	if known && !passwordMatches(record, h.password) {
		return h.rejectWrongPassword()
	}
	if !c.srv.throttle.Admit(sessionRequestOf(req.SessionID, known), time.Now()) {
		c.stream.Drop(throttled)
		return false
	}
	h.limitHandshake(h.timeout / sessionWaitDivisor)
	if !(clientTenants{c}).tryTakeSessionPlace(known) {
		c.srv.stats.sessionsWaited.Add(1)
		h.createOrAttachWhen(func() bool { return clientTenants{c}.awaitSessionPlace() && h.takeCreateSlot() })
		return true
	}
	if known || h.tryTakeCreateSlot() { // resuming a session that is known here needs no slot
		if c.stream.InLoop() {
			return h.createOrAttachInLoop()
		}
		return h.createOrAttach()
	}
	h.createOrAttachWhen(h.takeCreateSlot)
	return true
}

// sessionRequestOf returns the kind of a handshake's request. known means that this member knows the session
// and the password is right.
func sessionRequestOf(session jute.SessionID, known bool) admission.SessionRequest {
	switch {
	case session == 0:
		return admission.NewSession
	case known:
		return admission.KnownSession
	}
	return admission.ClaimedSession
}

// createOrAttach submits the create or attach. If the handshake has waited for its slot, the session may have
// been applied meanwhile: then its password is checked. The attach keeps knownOwnerIndex from when the client
// came, so that it cannot take the session back if the client has resumed it elsewhere.
func (h *handshake) createOrAttach() bool {
	if !h.isAttach {
		return h.drawIDAndSubmit()
	}
	if record, known, _ := lookupSession(h.c.srv.cfg.State, h.sessionID); known && !passwordMatches(record, h.password) {
		return h.rejectWrongPassword()
	}
	return h.submitSession(h.knownOwnerIndex) // 0 if it was unknown here: other members may know it
}

// createOrAttachInLoop is createOrAttach in a loop, right after connect has checked the password. It leaves
// whatever would have to wait to the reader.
func (h *handshake) createOrAttachInLoop() bool {
	c := h.c
	if !h.isAttach {
		id, ok := c.srv.cfg.Member.TryNewSessionID()
		if !ok {
			c.stream.LeaveToReader(h.drawIDAndSubmit)
			return true
		}
		h.setIDAndPassword(id)
	}
	txn, ok := h.bindAndBuildTxn(h.knownOwnerIndex)
	if !ok {
		return false
	}
	if !c.srv.cfg.Member.TrySubmit(txn, h) {
		c.stream.LeaveToReader(func() bool { return c.submitTxn(txn, h) })
	}
	return true
}

// createOrAttachWhen calls createOrAttach when await has returned true. It does not block, because the reader must
// notice if the client gives up, so that what it waits for goes to another one.
func (h *handshake) createOrAttachWhen(await func() bool) {
	h.c.stream.Lock()
	defer h.c.stream.Unlock()
	if h.c.stream.HasEnded() {
		return
	}
	h.c.stream.Life.Go(func() {
		if await() {
			h.createOrAttach() // if it fails the connection has ended
		}
	})
}

// rejectWrongPassword rejects the handshake. The session's present connection keeps the session.
func (h *handshake) rejectWrongPassword() bool {
	h.c.srv.cfg.Audit.AddRejected(h.sessionID, h.c.identity.all(), jute.OpAttach, jute.AuthFailed)
	h.rejectHandshake(h.hasReadOnly, wrongPassword)
	return false
}

// limitHandshake ends the connection if its handshake takes longer than d from now. A client must not wait
// here for a leader until its session is over, because another member may have one.
func (h *handshake) limitHandshake(d time.Duration) {
	c := h.c
	c.stream.Lock()
	sooner := time.Now().Add(d).Before(c.stream.Life.ExpiresAt())
	c.stream.Unlock()
	if sooner {
		c.stream.DropAfter(d, handshakeLate)
	}
}

// lookupSession returns the session as it is applied here, and the last zxid applied.
func lookupSession(tree *znode.State, id jute.SessionID) (s znode.Session, known bool, zxid int64) {
	tree.RLock()
	defer tree.RUnlock()
	s, known = tree.Session(id)
	return s, known, tree.Zxid()
}

// grantTimeout returns the session timeout for a client that requests ms milliseconds.
func (s *Server) grantTimeout(ms int32) time.Duration {
	return min(max(time.Duration(ms)*time.Millisecond, s.cfg.MinTimeout), s.cfg.MaxTimeout)
}

func passwordMatches(s znode.Session, password []byte) bool {
	return subtle.ConstantTimeCompare(s.Password[:], password) == 1
}

func (h *handshake) drawIDAndSubmit() bool {
	id, err := h.c.srv.cfg.Member.AwaitNewSessionID(h.c.stream.Life.Context())
	if err != nil {
		h.c.stream.Drop(internalError) // unless it has ended: then that was the error
		return false
	}
	h.setIDAndPassword(id)
	return h.submitSession(0)
}

// setIDAndPassword gives the client a new session's id and password.
func (h *handshake) setIDAndPassword(id jute.SessionID) {
	h.sessionID = id
	h.password = make([]byte, passwordSize)
	_, _ = rand.Read(h.password) // never fails: crypto/rand ends the program instead
}

// submitSession submits the transaction. It blocks as Member.Submit does and returns false if the connection
// has ended.
func (h *handshake) submitSession(since uint64) bool {
	txn, ok := h.bindAndBuildTxn(since)
	return ok && h.c.submitTxn(txn, h)
}

// bindAndBuildTxn returns the create or attach. From here on the connection owes a Detach. It returns false if the
// connection has ended.
func (h *handshake) bindAndBuildTxn(since uint64) (txn *proto.Txn, ok bool) {
	c := h.c
	txn = &proto.Txn{
		Session: int64(h.sessionID), Conn: c.uniqueNumber, Op: int32(jute.OpCreateSession),
		Body: h.txnBody(since), Ids: c.identity.all(),
	}
	if h.isAttach {
		txn.Op = int32(jute.OpAttach)
	}
	c.stream.Lock()
	defer c.stream.Unlock()
	c.session.id, c.identity.numRecorded = h.sessionID, uint32(len(txn.Ids))
	return txn, !c.stream.HasEnded()
}

func (h *handshake) txnBody(since uint64) []byte {
	ms, address := uint32(h.timeout.Milliseconds()), h.c.addr.String()
	var m protobuf.Message = &proto.OpenSession{TimeoutMs: ms, Password: h.password, Address: address}
	if h.isAttach {
		m = &proto.Attach{Password: h.password, TimeoutMs: ms, OwnerIndex: since, Address: address}
	}
	body, err := protobuf.Marshal(m)
	if err != nil {
		panic("server: numbers, bytes and an ASCII address do not encode: " + err.Error())
	}
	return body
}

// NoteSent implements follower.timedWaiter.
func (h *handshake) NoteSent(room, sent stages.Time) { h.times.roomAt, h.times.sentAt = room, sent }

// ReceiveResult implements znode.Waiter. Only this result decides whether a session exists.
func (h *handshake) ReceiveResult(res *znode.Result) {
	c := h.c
	c.stream.Lock()
	defer c.stream.Unlock()
	c.releaseCreateSlot()
	h.times.resultAt, h.times.entryIndex = c.srv.cfg.Stages.Now(), c.srv.cfg.Stages.ApplyingIndex()
	switch {
	case c.stream.HasEnded():
	case res.Code == jute.OK:
		h.completeOpen(&res.Session)
	case res.Code == jute.SessionExpired:
		h.queueRejection(h.hasReadOnly, sessionUnknown)
	case res.Code == jute.AuthFailed:
		h.queueRejection(h.hasReadOnly, wrongPassword)
	case res.Code == jute.SessionMoved && h.isAttach && !h.retried && time.Since(h.startedAt) < c.srv.cfg.Tick/2:
		h.retried = true
		h.resubmitAttach(res.Session.OwnerIndex)
	case res.Code == jute.SessionMoved:
		c.stream.DropLocked(attachLost) // the client comes back if it still wants the session
	default:
		c.stream.DropLocked(internalError)
	}
	c.scheduleFlush(withReply)
}

// resubmitAttach submits the attach once more, with the current since of the session. Only a young handshake
// does that: if it has waited for the log, its client has probably given up and resumed the session
// elsewhere, and this connection must not take it back. It starts a goroutine, because apply must not wait
// for the submission. The caller holds the lock.
func (h *handshake) resubmitAttach(since uint64) {
	h.c.stream.Life.Go(func() { h.submitSession(since) }) // if it fails the connection has ended
}

// completeOpen queues the reply to the client and lets the reader continue. The caller holds the lock and the
// tree's.
func (h *handshake) completeOpen(s *znode.Session) {
	c := h.c
	c.stream.Open(s.Timeout)
	c.createdSession = !h.isAttach
	c.replies.countHandshakeReply(h.startedAt)
	c.replies.keepOpening(h)
	c.srv.conns.setCarrier(s.ID, c)
	h.queueResponse(jute.ConnectResponse{
		TimeOut: int32(s.Timeout.Milliseconds()), SessionID: s.ID, Passwd: s.Password[:], HasReadOnly: h.hasReadOnly,
	})
}

// rejectHandshake replies that the client does not get the session, and ends the connection.
func (h *handshake) rejectHandshake(hasReadOnly bool, why stream.Reason) {
	c := h.c
	c.stream.Lock()
	defer c.stream.Unlock()
	h.queueRejection(hasReadOnly, why)
	c.stream.FlushLater()
}

func (h *handshake) queueRejection(hasReadOnly bool, why stream.Reason) {
	c := h.c
	h.queueResponse(jute.ConnectResponse{Passwd: make([]byte, passwordSize), HasReadOnly: hasReadOnly})
	c.stream.Life.Finish(why)
}

// queueResponse queues the reply to a handshake. The caller holds the lock.
func (h *handshake) queueResponse(r jute.ConnectResponse) {
	c := h.c
	out := c.stream.Output()
	b, mark := jute.BeginFrame(out.B)
	out.B = jute.EndFrame(r.Append(b), mark)
	c.srv.stats.sent.Add(1)
}
