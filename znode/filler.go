package znode

import (
	"cmp"
	"fmt"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/zk/jute"
)

// filler takes the parts of a snapshot in their order, and checks each. Restore fills a content with
// one, Verify and ReadImage read with one, and an ImageWriter writes nothing that its filler refuses.
type filler struct {
	content
	head  Head
	acls  acls
	gen   uint64
	b     *blockReader // nil in an ImageWriter
	dry   bool         // count the nodes without keeping them
	visit Visitor
	lists map[*acl][]jute.ACL // as visit gets them

	lastSession, lastUnswept jute.SessionID // the last ones taken
	lastEnd                  int64          // the zxid of the last end taken
	ended                    uint64         // how many ends were taken
	lastPath                 string         // the last node's
	builtins                 int            // how many nodes that are always there were taken
	above                    []*node        // the last node, after its ancestors from the root on
}

// read reads the whole snapshot and compares its digest.
func (f *filler) read() error {
	f.fill()
	digest := f.b.u64()
	if err := f.b.close(); err != nil {
		return err
	}
	if own := f.digest(); own != digest {
		return fmt.Errorf("%w: its digest is %016x, and it says %016x", ErrCorrupt, own, digest)
	}
	return nil
}

func (f *filler) fill() {
	f.readHead()
	f.readSessions()
	f.readUnswept()
	f.readEnds()
	f.readNodes()
}

// check fails the reading if why is not empty.
func (f *filler) check(why string) {
	if why != "" {
		f.b.corrupt("%s", why)
	}
}

func (f *filler) readHead() {
	b := f.b
	h := Head{Index: b.u64(), Zxid: int64(b.u64()), Now: int64(b.u64())}
	h.Term = Term{Term: b.u64(), Nonce: b.u64(), Leader: b.u32(), Index: b.u64()}
	h.Term.Rules = Rules{SkipACL: b.bool(), TTLNodes: b.bool(), EnforceQuota: b.bool(), X509: b.bool(), SASL: b.bool(), DataQuota: b.u64(), Reconfig: b.bool()}
	for count := b.u32(); count > 0 && b.err == nil; count-- {
		m := Progress{ID: b.u32(), Boot: b.u64(), Cursor: b.u64(), Format: b.u32(), Highest: jute.SessionID(b.u64())}
		if len(h.Members) > maxMember {
			b.corrupt("more than %d members", maxMember+1)
		}
		h.Members = append(h.Members, m)
	}
	h.Roster = f.readRoster()
	h.Sessions = b.u64()
	if b.err == nil {
		f.check(f.takeHead(h))
	}
	if b.err == nil && f.visit.Head != nil {
		b.fail(f.visit.Head(h))
	}
}

// readRoster reads what sections.roster wrote.
func (f *filler) readRoster() Roster {
	b := f.b
	r := Roster{Version: int64(b.u64())}
	if r.Version == 0 || b.err != nil {
		return r
	}
	b.raw(r.Ensemble[:])
	text := b.text()
	if b.err != nil {
		return r
	}
	var err error
	if r.Servers, err = serverlist.ParseList(text); err != nil || r.Servers.Text() != text {
		b.corrupt(notCanonical)
	}
	return r
}

// takeHead returns why a snapshot cannot have this head, or "" if it can.
func (f *filler) takeHead(h Head) (why string) {
	f.head = h
	f.index, f.zxid, f.now, f.term, f.roster = h.Index, h.Zxid, h.Now, h.Term, h.Roster
	if why := h.Roster.sound(h.Zxid); why != "" {
		return why
	}
	last := -1
	for _, p := range h.Members {
		m := member{boot: p.Boot, cursor: p.Cursor, format: p.Format, highest: uint64(p.Highest)}
		if p.ID > maxMember || int(p.ID) <= last || m == (member{}) || m.highest != 0 && uint32(m.highest>>56) != p.ID {
			return fmt.Sprintf("member %d does not follow %d", p.ID, last)
		}
		f.members[p.ID], last = m, int(p.ID)
	}
	return ""
}

// opened reports whether a session with this id can ever have been opened.
func (f *filler) opened(id jute.SessionID) bool {
	return uint64(id) <= f.members[uint64(id)>>56].highest
}

func (f *filler) readSessions() {
	b := f.b
	for count := f.head.Sessions; count > 0 && b.err == nil; count-- {
		s := &Session{ID: jute.SessionID(b.u64()), Timeout: time.Duration(b.u32()) * time.Millisecond}
		b.raw(s.Password[:])
		s.Owner = Owner{Member: b.u32(), Conn: b.u64()}
		s.Since = b.u64()
		s.CreatedMs = int64(b.u64())
		s.Address = b.text()
		who := b.text()
		if b.err != nil {
			return
		}
		if _, ok := decodeIdentities(who); !ok {
			b.corrupt("session %v has identities that cannot be decoded", s.ID)
			return
		}
		s.Who = identitiesIn(who)
		f.check(f.takeSession(s))
		if b.err == nil && f.visit.Session != nil {
			b.fail(f.visit.Session(*s))
		}
	}
}

// takeSession takes the next session, or returns why it cannot be the next one.
func (f *filler) takeSession(s *Session) (why string) {
	if compareIDs(s.ID, f.lastSession) <= 0 || !f.opened(s.ID) || len(s.Address) > maxAddress {
		return fmt.Sprintf("session %v does not follow %v", s.ID, f.lastSession)
	}
	f.putSession(f.gen, s)
	f.lastSession = s.ID
	return ""
}

func (f *filler) readUnswept() {
	b := f.b
	f.head.Unswept = b.u64()
	for count := f.head.Unswept; count > 0 && b.err == nil; count-- {
		id := jute.SessionID(b.u64())
		f.check(f.takeUnswept(id)) // if id could not be read, b keeps that error
		if b.err == nil && f.visit.Unswept != nil {
			b.fail(f.visit.Unswept(id))
		}
	}
}

// takeUnswept takes the next ended session with nodes left, or returns why it cannot be the next one.
func (f *filler) takeUnswept(id jute.SessionID) (why string) {
	if _, lives := f.sessions.get(sessionKey(id)); lives || compareIDs(id, f.lastUnswept) <= 0 || !f.opened(id) {
		return fmt.Sprintf("ended session %v lives, or does not follow %v", id, f.lastUnswept)
	}
	f.unswept.put(f.gen, sessionKey(id), struct{}{})
	f.lastUnswept = id
	return ""
}

func (f *filler) readEnds() {
	b := f.b
	ever := b.u64()
	n := b.u64()
	f.check(f.takeEnds(ever, n))
	for ; n > 0 && b.err == nil; n-- {
		e := f.readEnd()
		if b.err != nil {
			return
		}
		f.check(f.takeEnd(e))
		if b.err == nil && f.visit.End != nil {
			b.fail(f.visit.End(*e))
		}
	}
}

// takeEnds takes how many ends were ever kept, and how many the snapshot has.
func (f *filler) takeEnds(ever, n uint64) (why string) {
	if n > min(ever, maxEnds) || n == 0 && ever > 0 {
		return fmt.Sprintf("%d of %d ends of sessions", n, ever)
	}
	f.head.EndsEver, f.head.Ends, f.ends.count = ever, n, ever
	return ""
}

// readEnd reads an end, which has the number that is due.
func (f *filler) readEnd() *End {
	b := f.b
	e := &End{Session: jute.SessionID(b.u64()), Address: b.text(), Member: b.u32(), Leader: b.u32(), Term: b.u64(), AtMs: int64(b.u64()), Zxid: int64(b.u64())}
	if reason := b.u32(); reason <= uint32(Killed) {
		e.Reason = Reason(reason)
	}
	e.Silent = time.Duration(b.u64())
	e.Timeout = time.Duration(b.u32()) * time.Millisecond
	e.Ephemerals = int(b.u32())
	e.By = b.text()
	e.Number = f.dueEnd()
	return e
}

// dueEnd returns the number of the next end: those that were kept last have no gap.
func (f *filler) dueEnd() uint64 { return f.head.EndsEver - f.head.Ends + 1 + f.ended }

// takeEnd takes the next end, or returns why it cannot be the next one.
func (f *filler) takeEnd(e *End) (why string) {
	if !e.sound() || e.Number != f.dueEnd() || e.Zxid <= f.lastEnd || e.Zxid > f.zxid || !f.opened(e.Session) {
		return fmt.Sprintf("end %d, of session %v, does not follow the one before", e.Number, e.Session)
	}
	f.ends.put(f.gen, e)
	f.lastEnd = e.Zxid
	f.ended++
	return ""
}

func (f *filler) readNodes() {
	b := f.b
	var lists []*acl
	known := map[*acl]bool{}
	f.head.Nodes = b.u64()
	for count := f.head.Nodes; count > 0 && b.err == nil; count-- {
		n, l, aversion := f.readNode()
		if number := b.u32(); int(number) < len(lists) {
			n.setACL(lists[number], aversion)
		} else if a, ok := f.acls.parseACL(b.data()); ok && int(number) == len(lists) && !known[a] {
			n.setACL(a, aversion)
			known[a], lists = true, append(lists, a)
		} else {
			b.corrupt("node %q has no list", n.path)
		}
		if b.err != nil {
			return
		}
		f.check(f.takeNode(n, l))
		if b.err == nil && f.visit.Node != nil {
			b.fail(f.visit.Node(f.imageOf(n)))
		}
	}
	if b.err == nil {
		f.check(f.lacks())
	}
}

// readNode reads a node, which ends as l says, without its access control list, which comes next. aversion is how often the list was
// replaced.
func (f *filler) readNode() (n *node, l life, aversion int32) {
	b := f.b
	n = &node{gen: f.gen, path: b.text(), data: pack(b.data()), czxid: int64(b.u64()), mzxid: int64(b.u64())}
	pzxid := int64(b.u64())
	n.ctime, n.mtime = int64(b.u64()), int64(b.u64())
	n.data.version, aversion = int32(b.u32()), int32(b.u32())
	n.setFamily(pzxid, int32(b.u32()))
	l = f.readLife()
	n.setLife(l)
	return n, l, aversion
}

// readLife reads what sections.life wrote.
func (f *filler) readLife() life {
	b := f.b
	var l life
	sound := true
	switch kind := b.u32(); kind {
	case kindPlain:
	case kindEphemeral:
		l.owner = jute.SessionID(b.u64())
		sound = l.owner != 0
	case kindContainer:
		l.container = true
	case kindTTL:
		l.ttl = int64(b.u64())
		sound = l.ttl != 0
	default:
		sound = false
	}
	if !sound {
		b.corrupt("%s", wrongLife)
	}
	return l
}

// wrongLife says that no node can end in the way that a snapshot says.
const wrongLife = "a node is of no kind, or is owned by no session"

// mayOwn reports whether a node may end like that: its session is in the snapshot, or its time is one
// that a client can set.
func (f *filler) mayOwn(l life) bool {
	if l.owner != 0 {
		_, lives := f.sessions.get(sessionKey(l.owner))
		_, left := f.unswept.get(sessionKey(l.owner))
		return (lives || left) && l.ttl == 0 && !l.container
	}
	return l.ttl == 0 || l.ttl > 0 && l.ttl <= jute.MaxTTL && !l.container
}

// takeNode takes the next node, which ends as l says, or returns why it cannot be the next one.
func (f *filler) takeNode(n *node, l life) (why string) {
	if !f.mayOwn(l) {
		return wrongLife
	}
	if why := f.misplaced(n, f.lastPath); why != "" {
		return fmt.Sprintf("node %q %s", n.path, why)
	}
	f.add(n)
	f.lastPath = n.path
	if isBuiltin(n.path) {
		f.builtins++
	}
	return ""
}

// lacks returns which nodes are missing after the last one, or "".
func (f *filler) lacks() (why string) {
	if f.builtins < len(builtin) {
		return fmt.Sprintf("%d of the %d nodes that are always there", f.builtins, len(builtin))
	}
	return ""
}

// add adds n below the last node of above.
func (f *filler) add(n *node) {
	f.above = append(f.above, n)
	if f.dry {
		f.nodes++
		f.count(n)
		return
	}
	f.link(f.gen, n)
}

// parent returns the node at path, which is the parent of the next node, or nil if there is none.
// In the order of a walk, this is the last node or one of its ancestors.
func (f *filler) parent(path string) *node {
	for ; len(f.above) > 0; f.above = f.above[:len(f.above)-1] {
		if last := f.above[len(f.above)-1]; last.path == path {
			return last
		}
	}
	return nil
}

// misplaced returns why n cannot follow the node at last, or "" if it can.
func (f *filler) misplaced(n *node, last string) string {
	if n.path == rootPath && last == "" && n.life() == (life{}) {
		return ""
	}
	if !jute.ValidPath(n.path) || !follows(n.path, last) {
		return "is out of order"
	}
	above, _ := cutPath(n.path)
	parent := f.parent(cmp.Or(above, rootPath))
	switch {
	case parent == nil:
		return "has no parent"
	case parent.life().owner != 0:
		return "has an ephemeral parent"
	case n.numCreates() < 0:
		return "has a wrong count of children"
	case n.life() != (life{}) && isBuiltin(n.path):
		return "cannot end"
	case n.path == ConfigPath && n.mzxid == 0 && (!n.data.null() || n.data.version != 0):
		return "is not every member's own"
	}
	return ""
}

// follows reports whether path comes after last in the order of a walk. Paths are compared by
// parts, as if the slash were the lowest character.
func follows(path, last string) bool {
	for i := range min(len(path), len(last)) {
		if a, b := path[i], last[i]; a != b {
			return b == '/' || a != '/' && a > b
		}
	}
	return len(path) > len(last)
}
