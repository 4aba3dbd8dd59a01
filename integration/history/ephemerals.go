package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"rollcall/zk/jute"
)

// checkEphemerals judges (c). At each index of a snapshot, the member's ephemerals are exactly
// those of live sessions, and equal on all members that are compared there. Which sessions live at
// an index is what any member recorded; if members recorded different things about a session, that
// is a fault too. Every create of an ephemeral must have been recorded.
//
// An acknowledged ephemeral must exist while its session lives, unless a client has deleted it or
// may have. After a delete without an answer, both outcomes are allowed.
func checkEphemerals(b *book, found func(Violation)) {
	for _, v := range b.apart {
		found(v)
	}
	order := make([]*Snapshot, 0, len(b.Snapshots))
	for i := range b.Snapshots {
		order = append(order, &b.Snapshots[i])
	}
	slices.SortStableFunc(order, func(x, y *Snapshot) int { return cmp.Compare(x.Index, y.Index) })
	var first *Snapshot // at this index
	var same map[string]jute.SessionID
	for _, s := range order {
		here := ephemerals(s)
		b.owned(s, here, found)
		b.missing(s, here, found)
		if first == nil || first.Index != s.Index {
			first, same = s, here
			continue
		}
		if path, ok := differ(same, here); ok {
			v := s.violation(ephemeralsApart, max(same[path], here[path]))
			v.Detail = fmt.Sprintf("%s is of %s on member %d, of %s on member %d", path, name(same[path]), first.Member, name(here[path]), s.Member)
			found(v)
		}
	}
}

func (s *Snapshot) violation(f fault, session jute.SessionID) Violation {
	return Violation{Fault: f, Session: session, At: s.At, Index: s.Index, Zxid: s.Zxid}
}

func name(id jute.SessionID) string {
	if id == 0 {
		return "nobody"
	}
	return id.String()
}

func ephemerals(s *Snapshot) map[string]jute.SessionID {
	out := make(map[string]jute.SessionID)
	for _, n := range s.Nodes {
		if n.Owner != 0 {
			out[n.Path] = n.Owner
		}
	}
	return out
}

// differ returns the first path that is not the same in both maps.
func differ(x, y map[string]jute.SessionID) (string, bool) {
	for _, path := range slices.Sorted(maps.Keys(x)) {
		if y[path] != x[path] {
			return path, true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(y)) {
		if _, ok := x[path]; !ok {
			return path, true
		}
	}
	return "", false
}

// owned judges the ephemerals that exist.
func (b *book) owned(s *Snapshot, here map[string]jute.SessionID, found func(Violation)) {
	for _, path := range slices.Sorted(maps.Keys(here)) {
		owner := here[path]
		if l := b.lives[owner]; !l.livesAt(s.Index) {
			v := s.violation(deadEphemeral, owner)
			v.Detail = fmt.Sprintf("member %d still has %s", s.Member, path)
			if l == nil || len(l.grants) == 0 || l.grants[0].Index > s.Index {
				v.Detail = fmt.Sprintf("member %d has %s of a session that was not opened", s.Member, path)
			}
			found(v)
			continue
		}
		if !b.made(s, path, owner) {
			v := s.violation(strayEphemeral, owner)
			v.Detail = fmt.Sprintf("member %d has %s", s.Member, path)
			found(v)
		}
	}
}

// made reports whether owner can have an ephemeral at path.
func (b *book) made(s *Snapshot, path string, owner jute.SessionID) bool {
	w := b.paths[path]
	if n := w.upTo(s.Zxid); n > 0 {
		// A set does not change the owner; after a delete the node is gone.
		i := n - 1
		for i > 0 && w.done[i].Op == jute.OpSetData {
			i--
		}
		if c := w.done[i]; c.Op.IsCreate() && c.Session == owner && c.Mode.IsEphemeral() {
			return true
		}
	}
	by := func(c *Call) bool {
		return c.Op.IsCreate() && c.Session == owner && c.Mode.IsEphemeral() && c.Invoked.Seq < s.Seq
	}
	if w != nil && slices.ContainsFunc(w.unknown, by) {
		return true
	}
	prefix, ok := asked(path)
	return ok && slices.ContainsFunc(b.loose[prefix], by)
}

// missing judges the ephemerals that do not exist.
func (b *book) missing(s *Snapshot, here map[string]jute.SessionID, found func(Violation)) {
	for path, w := range b.paths {
		if !w.mortal || here[path] != 0 || w.may(s.Seq, deletes) {
			continue
		}
		var made *Call // by the last write other than a set
		for _, c := range w.done[:w.upTo(s.Zxid)] {
			if c.Op != jute.OpSetData {
				made = c
			}
		}
		if made == nil || !made.Op.IsCreate() || !made.Mode.IsEphemeral() || !b.lives[made.Session].livesAt(s.Index) {
			continue
		}
		v := s.violation(lostEphemeral, made.Session)
		v.Detail = fmt.Sprintf("member %d lacks %s, which was acknowledged with zxid %#x", s.Member, path, made.Reply.Zxid)
		found(v)
	}
}
