package znode

import (
	"testing"
)

// checkInvariants checks the invariants of a state that was made by applying a log.
func checkInvariants(t testing.TB, s *State) {
	t.Helper()
	checkTree(t, s)
	s.tree.walk(func(n *node) bool {
		st := n.stat()
		if st.Mzxid < st.Czxid || st.Pzxid < st.Czxid || st.Mzxid > s.zxid || st.Pzxid > s.zxid {
			t.Errorf("%s: %+v at %#x", n.path, st, s.zxid)
		}
		return true
	})
	for r := range s.Sessions(0) {
		if r.OwnerIndex > s.lastIndex {
			t.Errorf("session %+v at %d", r, s.lastIndex)
		}
	}
}

// recount computes the sums of the digest from scratch.
func recount(s *State) (r recomputedSums) {
	s.tree.walk(func(n *node) bool { r.nodes += n.hash(); return true })
	for _, session := range s.sessions.all() {
		r.sessions += session.hash()
	}
	for _, end := range s.sessionEnds.byNumber.all() {
		r.ends += end.hash()
	}
	return r
}

// checkTree checks that the parts of a state agree with each other, as they must in any state.
func checkTree(t testing.TB, s *State) {
	t.Helper()
	nodes, ephemerals, size := 0, 0, int64(0)
	candidates, quotas := 0, 0
	lists, listSize := map[*acl]int{}, int64(0)
	s.tree.walk(func(n *node) bool {
		nodes++
		size += int64(len(n.path) + n.data.len())
		if lists[n.acl]++; lists[n.acl] == 1 {
			listSize += int64(n.acl.memoryBytes())
		}
		if s.tree.nodeAt(n.path) != n || s.tree.findFromRoot(n.path) != n {
			t.Errorf("a lookup of %s does not find its node", n.path)
		}
		if above, _ := splitPath(n.path); n.gen > s.tree.nodeAt(above).gen {
			t.Errorf("%s was copied, but not its parent", n.path)
		}
		if n.lifetime().owner != 0 {
			ephemerals++
			if _, ok := s.tree.ephemerals.get(ephemeralKey{n.lifetime().owner, n.path}); !ok {
				t.Errorf("%s is not among the ephemerals of its owner", n.path)
			}
			_, lives := s.Session(n.lifetime().owner)
			if _, left := s.unsweptSessions.get(sessionKey(n.lifetime().owner)); lives == left {
				t.Errorf("%s: its owner neither lives nor has nodes to sweep, or both", n.path)
			}
			if n.numChildren() > 0 {
				t.Errorf("%s is ephemeral and has children", n.path)
			}
		}
		if c, ok := n.reapCandidate(); ok {
			candidates++
			if _, ok := s.tree.reapCandidates.get(c); !ok {
				t.Errorf("%s is not among the reaper's candidates", n.path)
			}
			if n.numChildren() > 0 || n.lifetime().owner != 0 || n.lifetime().ttlMs != 0 && n.lifetime().isContainer {
				t.Errorf("%s is a candidate of the reaper: %s", n.path, n.describe())
			}
		}
		if root, ok := rootOfLimitsNode(n.path); ok {
			quotas++
			if _, ok := s.tree.quotaRoots.get(nodeName(root)); !ok {
				t.Errorf("%s has no quota", root)
			}
		}
		if n.path != rootPath {
			counted, length := int64(0), int64(0)
			s.tree.walkFrom(n, func(n *node) bool { counted++; length += int64(n.data.len()); return true })
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
	if err := recount(s).checkAgainst(&s.replicatedState); err != nil {
		t.Error(err)
	}
	tree := s.TreeView()
	if nodes != tree.NodeCount() || nodes != s.tree.byPath.nodeCount || ephemerals != tree.EphemeralCount() || size != tree.DataSize() {
		t.Errorf("%d nodes, %d ephemerals, %d bytes; counted %d, %d, %d", tree.NodeCount(), tree.EphemeralCount(), tree.DataSize(), nodes, ephemerals, size)
	}
	for list, n := range lists {
		if n != list.nodeCount || s.tree.aclBytes != listSize {
			t.Errorf("the list %q is counted for %d nodes, and %d have it; lists have %d bytes, counted %d", list.text, list.nodeCount, n, listSize, s.tree.aclBytes)
		}
	}
	if candidates != s.tree.reapCandidates.length || quotas != s.tree.quotaRoots.length {
		t.Errorf("%d candidates, %d quotas; counted %d, %d", s.tree.reapCandidates.length, s.tree.quotaRoots.length, candidates, quotas)
	}
	if kept := uint64(s.sessionEnds.byNumber.length); kept > min(s.sessionEnds.total, uint64(s.runningTxn.sessionEndLimit)) || (kept == 0) != (s.sessionEnds.total == 0) {
		t.Errorf("%d of %d ends are kept", kept, s.sessionEnds.total)
	}
	sessions := 0
	for r := range s.Sessions(0) {
		sessions++
		if uint64(r.ID) > s.members[uint64(r.ID)>>56].highestSession {
			t.Errorf("session %+v", r)
		}
	}
	if sessions != s.SessionCount() {
		t.Errorf("%d sessions, counted %d", s.SessionCount(), sessions)
	}
}
