package znode

import (
	pb "google.golang.org/protobuf/proto"

	"rollcall/jute"
	"rollcall/proto"
)

const (
	// entryRemovals is how many ephemeral nodes the ends of sessions and the sweeps of one
	// entry remove together. All clients wait while an entry is applied: 2,000 nodes took some 3 ms where
	// three members share two processors.
	entryRemovals = 1_000

	// endAtOnce is how many ephemeral nodes go with their session's end in an entry of
	// stepsFormat. Other sessions that end in the same entry do not count there.
	endAtOnce = 2_000

	// stepsFormat is the first Entry.format in which the nodes of a session may go in steps.
	stepsFormat = 2

	// budgetFormat is the first Entry.format in which entryRemovals holds.
	budgetFormat = 3
)

// Unswept reports whether ended sessions have left nodes. The caller holds the lock at
// least to read.
func (s *State) Unswept() bool { return s.unswept.n > 0 }

// endsAtOnce reports whether so many nodes may go with their session's end, and charges them
// to the running entry.
func (s *State) endsAtOnce(nodes int) bool {
	switch {
	case s.format < stepsFormat:
		return true
	case s.format < budgetFormat:
		return nodes <= s.atOnce
	case nodes > s.removals:
		return false
	}
	s.removals -= nodes
	return true
}

// sweep removes nodes of sessions that ended and left some, in the order of the sessions' ids,
// as many as the transaction asks for and the entry has left. The leader proposes it as long
// as there are such sessions. Until then their nodes are like any others: they may be read,
// watched, changed and deleted.
func (s *State) sweep(txn *proto.Txn, r *Result) {
	var req proto.Sweep
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil {
		r.Code = jute.MarshallingError
		return
	}
	limit := int(req.GetNodes())
	if s.format < budgetFormat {
		if s.Unswept() {
			s.take()
			s.sweepFirst(limit)
		}
		return
	}
	limit = min(limit, s.removals)
	if limit <= 0 || !s.Unswept() {
		return
	}
	s.take()
	for limit > 0 && s.Unswept() {
		n := max(s.sweepFirst(limit), 1) // a session whose nodes others have deleted is work, too
		limit -= n
		s.removals -= n
	}
}

// sweepFirst removes up to limit nodes of the first session that ended and left some, and
// returns how many it has removed.
func (s *State) sweepFirst(limit int) (removed int) {
	key, _ := s.unswept.first()
	id := jute.SessionID(key)
	removed = s.removeOwned(id, limit)
	last := len(s.owned(id, 1)) == 0
	if last {
		s.unswept.drop(s.gen.Load(), key)
	}
	s.fire()
	s.obs.Swept(id, last)
	return removed
}

// removeOwned removes up to limit of a session's ephemeral nodes, in the order of their
// paths, and returns how many it has removed.
func (s *State) removeOwned(id jute.SessionID, limit int) (removed int) {
	paths := s.owned(id, limit)
	for _, path := range paths {
		s.remove(s.get(path))
	}
	return len(paths)
}

// unsweptIDs returns the sessions that ended and left nodes, in order.
func (c *content) unsweptIDs() (ids []jute.SessionID) {
	for key := range c.unswept.all() {
		ids = append(ids, jute.SessionID(key))
	}
	return ids
}
