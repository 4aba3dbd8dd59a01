package znode

import (
	"cmp"
	"iter"
	"sort"

	"rollcall/internal/fifo"
	"rollcall/proto"
	"rollcall/zk/jute"
)

const (
	// maxRemovals limits the kept removals, as maxSessionEnds limits ends of sessions. Their records take at most
	// 1.2 MiB without the paths and addresses. They are the quick answer about the newest removals; the kept log of a member has the
	// others. A ring of all changes would have no use for operators: under load these bytes would cover a second of them.
	maxRemovals = 10_000

	// maxRemovalBytes limits the bytes of their paths and addresses, to 400 bytes each if there are 10,000.
	maxRemovalBytes = 4 << 20

	// maxRemovedPath is the longest path whose removal is kept, in bytes. Otherwise a client could evict all
	// others with a few removals.
	maxRemovedPath = maxRemovalBytes / 64
)

// RemovalCause is the reason for the removal of a node.
type RemovalCause uint8

const (
	CauseDeleted        RemovalCause = iota + 1 // a client's delete
	CauseSessionEnded                           // the session of an ephemeral node ended
	CauseTTLExpired                             // the node was not changed for its TTL
	CauseEmptyContainer                         // a container had no children
)

// Removal records the removal of a node.
type Removal struct {
	Path    string
	AtMs    int64  // the log's time, since 1970
	Zxid    int64  // of the transaction that removed the node
	TxnPart uint32 // number of the removal in that transaction, from 1
	Cause   RemovalCause
	Member  uint32         // that received the delete, or had the ended session; 0 if unknown
	Session jute.SessionID // that deleted the node, or ended; 0 if none
	Address string         // the client's host:port, or its host if it had no session; "" if unknown
}

// compare orders removals as the log does.
func (r *Removal) compare(zxid int64, part uint32) int {
	return cmp.Or(cmp.Compare(r.Zxid, zxid), cmp.Compare(r.TxnPart, part))
}

// removalHistory holds the last removals that this member has applied since it started or received a
// snapshot. They are in neither snapshots nor the digest. The zero value is empty. The tree's lock guards it.
type removalHistory struct {
	kept         fifo.Queue[Removal]
	keptBytes    int // see maxRemovalBytes
	lastZxid     int64
	lastPart     uint32
	pendingPaths []string // removed by the running transaction
}

func (k *removalHistory) addPending(path string) { k.pendingPaths = append(k.pendingPaths, path) }

// appendRemoval adds a removal, and drops the oldest ones above the limits.
func (k *removalHistory) appendRemoval(r Removal) {
	if r.Zxid != k.lastZxid {
		k.lastZxid, k.lastPart = r.Zxid, 0
	}
	k.lastPart++
	if len(r.Path) > maxRemovedPath {
		return
	}
	r.TxnPart = k.lastPart
	k.kept.Push(r)
	for k.keptBytes += r.keptBytes(); k.kept.Len() > maxRemovals || k.keptBytes > maxRemovalBytes; {
		oldest := k.kept.Pop()
		k.keptBytes -= oldest.keptBytes()
	}
}

// keptBytes is the size that counts for maxRemovalBytes.
func (r *Removal) keptBytes() int { return len(r.Path) + len(r.Address) }

// keepPending keeps the pending removals. common has the fields that they share.
func (k *removalHistory) keepPending(common Removal) {
	for _, path := range k.pendingPaths {
		common.Path = path
		k.appendRemoval(common)
	}
	k.dropPending()
}

// removalsBefore does what State.RemovalsBefore does.
func (k *removalHistory) removalsBefore(zxid int64, part uint32) iter.Seq[Removal] {
	return func(yield func(Removal) bool) {
		n := k.kept.Len()
		if zxid != 0 {
			n = sort.Search(n, func(i int) bool { return k.kept.At(i).compare(zxid, part) >= 0 })
		}
		for i := n - 1; i >= 0 && yield(*k.kept.At(i)); i-- {
		}
	}
}

// dropPending drops the pending removals after they were kept or undone.
func (k *removalHistory) dropPending() {
	if cap(k.pendingPaths) > keptMultiOps {
		k.pendingPaths = nil
	}
	clear(k.pendingPaths)
	k.pendingPaths = k.pendingPaths[:0]
}

// keepAndReportRemovals keeps the transaction's removals since the last call. common has the fields that they share.
func (t *transaction) keepAndReportRemovals(common Removal) {
	common.AtMs, common.Zxid = t.state.timeMs, t.state.zxid
	if common.Cause != CauseDeleted {
		t.hooks.NodesRemoved(common, t.removals.pendingPaths)
	}
	t.removals.keepPending(common)
	t.changes.report(t.state, common)
}

func (t *transaction) keepClientDeletes() {
	if len(t.removals.pendingPaths) > 0 {
		t.keepAndReportRemovals(t.state.clientOrigin(t.txn))
	}
}

// clientOrigin returns the fields that the removals by the client of a transaction share.
func (c *replicatedState) clientOrigin(txn *proto.Txn) Removal {
	common := Removal{Cause: CauseDeleted, Member: txn.GetMember(), Session: jute.SessionID(txn.GetSession())}
	if session, ok := c.sessions.get(sessionKey(common.Session)); ok {
		common.Address = session.Address
	} else {
		common.Address = hostOf(txn.GetIds())
	}
	return common
}

// hostOf returns the host of a client without a session, or "".
func hostOf(who []*proto.Identity) string {
	for _, id := range who {
		if id.GetScheme() == "ip" {
			return id.GetId()
		}
	}
	return ""
}

// RemovalsBefore yields this member's kept removals from before a part of a transaction, the newest first. If
// zxid is 0, it begins with the newest of all. The caller holds at least the read lock.
func (s *State) RemovalsBefore(zxid int64, part uint32) iter.Seq[Removal] {
	return s.removals.removalsBefore(zxid, part)
}
