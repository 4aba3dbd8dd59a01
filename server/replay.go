package server

import (
	"time"

	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// A setWatches2 names the last zxid that its client has seen in a reply. The persistent and recursive watches of the
// request get the events of all changes after that zxid, in the order of the log, before the reply and before any newer
// event. So no event is missed between two connections. The argument in two lines:
//
//   - The watches are set, and the replay begins, before the history is read to its end under the tree's lock, so each change
//     after the zxid is either read there, or meets the watch after that.
//   - While the replay runs, an event of the connection is sent only when the history is read up to its change, so events are
//     sent in the order of the log.
//
// An event may come twice: the zxid is that of the last reply, and the client may have seen events after it.
//
// Replays share the history, and copy nothing of it. The work is a part of the setWatches2, which is served in parts
// (setwatches.go). If the client takes no more, or the budget has no room, the replay waits and keeps only its place. If the
// history drops that place meanwhile, the connection ends with the reason historyOverrun. A zxid that the history does not
// reach gets no replay: as in ZooKeeper, the watches are set, and what they have missed is not sent.

const (
	// replayStepsPerTurn is the number of steps of a replay after which it gives way: half a millisecond.
	replayStepsPerTurn = 5
	// changesPerTurn is the number of changes that a turn reads at most, for the weight of short replays.
	changesPerTurn = 4096
	// fullBatchBytes is the length of all paths from which on a request may not be the last one. Java's client sends its
	// watches in batches, and ends one at this length. It is SET_WATCHES_MAX_LENGTH of ClientCnxn.
	fullBatchBytes = 128 << 10
)

// replayResult is an outcome of a setWatches2 that names watches which miss events.
type replayResult int

// The values of replayResult.
const (
	replayDone    replayResult = iota // every event was sent
	replayTooOld                      // the history does not reach back to the zxid
	replayAhead                       // the client's zxid is not applied here
	replayOverrun                     // the history dropped changes before they were sent
	numReplayResults
)

var replayResultNames = [numReplayResults]string{
	replayDone: "done", replayTooOld: "too_old", replayAhead: "ahead", replayOverrun: "overrun",
}

// watchReplay is the replay of a connection's setWatches2. The connection's lock guards it, except that only the goroutine
// that serves the request calls znode.Replay.Match.
type watchReplay struct {
	c       *conn
	r       *request
	replay  *znode.Replay
	counted int // bytes of the replay in r.heldBytes
}

// beginReplay has r's watches miss nothing after its zxid, if the history reaches back to that. No watch of r is set yet.
func beginReplay(r *request, after int64) {
	c := r.c
	c.lockWithTree()
	defer c.unlockWithTree()
	if c.stream.IsClosing() {
		return
	}
	replay, start := znode.BeginReplay(c.srv.cfg.State, after, c)
	switch start {
	case znode.ReplayBegun:
		c.replay = &watchReplay{c: c, r: r, replay: replay}
	case znode.ReplayTooOld:
		c.srv.stats.replays[replayTooOld].Add(1)
	case znode.ReplayAhead:
		c.srv.stats.replays[replayAhead].Add(1)
	}
}

// addWatches adds the watches of a part of the request, which are set under the same hold of the locks.
func (w *watchReplay) addWatches(part *jute.SetWatches2) {
	for _, path := range part.Persistent {
		w.replay.AddWatch(path, jute.AddWatchPersistent)
	}
	for _, path := range part.Recursive {
		w.replay.AddWatch(path, jute.AddWatchPersistentRecursive)
	}
	w.account()
}

// account counts the memory of the replay as that of the request. The caller holds the lock.
func (w *watchReplay) account() {
	more := w.replay.MemoryBytes() - w.counted
	w.counted += more
	w.r.heldBytes += more
	w.c.replies.queue.heldBytes += more
}

// queueLive takes an event that would be sent now if there were no replay. The caller holds the lock and the tree's write
// lock.
func (w *watchReplay) queueLive(t jute.EventType, path string, zxid int64) {
	w.replay.QueueLive(t, path, zxid)
	if w.account(); w.replay.LiveBytes() > w.c.srv.cfg.Limits.MaxUnread {
		w.c.stream.DropLocked(stream.SlowReader)
	}
	w.c.stream.UpdateAccount()
}

// serve runs the replay until it has ended and the request has its reply, until the client takes no more, or until the
// connection has ended. In the second case queueReadyReplies starts it again.
func (w *watchReplay) serve() {
	for more := true; more; {
		turn, err := w.c.srv.setWatchesTurn.Take(w.c.stream.Life.Context(), w.c.networkOrHost(), w.turnCost())
		if err != nil {
			return
		}
		began := time.Now()
		more = w.serveTurn()
		w.c.srv.replayRest.restAfter(time.Since(began))
		turn.End()
	}
}

// minReplayRest is the shortest rest of replays. A turn takes less, and a sleep of less takes a millisecond longer than it
// should, so that replays would take many times as long.
const minReplayRest = 2 * time.Millisecond

// restDebt is the time for which replays have worked since their last rest. The turn of Server.setWatchesTurn guards it.
type restDebt struct{ worked time.Duration }

// restAfter rests for as long as replays have worked, at most maxTurnRest, once that is long enough: so others get half of
// the time.
func (d *restDebt) restAfter(worked time.Duration) {
	if d.worked += worked; d.worked < minReplayRest {
		return
	}
	time.Sleep(min(d.worked, maxTurnRest))
	d.worked = 0
}

// turnCost estimates the cost of the next turn, in paths.
func (w *watchReplay) turnCost() int {
	tree := w.c.srv.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	return min(pathsPerPart, w.replay.RemainingChanges()*pathsPerPart/changesPerTurn)
}

func (w *watchReplay) serveTurn() (more bool) {
	for range replayStepsPerTurn {
		if !w.step() {
			return false
		}
	}
	return true
}

// step makes a step of the replay, and reports whether there is another one to make now.
func (w *watchReplay) step() (more bool) {
	if err := w.extend(); err != nil {
		w.overrun()
		return false
	}
	w.replay.Match()
	c := w.c
	c.lockWithTree()
	defer c.unlockWithTree()
	if c.stream.IsClosing() {
		return false
	}
	defer c.stream.FlushLater()
	if !c.stream.TryClaimBytes(stream.HighWater) {
		w.pause()
		return false
	}
	full := false
	ended, err := w.replay.Send(func(t jute.EventType, path string, zxid int64) (more bool) {
		c.replies.queueEvent(t, path, zxid)
		c.srv.stats.replayedEvents.Add(1)
		full = c.stream.UnsentBytes() >= stream.HighWater || c.stream.HasEnded()
		return !full
	})
	w.account()
	switch {
	case c.stream.HasEnded():
		return false
	case err != nil:
		w.overrunLocked()
		return false
	case ended:
		c.srv.stats.replays[replayDone].Add(1)
		c.replay = nil
		completeLocked(w.r, jute.OK)
		return false
	case full:
		w.pause()
		return false
	}
	return true
}

func (w *watchReplay) extend() error {
	tree := w.c.srv.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	return w.replay.Extend()
}

// pause lets the request wait until the client has taken its output, or until the budget has room. The caller holds the
// lock.
func (w *watchReplay) pause() {
	w.replay.Forget()
	w.r.progress = waiting
}

func (w *watchReplay) overrun() {
	w.c.stream.Lock()
	defer w.c.stream.Unlock()
	w.overrunLocked()
}

func (w *watchReplay) overrunLocked() {
	w.c.srv.stats.replays[replayOverrun].Add(1)
	w.c.stream.DropLocked(historyOverrun)
}
