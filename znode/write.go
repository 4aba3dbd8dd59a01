package znode

import (
	"bytes"
	"fmt"
	"strings"

	"rollcall/jute"
	"rollcall/proto"
)

// anyVersion is the expected version that matches every version.
const anyVersion = -1

// runCreate serves create, create2, createContainer and createTTL. It checks the request before the
// session, as ZooKeeper does.
func (s *State) runCreate(txn *proto.Txn, r *Result) {
	d := jute.NewDecoder(txn.GetBody())
	op, req, ttl := jute.Op(txn.GetOp()), &s.create, int64(0)
	if req.Decode(&d); op == jute.OpCreateTTL {
		ttl = d.ReadInt64()
	}
	if d.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	var l life
	if l, r.Code = s.lifeOf(txn, op, req.Flags, ttl); r.Code != jute.OK {
		return
	}
	var n *node
	if r.Code = s.refuse(txn); r.Code == jute.OK {
		n, r.Code = s.createNode(txn, req, l)
	}
	if r.Code == jute.OK {
		r.Path, r.Stat = n.path, n.stat()
	}
}

// lifeOf returns how the created node may end. createContainer always makes a container, whatever
// the mode, and no other operation makes one.
func (s *State) lifeOf(txn *proto.Txn, op jute.Op, mode jute.CreateMode, ttl int64) (life, jute.Code) {
	switch {
	case !mode.Known():
		return life{}, jute.BadArguments
	case mode.IsTTL() && !s.term.TTLNodes:
		return life{}, jute.Unimplemented
	case mode.IsTTL() != (op == jute.OpCreateTTL):
		return life{}, jute.BadArguments
	case mode.IsTTL() && (ttl <= 0 || ttl > jute.MaxTTL):
		return life{}, jute.BadArguments
	case mode.IsTTL():
		return life{ttl: ttl}, jute.OK
	case op == jute.OpCreateContainer:
		return life{container: true}, jute.OK
	case mode.IsEphemeral():
		return life{owner: jute.SessionID(txn.GetSession())}, jute.OK
	}
	return life{}, jute.OK
}

// createNode adds a node that may end as l says. It uses the request's mode only to see whether the
// node is sequential.
func (s *State) createNode(txn *proto.Txn, req *jute.CreateRequest, l life) (*node, jute.Code) {
	if req.Flags.IsEphemeral() && !l.container && l.owner == 0 {
		return nil, jute.SessionExpired // the transaction has no session
	}
	path := borrow(req.Path)
	if code := pathToParse(req.Path); code != jute.OK {
		return nil, code
	}
	list, code := s.acls.resolve(req.ACL, s.acls.sender.identities())
	if code != jute.OK {
		return nil, code
	}
	above, _ := cutPath(path)
	parent := s.get(above)
	switch {
	case parent == nil:
		return nil, jute.NoNode
	case !s.grants(parent.acl, jute.PermCreate, txn):
		return nil, jute.NoAuth
	}
	if req.Flags.IsSequential() {
		s.path = fmt.Appendf(append(s.path[:0], path...), "%010d", parent.numCreates())
		path = borrow(s.path)
	}
	switch {
	case !jute.ValidPath(path):
		return nil, jute.BadArguments
	case s.get(path) != nil:
		return nil, jute.NodeExists
	case parent.life().owner != 0:
		return nil, jute.NoChildrenForEphemerals
	case s.forbids(path, 1, int64(len(req.Data))):
		return nil, jute.QuotaExceeded
	case s.overfills(len(path) + len(req.Data) + added(list, nil)):
		return nil, jute.NoRoom
	}
	n := &node{
		gen: s.gen.Load(), path: strings.Clone(path), data: packCopy(req.Data), family: &list.plain,
		czxid: s.zxid, mzxid: s.zxid, ctime: s.now, mtime: s.now,
	}
	n.setLife(l)
	parent = s.link(n.gen, n)
	s.willUndo(undo{linked: n})
	s.willUndo(undo{edited: *parent})
	s.uncount(parent)
	parent.countCreate()
	parent.pzxid = s.zxid
	s.count(parent)
	s.watches.note(notification{event: jute.EventNodeCreated, path: n.path, acl: list, parent: parent.path, parentACL: parent.acl})
	s.use(n.path, 1, n.data.len())
	s.measure(n.path)
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

// deleteNode removes a node. It checks only the part of the path that is needed to find the parent.
// A path that is invalid in another way names a node that does not exist.
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
	case !s.grants(parent.acl, jute.PermDelete, txn):
		return jute.NoAuth
	}
	n := s.get(path)
	switch {
	case n == nil:
		return jute.NoNode
	case req.Version != anyVersion && req.Version != n.data.version:
		return jute.BadVersion
	case n.numChildren() > 0:
		return jute.NotEmpty
	}
	s.remove(n)
	return jute.OK
}

// remove takes a node without children out of the tree, whatever the reason.
func (s *State) remove(n *node) {
	parent := s.unlink(s.gen.Load(), n)
	s.willUndo(undo{unlinked: n})
	s.willUndo(undo{edited: *parent})
	s.uncount(parent)
	parent.pzxid = s.zxid
	s.count(parent)
	s.gone = append(s.gone, n.path)
	s.watches.note(notification{event: jute.EventNodeDeleted, path: n.path, acl: n.acl, parent: parent.path, parentACL: parent.acl})
	s.use(n.path, -1, -n.data.len())
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
	if !jute.ValidPath(path) {
		return nil, jute.BadArguments
	}
	n := s.get(path)
	switch {
	case n == nil:
		return nil, jute.NoNode
	case !s.grants(n.acl, jute.PermWrite, txn):
		return nil, jute.NoAuth
	case s.forbids(path, 0, int64(len(req.Data)-n.data.len())):
		return nil, jute.QuotaExceeded
	case req.Version != anyVersion && req.Version != n.data.version:
		return nil, jute.BadVersion
	case path != ConfigPath && s.overfills(len(req.Data)-n.data.len()):
		return nil, jute.NoRoom
	}
	gen := s.gen.Load()
	n = s.edit(gen, path)
	s.willUndo(undo{edited: *n})
	more, had := len(req.Data)-n.data.len(), n.data
	s.setPacked(n, packCopy(req.Data))
	n.data.version++
	s.recast(gen, n, func() { n.mzxid, n.mtime = s.zxid, s.now })
	s.count(n)
	s.watches.note(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
	s.use(n.path, 0, more)
	s.keepUsage(n, had)
	return n, jute.OK
}

// setPacked does what setBytes does.
func (s *State) setPacked(n *node, data packed) {
	s.resize(n, data.len()-n.data.len())
	data.version = n.data.version
	n.data = data
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
	if !jute.ValidPath(path) {
		r.Code = jute.BadArguments
		return
	}
	var list *acl
	if list, r.Code = s.acls.resolve(req.ACL, s.acls.sender.identities()); r.Code != jute.OK {
		return
	}
	n := s.get(path)
	switch {
	case n == nil:
		r.Code = jute.NoNode
	case !s.grants(n.acl, jute.PermAdmin, txn):
		r.Code = jute.NoAuth
	case req.Version != anyVersion && req.Version != n.aversion:
		r.Code = jute.BadVersion
	case list != n.acl && s.overfills(added(list, n.acl)):
		r.Code = jute.NoRoom
	default:
		n = s.edit(s.gen.Load(), path)
		s.withdraw(n.acl)
		s.give(list)
		n.setACL(list, n.aversion+1)
		s.count(n)
		r.Stat = n.stat()
	}
}

// check is a multi's operation that requires a version.
func (s *State) check(txn *proto.Txn, req *jute.CheckVersionRequest) jute.Code {
	path := borrow(req.Path)
	if !jute.ValidPath(path) {
		return jute.BadArguments
	}
	n := s.get(path)
	switch {
	case n == nil:
		return jute.NoNode
	case !s.grants(n.acl, jute.PermRead, txn):
		return jute.NoAuth
	case req.Version != anyVersion && req.Version != n.data.version:
		return jute.BadVersion
	}
	return jute.OK
}

// allows reports whether who has any of the permissions on a node with this list. Readers call it.
func (s *State) allows(a *acl, perms jute.Perm, who []*proto.Identity) bool {
	return s.term.allow(a, perms, who)
}

// allow is State.allows under these rules.
func (r *Rules) allow(a *acl, perms jute.Perm, who []*proto.Identity) bool {
	if r.SkipACL || a.open&perms != 0 {
		return true
	}
	var k asker
	return k.be(who).may(a, perms, r.SASL)
}

// grants is allows for the client of a transaction that is applied. The operations of a multi have the same identities, so they
// are looked at once.
func (s *State) grants(a *acl, perms jute.Perm, txn *proto.Txn) bool {
	return s.term.SkipACL || a.open&perms != 0 || s.acls.asker.be(s.acls.sender.identities()).may(a, perms, s.term.SASL)
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
