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
	// maxRemovals limits the removals of nodes that a state remembers: as many as ends of sessions. Their
	// records take at most 1.2 MiB, besides the paths and addresses.
	maxRemovals = 10_000

	// maxRemovalBytes limits the bytes of their paths and addresses. With 10,000 of them that is 400
	// bytes for each, and few paths are as long.
	maxRemovalBytes = 4 << 20

	// maxRemovedPath is the longest path whose removal is remembered, in bytes. Otherwise a client could
	// push out all others with a few removals.
	maxRemovedPath = maxRemovalBytes / 64
)

// RemovalCause is the reason for the removal of a node.
type RemovalCause uint8

// These are the causes.
const (
	CauseDeleted        RemovalCause = iota + 1 // a client's delete
	CauseSessionEnded                           // the node was ephemeral, and its session ended
	CauseTTLExpired                             // it had a TTL, and was not changed for so long
	CauseEmptyContainer                         // it was a container without children
)

// Removal records the removal of a node and its cause.
type Removal struct {
	Path    string
	AtMs    int64  // by the log's time, in ms since 1970
	Zxid    int64  // of the transaction that removed the node
	TxnPart uint32 // counts the removals of that transaction, from 1
	Cause   RemovalCause
	Member  uint32         // that took the delete, or that the ended session was attached to; 0: not known
	Session jute.SessionID // that deleted it, or whose end removed it; 0: none
	Address string         // of the client, host:port, or only its host if it had no session; "": not known
}

// compare orders removals as the log does.
func (r *Removal) compare(zxid int64, part uint32) int {
	return cmp.Or(cmp.Compare(r.Zxid, zxid), cmp.Compare(r.TxnPart, part))
}

// removalHistory holds the last removals that this member has applied since it started or received a snapshot. They
// are not replicated: neither a snapshot nor the digest has them. The zero value is empty. The tree's lock
// guards it.
type removalHistory struct {
	kept         fifo.Queue[Removal]
	keptBytes    int   // of the paths and addresses in kept
	lastZxid     int64 // of the last transaction that removed a node
	lastPart     uint32
	pendingPaths []string // paths of the nodes that the running transaction has removed, until they are remembered
}

// addPending adds the path of a node that the running transaction has removed.
func (k *removalHistory) addPending(path string) { k.pendingPaths = append(k.pendingPaths, path) }

// appendRemoval adds a removal, and drops the oldest ones if there are too many.
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

// keptBytes is the number of bytes that r counts for maxRemovalBytes.
func (r *Removal) keptBytes() int { return len(r.Path) + len(r.Address) }

// keepPending keeps the removals that the running transaction has made since the last call. of has the fields that they
// have in common.
func (k *removalHistory) keepPending(of Removal) {
	for _, path := range k.pendingPaths {
		of.Path = path
		k.appendRemoval(of)
	}
	k.dropPending()
}

// removalsBefore yields the removals from before a part of a transaction, as State.RemovalsBefore does.
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

// dropPending drops the removals that the running transaction has made, because they are kept or undone.
func (k *removalHistory) dropPending() {
	if cap(k.pendingPaths) > keptMultiOps {
		k.pendingPaths = nil
	}
	clear(k.pendingPaths)
	k.pendingPaths = k.pendingPaths[:0]
}

// keepRemovals keeps the transaction's removals since the last call. of has the fields that they have in common.
func (t *transaction) keepRemovals(of Removal) {
	of.AtMs, of.Zxid = t.state.timeMs, t.state.zxid
	if of.Cause != CauseDeleted {
		t.hooks.NodesRemoved(of, t.removals.pendingPaths)
	}
	t.removals.keepPending(of)
}

// keepDeletes keeps the removals of a client's transaction.
func (t *transaction) keepDeletes() {
	if len(t.removals.pendingPaths) == 0 {
		return
	}
	of := Removal{Cause: CauseDeleted, Member: t.txn.GetMember(), Session: jute.SessionID(t.txn.GetSession())}
	if session, ok := t.state.sessions.get(sessionKey(of.Session)); ok {
		of.Address = session.Address
	} else {
		of.Address = hostOf(t.txn.GetIds())
	}
	t.keepRemovals(of)
}

// hostOf returns the host of the sender of a transaction without a session, or "".
func hostOf(who []*proto.Identity) string {
	for _, id := range who {
		if id.GetScheme() == "ip" {
			return id.GetId()
		}
	}
	return ""
}

// RemovalsBefore yields the removals that this member remembers from before a part of a transaction,
// the newest first. If zxid is 0, it begins with the newest of all. The caller holds at least the read
// lock.
func (s *State) RemovalsBefore(zxid int64, part uint32) iter.Seq[Removal] {
	return s.removals.removalsBefore(zxid, part)
}
