package znode

import (
	"bytes"
	"fmt"
	"strings"

	"rollcall/jute"
	"rollcall/proto"
)

// anyVersion is the expected version that always matches.
const anyVersion = -1

// runCreate serves create and create2. What the request asks for is judged before the
// session, as in ZooKeeper.
func (s *State) runCreate(txn *proto.Txn, r *Result) {
	d := jute.NewDecoder(txn.GetBody())
	req := &s.create
	if req.Decode(&d); d.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	if !req.Flags.Known() || req.Flags.IsTTL() {
		r.Code = jute.BadArguments
		return
	}
	var n *node
	if r.Code = s.refuse(txn); r.Code == jute.OK {
		n, r.Code = s.createNode(txn, req)
	}
	if r.Code == jute.OK {
		r.Path, r.Stat = n.path, n.stat()
	}
}

// createNode adds a node. A container mode asks for a plain one.
func (s *State) createNode(txn *proto.Txn, req *jute.CreateRequest) (*node, jute.Code) {
	owner := jute.SessionID(0)
	if req.Flags.IsEphemeral() {
		if owner = jute.SessionID(txn.GetSession()); owner == 0 {
			return nil, jute.SessionExpired
		}
	}
	path := borrow(req.Path)
	if code := pathToParse(req.Path); code != jute.OK {
		return nil, code
	}
	list, code := s.acls.resolve(req.ACL, txn.GetIds())
	if code != jute.OK {
		return nil, code
	}
	above, _ := cutPath(path)
	parent := s.get(above)
	switch {
	case parent == nil:
		return nil, jute.NoNode
	case !s.allows(parent.acl, jute.PermCreate, txn.GetIds()):
		return nil, jute.NoAuth
	}
	if req.Flags.IsSequential() {
		s.path = fmt.Appendf(append(s.path[:0], path...), "%010d", parent.creates)
		path = borrow(s.path)
	}
	switch {
	case !ValidPath(path):
		return nil, jute.BadArguments
	case s.get(path) != nil:
		return nil, jute.NodeExists
	case parent.owner != 0:
		return nil, jute.NoChildrenForEphemerals
	}
	n := &node{
		gen: s.gen.Load(), path: strings.Clone(path), data: bytes.Clone(req.Data), acl: list, owner: owner,
		czxid: s.zxid, mzxid: s.zxid, pzxid: s.zxid, ctime: s.now, mtime: s.now,
	}
	parent = s.link(n.gen, n)
	s.willUndo(undo{linked: n})
	s.willUndo(undo{edited: *parent})
	parent.countCreate()
	parent.pzxid = s.zxid
	s.changed(change{event: jute.EventNodeCreated, path: n.path, acl: list, parent: parent.path, parentACL: parent.acl})
	return n, jute.OK
}

func (s *State) runDelete(txn *proto.Txn, r *Result) {
	var req jute.DeleteRequest
	d := jute.NewDecoder(txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	if r.Code = s.refuse(txn); r.Code == jute.OK {
		r.Code = s.deleteNode(txn, &req)
	}
}

// deleteNode removes a node. Of the path only what is needed to find the parent is
// checked; what is odd otherwise does not exist.
func (s *State) deleteNode(txn *proto.Txn, req *jute.DeleteRequest) jute.Code {
	path := borrow(req.Path)
	if code := pathToParse(req.Path); code != jute.OK {
		return code
	}
	if isBuiltin(path) {
		return jute.BadArguments
	}
	above, _ := cutPath(path)
	parent := s.get(above)
	switch {
	case parent == nil:
		return jute.NoNode
	case !s.allows(parent.acl, jute.PermDelete, txn.GetIds()):
		return jute.NoAuth
	}
	n := s.get(path)
	switch {
	case n == nil:
		return jute.NoNode
	case req.Version != anyVersion && req.Version != n.version:
		return jute.BadVersion
	case n.children != nil:
		return jute.NotEmpty
	}
	s.remove(n)
	return jute.OK
}

// remove takes a node without children out of the tree, for whatever reason.
func (s *State) remove(n *node) {
	parent := s.unlink(s.gen.Load(), n)
	s.willUndo(undo{unlinked: n})
	s.willUndo(undo{edited: *parent})
	parent.pzxid = s.zxid
	s.changed(change{event: jute.EventNodeDeleted, path: n.path, acl: n.acl, parent: parent.path, parentACL: parent.acl})
}

func (s *State) runSetData(txn *proto.Txn, r *Result) {
	var req jute.SetDataRequest
	d := jute.NewDecoder(txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	var n *node
	if r.Code = s.refuse(txn); r.Code == jute.OK {
		n, r.Code = s.setData(txn, &req)
	}
	if r.Code == jute.OK {
		r.Stat = n.stat()
	}
}

func (s *State) setData(txn *proto.Txn, req *jute.SetDataRequest) (*node, jute.Code) {
	path := borrow(req.Path)
	if !ValidPath(path) {
		return nil, jute.BadArguments
	}
	n := s.get(path)
	switch {
	case n == nil:
		return nil, jute.NoNode
	case !s.allows(n.acl, jute.PermWrite, txn.GetIds()):
		return nil, jute.NoAuth
	case req.Version != anyVersion && req.Version != n.version:
		return nil, jute.BadVersion
	}
	n = s.edit(s.gen.Load(), path)
	s.willUndo(undo{edited: *n})
	s.dataSize += int64(len(req.Data) - len(n.data))
	n.data = bytes.Clone(req.Data)
	n.version++
	n.mzxid, n.mtime = s.zxid, s.now
	s.changed(change{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
	return n, jute.OK
}

func (s *State) runSetACL(txn *proto.Txn, r *Result) {
	var req jute.SetACLRequest
	d := jute.NewDecoder(txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	if r.Code = s.refuse(txn); r.Code != jute.OK {
		return
	}
	path := borrow(req.Path)
	if !ValidPath(path) {
		r.Code = jute.BadArguments
		return
	}
	var list *acl
	if list, r.Code = s.acls.resolve(req.ACL, txn.GetIds()); r.Code != jute.OK {
		return
	}
	n := s.get(path)
	switch {
	case n == nil:
		r.Code = jute.NoNode
	case !s.allows(n.acl, jute.PermAdmin, txn.GetIds()):
		r.Code = jute.NoAuth
	case req.Version != anyVersion && req.Version != n.aversion:
		r.Code = jute.BadVersion
	default:
		n = s.edit(s.gen.Load(), path)
		n.acl = list
		n.aversion++
		r.Stat = n.stat()
	}
}

// check is what a multi does for a version that must hold.
func (s *State) check(txn *proto.Txn, req *jute.CheckVersionRequest) jute.Code {
	path := borrow(req.Path)
	if !ValidPath(path) {
		return jute.BadArguments
	}
	n := s.get(path)
	switch {
	case n == nil:
		return jute.NoNode
	case !s.allows(n.acl, jute.PermRead, txn.GetIds()):
		return jute.NoAuth
	case req.Version != anyVersion && req.Version != n.version:
		return jute.BadVersion
	}
	return jute.OK
}

// allows reports whether who has any of the permissions on a node with this list.
func (s *State) allows(a *acl, perms jute.Perm, who []*proto.Identity) bool {
	return s.cfg.SkipACL || a.allows(perms, who)
}

// pathToParse checks as much of the path of a create or delete as is needed to split it.
func pathToParse(path []byte) jute.Code {
	switch {
	case path == nil:
		return jute.MarshallingError
	case bytes.IndexByte(path, '/') < 0 || bytes.IndexByte(path, 0) >= 0:
		return jute.BadArguments
	}
	return jute.OK
}
