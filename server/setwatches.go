package server

import (
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// A setWatches has as many paths as fit into a frame, and sets all of them under the tree's lock. A long one is therefore served in
// parts, with the lock released between them, and one part at a time on the whole server. Each path is looked up and watched in one
// step, so a change is either missed, and the client gets its event, or meets the watch. Requests after it wait until all are set.

// pathsPerPart is the number of paths in a part: less than a millisecond under the lock.
const pathsPerPart = 512

// handleSetWatches serves a setWatches.
func (r *request) handleSetWatches() bool {
	r.inParts = len(r.body) > maxApplyWatchBytes
	return r.replyLocally()
}

// startParts serves r, a long setWatches that is the first of the queue, in a goroutine, and answers it. The caller holds the lock.
func (r *request) startParts() {
	c := r.c
	r.inProgress = true
	c.stream.Life.Go(func() {
		code := r.setWatchesInParts()
		c.srv.cfg.State.RLock()
		defer c.srv.cfg.State.RUnlock()
		c.stream.Lock()
		defer c.stream.Unlock()
		if c.stream.IsClosing() {
			return
		}
		r.code, r.inProgress, r.isReady = code, false, true
		c.replies.queueReadyReplies(false)
		c.stream.UpdateAccount()
		c.stream.FlushLater()
	})
}

// setWatchesInParts sets the watches of r part by part. It rests between two for as long as the first took, so that others have half of the
// time at least. After a change of leader many clients have a few hundred watches each, which are one part.
func (r *request) setWatchesInParts() jute.Code {
	c := r.c
	req, code := c.session.decodeSetWatches(r)
	switch {
	case code != jute.OK:
		return code
	case !znode.ValidSetWatches(req):
		return jute.MarshallingError
	}
	for part := cutPart(req, pathsPerPart); part != nil; {
		next := cutPart(req, pathsPerPart)
		select {
		case c.srv.longRequestTurn <- struct{}{}:
		case <-c.stream.Life.Context().Done():
			return jute.OK // nobody gets it
		}
		began := time.Now()
		c.setWatchesPart(part)
		if next != nil {
			time.Sleep(time.Since(began))
		}
		<-c.srv.longRequestTurn
		part = next
	}
	return jute.OK
}

// setWatchesPart sets the watches of a part, and queues the events that the client has missed.
func (c *conn) setWatchesPart(part *jute.SetWatches2) {
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.stream.Lock()
	defer c.stream.Unlock()
	if !c.stream.IsClosing() {
		_ = c.restoreWatches(part) // it is sound
		c.stream.UpdateAccount()
		c.stream.FlushLater()
	}
}

// cutPart takes the first paths of a sound request out of it, most at most. It returns nil if there is none.
func cutPart(req *jute.SetWatches2, most int) *jute.SetWatches2 {
	part := &jute.SetWatches2{RelativeZxid: req.RelativeZxid}
	left := most
	from := [...]*[][]byte{&req.Data, &req.Exist, &req.Child, &req.Persistent, &req.Recursive}
	for i, to := range [...]*[][]byte{&part.Data, &part.Exist, &part.Child, &part.Persistent, &part.Recursive} {
		n := min(left, len(*from[i]))
		*to, *from[i] = (*from[i])[:n], (*from[i])[n:]
		left -= n
	}
	if left == most {
		return nil
	}
	return part
}

// setWatches serves both forms of the request, if it is short.
func (r *request) setWatches() jute.Code {
	c := r.c
	req, code := c.session.decodeSetWatches(r)
	if code != jute.OK {
		return code
	}
	return c.restoreWatches(req)
}

// restoreWatches queues the events that the client has missed and sets the other watches.
func (c *conn) restoreWatches(req *jute.SetWatches2) jute.Code {
	return c.srv.cfg.State.SetWatches(req, c, func(t jute.EventType, path []byte) {
		if !c.stream.HasEnded() {
			c.replies.queueEvent(t, string(path), missedZxid)
		}
	})
}

// missedZxid is the zxid of the events that setWatches sends for missed changes. The zxids of the
// changes are not known.
const missedZxid = -1
