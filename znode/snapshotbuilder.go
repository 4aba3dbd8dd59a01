package znode

import (
	"cmp"
	"fmt"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/zk/jute"
)

// snapshotBuilder checks the parts of a snapshot in their order, and builds a replicatedState from them.
// RestoreSnapshot, VerifySnapshot and ReadImage read with one, and an ImageWriter writes only what its
// builder accepts. Its accept methods return the reason to reject a part, or "".
type snapshotBuilder struct {
	state     replicatedState
	head      ImageHead
	acls      aclTable
	gen       uint64
	blocks    *blockReader // nil in an ImageWriter
	countOnly bool         // count the nodes without keeping them
	visitor   ImageVisitor
	listsSeen map[*acl][]jute.ACL // see ImageVisitor

	lastSession, lastUnswept jute.SessionID // the last accepted
	lastEndZxid              int64          // of the last end
	endsTaken                uint64
	lastPath                 string
	builtinsTaken            int
	ancestors                []*node // of the next node, from the root to the last node
	lists                    []*acl  // that were read, by their numbers
	known                    map[*acl]bool
	history                  changeHistory
}

// readSnapshot reads the whole snapshot and compares its digest.
func (f *snapshotBuilder) readSnapshot() error {
	f.readSections()
	digest := f.blocks.getUint64()
	if err := f.blocks.checkStreamEnd(); err != nil {
		return err
	}
	if own := f.state.digest(); own != digest {
		return fmt.Errorf("%w: its digest is %016x, and it says %016x", ErrCorrupt, own, digest)
	}
	return nil
}

func (f *snapshotBuilder) readSections() {
	f.readHead()
	f.readSessions()
	f.readUnswept()
	f.readSessionEnds()
	f.readNodes()
	f.readChanges()
}

// failUnlessEmpty fails the reading if why is not empty.
func (f *snapshotBuilder) failUnlessEmpty(why string) {
	if why != "" {
		f.blocks.failCorrupt("%s", why)
	}
}

// visitUnlessRejected fails the reading if the builder has rejected an item, and otherwise passes the item to a
// visitor's function.
func visitUnlessRejected[T any](f *snapshotBuilder, why string, do func(T) error, item T) {
	f.failUnlessEmpty(why)
	if f.blocks.err == nil && do != nil {
		f.blocks.keepFirstError(do(item))
	}
}

func (f *snapshotBuilder) readHead() {
	b := f.blocks
	h := ImageHead{
		Index: b.getUint64(), Zxid: int64(b.getUint64()), TimeMs: int64(b.getUint64()), LatestMs: int64(b.getUint64()),
	}
	h.Term = Term{Term: b.getUint64(), Nonce: b.getUint64(), Leader: b.getUint32(), Index: b.getUint64()}
	h.Term.Rules = Rules{
		SkipACL: b.getBool(), TTLNodes: b.getBool(), EnforceQuota: b.getBool(), X509: b.getBool(), SASL: b.getBool(),
		DataQuota: b.getUint64(),
	}
	flags := b.getByte()
	h.hasHistory, h.hasACLsChanged = flags&flagHistory != 0, flags&flagACLsChanged != 0
	if !h.Term.setFlags(flags&^(flagHistory|flagACLsChanged)) || h.hasACLsChanged && !h.hasHistory {
		b.failCorrupt("unknown rules %#x", flags)
	}
	if flags&flagAnySASLUser != 0 {
		if h.Term.AnySASLUser = b.getText(); h.Term.AnySASLUser == "" {
			b.failCorrupt("the rule for all users of SASL has no name")
		}
	}
	if flags&flagReadLease != 0 {
		if h.Term.ReadLeaseMs = b.getUint64(); h.Term.ReadLeaseMs == 0 {
			b.failCorrupt("the rule for leases of reads has no time")
		}
	}
	for count := b.getUint32(); count > 0 && b.err == nil; count-- {
		m := MemberProgress{
			ID: b.getUint32(), Incarnation: b.getUint64(), LastSeq: b.getUint64(), Format: b.getUint32(),
			HighestSession: jute.SessionID(b.getUint64()),
		}
		if len(h.Members) > maxMember {
			b.failCorrupt("more than %d members", maxMember+1)
		}
		h.Members = append(h.Members, m)
	}
	h.ServerList = f.readServerList()
	h.SessionCount = b.getUint64()
	if b.err == nil {
		visitUnlessRejected(f, f.acceptHead(h), f.visitor.Head, h)
	}
}

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

func (f *snapshotBuilder) acceptHead(h ImageHead) (why string) {
	f.head = h
	state := &f.state
	state.lastIndex, state.zxid, state.term, state.serverList = h.Index, h.Zxid, h.Term, h.ServerList
	state.timeMs, state.latestMs = h.TimeMs, h.LatestMs
	if h.LatestMs < h.TimeMs {
		return fmt.Sprintf("the latest time of an entry is %d, and the last entry has %d", h.LatestMs, h.TimeMs)
	}
	if why := h.ServerList.invalidReason(h.Zxid); why != "" {
		return why
	}
	last := -1
	for _, p := range h.Members {
		m := member{
			incarnation: p.Incarnation, lastSeq: p.LastSeq, format: p.Format,
			highestSession: uint64(p.HighestSession),
		}
		if p.ID > maxMember || int(p.ID) <= last || m == (member{}) ||
			m.highestSession != 0 && uint32(m.highestSession>>56) != p.ID {
			return fmt.Sprintf("member %d does not follow %d", p.ID, last)
		}
		state.members[p.ID], last = m, int(p.ID)
	}
	return ""
}

// everOpened reports whether a session with this id can ever have been opened.
func (f *snapshotBuilder) everOpened(id jute.SessionID) bool {
	return uint64(id) <= f.state.members[uint64(id)>>56].highestSession
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
		visitUnlessRejected(f, f.acceptSession(s), f.visitor.Session, *s)
	}
}

func (f *snapshotBuilder) acceptSession(s *Session) (why string) {
	if compareIDs(s.ID, f.lastSession) <= 0 || !f.everOpened(s.ID) || len(s.Address) > maxAddressBytes {
		return fmt.Sprintf("session %v does not follow %v", s.ID, f.lastSession)
	}
	f.state.putSession(f.gen, s)
	f.lastSession = s.ID
	return ""
}

func (f *snapshotBuilder) readUnswept() {
	b := f.blocks
	f.head.UnsweptCount = b.getUint64()
	for count := f.head.UnsweptCount; count > 0 && b.err == nil; count-- {
		id := jute.SessionID(b.getUint64())
		visitUnlessRejected(f, f.acceptUnswept(id), f.visitor.Unswept, id) // if id could not be read, b keeps that error
	}
}

func (f *snapshotBuilder) acceptUnswept(id jute.SessionID) (why string) {
	if _, lives := f.state.sessions.get(sessionKey(id)); lives || compareIDs(id, f.lastUnswept) <= 0 || !f.everOpened(id) {
		return fmt.Sprintf("ended session %v lives, or does not follow %v", id, f.lastUnswept)
	}
	f.state.unsweptSessions.put(f.gen, sessionKey(id), struct{}{})
	f.lastUnswept = id
	return ""
}

func (f *snapshotBuilder) readSessionEnds() {
	b := f.blocks
	ever := b.getUint64()
	n := b.getUint64()
	f.failUnlessEmpty(f.acceptSessionEndCounts(ever, n))
	for ; n > 0 && b.err == nil; n-- {
		e := f.readSessionEnd()
		if b.err != nil {
			return
		}
		visitUnlessRejected(f, f.acceptSessionEnd(e), f.visitor.SessionEnd, *e)
	}
}

func (f *snapshotBuilder) acceptSessionEndCounts(ever, n uint64) (why string) {
	if n > min(ever, maxSessionEnds) || n == 0 && ever > 0 {
		return fmt.Sprintf("%d of %d ends of sessions", n, ever)
	}
	f.head.EndsTotal, f.head.EndCount, f.state.sessionEnds.total = ever, n, ever
	return ""
}

func (f *snapshotBuilder) readSessionEnd() *SessionEnd {
	b := f.blocks
	e := &SessionEnd{
		Session: jute.SessionID(b.getUint64()), Address: b.getText(), Member: b.getUint32(), Leader: b.getUint32(),
		Term: b.getUint64(), AtMs: int64(b.getUint64()), Zxid: int64(b.getUint64()),
	}
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

// nextEndNumber relies on the kept ends having consecutive numbers.
func (f *snapshotBuilder) nextEndNumber() uint64 {
	return f.head.EndsTotal - f.head.EndCount + 1 + f.endsTaken
}

func (f *snapshotBuilder) acceptSessionEnd(e *SessionEnd) (why string) {
	if !e.isValid() || e.Number != f.nextEndNumber() || e.Zxid <= f.lastEndZxid || e.Zxid > f.state.zxid ||
		!f.everOpened(e.Session) {
		return fmt.Sprintf("end %d, of session %v, does not follow the one before", e.Number, e.Session)
	}
	f.state.sessionEnds.put(f.gen, e)
	f.lastEndZxid = e.Zxid
	f.endsTaken++
	return ""
}

func (f *snapshotBuilder) readNodes() {
	b := f.blocks
	f.known = map[*acl]bool{}
	f.head.NodeCount = b.getUint64()
	for count := f.head.NodeCount; count > 0 && b.err == nil; count-- {
		n, l, aversion := f.readNode()
		a := f.readList(n.path)
		if b.err != nil {
			return
		}
		n.setACL(a, aversion)
		f.failUnlessEmpty(f.acceptNode(n, l))
		if b.err == nil && f.visitor.Node != nil {
			b.keepFirstError(f.visitor.Node(f.imageNode(n)))
		}
	}
	if b.err == nil {
		f.failUnlessEmpty(f.missingBuiltins())
	}
}

// readList reads the list of the node at path, or returns nil.
func (f *snapshotBuilder) readList(path string) *acl {
	b := f.blocks
	number := b.getUint32()
	if int(number) < len(f.lists) {
		return f.lists[number]
	}
	a, ok := f.acls.parseACL(b.getNullable())
	if !ok || int(number) != len(f.lists) || f.known[a] {
		b.failCorrupt("node %q has no list", path)
		return nil
	}
	f.known[a], f.lists = true, append(f.lists, a)
	return a
}

// readChanges reads the history of changes, and keeps as many of the latest ones as this member's limit allows.
func (f *snapshotBuilder) readChanges() {
	b, h := f.blocks, &f.history
	h.aclsChanged = f.head.Zxid // if the snapshot does not have it
	if f.head.hasACLsChanged {
		if h.aclsChanged = int64(b.getUint64()); h.aclsChanged < 0 || h.aclsChanged > f.head.Zxid {
			b.failCorrupt("an ACL was changed at zxid %#x, and the last one is %#x", h.aclsChanged, f.head.Zxid)
		}
	}
	if !f.head.hasHistory {
		h.since, h.unknownTerm = noHistory, f.head.Zxid>>termShift
		return
	}
	since, count := int64(b.getUint64()), b.getUint64()
	if b.err != nil {
		return
	}
	if since == noHistory {
		h.since, h.unknownTerm = noHistory, f.head.Zxid>>termShift
	} else {
		h.since = since
	}
	if since < 0 || since > f.head.Zxid && (since != noHistory || count > 0) {
		b.failCorrupt("%d changes after zxid %#x, and the last one is %#x", count, since, f.head.Zxid)
	}
	last := since
	for ; count > 0 && b.err == nil; count-- {
		n, zxid := f.readChange()
		if b.err != nil {
			return
		}
		// Changes of the transaction of since may be there, too: the others are no longer kept.
		if zxid < last || zxid > f.head.Zxid || !jute.ValidPath(n.path) {
			b.failCorrupt("the change of %q does not follow the one before", n.path)
			return
		}
		if last = zxid; !f.countOnly && h.keepsChanges() {
			h.append(n, zxid)
		}
	}
}

func (f *snapshotBuilder) readChange() (n *notification, zxid int64) {
	b := f.blocks
	n = &notification{event: jute.EventType(b.getByte())}
	zxid, n.path = int64(b.getUint64()), b.getText()
	n.acl = f.readList(n.path)
	switch n.event {
	case jute.EventNodeCreated, jute.EventNodeDeleted:
		if n.parentACL = f.readList(n.path); n.path == rootPath || n.path == "" {
			b.failCorrupt("a change of no node")
			return n, zxid
		}
		n.parent = parentPath(n.path)
	case jute.EventNodeDataChanged:
	default:
		b.failCorrupt("a change of kind %d", n.event)
	}
	return n, zxid
}

// readNode reads a node up to its access control list. aversion is the version of that list, which comes
// next.
func (f *snapshotBuilder) readNode() (n *node, l lifetime, aversion int32) {
	b := f.blocks
	n = &node{
		gen: f.gen, path: b.getText(), data: packData(b.getNullable()),
		czxid: int64(b.getUint64()), mzxid: int64(b.getUint64()),
	}
	pzxid := int64(b.getUint64())
	n.ctime, n.mtime = int64(b.getUint64()), int64(b.getUint64())
	n.data.version, aversion = int32(b.getUint32()), int32(b.getUint32())
	n.setChildHistory(pzxid, f.readCreateCount())
	l = f.readLifetime()
	n.setLifetime(l)
	return n, l, aversion
}

// wrongCreateCount describes a node with a count that no parent can have, or that is not written as the writer does.
const wrongCreateCount = "has a wrong count of children"

func (f *snapshotBuilder) readCreateCount() int64 {
	b := f.blocks
	upper := b.getUint32()
	if upper < longCount {
		return int64(upper)
	}
	n := int64(upper-longCount)<<32 | int64(b.getUint32())
	if n <= MaxCreated {
		b.failCorrupt("a node %s", wrongCreateCount)
	}
	return n
}

func (f *snapshotBuilder) readLifetime() lifetime {
	b := f.blocks
	var l lifetime
	sound := true
	switch b.getUint32() {
	case uint32(kindPlain):
	case uint32(kindEphemeral):
		l.owner = jute.SessionID(b.getUint64())
		sound = l.owner != 0
	case uint32(kindContainer):
		l.isContainer = true
	case uint32(kindTTL):
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

// invalidLifetime describes a node with an impossible lifetime.
const invalidLifetime = "a node is of no kind, or is owned by no session"

// validLifetime reports whether the node's session is in the snapshot, or its TTL is one that a client can
// set.
func (f *snapshotBuilder) validLifetime(l lifetime) bool {
	if l.owner != 0 {
		_, lives := f.state.sessions.get(sessionKey(l.owner))
		_, left := f.state.unsweptSessions.get(sessionKey(l.owner))
		return (lives || left) && l.ttlMs == 0 && !l.isContainer
	}
	return l.ttlMs == 0 || l.ttlMs > 0 && l.ttlMs <= jute.MaxTTL && !l.isContainer
}

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

// missingBuiltins describes the nodes that are missing at the end, or returns "".
func (f *snapshotBuilder) missingBuiltins() (why string) {
	if f.builtinsTaken < len(builtinPaths) {
		return fmt.Sprintf("%d of the %d nodes that are always there", f.builtinsTaken, len(builtinPaths))
	}
	return ""
}

// addNode adds n below the last ancestor.
func (f *snapshotBuilder) addNode(n *node) {
	f.ancestors = append(f.ancestors, n)
	if f.countOnly {
		f.state.tree.nodeCount++
		f.state.tree.addHash(n)
		return
	}
	f.state.tree.linkNode(f.gen, n)
}

// popToParent returns the node at path, which is the parent of the next node, or nil. In the order of a walk, it
// is the last node or one of its ancestors.
func (f *snapshotBuilder) popToParent(path string) *node {
	for ; len(f.ancestors) > 0; f.ancestors = f.ancestors[:len(f.ancestors)-1] {
		if last := f.ancestors[len(f.ancestors)-1]; last.path == path {
			return last
		}
	}
	return nil
}

// placementError returns the reason why n cannot follow the node at last, or "".
func (f *snapshotBuilder) placementError(n *node, last string) string {
	if n.path == rootPath && last == "" && n.lifetime() == (lifetime{}) {
		return ""
	}
	if !jute.ValidPath(n.path) || !comesAfter(n.path, last) {
		return "is out of order"
	}
	above, _ := splitPath(n.path)
	parent := f.popToParent(cmp.Or(above, rootPath))
	switch {
	case parent == nil:
		return "has no parent"
	case parent.lifetime().owner != 0:
		return "has an ephemeral parent"
	case n.numCreated() < 0 || n.numCreated() > jute.MaxSequence:
		return wrongCreateCount
	case n.lifetime() != (lifetime{}) && isBuiltin(n.path):
		return "cannot end"
	case n.path == ConfigPath && n.mzxid == 0 && (!n.data.isNull() || n.data.version != 0):
		return "is not every member's own"
	}
	return ""
}

// comesAfter reports whether path follows last in the order of a walk. Paths are compared by parts, as if the
// slash were the lowest character.
func comesAfter(path, last string) bool {
	for i := range min(len(path), len(last)) {
		if a, b := path[i], last[i]; a != b {
			return b == '/' || a != '/' && a > b
		}
	}
	return len(path) > len(last)
}
