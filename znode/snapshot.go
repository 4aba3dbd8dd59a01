package znode

import (
	"io"

	"rollcall/zk/jute"
)

// Snapshot is a copy of the replicated state. It never changes, and needs no lock.
type Snapshot struct {
	replicatedState
}

// Snapshot returns a copy in O(1). From then on, anything shared with the copy is itself copied
// before it changes. The caller holds at least the read lock.
func (s *State) Snapshot() *Snapshot {
	sn := &Snapshot{replicatedState: s.replicatedState}
	sn.tree = s.tree.copy()
	s.gen.Add(1)
	return sn
}

// Index returns the index of the last entry in the copy.
func (sn *Snapshot) Index() uint64 { return sn.lastIndex }

// Digest returns the digest of the copy.
func (sn *Snapshot) Digest() uint64 { return sn.digest() }

// WriteTo writes the copy in the form that Restore reads, and returns how many bytes it wrote.
// Equal states write equal bytes. WriteTo computes the digest again. If the result differs from the
// digest that every change has updated, it returns ErrDamaged, and the bytes written cannot be
// restored.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	h := sn.imageHead()
	p := newSections(w, &h)
	count := sn.writeSections(p)
	if p.err == nil {
		p.err = count.compareWith(&sn.replicatedState)
	}
	err := p.closeSnapshot(sn.digest())
	return p.bytesWritten, err
}

// writeSections writes all that follows the head, and returns the sums of the hashes.
func (c *replicatedState) writeSections(p *sectionWriter) (count recomputedSums) {
	for _, s := range c.sessions.all() {
		p.writeSession(s)
		count.sessions += s.hash()
	}
	for _, id := range c.unsweptIDs() {
		p.writeUnswept(id)
	}
	for _, e := range c.sessionEnds.byNumber.all() {
		p.writeEnd(e)
		count.ends += e.hash()
	}
	c.walkFrom(c.nodeAt(rootPath), func(n *node) bool {
		p.writeNode(n)
		count.nodes += n.hash()
		return p.err == nil
	})
	return count
}

// imageHead returns what a snapshot of c says before its sessions and nodes.
func (c *replicatedState) imageHead() ImageHead {
	h := ImageHead{
		Index: c.lastIndex, Zxid: c.zxid, TimeMs: c.timeMs, Term: c.term, ServerList: c.serverList,
		SessionCount: uint64(c.sessions.length), UnsweptCount: uint64(c.unsweptSessions.length), EndCount: uint64(c.sessionEnds.byNumber.length), EndsTotal: c.sessionEnds.total,
		NodeCount: uint64(c.nodeCount),
	}
	for id := range c.members {
		if m := &c.members[id]; *m != (member{}) {
			h.Members = append(h.Members, MemberProgress{ID: uint32(id), Boot: m.boot, Cursor: m.cursor, Format: m.format, HighestSession: jute.SessionID(m.highestSession)})
		}
	}
	return h
}

// replicatedData returns the data and version that all members agree on. They differ from n's own only
// for the config node: until the log sets it, each member keeps its own text there.
func (n *node) replicatedData() (data []byte, version int32) {
	if n.mzxid == 0 && n.path == ConfigPath {
		return nil, 0
	}
	return n.data.bytes(), n.data.version
}

// RestoreSnapshot replaces the whole state by a snapshot. It builds the new state aside, then takes the
// write lock, swaps the states and calls Hooks.Restored. After an error (ErrNotSnapshot,
// ErrSnapshotVersion, ErrCorrupt, or an error of the reader) nothing has changed. Watches stay.
func (s *State) RestoreSnapshot(r io.Reader) error {
	f := snapshotBuilder{blocks: newBlockReader(r), gen: s.gen.Load()}
	f.byPath = newIndex()
	if err := f.readSnapshot(); err != nil {
		return err
	}
	f.setConfigText(f.gen, s.cfg.EnsembleText)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicatedState, s.acls = f.replicatedState, f.acls
	s.removals = removalHistory{} // a state that was damaged may have removed them
	s.stateHashes.clear()         // marks belong to the old state
	s.acls.applyRules(s.term.Rules)
	s.hooks.SnapshotRestored()
	if r, ok := s.ServerList(); ok {
		s.hooks.ServerListChanged(r)
	}
	return nil
}

// VerifySnapshot reads a whole snapshot and makes all of Restore's checks, but builds no tree. It needs
// memory only for the sessions, their ends and one path of nodes. It returns the index of the last entry in the
// snapshot, and raft's term of the last TermStart. Its errors are those of Restore.
func VerifySnapshot(r io.Reader) (index, term uint64, err error) {
	f := snapshotBuilder{blocks: newBlockReader(r), countOnly: true}
	if err := f.readSnapshot(); err != nil {
		return 0, 0, err
	}
	return f.lastIndex, f.term.Term, nil
}
