package znode

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall/jute"
)

// Snapshot is a copy of the replicated state. It never changes, and needs no lock.
type Snapshot struct {
	content
}

// Snapshot returns a copy in O(1). From then on, anything shared with the copy is itself copied
// before it changes. The caller holds at least the read lock.
func (s *State) Snapshot() *Snapshot {
	sn := &Snapshot{content: s.content}
	sn.tree = s.tree.copy()
	s.gen.Add(1)
	return sn
}

// Index returns the index of the last entry in the copy.
func (sn *Snapshot) Index() uint64 { return sn.index }

// Digest returns the digest of the copy.
func (sn *Snapshot) Digest() uint64 { return sn.digest() }

// WriteTo writes the copy in the form that Restore reads, and returns how many bytes it wrote.
// Equal states write equal bytes. WriteTo computes the digest again. If the result differs from the
// digest that every change has updated, it returns ErrDamaged, and the bytes written cannot be
// restored.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	version := sn.version()
	b := newBlockWriter(w, version)
	sn.writeProgress(b)
	if version >= saslVersion {
		sn.writeLateRules(b)
	}
	sn.writeMembers(b)
	var count recounted
	count.sessions = sn.writeSessions(b)
	if version >= unsweptVersion {
		sn.writeUnswept(b)
	}
	if version >= endsVersion {
		count.ends = sn.writeEnds(b)
	}
	count.nodes = sn.writeNodes(b)
	if b.err == nil {
		b.err = count.check(&sn.content)
	}
	b.u64(sn.digest())
	err := b.close()
	return b.n, err
}

// version returns the snapshot version in which c is written. It is the newest one that all members
// can read, judged by the Entry.format that each has announced. An older member can therefore be
// caught up, and a member that goes back to an older version can read its own snapshots. If that
// version cannot express c, a newer version is used. In that case the log has entries of a later
// format too, and an older member could not continue from c anyway.
func (c *content) version() uint32 {
	switch lowest := c.MinFormat(); {
	case lowest >= saslFormat || c.term.late():
		return saslVersion
	case lowest >= KillFormat || c.ends.count > 0:
		return endsVersion
	case lowest >= stepsFormat || c.unswept.n > 0:
		return unsweptVersion
	}
	return unsweptVersion - 1
}

// writeProgress writes how far the state has followed the log.
func (c *content) writeProgress(b *blockWriter) {
	b.u64(c.index)
	b.u64(uint64(c.zxid))
	b.u64(uint64(c.now))
	b.u64(c.term.Term)
	b.u64(c.term.Nonce)
	b.u32(c.term.Leader)
	b.u64(c.term.Index)
	for _, rule := range []bool{c.term.SkipACL, c.term.TTLNodes, c.term.EnforceQuota, c.term.X509} {
		b.bool(rule)
	}
}

// writeLateRules writes the rules that older versions do not know.
func (c *content) writeLateRules(b *blockWriter) {
	b.bool(c.term.SASL)
	b.u64(c.term.DataQuota)
}

// writeMembers writes the members that have announced themselves, by id.
func (c *content) writeMembers(b *blockWriter) {
	count := uint32(0)
	for i := range c.members {
		if c.members[i] != (member{}) {
			count++
		}
	}
	b.u32(count)
	for i := range c.members {
		if m := &c.members[i]; *m != (member{}) {
			b.u32(uint32(i))
			b.u64(m.boot)
			b.u64(m.cursor)
			b.u32(m.format)
			b.u64(m.highest)
		}
	}
}

// writeSessions writes all sessions, by id, and returns the sum of their hashes.
func (c *content) writeSessions(b *blockWriter) (sum uint64) {
	b.u64(uint64(c.sessions.n))
	for _, s := range c.sessions.all() {
		b.u64(uint64(s.ID))
		b.u32(uint32(s.Timeout / time.Millisecond))
		b.raw(s.Password[:])
		b.u32(s.Owner.Member)
		b.u64(s.Owner.Conn)
		b.u64(s.Since)
		b.u64(uint64(s.CreatedMs))
		b.text(s.Address)
		sum += s.hash()
	}
	return sum
}

// writeUnswept writes the ended sessions with nodes left, by id.
func (c *content) writeUnswept(b *blockWriter) {
	b.u64(uint64(c.unswept.n))
	for _, id := range c.unsweptIDs() {
		b.u64(uint64(id))
	}
}

// writeNodes writes all nodes, parents before their children and siblings in order, and returns the
// sum of their hashes.
func (c *content) writeNodes(b *blockWriter) (sum uint64) {
	b.u64(uint64(c.nodes))
	lists := map[*acl]uint32{}
	c.walk(c.get(rootPath), func(n *node) bool {
		n.write(b, lists)
		sum += n.hash()
		return b.err == nil
	})
	return sum
}

// write writes n. A list is written at its first use, and numbered from 0 for later ones.
func (n *node) write(b *blockWriter, lists map[*acl]uint32) {
	data, version := n.replicated()
	b.text(n.path)
	b.data(data)
	b.u64(uint64(n.czxid))
	b.u64(uint64(n.mzxid))
	b.u64(uint64(n.lastChild()))
	b.u64(uint64(n.ctime))
	b.u64(uint64(n.mtime))
	b.u32(uint32(version))
	b.u32(uint32(n.aversion))
	b.u32(uint32(n.numCreates()))
	life := n.life()
	life.write(b)
	number, known := lists[n.acl]
	if !known {
		number = uint32(len(lists))
		lists[n.acl] = number
	}
	b.u32(number)
	if !known {
		b.text(n.acl.text)
		if b.err == nil && xxhash.Sum64String(n.acl.text) != n.acl.hash {
			b.err = fmt.Errorf("%w: the list of %q is not what it was", ErrDamaged, n.path)
		}
	}
}

// These are the kinds of nodes in a snapshot.
const (
	kindPlain = iota
	kindEphemeral
	kindContainer
	kindTTL
)

// write writes the kind of node, and its session or TTL if it has one.
func (l *life) write(b *blockWriter) {
	switch {
	case l.owner != 0:
		b.u32(kindEphemeral)
		b.u64(uint64(l.owner))
	case l.container:
		b.u32(kindContainer)
	case l.ttl != 0:
		b.u32(kindTTL)
		b.u64(uint64(l.ttl))
	default:
		b.u32(kindPlain)
	}
}

// readLife reads what life.write wrote.
func (f *filler) readLife() life {
	b := f.b
	var l life
	sound := true
	switch kind := b.u32(); kind {
	case kindPlain:
	case kindEphemeral:
		l.owner = jute.SessionID(b.u64())
		_, lives := f.sessions.get(sessionKey(l.owner))
		_, left := f.unswept.get(sessionKey(l.owner))
		sound = lives || left
	case kindContainer:
		l.container = true
	case kindTTL:
		l.ttl = int64(b.u64())
		sound = l.ttl > 0 && l.ttl <= jute.MaxTTL
	default:
		sound = false
	}
	if !sound {
		b.corrupt("a node is of no kind, or is owned by no session")
	}
	return l
}

// replicated returns the data and version that all members agree on. They differ from n's own only
// for the config node: until a client sets it, each member keeps its own text there.
func (n *node) replicated() (data []byte, version int32) {
	if n.mzxid == 0 && n.path == configPath {
		return nil, 0
	}
	return n.data, n.version
}

// Restore replaces the whole state by a snapshot. It builds the new state aside, then takes the
// write lock, swaps the states and calls Hooks.Restored. After an error (ErrNotSnapshot,
// ErrSnapshotVersion, ErrCorrupt, or an error of the reader) nothing has changed. Watches stay.
func (s *State) Restore(r io.Reader) error {
	f := filler{b: newBlockReader(r), gen: s.gen.Load()}
	f.paths = newIndex()
	if err := f.read(); err != nil {
		return err
	}
	f.placeConfig(f.gen, s.cfg.EnsembleText)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content, s.acls = f.content, f.acls
	s.removed = removedNodes{} // a state that was damaged may have removed them
	s.marks.Store(nil)         // marks belong to the old state
	s.acls.obey(s.term.Rules)
	s.hooks.Restored()
	return nil
}

// Verify reads a whole snapshot and makes all of Restore's checks, but builds no tree. It needs
// memory only for the sessions, their ends and one path of nodes. It returns the index of the last entry in the
// snapshot, and raft's term of the last TermStart. Its errors are those of Restore.
func Verify(r io.Reader) (index, term uint64, err error) {
	f := filler{b: newBlockReader(r), dry: true}
	if err := f.read(); err != nil {
		return 0, 0, err
	}
	return f.index, f.term.Term, nil
}

// filler fills a content from a snapshot.
type filler struct {
	content
	acls  acls
	gen   uint64
	b     *blockReader
	dry   bool    // count the nodes without keeping them
	above []*node // the last node read, after its ancestors from the root on
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
	b := f.b
	f.index = b.u64()
	f.zxid = int64(b.u64())
	f.now = int64(b.u64())
	f.term.Term = b.u64()
	f.term.Nonce = b.u64()
	f.term.Leader = b.u32()
	f.term.Index = b.u64()
	f.term.Rules = Rules{SkipACL: b.bool(), TTLNodes: b.bool(), EnforceQuota: b.bool(), X509: b.bool()}
	if b.version >= saslVersion {
		f.term.SASL, f.term.DataQuota = b.bool(), b.u64()
	}
	f.readMembers()
	f.readSessions()
	if b.version >= unsweptVersion {
		f.readUnswept()
	}
	if b.version >= endsVersion {
		f.readEnds()
	}
	f.readNodes()
}

func (f *filler) readMembers() {
	b, last := f.b, -1
	for count := b.u32(); count > 0 && b.err == nil; count-- {
		id := b.u32()
		m := member{boot: b.u64(), cursor: b.u64(), format: b.u32(), highest: b.u64()}
		if id > maxMember || int(id) <= last || m == (member{}) || m.highest != 0 && uint32(m.highest>>56) != id {
			b.corrupt("member %d does not follow %d", id, last)
			return
		}
		f.members[id], last = m, int(id)
	}
}

func (f *filler) readSessions() {
	b, last := f.b, jute.SessionID(0)
	for count := b.u64(); count > 0 && b.err == nil; count-- {
		s := &Session{ID: jute.SessionID(b.u64()), Timeout: time.Duration(b.u32()) * time.Millisecond}
		b.raw(s.Password[:])
		s.Owner = Owner{Member: b.u32(), Conn: b.u64()}
		s.Since = b.u64()
		s.CreatedMs = int64(b.u64())
		s.Address = b.text()
		if compareIDs(s.ID, last) <= 0 || uint64(s.ID) > f.members[uint64(s.ID)>>56].highest || len(s.Address) > maxAddress {
			b.corrupt("session %v does not follow %v", s.ID, last)
			return
		}
		f.putSession(f.gen, s)
		last = s.ID
	}
}

func (f *filler) readUnswept() {
	b, last := f.b, jute.SessionID(0)
	for count := b.u64(); count > 0 && b.err == nil; count-- {
		id := jute.SessionID(b.u64())
		_, lives := f.sessions.get(sessionKey(id))
		if lives || compareIDs(id, last) <= 0 || uint64(id) > f.members[uint64(id)>>56].highest {
			b.corrupt("ended session %v lives, or does not follow %v", id, last)
			return
		}
		f.unswept.put(f.gen, sessionKey(id), struct{}{})
		last = id
	}
}

func (f *filler) readNodes() {
	b, last := f.b, ""
	builtins := 0
	var lists []*acl
	known := map[*acl]bool{}
	for count := b.u64(); count > 0 && b.err == nil; count-- {
		n := f.readNode()
		if number := b.u32(); int(number) < len(lists) {
			n.acl = lists[number]
		} else if a, ok := f.acls.parseACL(b.data()); ok && int(number) == len(lists) && !known[a] {
			n.acl, known[a], lists = a, true, append(lists, a)
		} else {
			b.corrupt("node %q has no list", n.path)
			return
		}
		if why := f.misplaced(n, last); why != "" {
			b.corrupt("node %q %s", n.path, why)
			return
		}
		f.add(n)
		last = n.path
		if isBuiltin(n.path) {
			builtins++
		}
	}
	if builtins < len(builtin) {
		b.corrupt("%d of the %d nodes that are always there", builtins, len(builtin))
	}
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

// readNode reads a node except its list.
func (f *filler) readNode() *node {
	b := f.b
	n := &node{gen: f.gen, path: b.text(), data: b.data(), czxid: int64(b.u64()), mzxid: int64(b.u64())}
	pzxid := int64(b.u64())
	n.ctime, n.mtime = int64(b.u64()), int64(b.u64())
	n.version, n.aversion = int32(b.u32()), int32(b.u32())
	if creates := int32(b.u32()); creates != 0 || pzxid != n.czxid {
		n.family = &family{pzxid: pzxid, creates: creates}
	}
	n.setLife(f.readLife())
	return n
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
	case parent.owner != 0:
		return "has an ephemeral parent"
	case n.numCreates() < 0:
		return "has a wrong count of children"
	case n.life() != (life{}) && isBuiltin(n.path):
		return "cannot end"
	case n.path == configPath && n.mzxid == 0 && (n.data != nil || n.version != 0):
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
