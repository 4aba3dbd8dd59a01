package znode

import (
	"cmp"
	"math"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// lifetime describes how a node may end other than by a client's delete. The zero value is a plain node's. At
// most one field is set.
type lifetime struct {
	owner       jute.SessionID // of an ephemeral node
	ttlMs       int64
	isContainer bool
}

// lifetimeKind says which field of a lifetime is set. The values are those of snapshots.
type lifetimeKind uint8

const (
	kindPlain lifetimeKind = iota
	kindEphemeral
	kindContainer
	kindTTL
)

// encoded returns the kind, and the owner or the time to live. Two fields for these would make nodeExtra 80 bytes long
// and not 64.
func (l lifetime) encoded() (kind lifetimeKind, ownerOrTTL int64) {
	switch {
	case l.owner != 0:
		return kindEphemeral, int64(l.owner)
	case l.isContainer:
		return kindContainer, 0
	case l.ttlMs != 0:
		return kindTTL, l.ttlMs
	}
	return kindPlain, 0
}

func (n *node) lifetime() lifetime {
	if n.sharesExtra() {
		return lifetime{}
	}
	switch n.kind {
	case kindEphemeral:
		return lifetime{owner: jute.SessionID(n.ownerOrTTL)}
	case kindContainer:
		return lifetime{isContainer: true}
	case kindTTL:
		return lifetime{ttlMs: n.ownerOrTTL}
	}
	return lifetime{}
}

// setLifetime requires n to be of the present generation.
func (n *node) setLifetime(l lifetime) {
	if l != (lifetime{}) || !n.sharesExtra() {
		f := n.ensureOwnExtra()
		f.kind, f.ownerOrTTL = l.encoded()
	}
}

// mayBeReaped reports whether the reaper removes n at some time, if it has no children.
func (n *node) mayBeReaped() bool {
	return !n.sharesExtra() && (n.kind == kindContainer || n.kind == kindTTL)
}

// ReapCandidate is a node without children that the reaper may remove, now or later. The zero value comes
// before all candidates.
type ReapCandidate struct {
	Path   string
	reason reapReason
	dueMs  int64 // since 1970
}

type reapReason uint8

const (
	reapEmptied   reapReason = iota + 1 // a container that lost its last child; dueMs is 0, it is due
	reapExpired                         // a node with a TTL; due at dueMs
	reapNeverUsed                       // a container that never had a child, last changed at dueMs
)

func (c reapReason) removalCause() RemovalCause {
	if c == reapExpired {
		return CauseTTLExpired
	}
	return CauseEmptyContainer
}

func (c ReapCandidate) compare(d ReapCandidate) int {
	return cmp.Or(cmp.Compare(c.reason, d.reason), cmp.Compare(c.dueMs, d.dueMs), strings.Compare(c.Path, d.Path))
}

// reapCandidate returns false if n is no candidate.
func (n *node) reapCandidate() (ReapCandidate, bool) {
	switch {
	case !n.mayBeReaped() || n.children.length > 0:
		return ReapCandidate{}, false
	case n.kind == kindTTL:
		return ReapCandidate{Path: n.path, reason: reapExpired, dueMs: addSaturating(n.mtime, n.ownerOrTTL)}, true
	case n.createCount > 0:
		return ReapCandidate{Path: n.path, reason: reapEmptied}, true
	}
	return ReapCandidate{Path: n.path, reason: reapNeverUsed, dueMs: n.mtime}, true
}

// addSaturating returns from + ms, or math.MaxInt64 if the sum overflows.
func addSaturating(from, ms int64) int64 {
	if from > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return from + ms
}

// changeAndReindex runs change on n, which is of generation gen, and updates n's place among the candidates.
// This costs two changes of a sorted map for a container or a node with a TTL, and one comparison for others.
func (t *tree) changeAndReindex(gen uint64, n *node, change func()) {
	if !n.mayBeReaped() {
		change()
		return
	}
	before, was := n.reapCandidate()
	change()
	after, is := n.reapCandidate()
	if was == is && before == after {
		return
	}
	if was {
		t.reapCandidates.delete(gen, before)
	}
	if is {
		t.reapCandidates.put(gen, after, struct{}{})
	}
}

// DueReapCandidates returns up to limit candidates after the given one that are due at the time now, in ms since
// 1970. It returns none at the end. The cost is in proportion to the result. A container that never had a
// child is due if it was last changed more than neverUsedMs ago. If neverUsedMs is 0, it is never due. The
// caller holds at least the read lock.
func (s *State) DueReapCandidates(now, neverUsedMs int64, after ReapCandidate, limit int) []ReapCandidate {
	var due []ReapCandidate
	from := after
	for len(due) < limit {
		skipped := false
		for c := range s.replicated.tree.reapCandidates.from(from) {
			if c == after {
				continue
			}
			if !c.isDue(now, neverUsedMs) { // nor are the later candidates with this reason
				from, skipped = ReapCandidate{reason: c.reason + 1}, true
				break
			}
			if due = append(due, c); len(due) == limit {
				break
			}
		}
		if !skipped {
			break
		}
	}
	return due
}

func (c ReapCandidate) isDue(now, neverUsedMs int64) bool {
	switch c.reason {
	case reapEmptied:
		return true
	case reapExpired:
		return c.dueMs <= now
	default:
		return neverUsedMs > 0 && addSaturating(c.dueMs, neverUsedMs) < now
	}
}

// reapIfDue removes a node only if it is still due. Since the leader read it, the node may have got a child,
// or been changed, deleted or created again.
func (t *transaction) reapIfDue() {
	var req proto.Reap
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	n := t.state.tree.nodeAt(req.GetPath())
	if n == nil {
		return
	}
	c, ok := n.reapCandidate()
	if !ok || !c.isDue(t.state.timeMs, req.GetNeverUsedMs()) {
		return
	}
	t.takeZxid()
	t.removeNode(n)
	t.keepAndReportRemovals(Removal{Cause: c.reason.removalCause()})
}
