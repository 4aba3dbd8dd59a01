package server

import (
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// A setWatches has as many paths as fit into a frame, and sets all of them under the tree's lock. A long one
// is therefore served in parts, with the lock released between them, and one part at a time on the whole
// server (Server.setWatchesTurn). Each path is looked up and watched in one step, so a change is either
// missed, and the client gets its event, or meets the watch. Later requests of the client wait until all are
// set, except pings.

const (
	// pathsPerPart is the number of paths after which a long setWatches rests and gives way: half a millisecond.
	pathsPerPart = 512
	// pathsPerLock is the number of paths that are set under one hold of the tree's lock: a tenth of a millisecond, as
	// for reads. Apply waits meanwhile.
	pathsPerLock = 128
)

func (r *request) handleSetWatches() bool {
	if hasMorePathsThan(r, pathsPerLock) || znode.KeepsChanges(r.c.session.tree) && hasPersistentPaths(r) {
		r.kind = inParts
	}
	return r.replyLocally()
}

// startParts serves r, the first of the queue, in a goroutine. The caller holds the lock.
func (r *request) startParts() {
	r.progress = running
	r.c.stream.Life.Go(func() { serveParts(r) })
}

// serveParts sets the watches of r, and then sends the events that they have missed. It is called again if the replay of
// these events had to wait.
func serveParts(r *request) {
	if r.c.replay == nil {
		if code := r.setWatchesInParts(); r.c.replay == nil {
			r.completeInTurn(code)
			return
		}
	}
	r.c.replay.serve()
}

// setWatchesInParts sets the watches of r part by part. Between two parts it rests for as long as the first
// took, so that others get at least half of the time. After a change of leader, many clients have a few
// hundred watches each, which are one part. The request is read and checked in its turns, too: otherwise many
// clients that come at the same time could together take all processors.
func (r *request) setWatchesInParts() jute.Code {
	c := r.c
	paths := newSetWatchesReader(r.op, r.body)
	cost := min(pathsPerPart, len(r.body)/assumedNameBytes)
	for code, first := jute.OK, true; ; first = false {
		turn, err := c.srv.setWatchesTurn.Take(c.stream.Life.Context(), c.networkOrHost(), cost)
		if err != nil {
			return jute.OK // no reply can be sent
		}
		began := time.Now()
		if first {
			code = checkInParts(r)
		}
		if code == jute.OK {
			c.setWatchesPart(paths)
		}
		more := code == jute.OK && paths.hasMore()
		if more {
			time.Sleep(min(time.Since(began), maxTurnRest))
		}
		turn.End()
		if !more {
			return code
		}
	}
}

// checkInParts reads all paths of r. If the code is not OK, none of them may be set. Otherwise it begins the replay of the
// events that persistent watches have missed.
func checkInParts(r *request) jute.Code {
	paths := newSetWatchesReader(r.op, r.body)
	code := r.c.session.checkSetWatches(paths)
	if code != jute.OK || !znode.KeepsChanges(r.c.session.tree) {
		return code
	}
	// Before the last of several requests has its reply, a zxid in a reply would make the client miss events of the watches
	// that it has not set again yet, if it lost this connection now.
	r.noZxid = paths.pathBytes >= fullBatchBytes
	if paths.hasPersistent {
		beginReplay(r, paths.relativeZxid())
	}
	return code
}

// checkSetWatches reads all paths of a long setWatches. If the code is not OK, none of them may be set.
func (s *session) checkSetWatches(paths *setWatchesReader) jute.Code {
	tooLong, valid := false, true
	for paths.hasMore() {
		part := paths.next(pathsPerPart)
		tooLong = tooLong || s.hasLongPath(part)
		valid = valid && znode.ValidSetWatches(part)
	}
	switch {
	case paths.err() != nil:
		return jute.MarshallingError
	case tooLong:
		return jute.BadArguments
	case !valid:
		return jute.MarshallingError
	}
	return jute.OK
}

// setWatchesPart sets the next watches, and queues the missed events.
func (c *conn) setWatchesPart(paths *setWatchesReader) {
	for step := range paths.steps(pathsPerPart, pathsPerLock) {
		c.setWatchesUnderLock(step)
	}
}

func (c *conn) setWatchesUnderLock(part *jute.SetWatches2) {
	c.lockWithTree()
	defer c.unlockWithTree()
	if !c.stream.IsClosing() {
		_ = c.restoreWatches(part) // it is sound
		if c.replay != nil {
			c.replay.addWatches(part)
		}
		c.stream.UpdateAccount()
		c.stream.FlushLater()
	}
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
