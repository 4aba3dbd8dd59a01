package server

import (
	"time"

	"rollcall/znode"
)

// The answer to a reconfig that was applied waits until the members have followed it: those that were added take
// part, and those that were removed do not. A client that has the answer to a removal may therefore stop the
// server. The wait has an end, because a server that was added may be down. The list has changed all the same.

const (
	// maxReconfigWait is the longest that an answer waits. Adding a member that is up to date takes a few round
	// trips.
	maxReconfigWait = time.Second
	// reconfigWaitDivisor is the part of the session's timeout, as one in so many, that an answer waits at most. Clients
	// take a server for dead that has not answered a ping for a third.
	reconfigWaitDivisor = 4
)

// handleReconfig sends a reconfig to the log. Until it is answered, later writes of the connection wait (queue.late), so
// each connection has at most one answer that waits in settled.
func (r *request) handleReconfig() bool {
	c := r.c
	r.awaitsMembers = c.srv.cfg.MembersInSync != nil
	return r.handleWrite()
}

// replyWhenMembersFollow makes the answer to r, a reconfig that was applied, and has it sent when the members have followed. The
// caller holds the lock and the tree's, and the stream has not ended.
func (r *request) replyWhenMembersFollow(res *znode.Result) {
	c := r.c
	c.replies.queue.holdReply(r, c.replies.appendApplied(nil, r, res))
	c.stream.UpdateAccount()
	limit := min(maxReconfigWait, c.stream.Life.Timeout()/reconfigWaitDivisor)
	c.stream.Life.Go(func() {
		if r.awaitMembers(limit) {
			r.replyAfterMembers()
		}
	})
}

// awaitMembers returns when Config.Settled reports true, or after limit. It returns false if the connection has
// ended.
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

// replyAfterMembers answers r, a reconfig that has waited, and the requests that wait for it.
func (r *request) replyAfterMembers() {
	c := r.c
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.stream.IsClosing() {
		return
	}
	r.isReady = true
	c.replies.queueReadyReplies(false)
	c.stream.UpdateAccount()
	c.stream.FlushLater()
}
