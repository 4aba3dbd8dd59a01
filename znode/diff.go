package znode

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
)

// Diff describes the first difference between the replicated parts of two states, or returns "". It takes the
// two read locks, one after the other.
func Diff(a, b *State) string {
	x, y := lockedCopy(a), lockedCopy(b)
	switch {
	case x.lastIndex != y.lastIndex:
		return fmt.Sprintf("index %d, %d", x.lastIndex, y.lastIndex)
	case x.zxid != y.zxid:
		return fmt.Sprintf("zxid %#x, %#x", x.zxid, y.zxid)
	case x.timeMs != y.timeMs:
		return fmt.Sprintf("time %d, %d", x.timeMs, y.timeMs)
	case x.latestMs != y.latestMs:
		return fmt.Sprintf("latest time %d, %d", x.latestMs, y.latestMs)
	case x.term != y.term:
		return fmt.Sprintf("term %+v, %+v", x.term, y.term)
	case !x.serverList.equalList(&y.serverList):
		return fmt.Sprintf("list of servers %+v, %+v", x.serverList, y.serverList)
	}
	for id := range x.members {
		if m, n := x.members[id], y.members[id]; m != n {
			return fmt.Sprintf("member %d: %+v, %+v", id, m, n)
		}
	}
	if d := diffSessions(x, y); d != "" {
		return d
	}
	if a, b := x.unsweptIDs(), y.unsweptIDs(); !slices.Equal(a, b) {
		return fmt.Sprintf("unswept %v, %v", a, b)
	}
	if d := diffSessionEnds(x, y); d != "" {
		return d
	}
	if d := diffNodes(x, y); d != "" {
		return d
	}
	if a, b := x.digest(), y.digest(); a != b {
		return fmt.Sprintf("digest %016x, %016x", a, b)
	}
	return ""
}

func lockedCopy(s *State) *replicatedState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &s.Snapshot().replicated
}

func diffSessions(x, y *replicatedState) string {
	theirs, stop := iter.Pull2(y.sessions.all())
	defer stop()
	for _, s := range x.sessions.all() {
		_, t, ok := theirs()
		if !ok || *s != *t {
			return fmt.Sprintf("session %v: %+v, but %+v", s.ID, s, t)
		}
	}
	if _, t, ok := theirs(); ok {
		return fmt.Sprintf("session %v: none, %+v", t.ID, t)
	}
	return ""
}

func diffSessionEnds(x, y *replicatedState) string {
	if a, b := &x.sessionEnds, &y.sessionEnds; a.total != b.total || a.byNumber.length != b.byNumber.length {
		return fmt.Sprintf("ends: %d of %d, %d of %d", a.byNumber.length, a.total, b.byNumber.length, b.total)
	}
	for n, e := range x.sessionEnds.byNumber.all() {
		if f, ok := y.sessionEnds.byNumber.get(n); !ok || *e != *f {
			return fmt.Sprintf("end %d: %+v, %+v", n, e, f)
		}
	}
	return ""
}

func diffNodes(x, y *replicatedState) string {
	theirs, stop := iter.Pull(func(yield func(*node) bool) { y.tree.walk(yield) })
	defer stop()
	diff := ""
	x.tree.walk(func(n *node) bool {
		m, ok := theirs()
		switch {
		case !ok || comesAfter(m.path, n.path):
			diff = fmt.Sprintf("node %q: %s, none", n.path, n.describe())
		case m.path != n.path:
			diff = fmt.Sprintf("node %q: none, %s", m.path, m.describe())
		case !n.equalNode(m):
			diff = fmt.Sprintf("node %q: %s, %s", n.path, n.describe(), m.describe())
		}
		return diff == ""
	})
	if m, ok := theirs(); ok && diff == "" {
		diff = fmt.Sprintf("node %q: none, %s", m.path, m.describe())
	}
	return diff
}

func (n *node) equalNode(m *node) bool {
	return n.stat() == m.stat() && n.lifetime() == m.lifetime() && n.numCreated() == m.numCreated() &&
		n.acl.text == m.acl.text &&
		bytes.Equal(n.data.bytes(), m.data.bytes()) && n.data.isNull() == m.data.isNull()
}

func (n *node) describe() string {
	const enough = 64 // bytes of data to show
	return fmt.Sprintf("%+v %+v creates %d data %q null %t acl %v",
		n.stat(), n.lifetime(), n.numCreated(), n.data.bytes()[:min(n.data.len(), enough)],
		n.data.isNull(), n.acl.visibleEntries(true))
}
