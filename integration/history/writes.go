package history

import (
	"fmt"

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
func checkWrites(b *book, found func(Violation)) {
	var last *Snapshot
	told := map[*Call]int64{} // zxids of unanswered writes, as the trees show them
	for i := range b.Snapshots {
		s := &b.Snapshots[i]
		if !s.Whole {
			continue
		}
		if last == nil || s.Index > last.Index {
			last = s
		}
		p := presence{book: b, s: s, found: found, told: told, used: map[*Call]bool{}, seen: map[string]bool{}}
		p.judge()
	}
	checkOrder(b, told, found)
	for i := range b.Calls {
		c := &b.Calls[i]
		if !changes(c.Op) || !c.Done() {
			continue
		}
		if last == nil {
			found(c.violation(unjudged, fmt.Sprintf("%s of %s is the first of them", c.Op, c.node())))
			return
		}
		if c.Returned.Seq < last.Seq && c.Reply.Zxid > last.Zxid {
			found(c.violation(writeMissing, fmt.Sprintf("%s of %s: member %d is at index %d, the greatest, and only at zxid %#x",
				c.Op, c.node(), last.Member, last.Index, last.Zxid)))
		}
	}
}

func (c *Call) violation(f fault, detail string) Violation {
	at := c.Returned.At
	if !c.answered() {
		at = c.Invoked.At
	}
	return Violation{Fault: f, Session: c.Session, At: at, Zxid: c.Reply.Zxid, Detail: fmt.Sprintf("conn %d, xid %d: %s", c.Conn, c.Xid, detail)}
}

// presence judges one whole snapshot.
type presence struct {
	*book
	s     *Snapshot
	found func(Violation)
	told  map[*Call]int64
	used  map[*Call]bool  // unanswered sequential creates that account for a node
	seen  map[string]bool // paths
}

func (p *presence) judge() {
	for i := range p.s.Nodes {
		n := &p.s.Nodes[i]
		p.seen[n.Path] = true
		if n.Owner == 0 {
			p.present(n)
		}
	}
	for path, w := range p.paths {
		if p.seen[path] || w.mortal || w.may(p.s.Seq, deletes) {
			continue
		}
		if made, _ := w.made(p.s.Zxid); made != nil {
			p.report(writeMissing, made, fmt.Sprintf("member %d lacks %s", p.s.Member, path))
		}
	}
}

func (p *presence) report(f fault, c *Call, detail string) {
	v := p.s.violation(f, c.Session)
	v.Zxid = c.Reply.Zxid
	v.Detail = fmt.Sprintf("conn %d, xid %d: %s", c.Conn, c.Xid, detail)
	p.found(v)
}

// made returns the acknowledged create of the node that exists at zxid z, and the sets after it. It
// returns nil if the node was last deleted, or never created.
func (w *writes) made(z int64) (made *Call, sets []*Call) {
	n := w.upTo(z)
	for i := n - 1; i >= 0; i-- {
		if c := w.done[i]; c.Op != jute.OpSetData {
			if c.Op.IsCreate() {
				return c, w.done[i+1 : n]
			}
			return nil, nil
		}
	}
	return nil, nil
}

// present judges a node that exists.
func (p *presence) present(n *Node) {
	w := p.paths[n.Path]
	if w == nil {
		p.unnamed(n)
		return
	}
	if w.mortal {
		return
	}
	made, sets := w.made(p.s.Zxid)
	if w.may(p.s.Seq, jute.Op.IsCreate) {
		p.tell(w, n)
		return // it may be that create's node, made before or after
	}
	if made == nil {
		p.unnamed(n)
		return
	}
	if n.Czxid != made.Reply.Zxid {
		p.report(writeTwice, made, fmt.Sprintf("member %d has %s with czxid %#x", p.s.Member, n.Path, n.Czxid))
		return
	}
	p.content(n, w, made, sets)
}

// content judges version and data of a node whose creation is known.
func (p *presence) content(n *Node, w *writes, made *Call, sets []*Call) {
	maybe := 0
	for _, c := range w.unknown {
		if c.Op == jute.OpSetData && c.Invoked.Seq < p.s.Seq {
			maybe++
		}
	}
	last := made
	if len(sets) > 0 {
		last = sets[len(sets)-1]
	}
	count := fmt.Sprintf("member %d has %s in version %d, %d sets were acknowledged and %d not answered", p.s.Member, n.Path, n.Version, len(sets), maybe)
	switch {
	case int(n.Version) < len(sets):
		p.report(writeMissing, last, count)
	case int(n.Version) > len(sets)+maybe:
		p.report(writeTwice, last, count)
	case maybe > 0:
		p.tell(w, n)
	case n.Mzxid != last.Reply.Zxid || n.Data != last.Data:
		p.report(writeMissing, last, fmt.Sprintf("member %d has %s with mzxid %#x and data %q, not %q", p.s.Member, n.Path, n.Mzxid, n.Data, last.Data))
	}
}

// unnamed judges a node with a path that no answer contained. It must come from a create without an
// answer, and each of those makes at most one node.
func (p *presence) unnamed(n *Node) {
	if w := p.paths[n.Path]; w.may(p.s.Seq, jute.Op.IsCreate) {
		p.tell(w, n)
		return
	}
	var fits []*Call
	if path, ok := asked(n.Path); ok {
		for _, c := range p.loose[path] {
			if c.Data == n.Data && c.Invoked.Seq < p.s.Seq && !p.used[c] {
				fits = append(fits, c)
			}
		}
	}
	if len(fits) == 0 {
		v := p.s.violation(writeTwice, 0)
		v.Zxid = n.Czxid
		v.Detail = fmt.Sprintf("member %d has %s, data %q, which no write accounts for", p.s.Member, n.Path, n.Data)
		p.found(v)
		return
	}
	p.used[fits[0]] = true
	if len(fits) == 1 {
		p.told[fits[0]] = n.Czxid
	}
}

// tell records the zxid of an unanswered write if no other write can have made the node's state.
func (p *presence) tell(w *writes, n *Node) {
	var create, set []*Call
	for _, c := range w.unknown {
		switch {
		case c.Invoked.Seq > p.s.Seq:
		case c.Op.IsCreate():
			create = append(create, c)
		case c.Op == jute.OpSetData && c.Data == n.Data:
			set = append(set, c)
		}
	}
	known := map[int64]bool{}
	for _, c := range w.done {
		known[c.Reply.Zxid] = true
	}
	if len(create) == 1 && !known[n.Czxid] {
		p.told[create[0]] = n.Czxid
	}
	if len(set) == 1 && !known[n.Mzxid] && n.Mzxid != n.Czxid {
		p.told[set[0]] = n.Mzxid
	}
}

// checkOrder judges the zxids of each session's writes, and that they belong to it.
func checkOrder(b *book, told map[*Call]int64, found func(Violation)) {
	greatest := map[jute.SessionID]*Call{} // of the writes so far, the one with the greatest zxid
	zxid := map[jute.SessionID]int64{}
	owner := map[int64]*Call{}
	for i := range b.Calls {
		c := &b.Calls[i]
		z := c.Reply.Zxid
		if !c.answered() {
			z = told[c]
		}
		if !c.Op.IsWrite() || z <= 0 {
			continue
		}
		last := greatest[c.Session]
		done := !c.answered() || c.Reply.Code == jute.OK
		if last != nil && !c.partOf(last) && (z < zxid[c.Session] || done && z == zxid[c.Session]) {
			v := c.violation(writeDisordered, fmt.Sprintf("zxid %#x, but xid %d of conn %d, asked before, has %#x", z, last.Xid, last.Conn, zxid[c.Session]))
			v.Zxid = z
			found(v)
		}
		if other := owner[z]; done && other != nil && other.Session != c.Session {
			found(c.violation(sharedZxid, fmt.Sprintf("the other is xid %d of conn %d, session %s", other.Xid, other.Conn, other.Session)))
		}
		if done {
			owner[z] = c
		}
		if last == nil || z > zxid[c.Session] {
			greatest[c.Session], zxid[c.Session] = c, z
		}
	}
}

// partOf reports whether two calls are parts of one multi.
func (c *Call) partOf(other *Call) bool { return c.Conn == other.Conn && c.Xid == other.Xid }
