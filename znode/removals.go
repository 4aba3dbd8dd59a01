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

// Cause is the reason for the removal of a node.
type Cause uint8

// These are the causes.
const (
	Deleted      Cause = iota + 1 // a client's delete
	SessionEnded                  // the node was ephemeral, and its session ended
	TimeOver                      // it had a TTL, and was not changed for so long
	Unused                        // it was a container without children
)

// Removal records the removal of a node and its cause.
type Removal struct {
	Path    string
	AtMs    int64  // by the log's time, in ms since 1970
	Zxid    int64  // of the transaction that removed the node
	Part    uint32 // counts the removals of that transaction, from 1
	Cause   Cause
	Member  uint32         // that took the delete, or that the ended session was attached to; 0: not known
	Session jute.SessionID // that deleted it, or whose end removed it; 0: none
	Address string         // of the client, host:port, or only its host if it had no session; "": not known
}

// compare orders removals as the log does.
func (r *Removal) compare(zxid int64, part uint32) int {
	return cmp.Or(cmp.Compare(r.Zxid, zxid), cmp.Compare(r.Part, part))
}

// removedNodes holds the last removals that this member has applied since it started or received a snapshot. They
// are not replicated: neither a snapshot nor the digest has them. The zero value is empty. The tree's lock
// guards it.
type removedNodes struct {
	kept  fifo.Queue[Removal]
	bytes int   // of the paths and addresses in kept
	zxid  int64 // of the last transaction that removed a node
	part  uint32
	gone  []string // paths of the nodes that the running transaction has removed, until they are remembered
}

// note adds the path of a node that the running transaction has removed.
func (k *removedNodes) note(path string) { k.gone = append(k.gone, path) }

// keep adds a removal, and drops the oldest ones if there are too many.
func (k *removedNodes) keep(r Removal) {
	if r.Zxid != k.zxid {
		k.zxid, k.part = r.Zxid, 0
	}
	k.part++
	if len(r.Path) > maxRemovedPath {
		return
	}
	r.Part = k.part
	k.kept.Push(r)
	for k.bytes += r.size(); k.kept.Len() > maxRemovals || k.bytes > maxRemovalBytes; {
		oldest := k.kept.Pop()
		k.bytes -= oldest.size()
	}
}

// size is the number of bytes that r counts for maxRemovalBytes.
func (r *Removal) size() int { return len(r.Path) + len(r.Address) }

// remember keeps the removals that the running transaction has made since the last call. of has the fields that they
// have in common.
func (k *removedNodes) remember(of Removal) {
	for _, path := range k.gone {
		of.Path = path
		k.keep(of)
	}
	k.forget()
}

// before yields the removals from before a part of a transaction, as State.RemovalsBefore does.
func (k *removedNodes) before(zxid int64, part uint32) iter.Seq[Removal] {
	return func(yield func(Removal) bool) {
		n := k.kept.Len()
		if zxid != 0 {
			n = sort.Search(n, func(i int) bool { return k.kept.At(i).compare(zxid, part) >= 0 })
		}
		for i := n - 1; i >= 0 && yield(*k.kept.At(i)); i-- {
		}
	}
}

// forget drops the removals that the running transaction has made, because they are kept or undone.
func (k *removedNodes) forget() {
	if cap(k.gone) > keepOps {
		k.gone = nil
	}
	clear(k.gone)
	k.gone = k.gone[:0]
}

// remember keeps the transaction's removals since the last call. of has the fields that they have in common.
func (t *transaction) remember(of Removal) {
	of.AtMs, of.Zxid = t.state.now, t.state.zxid
	if of.Cause != Deleted {
		t.hooks.Removed(of, t.removed.gone)
	}
	t.removed.remember(of)
}

// rememberDeletes keeps the removals of a client's transaction.
func (t *transaction) rememberDeletes() {
	if len(t.removed.gone) == 0 {
		return
	}
	of := Removal{Cause: Deleted, Member: t.txn.GetMember(), Session: jute.SessionID(t.txn.GetSession())}
	if session, ok := t.state.sessions.get(sessionKey(of.Session)); ok {
		of.Address = session.Address
	} else {
		of.Address = addressOf(t.txn.GetIds())
	}
	t.remember(of)
}

// addressOf returns the host of the sender of a transaction without a session, or "".
func addressOf(who []*proto.Identity) string {
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
	return s.removed.before(zxid, part)
}
