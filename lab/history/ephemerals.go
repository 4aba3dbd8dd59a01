package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"rollcall/zk/jute"
)

// checkEphemerals judges (c). At each index of a snapshot, the member's ephemerals are exactly
// those of live sessions, and equal on all members that are compared there. The record of any
// member decides which sessions live at an index. Records of one session that differ between
// members are a fault too. Every create of an ephemeral must have been recorded.
//
// An acknowledged ephemeral must exist while its session lives, unless a client has deleted it or
// may have. After a delete without an answer, both outcomes are allowed.
func checkEphemerals(b *indexedHistory, found func(Violation)) {
	for _, v := range b.disagreements {
		found(v)
	}
	order := slices.Clone(b.Snapshots)
	slices.SortStableFunc(order, func(x, y Snapshot) int { return cmp.Compare(x.Index, y.Index) })
	var first *Snapshot // at this index
	var same map[string]jute.SessionID
	for i := range order {
		s := &order[i]
		here := ephemeralOwners(s)
		b.judgeExistingEphemerals(s, here, found)
		b.judgeMissingEphemerals(s, here, found)
		if first == nil || first.Index != s.Index {
			first, same = s, here
			continue
		}
		if path, ok := firstDifference(same, here); ok {
			found(s.newViolation(ephemeralsApart, max(same[path], here[path]), fmt.Sprintf("%s is of %s on member %d, of %s on member %d",
				path, describeSession(same[path]), first.Member, describeSession(here[path]), s.Member)))
		}
	}
}

func (s *Snapshot) newViolation(f fault, session jute.SessionID, detail string) Violation {
	return Violation{Fault: f, Session: session, At: s.At, Index: s.Index, Zxid: s.Zxid, Detail: detail}
}

func describeSession(id jute.SessionID) string {
	if id == 0 {
		return "nobody"
	}
	return id.String()
}

func ephemeralOwners(s *Snapshot) map[string]jute.SessionID {
	out := make(map[string]jute.SessionID)
	for _, n := range s.Nodes {
		if n.Owner != 0 {
			out[n.Path] = n.Owner
		}
	}
	return out
}

// firstDifference returns the first path that is not the same in both maps.
func firstDifference(x, y map[string]jute.SessionID) (string, bool) {
	for _, path := range append(slices.Sorted(maps.Keys(x)), slices.Sorted(maps.Keys(y))...) {
		if y[path] != x[path] { // no owner is 0
			return path, true
		}
	}
	return "", false
}

// judgeExistingEphemerals judges the ephemerals that exist.
func (b *indexedHistory) judgeExistingEphemerals(s *Snapshot, here map[string]jute.SessionID, found func(Violation)) {
	for _, path := range slices.Sorted(maps.Keys(here)) {
		owner := here[path]
		if l := b.sessions[owner]; !l.existsAt(s.Index) {
			detail := fmt.Sprintf("member %d still has %s", s.Member, path)
			if l == nil || len(l.grants) == 0 || l.grants[0].Index > s.Index {
				detail = fmt.Sprintf("member %d has %s of a session that was not opened", s.Member, path)
			}
			found(s.newViolation(deadEphemeral, owner, detail))
		} else if !b.mayHaveCreated(s, path, owner) {
			found(s.newViolation(strayEphemeral, owner, fmt.Sprintf("member %d has %s", s.Member, path)))
		}
	}
}

// mayHaveCreated reports whether owner can have an ephemeral at path.
func (b *indexedHistory) mayHaveCreated(s *Snapshot, path string, owner jute.SessionID) bool {
	w := b.writesByPath[path]
	if c, _ := w.lastCreate(s.Zxid); c != nil && c.Session == owner && c.Mode.IsEphemeral() {
		return true
	}
	by := func(c *Call) bool {
		return c.Op.IsCreate() && c.Session == owner && c.Mode.IsEphemeral() && c.Invoked.Seq < s.Seq
	}
	if w != nil && slices.ContainsFunc(w.unknown, by) {
		return true
	}
	prefix, ok := sequentialPrefix(path)
	return ok && slices.ContainsFunc(b.unansweredSequential[prefix], by)
}

// judgeMissingEphemerals judges the ephemerals that do not exist.
func (b *indexedHistory) judgeMissingEphemerals(s *Snapshot, here map[string]jute.SessionID, found func(Violation)) {
	for path, w := range b.writesByPath {
		if !w.mayVanish || here[path] != 0 || w.mayHaveHappened(s.Seq, isDelete) {
			continue
		}
		made, _ := w.lastCreate(s.Zxid)
		if made == nil || !made.Mode.IsEphemeral() || !b.sessions[made.Session].existsAt(s.Index) {
			continue
		}
		detail := fmt.Sprintf("member %d lacks %s, which was acknowledged with zxid %#x", s.Member, path, made.Reply.Zxid)
		found(s.newViolation(lostEphemeral, made.Session, detail))
	}
}
