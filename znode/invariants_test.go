package znode

import (
	"testing"
)

// checkInvariants checks the invariants of a state that was made by applying a log.
func checkInvariants(t testing.TB, s *State) {
	t.Helper()
	checkTree(t, s)
	s.walk(s.get(rootPath), func(n *node) bool {
		st := n.stat()
		if st.Mzxid < st.Czxid || st.Pzxid < st.Czxid || st.Mzxid > s.zxid || st.Pzxid > s.zxid {
			t.Errorf("%s: %+v at %#x", n.path, st, s.zxid)
		}
		return true
	})
	for r := range s.Sessions(0) {
		if r.Since > s.index {
			t.Errorf("session %+v at %d", r, s.index)
		}
	}
}

// recount computes the sums of the digest from scratch.
func recount(s *State) (r recounted) {
	s.walk(s.get(rootPath), func(n *node) bool { r.nodes += n.hash(); return true })
	for _, session := range s.sessions.all() {
		r.sessions += session.hash()
	}
	for _, end := range s.ends.kept.all() {
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
	s.walk(s.get(rootPath), func(n *node) bool {
		nodes++
		size += int64(len(n.path) + n.data.len())
		if lists[n.acl]++; lists[n.acl] == 1 {
			listSize += int64(n.acl.bytes())
		}
		if s.get(n.path) != n || s.descend(n.path) != n {
			t.Errorf("a lookup of %s does not find its node", n.path)
		}
		if above, _ := cutPath(n.path); n.gen > s.get(above).gen {
			t.Errorf("%s was copied, but not its parent", n.path)
		}
		if n.life().owner != 0 {
			ephemerals++
			if _, ok := s.ephemerals.get(ephemeral{n.life().owner, n.path}); !ok {
				t.Errorf("%s is not among the ephemerals of its owner", n.path)
			}
			_, lives := s.Session(n.life().owner)
			if _, left := s.unswept.get(sessionKey(n.life().owner)); lives == left {
				t.Errorf("%s: its owner neither lives nor has nodes to sweep, or both", n.path)
			}
			if n.numChildren() > 0 {
				t.Errorf("%s is ephemeral and has children", n.path)
			}
		}
		if c, ok := n.candidacy(); ok {
			candidates++
			if _, ok := s.candidates.get(c); !ok {
				t.Errorf("%s is not among the reaper's candidates", n.path)
			}
			if n.numChildren() > 0 || n.life().owner != 0 || n.life().ttl != 0 && n.life().container {
				t.Errorf("%s is a candidate of the reaper: %s", n.path, n.describe())
			}
		}
		if root, ok := limited(n.path); ok {
			quotas++
			if _, ok := s.quotas.get(name(root)); !ok {
				t.Errorf("%s has no quota", root)
			}
		}
		if n.path != rootPath {
			counted, length := int64(0), int64(0)
			s.walk(n, func(n *node) bool { counted++; length += int64(n.data.len()); return true })
			if nodes, bytes := n.subtree(); nodes != counted || bytes != length {
				t.Errorf("%s and below: %d nodes with %d bytes, counted %d with %d", n.path, nodes, bytes, counted, length)
			}
		}
		count := int32(0)
		if n.plain() {
			if *n.family != (family{acl: n.acl}) {
				t.Errorf("%s has changed what all nodes with its list share: %+v", n.path, n.family)
			}
		} else {
			for range n.children.all() {
				count++
			}
		}
		st := n.stat()
		if st.NumChildren != count || st.Cversion != 2*n.numCreates()-count {
			t.Errorf("%s: %+v with %d children", n.path, st, count)
		}
		return true
	})
	if err := recount(s).check(&s.content); err != nil {
		t.Error(err)
	}
	if nodes != s.NodeCount() || nodes != s.paths.n || ephemerals != s.EphemeralCount() || size != s.DataSize() {
		t.Errorf("%d nodes, %d ephemerals, %d bytes; counted %d, %d, %d", s.NodeCount(), s.EphemeralCount(), s.DataSize(), nodes, ephemerals, size)
	}
	for list, n := range lists {
		if n != list.nodes || s.listSize != listSize {
			t.Errorf("the list %q is counted for %d nodes, and %d have it; lists have %d bytes, counted %d", list.text, list.nodes, n, listSize, s.listSize)
		}
	}
	if candidates != s.candidates.n || quotas != s.quotas.n {
		t.Errorf("%d candidates, %d quotas; counted %d, %d", s.candidates.n, s.quotas.n, candidates, quotas)
	}
	if kept := uint64(s.ends.kept.n); kept > min(s.ends.count, uint64(s.running.mostEnds)) || (kept == 0) != (s.ends.count == 0) {
		t.Errorf("%d of %d ends are kept", kept, s.ends.count)
	}
	sessions := 0
	for r := range s.Sessions(0) {
		sessions++
		if uint64(r.ID) > s.members[uint64(r.ID)>>56].highest {
			t.Errorf("session %+v", r)
		}
	}
	if sessions != s.SessionCount() {
		t.Errorf("%d sessions, counted %d", s.SessionCount(), sessions)
	}
}
