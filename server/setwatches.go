package server

import (
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// A setWatches has as many paths as fit into a frame, and sets all of them under the tree's lock. A long one
// is therefore served in parts, with the lock released between them, and one part at a time on the whole
// server. Each path is looked up and watched in one step, so a change is either missed, and the client gets
// its event, or meets the watch. Later requests wait until all are set.

// pathsPerPart is the number of paths in a part: less than a millisecond under the lock.
const pathsPerPart = 512

func (r *request) handleSetWatches() bool {
	r.inParts = len(r.body) > maxApplyWatchBytes
	return r.replyLocally()
}

// startParts serves r, a long setWatches that is the first of the queue, in a goroutine. The caller holds the
// lock.
func (r *request) startParts() {
	r.inProgress = true
	r.c.stream.Life.Go(func() { r.completeInTurn(r.setWatchesInParts()) })
}

// setWatchesInParts sets the watches of r part by part. Between two parts it rests for as long as the first
// took, so that others get at least half of the time. After a change of leader, many clients have a few
// hundred watches each, which are one part.
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
			return jute.OK // no reply can be sent
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

// setWatchesPart sets the watches of a part, and queues the missed events.
func (c *conn) setWatchesPart(part *jute.SetWatches2) {
	c.lockWithTree()
	defer c.unlockWithTree()
	if !c.stream.IsClosing() {
		_ = c.restoreWatches(part) // it is sound
		c.stream.UpdateAccount()
		c.stream.FlushLater()
	}
}

// cutPart moves the first paths of a sound request, at most most, to a part. It returns nil if there are
// none.
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

// setWatches serves both forms of a short request.
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

// missedZxid is the zxid in setWatches' events for missed changes, whose zxids are not known.
const missedZxid = -1
