package znode

import (
	"cmp"
	"fmt"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/zk/jute"
)

// snapshotBuilder takes the parts of a snapshot in their order, and checks each. Restore fills a content with
// one, Verify and ReadImage read with one, and an ImageWriter writes nothing that its filler refuses.
type snapshotBuilder struct {
	replicatedState
	head      ImageHead
	acls      aclTable
	gen       uint64
	blocks    *blockReader // nil in an ImageWriter
	countOnly bool         // count the nodes without keeping them
	visitor   ImageVisitor
	listsSeen map[*acl][]jute.ACL // as visit gets them

	lastSession, lastUnswept jute.SessionID // the last ones taken
	lastEndZxid              int64          // the zxid of the last end taken
	endsTaken                uint64         // how many ends were taken
	lastPath                 string         // the last node's
	builtinsTaken            int            // how many nodes that are always there were taken
	ancestors                []*node        // the last node, after its ancestors from the root on
}

// readSnapshot reads the whole snapshot and compares its digest.
func (f *snapshotBuilder) readSnapshot() error {
	f.readSections()
	digest := f.blocks.getUint64()
	if err := f.blocks.closeStream(); err != nil {
		return err
	}
	if own := f.digest(); own != digest {
		return fmt.Errorf("%w: its digest is %016x, and it says %016x", ErrCorrupt, own, digest)
	}
	return nil
}

func (f *snapshotBuilder) readSections() {
	f.readHead()
	f.readSessions()
	f.readUnswept()
	f.readEnds()
	f.readNodes()
}

// failIf fails the reading if why is not empty.
func (f *snapshotBuilder) failIf(why string) {
	if why != "" {
		f.blocks.failCorrupt("%s", why)
	}
}

func (f *snapshotBuilder) readHead() {
	b := f.blocks
	h := ImageHead{Index: b.getUint64(), Zxid: int64(b.getUint64()), TimeMs: int64(b.getUint64())}
	h.Term = Term{Term: b.getUint64(), Nonce: b.getUint64(), Leader: b.getUint32(), Index: b.getUint64()}
	h.Term.Rules = Rules{SkipACL: b.getBool(), TTLNodes: b.getBool(), EnforceQuota: b.getBool(), X509: b.getBool(), SASL: b.getBool(), DataQuota: b.getUint64(), Reconfig: b.getBool()}
	for count := b.getUint32(); count > 0 && b.err == nil; count-- {
		m := MemberProgress{ID: b.getUint32(), Boot: b.getUint64(), Cursor: b.getUint64(), Format: b.getUint32(), HighestSession: jute.SessionID(b.getUint64())}
		if len(h.Members) > maxMember {
			b.failCorrupt("more than %d members", maxMember+1)
		}
		h.Members = append(h.Members, m)
	}
	h.ServerList = f.readServerList()
	h.SessionCount = b.getUint64()
	if b.err == nil {
		f.failIf(f.acceptHead(h))
	}
	if b.err == nil && f.visitor.Head != nil {
		b.failWith(f.visitor.Head(h))
	}
}

// readServerList reads what sections.roster wrote.
func (f *snapshotBuilder) readServerList() ServerList {
	b := f.blocks
	r := ServerList{Version: int64(b.getUint64())}
	if r.Version == 0 || b.err != nil {
		return r
	}
	b.getBytes(r.EnsembleID[:])
	text := b.getText()
	if b.err != nil {
		return r
	}
	var err error
	if r.Servers, err = serverlist.ParseList(text); err != nil || r.Servers.CanonicalText() != text {
		b.failCorrupt(notCanonical)
	}
	return r
}

// acceptHead returns why a snapshot cannot have this head, or "" if it can.
func (f *snapshotBuilder) acceptHead(h ImageHead) (why string) {
	f.head = h
	f.lastIndex, f.zxid, f.timeMs, f.term, f.serverList = h.Index, h.Zxid, h.TimeMs, h.Term, h.ServerList
	if why := h.ServerList.invalidReason(h.Zxid); why != "" {
		return why
	}
	last := -1
	for _, p := range h.Members {
		m := member{boot: p.Boot, cursor: p.Cursor, format: p.Format, highestSession: uint64(p.HighestSession)}
		if p.ID > maxMember || int(p.ID) <= last || m == (member{}) || m.highestSession != 0 && uint32(m.highestSession>>56) != p.ID {
			return fmt.Sprintf("member %d does not follow %d", p.ID, last)
		}
		f.members[p.ID], last = m, int(p.ID)
	}
	return ""
}

// everOpened reports whether a session with this id can ever have been opened.
func (f *snapshotBuilder) everOpened(id jute.SessionID) bool {
	return uint64(id) <= f.members[uint64(id)>>56].highestSession
}

func (f *snapshotBuilder) readSessions() {
	b := f.blocks
	for count := f.head.SessionCount; count > 0 && b.err == nil; count-- {
		s := &Session{ID: jute.SessionID(b.getUint64()), Timeout: time.Duration(b.getUint32()) * time.Millisecond}
		b.getBytes(s.Password[:])
		s.Owner = SessionOwner{Member: b.getUint32(), Conn: b.getUint64()}
		s.OwnerIndex = b.getUint64()
		s.CreatedMs = int64(b.getUint64())
		s.Address = b.getText()
		who := b.getText()
		if b.err != nil {
			return
		}
		if _, ok := decodeIdentities(who); !ok {
			b.failCorrupt("session %v has identities that cannot be decoded", s.ID)
			return
		}
		s.Identities = identitiesOfText(who)
		f.failIf(f.acceptSession(s))
		if b.err == nil && f.visitor.Session != nil {
			b.failWith(f.visitor.Session(*s))
		}
	}
}

// acceptSession takes the next session, or returns why it cannot be the next one.
func (f *snapshotBuilder) acceptSession(s *Session) (why string) {
	if compareIDs(s.ID, f.lastSession) <= 0 || !f.everOpened(s.ID) || len(s.Address) > maxAddressBytes {
		return fmt.Sprintf("session %v does not follow %v", s.ID, f.lastSession)
	}
	f.putSession(f.gen, s)
	f.lastSession = s.ID
	return ""
}

func (f *snapshotBuilder) readUnswept() {
	b := f.blocks
	f.head.UnsweptCount = b.getUint64()
	for count := f.head.UnsweptCount; count > 0 && b.err == nil; count-- {
		id := jute.SessionID(b.getUint64())
		f.failIf(f.acceptUnswept(id)) // if id could not be read, b keeps that error
		if b.err == nil && f.visitor.Unswept != nil {
			b.failWith(f.visitor.Unswept(id))
		}
	}
}

// acceptUnswept takes the next ended session with nodes left, or returns why it cannot be the next one.
func (f *snapshotBuilder) acceptUnswept(id jute.SessionID) (why string) {
	if _, lives := f.sessions.get(sessionKey(id)); lives || compareIDs(id, f.lastUnswept) <= 0 || !f.everOpened(id) {
		return fmt.Sprintf("ended session %v lives, or does not follow %v", id, f.lastUnswept)
	}
	f.unsweptSessions.put(f.gen, sessionKey(id), struct{}{})
	f.lastUnswept = id
	return ""
}

func (f *snapshotBuilder) readEnds() {
	b := f.blocks
	ever := b.getUint64()
	n := b.getUint64()
	f.failIf(f.acceptEndCounts(ever, n))
	for ; n > 0 && b.err == nil; n-- {
		e := f.readOneEnd()
		if b.err != nil {
			return
		}
		f.failIf(f.acceptEnd(e))
		if b.err == nil && f.visitor.End != nil {
			b.failWith(f.visitor.End(*e))
		}
	}
}

// acceptEndCounts takes how many ends were ever kept, and how many the snapshot has.
func (f *snapshotBuilder) acceptEndCounts(ever, n uint64) (why string) {
	if n > min(ever, maxEnds) || n == 0 && ever > 0 {
		return fmt.Sprintf("%d of %d ends of sessions", n, ever)
	}
	f.head.EndsTotal, f.head.EndCount, f.sessionEnds.total = ever, n, ever
	return ""
}

// readOneEnd reads an end, which has the number that is due.
func (f *snapshotBuilder) readOneEnd() *SessionEnd {
	b := f.blocks
	e := &SessionEnd{Session: jute.SessionID(b.getUint64()), Address: b.getText(), Member: b.getUint32(), Leader: b.getUint32(), Term: b.getUint64(), AtMs: int64(b.getUint64()), Zxid: int64(b.getUint64())}
	if reason := b.getUint32(); reason <= uint32(ReasonKilled) {
		e.Reason = EndReason(reason)
	}
	e.SilentFor = time.Duration(b.getUint64())
	e.Timeout = time.Duration(b.getUint32()) * time.Millisecond
	e.EphemeralCount = int(b.getUint32())
	e.RequestedBy = b.getText()
	e.Number = f.nextEndNumber()
	return e
}

// nextEndNumber returns the number of the next end: those that were kept last have no gap.
func (f *snapshotBuilder) nextEndNumber() uint64 {
	return f.head.EndsTotal - f.head.EndCount + 1 + f.endsTaken
}

// acceptEnd takes the next end, or returns why it cannot be the next one.
func (f *snapshotBuilder) acceptEnd(e *SessionEnd) (why string) {
	if !e.isValid() || e.Number != f.nextEndNumber() || e.Zxid <= f.lastEndZxid || e.Zxid > f.zxid || !f.everOpened(e.Session) {
		return fmt.Sprintf("end %d, of session %v, does not follow the one before", e.Number, e.Session)
	}
	f.sessionEnds.put(f.gen, e)
	f.lastEndZxid = e.Zxid
	f.endsTaken++
	return ""
}

func (f *snapshotBuilder) readNodes() {
	b := f.blocks
	var lists []*acl
	known := map[*acl]bool{}
	f.head.NodeCount = b.getUint64()
	for count := f.head.NodeCount; count > 0 && b.err == nil; count-- {
		n, l, aversion := f.readNode()
		if number := b.getUint32(); int(number) < len(lists) {
			n.setACL(lists[number], aversion)
		} else if a, ok := f.acls.parseACL(b.getNullable()); ok && int(number) == len(lists) && !known[a] {
			n.setACL(a, aversion)
			known[a], lists = true, append(lists, a)
		} else {
			b.failCorrupt("node %q has no list", n.path)
		}
		if b.err != nil {
			return
		}
		f.failIf(f.acceptNode(n, l))
		if b.err == nil && f.visitor.Node != nil {
			b.failWith(f.visitor.Node(f.imageNode(n)))
		}
	}
	if b.err == nil {
		f.failIf(f.missingBuiltins())
	}
}

// readNode reads a node, which ends as l says, without its access control list, which comes next. aversion is how often the list was
// replaced.
func (f *snapshotBuilder) readNode() (n *node, l lifetime, aversion int32) {
	b := f.blocks
	n = &node{gen: f.gen, path: b.getText(), data: packData(b.getNullable()), czxid: int64(b.getUint64()), mzxid: int64(b.getUint64())}
	pzxid := int64(b.getUint64())
	n.ctime, n.mtime = int64(b.getUint64()), int64(b.getUint64())
	n.data.version, aversion = int32(b.getUint32()), int32(b.getUint32())
	n.setChildHistory(pzxid, int32(b.getUint32()))
	l = f.readLifetime()
	n.setLifetime(l)
	return n, l, aversion
}

// readLifetime reads what sections.life wrote.
func (f *snapshotBuilder) readLifetime() lifetime {
	b := f.blocks
	var l lifetime
	sound := true
	switch kind := b.getUint32(); kind {
	case kindPlain:
	case kindEphemeral:
		l.owner = jute.SessionID(b.getUint64())
		sound = l.owner != 0
	case kindContainer:
		l.isContainer = true
	case kindTTL:
		l.ttlMs = int64(b.getUint64())
		sound = l.ttlMs != 0
	default:
		sound = false
	}
	if !sound {
		b.failCorrupt("%s", invalidLifetime)
	}
	return l
}

// invalidLifetime says that no node can end in the way that a snapshot says.
const invalidLifetime = "a node is of no kind, or is owned by no session"

// validLifetime reports whether a node may end like that: its session is in the snapshot, or its time is one
// that a client can set.
func (f *snapshotBuilder) validLifetime(l lifetime) bool {
	if l.owner != 0 {
		_, lives := f.sessions.get(sessionKey(l.owner))
		_, left := f.unsweptSessions.get(sessionKey(l.owner))
		return (lives || left) && l.ttlMs == 0 && !l.isContainer
	}
	return l.ttlMs == 0 || l.ttlMs > 0 && l.ttlMs <= jute.MaxTTL && !l.isContainer
}

// acceptNode takes the next node, which ends as l says, or returns why it cannot be the next one.
func (f *snapshotBuilder) acceptNode(n *node, l lifetime) (why string) {
	if !f.validLifetime(l) {
		return invalidLifetime
	}
	if why := f.placementError(n, f.lastPath); why != "" {
		return fmt.Sprintf("node %q %s", n.path, why)
	}
	f.addNode(n)
	f.lastPath = n.path
	if isBuiltin(n.path) {
		f.builtinsTaken++
	}
	return ""
}

// missingBuiltins returns which nodes are missing after the last one, or "".
func (f *snapshotBuilder) missingBuiltins() (why string) {
	if f.builtinsTaken < len(builtinPaths) {
		return fmt.Sprintf("%d of the %d nodes that are always there", f.builtinsTaken, len(builtinPaths))
	}
	return ""
}

// addNode adds n below the last node of above.
func (f *snapshotBuilder) addNode(n *node) {
	f.ancestors = append(f.ancestors, n)
	if f.countOnly {
		f.nodeCount++
		f.addHash(n)
		return
	}
	f.linkNode(f.gen, n)
}

// parentAt returns the node at path, which is the parent of the next node, or nil if there is none.
// In the order of a walk, this is the last node or one of its ancestors.
func (f *snapshotBuilder) parentAt(path string) *node {
	for ; len(f.ancestors) > 0; f.ancestors = f.ancestors[:len(f.ancestors)-1] {
		if last := f.ancestors[len(f.ancestors)-1]; last.path == path {
			return last
		}
	}
	return nil
}

// placementError returns why n cannot follow the node at last, or "" if it can.
func (f *snapshotBuilder) placementError(n *node, last string) string {
	if n.path == rootPath && last == "" && n.lifetime() == (lifetime{}) {
		return ""
	}
	if !jute.ValidPath(n.path) || !comesAfter(n.path, last) {
		return "is out of order"
	}
	above, _ := splitPath(n.path)
	parent := f.parentAt(cmp.Or(above, rootPath))
	switch {
	case parent == nil:
		return "has no parent"
	case parent.lifetime().owner != 0:
		return "has an ephemeral parent"
	case n.numCreated() < 0:
		return "has a wrong count of children"
	case n.lifetime() != (lifetime{}) && isBuiltin(n.path):
		return "cannot end"
	case n.path == ConfigPath && n.mzxid == 0 && (!n.data.isNull() || n.data.version != 0):
		return "is not every member's own"
	}
	return ""
}

// comesAfter reports whether path comes after last in the order of a walk. Paths are compared by
// parts, as if the slash were the lowest character.
func comesAfter(path, last string) bool {
	for i := range min(len(path), len(last)) {
		if a, b := path[i], last[i]; a != b {
			return b == '/' || a != '/' && a > b
		}
	}
	return len(path) > len(last)
}
