package znode

import (
	"strings"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
)

const (
	// maxEntryRemovals limits the ephemeral nodes that one entry removes, by ending sessions and by sweeping
	// together. All clients wait while an entry is applied: removing 2,000 nodes took about 3 ms where three
	// members share two processors.
	maxEntryRemovals = 1_000

	// After levelsPerRemoval levels of its path, the removal of a node counts once more. After a snapshot, a
	// removal copies each node above the removed one.
	levelsPerRemoval = 16
)

// HasUnswept reports whether ended sessions have nodes left. The caller holds at least the read lock.
func (s *State) HasUnswept() bool { return s.replicated.hasUnswept() }

func (c *replicatedState) hasUnswept() bool { return c.unsweptSessions.length > 0 }

// removalBudget limits the weight of the ephemeral nodes that an entry removes.
type removalBudget struct {
	entryLimit int
	remaining  int
}

func (b *removalBudget) refill() { b.remaining = b.entryLimit }

// trySpend charges the weight to the running entry, or returns false if too little remains.
func (b *removalBudget) trySpend(nodes int) bool {
	if nodes > b.remaining {
		return false
	}
	b.remaining -= nodes
	return true
}

// sweepNodes removes nodes that ended sessions have left, in the order of the sessions' ids: as many as
// requested, within the entry's budget. The leader proposes it as long as there are such sessions. Until a
// node is swept, clients may read, watch, change and delete it.
func (t *transaction) sweepNodes() {
	var req proto.Sweep
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	limit := min(int(req.GetNodes()), t.budget.remaining)
	if limit <= 0 || !t.state.hasUnswept() {
		return
	}
	t.takeZxid()
	for limit > 0 && t.state.hasUnswept() {
		n := max(t.sweepFirstSession(limit), 1) // a session whose nodes clients have deleted costs something too
		limit -= n
		t.budget.remaining -= n
	}
}

// sweepFirstSession removes nodes of the first unswept session, at least one and up to a weight of limit, and
// returns their weight.
func (t *transaction) sweepFirstSession(limit int) (weight int) {
	key, _ := t.state.unsweptSessions.first()
	id := jute.SessionID(key)
	weight = t.removeEphemerals(id, limit)
	t.keepAndReportRemovals(Removal{Cause: CauseSessionEnded, Session: id}) // the session's record is gone
	last := len(t.state.tree.ephemeralPaths(id, 1)) == 0
	if last {
		t.state.unsweptSessions.delete(t.gen.Load(), key)
	}
	t.watches.firePending(t.state.zxid, &t.state.term.Rules)
	t.hooks.SessionSwept(id, last)
	return weight
}

// removalWeight returns the weight of a node's removal, in nodes.
func removalWeight(path string) int { return 1 + strings.Count(path, "/")/levelsPerRemoval }

// ephemeralRemovalWeight returns the weight of a session's ephemeral nodes, or their number if that is above
// limit.
func (t *tree) ephemeralRemovalWeight(id jute.SessionID, nodes, limit int) (weight int) {
	if nodes > limit {
		return nodes
	}
	for _, path := range t.ephemeralPaths(id, nodes) {
		weight += removalWeight(path)
	}
	return weight
}

// removeEphemerals removes ephemeral nodes of a session in the order of their paths, at least one and up to a
// weight of limit. It returns their weight.
func (t *transaction) removeEphemerals(id jute.SessionID, limit int) (weight int) {
	for i, path := range t.state.tree.ephemeralPaths(id, limit) {
		w := removalWeight(path)
		if i > 0 && weight+w > limit {
			break
		}
		weight += w
		t.removeNode(t.state.tree.nodeAt(path))
	}
	return weight
}

// unsweptIDs returns the sorted ids of ended sessions with nodes left.
func (c *replicatedState) unsweptIDs() (ids []jute.SessionID) {
	for key := range c.unsweptSessions.all() {
		ids = append(ids, jute.SessionID(key))
	}
	return ids
}
