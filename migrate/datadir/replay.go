package datadir

import (
	"bytes"

	"rollcall/zk/jute"
)

// applyTxn applies a transaction as ZooKeeper does when it starts. A snapshot is written while transactions
// continue, so it may have parts of later ones, and applying these again must lead to the same state. So an
// existing node is kept, a missing node is ignored, and the counters of a parent only rise.
func (s *State) applyTxn(t *txn) {
	switch t.opcode {
	case jute.OpCreateSession:
		s.Sessions[jute.SessionID(t.session)] = t.timeout
	case jute.OpCloseSession:
		s.closeSession(t)
	}
	for i := range t.ops {
		s.applyOp(t, &t.ops[i])
	}
	s.Zxid = max(s.Zxid, t.zxid)
}

func (s *State) applyOp(t *txn, o *nodeChange) {
	switch o.opcode {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		s.createNode(t, o)
	case jute.OpDelete, jute.OpDeleteContainer:
		s.deletePath(o.path, t.zxid)
	case jute.OpSetData, jute.OpReconfig:
		s.changeUnlessNewer(t, o.path, func(n *Node) {
			n.Data, n.Version, n.Mzxid, n.Mtime = bytes.Clone(o.data), o.version, t.zxid, t.timeMs
		})
	case jute.OpSetACL:
		s.changeUnlessNewer(t, o.path, func(n *Node) { n.ACL, n.missingACL, n.Aversion = o.acl, 0, o.version })
	}
}

// changeUnlessNewer changes the node at path, if there is one. If the node was created after t, t changed an earlier
// node there. ZooKeeper corrupts such a node if a log from before 3.6 lacks the removal of the earlier node by
// the end of its session.
func (s *State) changeUnlessNewer(t *txn, path string, change func(n *Node)) {
	if n := s.nodes[path]; n != nil && n.Czxid <= t.zxid {
		s.digest.removeNode(n)
		change(n)
		s.digest.addNode(n)
	}
}

// createNode creates a node. If the snapshot had it already, only its ACL is set, because the snapshot's
// table of ACLs may be older than the node. Its parent's counters follow in either case: ZooKeeper
// leaves them out for an existing node of a create2, a container or a TTL node, and would then give
// a number of a sequence a second time.
func (s *State) createNode(t *txn, o *nodeChange) {
	parent := s.nodes[parentPath(o.path)]
	if parent == nil {
		return
	}
	s.digest.removeNode(parent)
	if o.creates == -1 {
		o.creates = parent.Creates + 1
	}
	if o.creates > parent.Creates {
		parent.Creates, parent.Pzxid = o.creates, t.zxid
	}
	s.digest.addNode(parent)
	if n := s.nodes[o.path]; n != nil {
		n.ACL, n.missingACL = o.acl, 0
		return
	}
	s.insertNode(parent, Node{
		Path: o.path, Data: bytes.Clone(o.data), ACL: o.acl, Owner: o.owner,
		Czxid: t.zxid, Mzxid: t.zxid, Pzxid: t.zxid, Ctime: t.timeMs, Mtime: t.timeMs,
	})
}

// deletePath removes the node at path. Its parent's pzxid follows even if the node is gone. Nodes
// below it can only be from later transactions, which will create them again.
func (s *State) deletePath(path string, zxid int64) {
	if path == "/" {
		return
	}
	parent := s.nodes[parentPath(path)]
	if parent == nil {
		return
	}
	if zxid > parent.Pzxid {
		s.digest.removeNode(parent)
		parent.Pzxid = zxid
		s.digest.addNode(parent)
	}
	if n := s.nodes[path]; n != nil {
		s.removeSubtree(n)
	}
}

// closeSession removes a session and its nodes.
func (s *State) closeSession(t *txn) {
	delete(s.Sessions, jute.SessionID(t.session))
	for _, path := range t.paths {
		s.deletePath(path, t.zxid)
	}
	s.deleteOwned(t.session, t.zxid)
}

// deleteOwned removes the nodes that a session owns.
func (s *State) deleteOwned(session, zxid int64) {
	for n := range s.nodesByOwner[session] {
		s.deletePath(n.Path, zxid)
	}
}
