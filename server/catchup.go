package server

import (
	"bytes"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// catchUpWaitDivisor is the part of a tick, as one in so many, for which a handshake waits until this member has applied
// what its client has seen. A round trip to the leader is enough in a healthy ensemble. Afterwards the client has
// time to try other members.
const catchUpWaitDivisor = 2

// catchUp serves a client that has seen a zxid which is not applied here: it was connected to another member a moment
// ago. A client that has seen a zxid has seen a committed transaction, and a sync ends when all that was committed before
// it is applied here. So a client that is ahead after a sync has seen another history. Its connection is dropped. It is dropped
// too if the sync takes longer than half a tick. catchUp blocks the reader for that time.
func (h *handshake) catchUp(req *jute.ConnectRequest) (more bool) {
	c := h.c
	if c.srv.readOnly.Load() { // no leader could say what is committed
		c.stream.Drop(clientAhead)
		return false
	}
	if c.stream.InLoop() {
		kept := *req
		kept.Passwd = bytes.Clone(req.Passwd) // a loop uses its buffer again
		c.stream.LeaveToReader(func() bool { return h.connectAfterSync(&kept) })
		return true
	}
	return h.connectAfterSync(req)
}

func (h *handshake) connectAfterSync(req *jute.ConnectRequest) (more bool) {
	c := h.c
	h.awaitSync(c.srv.cfg.Tick / catchUpWaitDivisor)
	if _, _, zxid := lookupSession(c.srv.cfg.State, req.SessionID); req.LastZxidSeen > zxid {
		c.stream.Drop(clientAhead)
		return false
	}
	return h.connect(req)
}

// awaitSync waits for a sync, for limit at most. It is for connections without a session.
func (h *handshake) awaitSync(limit time.Duration) {
	c := h.c
	done := make(syncDone)
	c.srv.cfg.Member.Sync(c.uniqueNumber, done)
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		c.srv.cfg.Member.Detach(0, c.uniqueNumber)
	case <-c.stream.Life.Context().Done():
		c.srv.cfg.Member.Detach(0, c.uniqueNumber)
	}
}

// syncDone is the Waiter of a sync. It is closed when the sync has ended.
type syncDone chan struct{}

// TxnApplied implements znode.Waiter.
func (s syncDone) TxnApplied(*znode.Result) { close(s) }
