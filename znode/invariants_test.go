package znode

import (
	"testing"
)

// checkInvariants checks the invariants of a state that was made by applying a log.
func checkInvariants(t testing.TB, s *State) {
	t.Helper()
	checkTree(t, s)
	state := &s.replicated
	state.tree.walk(func(n *node) bool {
		st := n.stat()
		if st.Mzxid < st.Czxid || st.Pzxid < st.Czxid || st.Mzxid > state.zxid || st.Pzxid > state.zxid {
			t.Errorf("%s: %+v at %#x", n.path, st, state.zxid)
		}
		return true
	})
	for r := range s.Sessions(0) {
		if r.OwnerIndex > state.lastIndex {
			t.Errorf("session %+v at %d", r, state.lastIndex)
		}
	}
}

// recount computes the sums of the digest from scratch.
func recount(c *replicatedState) (r recomputedSums) {
	c.tree.walk(func(n *node) bool { r.nodes += n.hash(); return true })
	for _, session := range c.sessions.all() {
		r.sessions += session.hash()
	}
	for _, end := range c.sessionEnds.byNumber.all() {
		r.ends += end.hash()
	}
	return r
}

// checkTree checks that the parts of a state agree with each other, as they must in any state.
func checkTree(t testing.TB, s *State) {
	t.Helper()
	state, tree := &s.replicated, &s.replicated.tree
	nodes, ephemerals, size := 0, 0, int64(0)
	candidates, quotas := 0, 0
	lists, listSize := map[*acl]int{}, int64(0)
	tree.walk(func(n *node) bool {
		nodes++
		size += int64(len(n.path) + n.data.len())
		if lists[n.acl]++; lists[n.acl] == 1 {
			listSize += int64(n.acl.memoryBytes())
		}
		if tree.nodeAt(n.path) != n || tree.findFromRoot(n.path) != n {
			t.Errorf("a lookup of %s does not find its node", n.path)
		}
		if above, _ := splitPath(n.path); n.gen > tree.nodeAt(above).gen {
			t.Errorf("%s was copied, but not its parent", n.path)
		}
		if n.lifetime().owner != 0 {
			ephemerals++
			if _, ok := tree.ephemerals.get(ephemeralKey{n.lifetime().owner, n.path}); !ok {
				t.Errorf("%s is not among the ephemerals of its owner", n.path)
			}
			_, lives := s.Session(n.lifetime().owner)
			if _, left := state.unsweptSessions.get(sessionKey(n.lifetime().owner)); lives == left {
				t.Errorf("%s: its owner neither lives nor has nodes to sweep, or both", n.path)
			}
			if n.numChildren() > 0 {
				t.Errorf("%s is ephemeral and has children", n.path)
			}
		}
		if c, ok := n.reapCandidate(); ok {
			candidates++
			if _, ok := tree.reapCandidates.get(c); !ok {
				t.Errorf("%s is not among the reaper's candidates", n.path)
			}
			if n.numChildren() > 0 || n.lifetime().owner != 0 || n.lifetime().ttlMs != 0 && n.lifetime().isContainer {
				t.Errorf("%s is a candidate of the reaper: %s", n.path, n.describe())
			}
		}
		if root, ok := rootOfLimitsNode(n.path); ok {
			quotas++
			if _, ok := tree.quotaRoots.get(nodeName(root)); !ok {
				t.Errorf("%s has no quota", root)
			}
		}
		if n.path != rootPath {
			counted, length := int64(0), int64(0)
			tree.walkFrom(n, func(n *node) bool { counted++; length += int64(n.data.len()); return true })
			if nodes, bytes := n.subtreeSize(); nodes != counted || bytes != length {
				t.Errorf("%s and below: %d nodes with %d bytes, counted %d with %d", n.path, nodes, bytes, counted, length)
			}
		}
		count := int32(0)
		if n.sharesExtra() {
			if *n.nodeExtra != (nodeExtra{acl: n.acl}) {
				t.Errorf("%s has changed what all nodes with its list share: %+v", n.path, n.nodeExtra)
			}
		} else {
			for range n.children.all() {
				count++
			}
		}
		st := n.stat()
		if st.NumChildren != count || st.Cversion != int32(2*n.numCreated())-count {
			t.Errorf("%s: %+v with %d children", n.path, st, count)
		}
		return true
	})
	if err := recount(state).checkAgainst(state); err != nil {
		t.Error(err)
	}
	view := s.TreeView()
	if nodes != view.NodeCount() || nodes != tree.byPath.nodeCount || ephemerals != view.EphemeralCount() || size != view.DataSize() {
		t.Errorf("%d nodes, %d ephemerals, %d bytes; counted %d, %d, %d",
			view.NodeCount(), view.EphemeralCount(), view.DataSize(), nodes, ephemerals, size)
	}
	for list, n := range lists {
		if n != list.nodeCount || tree.aclBytes != listSize {
			t.Errorf("the list %q is counted for %d nodes, and %d have it; lists have %d bytes, counted %d",
				list.text, list.nodeCount, n, listSize, tree.aclBytes)
		}
	}
	if candidates != tree.reapCandidates.length || quotas != tree.quotaRoots.length {
		t.Errorf("%d candidates, %d quotas; counted %d, %d", tree.reapCandidates.length, tree.quotaRoots.length, candidates, quotas)
	}
	total := state.sessionEnds.total
	if kept := uint64(state.sessionEnds.byNumber.length); kept > min(total, uint64(s.runningTxn.sessionEndLimit)) ||
		(kept == 0) != (total == 0) {
		t.Errorf("%d of %d ends are kept", kept, total)
	}
	sessions := 0
	for r := range s.Sessions(0) {
		sessions++
		if uint64(r.ID) > state.members[uint64(r.ID)>>56].highestSession {
			t.Errorf("session %+v", r)
		}
	}
	if sessions != s.SessionCount() {
		t.Errorf("%d sessions, counted %d", s.SessionCount(), sessions)
	}
}
