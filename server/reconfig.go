package server

import (
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// The reply to an applied reconfig waits until the members have followed it: added ones take part, and
// removed ones do not. A client with the reply to a removal may therefore stop the server. The wait is
// limited, because an added server may be down. The list has changed all the same. Until a reconfig has its reply, later
// writes of the connection wait (queue.hasLateReads), so each connection waits for at most one.

const (
	// maxReconfigWait limits the wait. Adding a member that is up to date takes a few round trips.
	maxReconfigWait = time.Second
	// reconfigWaitDivisor divides the session's timeout into the longest wait. Clients take a server for dead
	// that has not replied to a ping for a third.
	reconfigWaitDivisor = 4
)

// replyWhenMembersFollow builds the reply to r, an applied reconfig, and sends it when the members have
// followed. The caller holds the lock and the tree's, and the stream has not ended.
func (r *request) replyWhenMembersFollow(res *znode.Result) {
	c := r.c
	c.replies.queue.holdReply(r, c.replies.appendApplied(nil, r, res))
	c.stream.UpdateAccount()
	limit := min(maxReconfigWait, c.stream.Life.Timeout()/reconfigWaitDivisor)
	c.stream.Life.Go(func() {
		if r.awaitMembers(limit) {
			r.completeInTurn(jute.OK)
		}
	})
}

// awaitMembers returns when Config.MembersInSync reports true, or after limit. It returns false if the
// connection has ended.
func (r *request) awaitMembers(limit time.Duration) bool {
	c := r.c
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		done, changed := c.srv.cfg.MembersInSync()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return true
		case <-c.stream.Life.Context().Done():
			return false
		}
	}
}
