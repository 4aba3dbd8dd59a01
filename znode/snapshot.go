package znode

import (
	"io"

	"rollcall/zk/jute"
)

// Snapshot is a copy of the replicated state and of the history of changes. It never changes, and needs no lock.
type Snapshot struct {
	replicated replicatedState
	history    changeHistory
}

// Snapshot returns a copy in O(1). From then on, anything shared with the copy is copied before it changes.
// The caller holds at least the read lock.
func (s *State) Snapshot() *Snapshot {
	sn := &Snapshot{s.replicated, s.watches.history}
	sn.replicated.tree = s.replicated.tree.copy()
	s.gen.Add(1)
	return sn
}

// TreeView returns the copy's tree.
func (sn *Snapshot) TreeView() TreeView {
	return TreeView{tree: sn.replicated.tree, rules: sn.replicated.term.Rules}
}

// Zxid returns the zxid of the last transaction in the copy that took one.
func (sn *Snapshot) Zxid() int64 { return sn.replicated.zxid }

// Head returns the head of the copy as an image.
func (sn *Snapshot) Head() ImageHead { return sn.replicated.imageHead() }

// Digest returns what State.Digest returned when the copy was made.
func (sn *Snapshot) Digest() uint64 { return sn.replicated.digest() }

// WriteTo writes the copy in the form that RestoreSnapshot reads, and returns the number of bytes. Equal
// states with equal histories write equal bytes. If the recomputed digest differs from the one that every change has updated, it
// returns ErrDamaged, and the bytes cannot be restored.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	h := sn.Head()
	h.hasHistory = sn.history.keepsChanges()
	h.hasACLsChanged = h.hasHistory
	p := newSectionWriter(w, &h)
	count := sn.replicated.writeSections(p)
	if p.err == nil {
		p.err = count.checkAgainst(&sn.replicated)
	}
	if h.hasHistory {
		p.writeChanges(&sn.history)
	}
	err := p.writeSnapshotEnd(sn.Digest())
	return p.bytesWritten, err
}

// writeSections writes everything after the head.
func (c *replicatedState) writeSections(p *sectionWriter) (count recomputedSums) {
	for _, s := range c.sessions.all() {
		p.writeSession(s)
		count.sessions += s.hash()
	}
	for _, id := range c.unsweptIDs() {
		p.writeUnswept(id)
	}
	for _, e := range c.sessionEnds.byNumber.all() {
		p.writeSessionEnd(e)
		count.ends += e.hash()
	}
	c.tree.walk(func(n *node) bool {
		p.writeNode(n)
		count.nodes += n.hash()
		return p.err == nil
	})
	return count
}

func (c *replicatedState) imageHead() ImageHead {
	h := ImageHead{
		Index: c.lastIndex, Zxid: c.zxid, TimeMs: c.timeMs, LatestMs: c.latestMs, Term: c.term,
		ServerList:   c.serverList,
		SessionCount: uint64(c.sessions.length), UnsweptCount: uint64(c.unsweptSessions.length),
		EndCount: uint64(c.sessionEnds.byNumber.length), EndsTotal: c.sessionEnds.total,
		NodeCount: uint64(c.tree.nodeCount),
	}
	for id := range c.members {
		if m := &c.members[id]; *m != (member{}) {
			h.Members = append(h.Members, MemberProgress{
				ID: uint32(id), Incarnation: m.incarnation, LastSeq: m.lastSeq, Format: m.format,
				HighestSession: jute.SessionID(m.highestSession),
			})
		}
	}
	return h
}

// replicatedData returns the data and version that are the same on all members. They differ from n's own only for
// the config node: until the log sets it, each member keeps its own text there.
func (n *node) replicatedData() (data []byte, version int32) {
	if n.mzxid == 0 && n.path == ConfigPath {
		return nil, 0
	}
	return n.data.bytes(), n.data.version
}

// RestoreSnapshot replaces the whole state by a snapshot. It builds the new state aside, then takes the write
// lock, swaps the states and calls Hooks.SnapshotRestored and ChangeObserver.StateReplaced. After an error (ErrNotSnapshot,
// ErrSnapshotVersion, ErrCorrupt, or an error of the reader) nothing has changed. Watches stay.
func (s *State) RestoreSnapshot(r io.Reader) error {
	f := snapshotBuilder{blocks: newBlockReader(r), gen: s.gen.Load(), history: historyAfter(s)}
	tree := &f.state.tree
	tree.byPath = newIndex()
	if err := f.readSnapshot(); err != nil {
		return err
	}
	tree.setConfigTextIfUnset(f.gen, s.cfg.EnsembleText)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicated, s.acls, s.watches.history = f.state, f.acls, f.history
	s.removals = removalHistory{} // a damaged state may have removed them
	s.stateHashes.clear()         // of the old state
	s.acls.applyRules(s.replicated.term.Rules)
	s.hooks.SnapshotRestored()
	if o := s.runningTxn.changes.observer; o != nil {
		o.StateReplaced()
	}
	if r, ok := s.ServerList(); ok {
		s.hooks.ServerListChanged(r)
	}
	return nil
}

// historyAfter returns an empty history for a state that replaces this one. Its chunks have other numbers than all
// chunks of this one, so no Replay mistakes one for the other.
func historyAfter(s *State) changeHistory {
	s.mu.RLock()
	defer s.mu.RUnlock()
	const gap = 1 << 32
	return changeHistory{limit: s.cfg.ChangeHistory, open: historyChunk{number: s.watches.history.open.number + gap}}
}

// VerifySnapshot makes all checks of RestoreSnapshot with the same errors, but builds no tree. It needs
// memory only for the sessions, their ends and one path of nodes. It returns the index of the last entry, and
// raft's term of the last TermStart.
func VerifySnapshot(r io.Reader) (index, term uint64, err error) {
	f := snapshotBuilder{blocks: newBlockReader(r), countOnly: true}
	if err := f.readSnapshot(); err != nil {
		return 0, 0, err
	}
	return f.state.lastIndex, f.state.term.Term, nil
}
