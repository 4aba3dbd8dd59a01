package history

import (
	"cmp"
	"container/heap"
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
func checkImage(b *book, found func(Violation)) {
	type arrival struct {
		seq   uint64
		call  *Call
		event *Event
	}
	var all []arrival
	for i := range b.Calls {
		if c := &b.Calls[i]; c.answered() && c.Xid >= 0 {
			all = append(all, arrival{seq: c.Returned.Seq, call: c})
		}
	}
	for i := range b.Events {
		all = append(all, arrival{seq: b.Events[i].Seq, event: &b.Events[i]})
	}
	slices.SortFunc(all, func(x, y arrival) int { return cmp.Compare(x.seq, y.seq) })
	im := image{book: b, found: found, seen: map[jute.SessionID]int64{}, conns: map[uint64]*armed{}, below: b.childChanges()}
	for _, a := range all {
		if a.event != nil {
			im.event(a.event)
		} else {
			im.reply(a.call)
		}
	}
}

// image is what the sessions have seen so far.
type image struct {
	*book
	found func(Violation)
	seen  map[jute.SessionID]int64 // the greatest zxid
	conns map[uint64]*armed
	below map[string][]int64 // zxids at which the list of a path's children changed
}

// childChanges returns, by path, the zxids of acknowledged changes that fire a watch on the path's
// children.
func (b *book) childChanges() map[string][]int64 {
	out := map[string][]int64{}
	for path, w := range b.paths {
		for _, c := range w.done {
			if c.Op == jute.OpSetData {
				continue
			}
			parent := path[:max(1, strings.LastIndexByte(path, '/'))]
			out[parent] = append(out[parent], c.Reply.Zxid)
			if deletes(c.Op) {
				out[path] = append(out[path], c.Reply.Zxid)
			}
		}
	}
	for _, zxids := range out {
		slices.Sort(zxids)
	}
	return out
}

func (im *image) reply(c *Call) {
	z := c.Reply.Zxid
	if seen := im.seen[c.Session]; z > 0 && z < seen {
		im.found(c.violation(wentBack, fmt.Sprintf("reply to %s of %s; the session has seen %#x", c.Op, c.Path, seen)))
	}
	im.seen[c.Session] = max(im.seen[c.Session], z)
	a := im.conns[c.Conn]
	if a == nil {
		a = &armed{on: map[watchKey]*watch{}}
		im.conns[c.Conn] = a
	}
	for w := a.due(z); w != nil; w = a.due(z) {
		im.found(c.violation(lateEvent, fmt.Sprintf("reply to %s of %s, and no event yet of %s, changed at zxid %#x", c.Op, c.Path, w.path, w.fires)))
	}
	im.read(c)
	im.arm(a, c)
}

// read judges the result of a read.
func (im *image) read(c *Call) {
	if c.Op != jute.OpGetData && c.Op != jute.OpExists {
		return
	}
	w := im.paths[c.Path]
	n := w.upTo(im.seen[c.Session])
	if n == 0 {
		return
	}
	last := w.done[n-1]
	missing := c.Reply.Code == jute.NoNode
	switch {
	case c.Reply.Code == jute.OK && c.Reply.Mzxid < last.Reply.Zxid:
		im.found(c.violation(staleRead, fmt.Sprintf("%s of %s shows mzxid %#x, the session has seen %#x, and at %#x there was a %s",
			c.Op, c.Path, c.Reply.Mzxid, im.seen[c.Session], last.Reply.Zxid, last.Op)))
	case missing && !deletes(last.Op) && !w.mortal && !w.may(c.Returned.Seq, deletes):
		im.found(c.violation(staleRead, fmt.Sprintf("%s of %s shows no node, the session has seen %#x, and at %#x there was a %s",
			c.Op, c.Path, im.seen[c.Session], last.Reply.Zxid, last.Op)))
	}
}

// arm records the watch that a read has set.
func (im *image) arm(a *armed, c *Call) {
	ok := c.Reply.Code == jute.OK
	if !c.Watch || !ok && (c.Op != jute.OpExists || c.Reply.Code != jute.NoNode) {
		return
	}
	key := watchKey{path: c.Path}
	var fires int64
	switch c.Op {
	case jute.OpGetData, jute.OpExists:
		w := im.paths[c.Path]
		if n := w.upTo(c.Reply.Zxid); w != nil && n < len(w.done) {
			fires = w.done[n].Reply.Zxid
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		key.children = true
		zxids := im.below[c.Path]
		if n, _ := slices.BinarySearch(zxids, c.Reply.Zxid+1); n < len(zxids) {
			fires = zxids[n]
		}
	}
	if fires > 0 && a.on[key] == nil {
		w := &watch{watchKey: key, fires: fires}
		a.on[key] = w
		heap.Push(&a.next, w)
	}
}

// event fires the watches that an event belongs to.
func (im *image) event(e *Event) {
	a := im.conns[e.Conn]
	if a == nil {
		return
	}
	if e.Type != jute.EventNodeChildrenChanged {
		a.drop(watchKey{path: e.Path})
	}
	if e.Type == jute.EventNodeChildrenChanged || e.Type == jute.EventNodeDeleted {
		a.drop(watchKey{path: e.Path, children: true})
	}
}

// armed are the watches of one connection that an acknowledged change will fire.
type armed struct {
	on   map[watchKey]*watch
	next byZxid // some of them have been removed
}

type watchKey struct {
	path     string
	children bool
}

type watch struct {
	watchKey
	fires int64 // the zxid of the first change
}

func (a *armed) drop(k watchKey) { delete(a.on, k) }

// due removes and returns a watch that should have fired at z, or returns nil if there is none.
func (a *armed) due(z int64) *watch {
	for len(a.next) > 0 && a.next[0].fires <= z {
		w := heap.Pop(&a.next).(*watch)
		if a.on[w.watchKey] == w {
			delete(a.on, w.watchKey)
			return w
		}
	}
	return nil
}

// byZxid is a heap.
type byZxid []*watch

func (h byZxid) Len() int           { return len(h) }
func (h byZxid) Less(i, j int) bool { return h[i].fires < h[j].fires }
func (h byZxid) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byZxid) Push(x any)        { *h = append(*h, x.(*watch)) }
func (h *byZxid) Pop() any {
	old := *h
	w := old[len(old)-1]
	*h = old[:len(old)-1]
	return w
}
