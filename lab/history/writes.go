package history

import (
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// checkWrites judges (d): every acknowledged write is present, once, and in its session's order.
// Every whole snapshot is judged, for the writes with zxids up to its own. The snapshot with the
// greatest index must contain everything that was acknowledged before it.
//
//   - A node that was created and not deleted exists, has the czxid of its create, as many versions
//     as sets were acknowledged since, and the data of the last one.
//   - A node whose last write was a delete does not exist. Nor does a node that no client wrote,
//     such as a second node of one sequential create.
//   - In a session, the zxids of answers go up in the order in which the requests were sent, over
//     all its connections. No two writes share a zxid, except the parts of a multi.
//   - A write that was never answered may be present or not, but not twice. If its zxid can be read
//     off the tree, it must fit into the session's order like the others.
//
// Ephemerals are judged by (c). Containers and TTL nodes vanish by themselves and are not judged. A
// history with acknowledged writes and without a whole snapshot is a fault.
func checkWrites(b *indexedHistory, found func(Violation)) {
	var last *Snapshot
	learnedZxids := map[*Call]int64{} // zxids of unanswered writes, as the trees show them
	for i := range b.Snapshots {
		s := &b.Snapshots[i]
		if !s.Whole {
			continue
		}
		if last == nil || s.Index > last.Index {
			last = s
		}
		p := snapshotCheck{history: b, snapshot: s, found: found, learnedZxids: learnedZxids, matchedCreates: map[*Call]bool{}, seenPaths: map[string]bool{}}
		p.judgeNodes()
	}
	checkOrder(b, learnedZxids, found)
	for i := range b.Calls {
		c := &b.Calls[i]
		if !changesNode(c.Op) || !c.Done() {
			continue
		}
		if last == nil {
			found(c.newViolation(unjudged, fmt.Sprintf("%s of %s is the first of them", c.Op, c.nodePath())))
			return
		}
		if c.Returned.Seq < last.Seq && c.Reply.Zxid > last.Zxid {
			found(c.newViolation(writeMissing, fmt.Sprintf("%s of %s: member %d is at index %d, the greatest, and only at zxid %#x",
				c.Op, c.nodePath(), last.Member, last.Index, last.Zxid)))
		}
	}
}

func (c *Call) newViolation(f fault, detail string) Violation {
	at := c.Returned.At
	if !c.hasReply() {
		at = c.Invoked.At
	}
	return Violation{Fault: f, Session: c.Session, At: at, Zxid: c.Reply.Zxid, Detail: fmt.Sprintf("conn %d, xid %d: %s", c.Conn, c.Xid, detail)}
}

// snapshotCheck judges one whole snapshot.
type snapshotCheck struct {
	history        *indexedHistory
	snapshot       *Snapshot
	found          func(Violation)
	learnedZxids   map[*Call]int64
	matchedCreates map[*Call]bool  // unanswered sequential creates that account for a node
	seenPaths      map[string]bool // paths
}

func (p *snapshotCheck) judgeNodes() {
	for i := range p.snapshot.Nodes {
		n := &p.snapshot.Nodes[i]
		p.seenPaths[n.Path] = true
		if n.Owner == 0 {
			p.judgeNode(n)
		}
	}
	for path, w := range p.history.writesByPath {
		if p.seenPaths[path] || w.mayVanish || w.mayHaveHappened(p.snapshot.Seq, isDelete) {
			continue
		}
		if made, _ := w.lastCreate(p.snapshot.Zxid); made != nil {
			p.reportViolation(writeMissing, made, fmt.Sprintf("member %d lacks %s", p.snapshot.Member, path))
		}
	}
}

func (p *snapshotCheck) reportViolation(f fault, c *Call, detail string) {
	v := p.snapshot.newViolation(f, c.Session, fmt.Sprintf("conn %d, xid %d: %s", c.Conn, c.Xid, detail))
	v.Zxid = c.Reply.Zxid
	p.found(v)
}

// lastCreate returns the acknowledged create of the node that exists at zxid z, and the sets after it. It
// returns nil if the node was last deleted, or never created.
func (w *pathWrites) lastCreate(z int64) (made *Call, sets []*Call) {
	n := w.countUpTo(z)
	for i := n - 1; i >= 0; i-- {
		if c := w.succeeded[i]; c.Op != jute.OpSetData {
			if c.Op.IsCreate() {
				return c, w.succeeded[i+1 : n]
			}
			return nil, nil
		}
	}
	return nil, nil
}

// judgeNode judges a node that exists.
func (p *snapshotCheck) judgeNode(n *Node) {
	w := p.history.writesByPath[n.Path]
	if w == nil {
		p.judgeUnexplained(n)
		return
	}
	if w.mayVanish {
		return
	}
	made, sets := w.lastCreate(p.snapshot.Zxid)
	if w.mayHaveHappened(p.snapshot.Seq, jute.Op.IsCreate) {
		p.learnZxids(w, n)
		return // it may be that create's node, made before or after
	}
	if made == nil {
		p.judgeUnexplained(n)
		return
	}
	if n.Czxid != made.Reply.Zxid {
		p.reportViolation(writeTwice, made, fmt.Sprintf("member %d has %s with czxid %#x", p.snapshot.Member, n.Path, n.Czxid))
		return
	}
	p.judgeContent(n, w, made, sets)
}

// judgeContent judges version and data of a node whose creation is known.
func (p *snapshotCheck) judgeContent(n *Node, w *pathWrites, made *Call, sets []*Call) {
	maybe := 0
	for _, c := range w.unknown {
		if c.Op == jute.OpSetData && c.Invoked.Seq < p.snapshot.Seq {
			maybe++
		}
	}
	last := made
	if len(sets) > 0 {
		last = sets[len(sets)-1]
	}
	count := fmt.Sprintf("member %d has %s in version %d, %d sets were acknowledged and %d not answered", p.snapshot.Member, n.Path, n.Version, len(sets), maybe)
	switch {
	case int(n.Version) < len(sets):
		p.reportViolation(writeMissing, last, count)
	case int(n.Version) > len(sets)+maybe:
		p.reportViolation(writeTwice, last, count)
	case maybe > 0:
		p.learnZxids(w, n)
	case n.Mzxid != last.Reply.Zxid || n.Data != last.Data:
		p.reportViolation(writeMissing, last, fmt.Sprintf("member %d has %s with mzxid %#x and data %q, not %q", p.snapshot.Member, n.Path, n.Mzxid, n.Data, last.Data))
	}
}

// judgeUnexplained judges a node with a path that no answer contained. It must come from a create without an
// answer, and each of those makes at most one node.
func (p *snapshotCheck) judgeUnexplained(n *Node) {
	if w := p.history.writesByPath[n.Path]; w.mayHaveHappened(p.snapshot.Seq, jute.Op.IsCreate) {
		p.learnZxids(w, n)
		return
	}
	var fits []*Call
	if path, ok := sequentialPrefix(n.Path); ok {
		fits = slices.DeleteFunc(slices.Clone(p.history.unansweredSequential[path]), func(c *Call) bool {
			return c.Data != n.Data || c.Invoked.Seq >= p.snapshot.Seq || p.matchedCreates[c]
		})
	}
	if len(fits) == 0 {
		v := p.snapshot.newViolation(writeTwice, 0, fmt.Sprintf("member %d has %s, data %q, which no write accounts for", p.snapshot.Member, n.Path, n.Data))
		v.Zxid = n.Czxid
		p.found(v)
		return
	}
	p.matchedCreates[fits[0]] = true
	if len(fits) == 1 {
		p.learnedZxids[fits[0]] = n.Czxid
	}
}

// learnZxids records the zxid of an unanswered write if no other write can have made the node's state.
func (p *snapshotCheck) learnZxids(w *pathWrites, n *Node) {
	var create, set []*Call
	for _, c := range w.unknown {
		switch {
		case c.Invoked.Seq > p.snapshot.Seq:
		case c.Op.IsCreate():
			create = append(create, c)
		case c.Op == jute.OpSetData && c.Data == n.Data:
			set = append(set, c)
		}
	}
	known := map[int64]bool{}
	for _, c := range w.succeeded {
		known[c.Reply.Zxid] = true
	}
	if len(create) == 1 && !known[n.Czxid] {
		p.learnedZxids[create[0]] = n.Czxid
	}
	if len(set) == 1 && !known[n.Mzxid] && n.Mzxid != n.Czxid {
		p.learnedZxids[set[0]] = n.Mzxid
	}
}

// checkOrder judges the zxids of each session's writes, and that they belong to it.
func checkOrder(b *indexedHistory, learnedZxids map[*Call]int64, found func(Violation)) {
	greatest := map[jute.SessionID]*Call{} // of the writes so far, the one with the greatest zxid
	zxid := map[jute.SessionID]int64{}
	owner := map[int64]*Call{}
	for i := range b.Calls {
		c := &b.Calls[i]
		z := c.Reply.Zxid
		if !c.hasReply() {
			z = learnedZxids[c]
		}
		if !c.Op.IsWrite() || z <= 0 {
			continue
		}
		last := greatest[c.Session]
		done := !c.hasReply() || c.Reply.Code == jute.OK
		if last != nil && !c.isSameMulti(last) && (z < zxid[c.Session] || done && z == zxid[c.Session]) {
			v := c.newViolation(writeDisordered, fmt.Sprintf("zxid %#x, but xid %d of conn %d, asked before, has %#x", z, last.Xid, last.Conn, zxid[c.Session]))
			v.Zxid = z
			found(v)
		}
		if other := owner[z]; done && other != nil && other.Session != c.Session {
			found(c.newViolation(sharedZxid, fmt.Sprintf("the other is xid %d of conn %d, session %s", other.Xid, other.Conn, other.Session)))
		}
		if done {
			owner[z] = c
		}
		if last == nil || z > zxid[c.Session] {
			greatest[c.Session], zxid[c.Session] = c, z
		}
	}
}

// isSameMulti reports whether two calls are parts of one multi.
func (c *Call) isSameMulti(other *Call) bool { return c.Conn == other.Conn && c.Xid == other.Xid }
