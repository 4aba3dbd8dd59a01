package znode

import "rollcall/zk/jute"

// ChangeKind is what a Change did.
type ChangeKind uint8

const (
	NodeCreated    ChangeKind = iota + 1
	NodeDeleted               // Change.Cause has the reason
	DataSet                   // a node's data were set
	ACLSet                    // a node's access control list was set
	SessionOpened             // the fields of a node are zero, as for SessionEnded
	SessionEnded              // Change.End describes the end; the deletions of the session's nodes follow
	ServersChanged            // the list of servers was replaced, and with it the data of ConfigPath
)

// Change is one change that an entry made to the state: of a node, of a session, or of the list of servers. It has no data,
// no access control list and no secret.
type Change struct {
	Kind    ChangeKind
	Zxid    int64  // of the transaction that made the change
	TxnPart uint32 // number of the change in that transaction, from 1
	AtMs    int64  // the log's time, since 1970
	Path    string // of the node; "" for a session
	// The node's version after the change: of its list after ACLSet, and otherwise of its data. A deleted node's last one.
	Version   int32
	DataBytes int            // length of the node's data after the change, or of a deleted node's last data
	Node      NodeKind       // the node's kind
	Owner     jute.SessionID // of an ephemeral node; 0 for others
	Cause     RemovalCause   // of NodeDeleted
	Member    uint32         // that submitted the transaction, or that the ended session was connected to; 0 if none
	Session   jute.SessionID // whose client made the change, or that was opened or ended; 0 if none
	Address   string         // of that session's client, as host:port, or its host if it had no session; "" if unknown
	End       *SessionEnd    // of SessionEnded; nil for others
}

// ChangeObserver observes the changes of ApplyEntry. A State has at most one.
type ChangeObserver interface {
	// ObserveChange is called for each change, in the order of the log, under the tree's write lock: at the end of the
	// change's transaction, after the watches' events. It must not block or take that lock. c is valid during the call.
	// Attaches, identifies and announcements take no zxid, and are not reported.
	ObserveChange(c *Change)
	// StateReplaced is called when RestoreSnapshot has replaced the state, under the tree's write lock. The changes in between
	// are not reported.
	StateReplaced()
}

// ObserveChanges makes o the observer of all later entries; nil: there is none. The caller holds the write lock.
func ObserveChanges(s *State, o ChangeObserver) { s.runningTxn.changes.observer = o }

// changeLog collects the changes of the running transaction for the observer.
type changeLog struct {
	observer ChangeObserver // nil: nothing is collected
	pending  []Change       // without the fields that changes of a transaction share
	lastZxid int64
	lastPart uint32
}

// addNode adds a change of a node, as it is after the change or was before its deletion.
func (l *changeLog) addNode(kind ChangeKind, n *node) {
	if l.observer == nil {
		return
	}
	c := Change{Kind: kind, Path: n.path, Version: n.data.version, DataBytes: n.data.len()}
	if c.Node, c.Owner = n.lifetime().kindAndOwner(); kind == ACLSet {
		c.Version = n.aversion
	}
	l.pending = append(l.pending, c)
}

func (l *changeLog) addSessionOpened() {
	if l.observer != nil {
		l.pending = append(l.pending, Change{Kind: SessionOpened})
	}
}

func (l *changeLog) addSessionEnd(end SessionEnd) {
	if l.observer != nil {
		kept := end // only this one is in the heap
		l.pending = append(l.pending, Change{Kind: SessionEnded, End: &kept})
	}
}

// dropPending drops the pending changes after they were reported or undone.
func (l *changeLog) dropPending() {
	if cap(l.pending) > keptMultiOps {
		l.pending = nil
	}
	clear(l.pending)
	l.pending = l.pending[:0]
}

// report reports the changes since the last call, all of one transaction, after which state is. common has the fields that they
// share, and the cause of the deletions among them.
func (l *changeLog) report(state *replicatedState, common Removal) {
	if len(l.pending) == 0 {
		return
	}
	if state.zxid != l.lastZxid {
		l.lastZxid, l.lastPart = state.zxid, 0
	}
	for i := range l.pending {
		c := &l.pending[i]
		l.lastPart++
		c.Zxid, c.TxnPart, c.AtMs = state.zxid, l.lastPart, state.timeMs
		c.Member, c.Session, c.Address = common.Member, common.Session, common.Address
		if c.Kind == NodeDeleted {
			c.Cause = common.Cause
		}
		l.observer.ObserveChange(c)
	}
	l.dropPending()
}
