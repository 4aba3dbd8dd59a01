package server

import (
	"bytes"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// catchUpWaitDivisor divides the tick into the longest wait of a handshake until this member has applied what
// the client has seen. In a healthy ensemble a round trip to the leader is enough. Afterwards the client
// still has time to try other members.
const catchUpWaitDivisor = 2

// syncThenConnect serves a client that has seen a zxid which is not applied here, because it was just connected to
// another member. The zxid belongs to a committed transaction, and a sync ends when everything committed
// before it is applied here. A client that is still ahead after a sync has seen another history, so its
// connection is dropped, as it is if the sync takes longer than half a tick. syncThenConnect blocks the reader for
// that time.
func (h *handshake) syncThenConnect(req *jute.ConnectRequest) (more bool) {
	c := h.c
	if c.srv.readOnly.Load() { // no leader knows what is committed
		c.stream.Drop(clientAhead)
		return false
	}
	if c.stream.InLoop() {
		kept := *req
		kept.Passwd = bytes.Clone(req.Passwd) // a loop reuses its buffer
		c.stream.LeaveToReader(func() bool { return h.awaitSyncAndConnect(&kept) })
		return true
	}
	return h.awaitSyncAndConnect(req)
}

func (h *handshake) awaitSyncAndConnect(req *jute.ConnectRequest) (more bool) {
	c := h.c
	h.syncWithin(c.srv.cfg.Tick / catchUpWaitDivisor)
	if _, _, zxid := lookupSession(c.srv.cfg.State, req.SessionID); req.LastZxidSeen > zxid {
		c.stream.Drop(clientAhead)
		return false
	}
	return h.connect(req)
}

// syncWithin waits for a sync, limit at most. The connection has no session yet.
func (h *handshake) syncWithin(limit time.Duration) {
	c := h.c
	done := make(syncSignal)
	c.srv.cfg.Member.Sync(c.uniqueNumber, 0, done)
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

// syncSignal is the Waiter of a sync, and is closed when the sync ends.
type syncSignal chan struct{}

// ReceiveResult implements znode.Waiter.
func (s syncSignal) ReceiveResult(*znode.Result) { close(s) }
