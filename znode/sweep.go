package znode

import (
	"strings"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
)

const (
	// maxEntryRemovals is how many ephemeral nodes one entry may remove, by ending sessions and by
	// sweeping together. All clients wait while an entry is applied: removing 2,000 nodes took
	// about 3 ms where three members share two processors.
	maxEntryRemovals = 1_000

	// levelsPerRemoval is how many levels of its path make the removal of a node count once more. After a snapshot, a removal
	// copies each node above the one that goes.
	levelsPerRemoval = 16
)

// HasUnswept reports whether ended sessions have nodes left. The caller holds at least the read lock.
func (s *State) HasUnswept() bool { return s.hasUnswept() }

func (c *replicatedState) hasUnswept() bool { return c.unsweptSessions.length > 0 }

// removalBudget limits the ephemeral nodes that an entry removes.
type removalBudget struct {
	entryLimit int // entryRemovals
	remaining  int // what the running entry may still remove
}

// refill grants the budget of the next entry.
func (b *removalBudget) refill() { b.remaining = b.entryLimit }

// spend reports whether nodes that weigh so much may be removed at once, and if so charges them to the running entry.
func (b *removalBudget) spend(nodes int) bool {
	if nodes > b.remaining {
		return false
	}
	b.remaining -= nodes
	return true
}

// sweepNodes removes nodes that ended sessions have left, in the order of the sessions' ids. It removes
// as many as the transaction asks for and the entry's budget allows. The leader proposes it as long
// as there are such sessions. Until a node is swept it is like any other: clients may read, watch,
// change and delete it.
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

// sweepFirstSession removes nodes of the first ended session with nodes left, which weigh up to limit, and returns what they have weighed.
// It removes one at least.
func (t *transaction) sweepFirstSession(limit int) (weight int) {
	key, _ := t.state.unsweptSessions.first()
	id := jute.SessionID(key)
	weight = t.removeEphemerals(id, limit)
	t.keepRemovals(Removal{Cause: CauseSessionEnded, Session: id}) // the session's record is gone
	last := len(t.state.ephemeralPaths(id, 1)) == 0
	if last {
		t.state.unsweptSessions.delete(t.gen.Load(), key)
	}
	t.watches.firePending(t.state.zxid, &t.state.term.Rules)
	t.hooks.SessionSwept(id, last)
	return weight
}

// removalWeight returns how many nodes the removal of a node counts as.
func removalWeight(path string) int { return 1 + strings.Count(path, "/")/levelsPerRemoval }

// ephemeralRemovalWeight returns what the removal of a session's ephemeral nodes weighs. If there are more of them than limit, it
// returns their number.
func (t *tree) ephemeralRemovalWeight(id jute.SessionID, nodes, limit int) (weight int) {
	if nodes > limit {
		return nodes
	}
	for _, path := range t.ephemeralPaths(id, nodes) {
		weight += removalWeight(path)
	}
	return weight
}

// removeEphemerals removes a session's ephemeral nodes that weigh up to limit, in the order of their paths, and returns what they have
// weighed. It removes one at least.
func (t *transaction) removeEphemerals(id jute.SessionID, limit int) (weight int) {
	for i, path := range t.state.ephemeralPaths(id, limit) {
		w := removalWeight(path)
		if i > 0 && weight+w > limit {
			break
		}
		weight += w
		t.removeNode(t.state.nodeAt(path))
	}
	return weight
}

// unsweptIDs returns the ended sessions with nodes left, in the order of their ids.
func (c *replicatedState) unsweptIDs() (ids []jute.SessionID) {
	for key := range c.unsweptSessions.all() {
		ids = append(ids, jute.SessionID(key))
	}
	return ids
}
