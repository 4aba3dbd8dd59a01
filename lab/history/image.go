package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rollcall/zk/jute"
)

// checkImage judges (e), the single-system image: what a session sees only goes forward, whichever
// members it is connected to.
//
//   - The zxids of its replies do not go down. (Replies to xids below 0, such as pings, are
//     ignored.)
//   - A read is at least as new as the zxid of its reply, and as any zxid that the session has
//     seen: it shows at least the last acknowledged write to its path up to there. A node that may
//     have been deleted, by an unanswered request or with its session, may be missing.
//   - When a watch is set, its event comes before any reply whose zxid covers the first
//     acknowledged change after that. This is judged on the connection that set the watch.
//     Deletions of ephemerals at a session's end are not judged.
func checkImage(b *indexedHistory, found func(Violation)) {
	type arrival struct {
		seq   uint64
		call  *Call
		event *Event
	}
	var all []arrival
	for i := range b.Calls {
		if c := &b.Calls[i]; c.hasReply() && c.Xid >= 0 {
			all = append(all, arrival{seq: c.Returned.Seq, call: c})
		}
	}
	for i := range b.Events {
		all = append(all, arrival{seq: b.Events[i].Seq, event: &b.Events[i]})
	}
	slices.SortFunc(all, func(x, y arrival) int { return cmp.Compare(x.seq, y.seq) })
	im := imageCheck{history: b, found: found, newestZxid: map[jute.SessionID]int64{}, watchesByConn: map[uint64]*armedWatches{}, childChangeZxids: b.childChanges()}
	for _, a := range all {
		if a.event != nil {
			im.fireWatches(a.event)
		} else {
			im.judgeReply(a.call)
		}
	}
}

// imageCheck replays the replies and events in their order. It keeps the newest zxid that each session has seen.
type imageCheck struct {
	history          *indexedHistory
	found            func(Violation)
	newestZxid       map[jute.SessionID]int64 // the greatest zxid
	watchesByConn    map[uint64]*armedWatches
	childChangeZxids map[string][]int64 // zxids at which the list of a path's children changed
}

// childChanges returns, by path, the zxids of acknowledged changes that fire a watch on the path's
// children.
func (b *indexedHistory) childChanges() map[string][]int64 {
	out := map[string][]int64{}
	for path, w := range b.writesByPath {
		for _, c := range w.succeeded {
			if c.Op == jute.OpSetData {
				continue
			}
			parent := path[:max(1, strings.LastIndexByte(path, '/'))]
			out[parent] = append(out[parent], c.Reply.Zxid)
			if isDelete(c.Op) {
				out[path] = append(out[path], c.Reply.Zxid)
			}
		}
	}
	for _, zxids := range out {
		slices.Sort(zxids)
	}
	return out
}

func (im *imageCheck) judgeReply(c *Call) {
	z := c.Reply.Zxid
	if seen := im.newestZxid[c.Session]; z > 0 && z < seen {
		im.found(c.newViolation(wentBack, fmt.Sprintf("reply to %s of %s; the session has seen %#x", c.Op, c.Path, seen)))
	}
	im.newestZxid[c.Session] = max(im.newestZxid[c.Session], z)
	a := im.watchesByConn[c.Conn]
	if a == nil {
		a = &armedWatches{byKey: map[watchKey]*armedWatch{}}
		im.watchesByConn[c.Conn] = a
	}
	for w := a.popOverdue(z); w != nil; w = a.popOverdue(z) {
		im.found(c.newViolation(lateEvent, fmt.Sprintf("reply to %s of %s, and no event yet of %s, changed at zxid %#x", c.Op, c.Path, w.path, w.firstChange)))
	}
	im.judgeRead(c)
	im.recordWatch(a, c)
}

// judgeRead judges the result of a read.
func (im *imageCheck) judgeRead(c *Call) {
	if c.Op != jute.OpGetData && c.Op != jute.OpExists {
		return
	}
	w := im.history.writesByPath[c.Path]
	n := w.countUpTo(im.newestZxid[c.Session])
	if n == 0 {
		return
	}
	last := w.succeeded[n-1]
	missing := c.Reply.Code == jute.NoNode
	switch {
	case c.Reply.Code == jute.OK && c.Reply.Mzxid < last.Reply.Zxid:
		im.found(c.newViolation(staleRead, fmt.Sprintf("%s of %s shows mzxid %#x, the session has seen %#x, and at %#x there was a %s",
			c.Op, c.Path, c.Reply.Mzxid, im.newestZxid[c.Session], last.Reply.Zxid, last.Op)))
	case missing && !isDelete(last.Op) && !w.mayVanish && !w.mayHaveHappened(c.Returned.Seq, isDelete):
		im.found(c.newViolation(staleRead, fmt.Sprintf("%s of %s shows no node, the session has seen %#x, and at %#x there was a %s",
			c.Op, c.Path, im.newestZxid[c.Session], last.Reply.Zxid, last.Op)))
	}
}

// recordWatch records the watch that a read has set.
func (im *imageCheck) recordWatch(a *armedWatches, c *Call) {
	ok := c.Reply.Code == jute.OK
	if !c.Watch || !ok && (c.Op != jute.OpExists || c.Reply.Code != jute.NoNode) {
		return
	}
	key := watchKey{path: c.Path}
	var fires int64
	switch c.Op {
	case jute.OpGetData, jute.OpExists:
		w := im.history.writesByPath[c.Path]
		if n := w.countUpTo(c.Reply.Zxid); w != nil && n < len(w.succeeded) {
			fires = w.succeeded[n].Reply.Zxid
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		key.children = true
		zxids := im.childChangeZxids[c.Path]
		if n, _ := slices.BinarySearch(zxids, c.Reply.Zxid+1); n < len(zxids) {
			fires = zxids[n]
		}
	}
	if fires > 0 && a.byKey[key] == nil {
		w := &armedWatch{watchKey: key, firstChange: fires}
		a.byKey[key] = w
		at, _ := slices.BinarySearchFunc(a.byFirstChange, w, func(x, y *armedWatch) int { return cmp.Compare(x.firstChange, y.firstChange) })
		a.byFirstChange = slices.Insert(a.byFirstChange, at, w)
	}
}

// fireWatches fires the watches that an event belongs to.
func (im *imageCheck) fireWatches(e *Event) {
	a := im.watchesByConn[e.Conn]
	if a == nil {
		return
	}
	if e.Type != jute.EventNodeChildrenChanged {
		a.removeWatch(watchKey{path: e.Path})
	}
	if e.Type == jute.EventNodeChildrenChanged || e.Type == jute.EventNodeDeleted {
		a.removeWatch(watchKey{path: e.Path, children: true})
	}
}

// armedWatches are the watches of one connection that an acknowledged change will fire.
type armedWatches struct {
	byKey         map[watchKey]*armedWatch
	byFirstChange []*armedWatch // in order; some of them have been removed
}

type watchKey struct {
	path     string
	children bool
}

type armedWatch struct {
	watchKey
	firstChange int64 // the zxid of the first change
}

func (a *armedWatches) removeWatch(k watchKey) { delete(a.byKey, k) }

// popOverdue removes and returns a watch that should have fired at z, or returns nil if there is none.
func (a *armedWatches) popOverdue(z int64) *armedWatch {
	for len(a.byFirstChange) > 0 && a.byFirstChange[0].firstChange <= z {
		w := a.byFirstChange[0]
		a.byFirstChange = a.byFirstChange[1:]
		if a.byKey[w.watchKey] == w {
			delete(a.byKey, w.watchKey)
			return w
		}
	}
	return nil
}
