package server

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

// The methods of this file serve clients while no leader is known. Such a client has requested a read-only
// server, and gets a session of this connection alone. The session is not in the log, the leader does not
// know it, and it ends with its connection or when its client is silent for its timeout. Nothing of it
// reaches Config.Member, so its replies need no lease and confirm no session of the ensemble.

// BeginReadOnly has new clients served in read-only mode, until EndReadOnly is called. Clients that do not
// accept a read-only server, or that resume a session, are closed without a reply. Connections with sessions
// of the ensemble stay as they are. BeginReadOnly may be called repeatedly, and never blocks.
func (s *Server) BeginReadOnly() { s.readOnly.Store(true) }

// EndReadOnly ends the read-only mode, and closes the connections of its clients, so that they open sessions
// of the ensemble. It may be called repeatedly, and never blocks.
func (s *Server) EndReadOnly() {
	if s.readOnly.Swap(false) {
		s.conns.dropMatching(readOnlyEnded, (*conn).isReadOnly)
	}
}

// ReadOnly reports whether new clients are served in read-only mode.
func (s *Server) ReadOnly() bool { return s.readOnly.Load() }

func (c *conn) isReadOnly() bool {
	c.stream.Lock()
	defer c.stream.Unlock()
	return c.readOnly
}

// connectReadOnly serves a handshake in read-only mode. A client that resumes a session gets no reply,
// because any reply would claim that the session lives, or that it has ended, and neither is known.
func (h *handshake) connectReadOnly(req *jute.ConnectRequest, begun time.Time) bool {
	c := h.c
	if !opensReadOnly(req) {
		c.stream.Drop(notForReadOnly)
		return false
	}
	if !c.srv.throttle.Admit(admission.NewSession, time.Now()) {
		c.stream.Drop(throttled)
		return false
	}
	opened := h.openReadOnly(req, begun)
	c.stream.Flush()
	return opened
}

// opensReadOnly reports whether a handshake opens a session in read-only mode, if this member is in it.
func opensReadOnly(req *jute.ConnectRequest) bool { return req.ReadOnly && req.SessionID == 0 }

// openReadOnly replies to the handshake, unless the read-only mode has just ended.
func (h *handshake) openReadOnly(req *jute.ConnectRequest, begun time.Time) bool {
	c := h.c
	tree := c.srv.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.HasEnded() {
		return false
	}
	c.readOnly = true
	if !c.srv.readOnly.Load() { // if it ends after this, EndReadOnly sees c.readOnly
		c.stream.DropLocked(readOnlyEnded)
		return false
	}
	for known := true; known; _, known = tree.Session(c.session.id) {
		c.session.id = newReadOnlyID()
	}
	password := make([]byte, passwordSize)
	_, _ = rand.Read(password) // never fails: crypto/rand ends the program instead
	timeout := c.srv.grantTimeout(req.TimeOut)
	c.stream.Open(timeout)
	c.srv.stats.readOnly.Add(1)
	c.replies.countHandshakeReply(begun)
	h.queueResponse(jute.ConnectResponse{
		TimeOut: int32(timeout.Milliseconds()), SessionID: c.session.id, Passwd: password, ReadOnly: true,
		HasReadOnly: req.HasReadOnly,
	})
	return true
}

// newReadOnlyID draws the id of a session in read-only mode. Its first byte is 0, which no member has as its
// id, so no member draws it. Imported sessions may have such ids, so the caller checks for one.
func newReadOnlyID() jute.SessionID {
	var b [8]byte
	_, _ = rand.Read(b[1:]) // never fails: crypto/rand ends the program instead
	return jute.SessionID(binary.BigEndian.Uint64(b[:]))
}

// handleReadOnly takes in a request of a client in read-only mode. It rejects what needs a leader, and ends
// the session here. The rest is served as for any other client.
func (r *request) handleReadOnly() bool {
	c := r.c
	switch r.op.Class() {
	case jute.ClassCreate, jute.ClassWrite, jute.ClassSync:
		c.srv.cfg.Audit.AddRejected(c.session.id, r.ids, r.op, jute.NotReadOnly)
		r.code = jute.NotReadOnly
		return r.replyLocally()
	}
	if r.op == jute.OpCloseSession {
		r.endReason = sessionClosed
		return r.replyLocally()
	}
	return r.operation.handle(r)
}
