package znode

import (
	"errors"

	"rollcall/zk/jute"
)

// ErrHistoryOverrun means that changes were dropped from the history before a replay had read them.
var ErrHistoryOverrun = errors.New("znode: changes that were not replayed yet are no longer kept")

// Replay sends a connection the events that its persistent and recursive watches have missed, from the history of
// changes, and after them the events of changes that are applied meanwhile. It does so in the order of the log.
//
// BeginReplay makes one. From then until the replay has ended, its owner passes events of the connection to
// QueueLive instead of sending them. It sets the watches, and adds each of them with AddWatch in the same step. Then it
// repeats three calls, each of which does a bounded part of the work, so that others may run between them:
//
//   - Extend, under the tree's read lock, takes in changes from the history.
//   - Match, without a lock, finds the events that the watches are for.
//   - Send, under the tree's read lock, sends those that the client may see, or ends the replay.
//
// The owner makes these calls one at a time. QueueLive may be called during Match.
type Replay struct {
	state        *State
	watcher      Watcher
	history      *changeHistory
	modes        map[string]watchModes // by path: persistent, recursive
	hasRecursive bool
	after        int64
	startZxid    int64       // of the state at BeginReplay
	view         historyView // the place up to which changes were matched
	sentBefore   position    // all events before it were sent, or may not be seen
	matched      []missedEvent
	live         []missedEvent // events that the watches are not for; sent when the replay has reached them
	liveBytes    int
}

// missedEvent is an event for the connection.
type missedEvent struct {
	event jute.EventType
	path  string
	zxid  int64
	at    position
	acl   *acl        // that decided who might see it; nil of a live event
	place historyView // of its change, without the rest of the chunk; not of a live event
}

// position orders the events of all changes. The event of a node precedes that of its parent.
type position uint64

func positionOf(changeNumber uint64, event jute.EventType) position {
	if event == jute.EventNodeChildrenChanged {
		return position(2*changeNumber + 1)
	}
	return position(2 * changeNumber)
}

// ReplayStart is the result of BeginReplay.
type ReplayStart uint8

// The values of ReplayStart.
const (
	ReplayBegun  ReplayStart = iota
	ReplayNone               // no changes are kept, or the zxid is not positive: such a client has seen nothing, and had no watch
	ReplayTooOld             // the changes that are kept begin later
	ReplayAhead              // the zxid has not been applied here
)

const (
	// maxMatchSteps limits a call of Match to about a tenth of a millisecond. A step is a lookup of a path.
	maxMatchSteps = 2048
	// maxMatched limits the events that a call of Match finds. Send checks them under the tree's lock.
	maxMatched = 128
	// maxLastChanges is the number of changes that Send itself matches. Otherwise a replay would never end
	// while more changes are applied.
	maxLastChanges = 64
	// replayWatchBytes is the approximate memory of a watch in a Replay.
	replayWatchBytes = 48
	// liveEventBytes is the approximate memory of an event in a Replay beside its path.
	liveEventBytes = 128
)

// BeginReplay returns a replay of the changes after a zxid, or nil and the reason why there is none. The caller holds
// at least the read lock.
func BeginReplay(s *State, after int64, who Watcher) (*Replay, ReplayStart) {
	h := &s.watches.history
	switch {
	case !h.keepsChanges() || after <= 0:
		return nil, ReplayNone
	case after > s.Zxid():
		return nil, ReplayAhead
	case !h.keepsAllAfter(after):
		return nil, ReplayTooOld
	}
	return &Replay{
		state: s, watcher: who, history: h, modes: map[string]watchModes{}, after: after, startZxid: s.Zxid(), view: h.viewAfter(after),
	}, ReplayBegun
}

// AddWatch adds a watch, which the caller sets under the same hold of the tree's read lock. path must not change until
// the replay has ended.
func (r *Replay) AddWatch(path []byte, mode jute.AddWatchMode) {
	if path == nil {
		return // it cannot be watched
	}
	m := persistent
	if mode == jute.AddWatchPersistentRecursive {
		m = recursive
		r.hasRecursive = true
	}
	r.modes[watchKey(path)] |= m
}

// MemoryBytes returns the approximate memory of the replay.
func (r *Replay) MemoryBytes() int { return len(r.modes)*replayWatchBytes + r.liveBytes }

// LiveBytes returns the approximate memory of the live events that the replay holds back.
func (r *Replay) LiveBytes() int { return r.liveBytes }

// RemainingChanges returns the number of changes that are not matched yet. The caller holds at least the tree's read
// lock.
func (r *Replay) RemainingChanges() int { return int(r.history.open.endRecord() - r.view.records) }

// QueueLive takes an event of a change that is applied now. If the watches of the replay are for it, the replay sends
// it when it reads the change. Otherwise the replay keeps it until then. The caller holds the tree's write lock.
func (r *Replay) QueueLive(event jute.EventType, path string, zxid int64) {
	if r.isFor(event, path) {
		return
	}
	last := r.history.open.endRecord() - 1 // the history has the change already
	r.live = append(r.live, missedEvent{event: event, path: path, zxid: zxid, at: positionOf(last, event)})
	r.liveBytes += liveEventBytes + len(path)
}

// isFor reports whether a watch of the replay is for an event.
func (r *Replay) isFor(event jute.EventType, path string) bool {
	if r.modes[path]&persistent != 0 {
		return true
	}
	return event != jute.EventNodeChildrenChanged && r.hasRecursive && r.isBelowRecursive(path)
}

// isBelowRecursive reports whether a recursive watch is on path or above it.
func (r *Replay) isBelowRecursive(path string) bool {
	for {
		if r.modes[path]&recursive != 0 {
			return true
		}
		if path == rootPath {
			return false
		}
		if path, _ = splitPath(path); path == "" {
			path = rootPath
		}
	}
}

// Extend takes in changes from the history. It returns ErrHistoryOverrun if they are not kept any more. The caller
// holds at least the read lock.
func (r *Replay) Extend() error {
	view, ok := r.history.extend(r.view)
	if !ok {
		return ErrHistoryOverrun
	}
	r.view = view
	return nil
}

// Match finds the events of the changes that were taken in.
func (r *Replay) Match() { r.match(maxMatchSteps) }

func (r *Replay) match(steps int) {
	for steps > 0 && len(r.matched) < maxMatched && len(r.view.unread) > 0 {
		place := r.view.withoutRest()
		c := r.view.next()
		if steps--; c.zxid <= r.after {
			continue
		}
		steps -= len(c.path) / pathBytesPerStep
		r.matchEvent(&c, place, c.event, c.path, c.acl)
		if c.parentACL != nil {
			r.matchEvent(&c, place, jute.EventNodeChildrenChanged, parentPath(c.path), c.parentACL)
		}
	}
}

func (r *Replay) matchEvent(c *change, place historyView, event jute.EventType, path string, a *acl) {
	if at := positionOf(c.number, event); at >= r.sentBefore && r.isFor(event, path) {
		r.matched = append(r.matched, missedEvent{event: event, path: path, zxid: c.zxid, at: at, acl: a, place: place})
	}
}

// Send passes the events of the replay to send, in order, until there are no more or send returns false: there is
// no room for another event after this one. It reports whether the replay has ended. The caller holds at least the
// read lock, and no event may be sent otherwise before it releases the lock.
//
// An event of a change before BeginReplay is sent only if the client might have seen it then, and may read the node now
// if that exists.
func (r *Replay) Send(send func(event jute.EventType, path string, zxid int64) (more bool)) (ended bool, err error) {
	client := nodeReader{rules: &r.state.replicated.term.Rules, watcher: r.watcher}
	if !r.sendMatched(&client, send) {
		return false, nil
	}
	if r.RemainingChanges() > maxLastChanges {
		return false, nil
	}
	for r.RemainingChanges() > 0 {
		if err := r.Extend(); err != nil {
			return false, err
		}
		r.match(maxMatchSteps)
		if !r.sendMatched(&client, send) {
			return false, nil
		}
	}
	return true, nil
}

// sendMatched sends the events up to the place of the replay. It returns false if there is no more room.
func (r *Replay) sendMatched(
	client *nodeReader, send func(event jute.EventType, path string, zxid int64) bool,
) (more bool) {
	reached := positionOf(r.view.records, jute.EventNodeCreated)
	for len(r.matched) > 0 || len(r.live) > 0 && r.live[0].at < reached {
		e := r.takeNext()
		r.sentBefore = e.at + 1
		if r.maySee(client, &e) && !send(e.event, e.path, e.zxid) {
			r.Forget()
			return false
		}
	}
	r.matched = nil
	return true
}

// takeNext takes the next event of those that are matched and those that are live. It takes an event that is in both once:
// it was live for another watch of the connection before a watch of the replay was set.
func (r *Replay) takeNext() (e missedEvent) {
	if len(r.matched) > 0 && len(r.live) > 0 && r.matched[0].at == r.live[0].at {
		r.matched = r.matched[1:]
	}
	if len(r.matched) > 0 && (len(r.live) == 0 || r.matched[0].at < r.live[0].at) {
		e, r.matched = r.matched[0], r.matched[1:]
		return e
	}
	e, r.live = r.live[0], r.live[1:]
	r.liveBytes -= liveEventBytes + len(e.path)
	return e
}

func (r *Replay) maySee(client *nodeReader, e *missedEvent) bool {
	switch {
	case e.acl == nil: // a live event was checked when it was queued
		return true
	case !client.mayRead(e.acl):
		return false
	case e.zxid > r.startZxid, e.event == jute.EventNodeDeleted: // another node with its name has nothing to do with it
		return true
	}
	n := r.state.replicated.tree.nodeAt(e.path)
	return n == nil || client.mayRead(n.acl)
}

// Forget forgets the matched events, which are found again later, before the replay waits for long. Then it keeps no part
// of the history in memory: the history is bounded, and the number of replays is not.
func (r *Replay) Forget() {
	if len(r.matched) > 0 {
		r.view = r.matched[0].place
	}
	r.view, r.matched = r.view.withoutRest(), nil
}
