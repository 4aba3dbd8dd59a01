package znode

import (
	"bytes"
	"fmt"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// anyVersion is the expected version that matches every version.
const anyVersion = -1

// runCreate serves create, create2, createContainer and createTTL. It checks the request before the
// session, as ZooKeeper does.
func (t *transaction) runCreate() {
	d := jute.NewDecoder(t.txn.GetBody())
	op, req, ttl := jute.Op(t.txn.GetOp()), &t.create, int64(0)
	if req.Decode(&d); op == jute.OpCreateTTL {
		ttl = d.ReadInt64()
	}
	if d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.take()
	var l life
	if l, t.result.Code = t.lifeOf(op, req.Flags, ttl); t.result.Code != jute.OK {
		return
	}
	var n *node
	if t.result.Code = t.refuse(); t.result.Code == jute.OK {
		n, t.result.Code = t.createNode(req, l)
	}
	if t.result.Code == jute.OK {
		t.result.Path, t.result.Stat = n.path, n.stat()
	}
}

// lifeOf returns how the created node may end. createContainer always makes a container, whatever
// the mode, and no other operation makes one.
func (t *transaction) lifeOf(op jute.Op, mode jute.CreateMode, ttl int64) (life, jute.Code) {
	switch {
	case !mode.Known():
		return life{}, jute.BadArguments
	case mode.IsTTL() && !t.state.term.TTLNodes:
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
		return life{owner: jute.SessionID(t.txn.GetSession())}, jute.OK
	}
	return life{}, jute.OK
}

// createNode adds a node that may end as l says. It uses the request's mode only to see whether the
// node is sequential.
func (t *transaction) createNode(req *jute.CreateRequest, l life) (*node, jute.Code) {
	if req.Flags.IsEphemeral() && !l.container && l.owner == 0 {
		return nil, jute.SessionExpired // the transaction has no session
	}
	path := borrow(req.Path)
	if code := pathToParse(req.Path); code != jute.OK {
		return nil, code
	}
	list, code := t.acls.resolve(req.ACL, t.acls.sender.identities())
	if code != jute.OK {
		return nil, code
	}
	above, _ := cutPath(path)
	parent := t.state.get(above)
	switch {
	case parent == nil:
		return nil, jute.NoNode
	case !t.grants(parent.acl, jute.PermCreate):
		return nil, jute.NoAuth
	}
	if req.Flags.IsSequential() {
		t.path = fmt.Appendf(append(t.path[:0], path...), "%010d", parent.numCreates())
		path = borrow(t.path)
	}
	switch {
	case !jute.ValidPath(path):
		return nil, jute.BadArguments
	case t.state.get(path) != nil:
		return nil, jute.NodeExists
	case parent.life().owner != 0:
		return nil, jute.NoChildrenForEphemerals
	case t.state.term.EnforceQuota && t.quotas.forbids(path, 1, int64(len(req.Data))):
		return nil, jute.QuotaExceeded
	case t.state.overfills(len(path) + len(req.Data) + added(list, nil)):
		return nil, jute.NoRoom
	}
	n := &node{
		gen: t.gen.Load(), path: strings.Clone(path), data: packCopy(req.Data), family: &list.plain,
		czxid: t.state.zxid, mzxid: t.state.zxid, ctime: t.state.now, mtime: t.state.now,
	}
	n.setLife(l)
	parent = t.nodes.link(n)
	parent.countCreate()
	parent.pzxid = t.state.zxid
	t.state.count(parent)
	t.watches.note(notification{event: jute.EventNodeCreated, path: n.path, acl: list, parent: parent.path, parentACL: parent.acl})
	t.quotas.add(n.path, 1, n.data.len())
	t.quotas.measure(n.path)
	return n, jute.OK
}

func (t *transaction) runDelete() {
	var req jute.DeleteRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.take()
	if t.result.Code = t.refuse(); t.result.Code == jute.OK {
		t.result.Code = t.deleteNode(&req)
	}
}

// deleteNode removes a node. It checks only the part of the path that is needed to find the parent.
// A path that is invalid in another way names a node that does not exist.
func (t *transaction) deleteNode(req *jute.DeleteRequest) jute.Code {
	path := borrow(req.Path)
	if code := pathToParse(req.Path); code != jute.OK {
		return code
	}
	if isBuiltin(path) {
		return jute.BadArguments
	}
	above, _ := cutPath(path)
	parent := t.state.get(above)
	switch {
	case parent == nil:
		return jute.NoNode
	case !t.grants(parent.acl, jute.PermDelete):
		return jute.NoAuth
	}
	n := t.state.get(path)
	switch {
	case n == nil:
		return jute.NoNode
	case req.Version != anyVersion && req.Version != n.data.version:
		return jute.BadVersion
	case n.numChildren() > 0:
		return jute.NotEmpty
	}
	t.remove(n)
	return jute.OK
}

// remove takes a node without children out of the tree, whatever the reason.
func (t *transaction) remove(n *node) {
	parent := t.nodes.unlink(n)
	parent.pzxid = t.state.zxid
	t.state.count(parent)
	t.removed.note(n.path)
	t.watches.note(notification{event: jute.EventNodeDeleted, path: n.path, acl: n.acl, parent: parent.path, parentACL: parent.acl})
	t.quotas.add(n.path, -1, -n.data.len())
}

func (t *transaction) runSetData() {
	var req jute.SetDataRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.take()
	var n *node
	if t.result.Code = t.refuse(); t.result.Code == jute.OK {
		n, t.result.Code = t.setData(&req)
	}
	if t.result.Code == jute.OK {
		t.result.Stat = n.stat()
	}
}

func (t *transaction) setData(req *jute.SetDataRequest) (*node, jute.Code) {
	path := borrow(req.Path)
	if !jute.ValidPath(path) {
		return nil, jute.BadArguments
	}
	n := t.state.get(path)
	switch {
	case n == nil:
		return nil, jute.NoNode
	case !t.grants(n.acl, jute.PermWrite):
		return nil, jute.NoAuth
	case t.state.term.EnforceQuota && t.quotas.forbids(path, 0, int64(len(req.Data)-n.data.len())):
		return nil, jute.QuotaExceeded
	case req.Version != anyVersion && req.Version != n.data.version:
		return nil, jute.BadVersion
	case path != ConfigPath && t.state.overfills(len(req.Data)-n.data.len()):
		return nil, jute.NoRoom
	}
	n = t.nodes.edit(path)
	more, had := len(req.Data)-n.data.len(), n.data
	t.state.setPacked(n, packCopy(req.Data))
	n.data.version++
	t.state.recast(n.gen, n, func() { n.mzxid, n.mtime = t.state.zxid, t.state.now })
	t.state.count(n)
	t.watches.note(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
	t.quotas.add(n.path, 0, more)
	t.quotas.keep(n, had)
	return n, jute.OK
}

func (t *transaction) runSetACL() {
	var req jute.SetACLRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.take()
	if t.result.Code = t.refuse(); t.result.Code != jute.OK {
		return
	}
	path := borrow(req.Path)
	if !jute.ValidPath(path) {
		t.result.Code = jute.BadArguments
		return
	}
	var list *acl
	if list, t.result.Code = t.acls.resolve(req.ACL, t.acls.sender.identities()); t.result.Code != jute.OK {
		return
	}
	n := t.state.get(path)
	switch {
	case n == nil:
		t.result.Code = jute.NoNode
	case !t.grants(n.acl, jute.PermAdmin):
		t.result.Code = jute.NoAuth
	case req.Version != anyVersion && req.Version != n.aversion:
		t.result.Code = jute.BadVersion
	case list != n.acl && t.state.overfills(added(list, n.acl)):
		t.result.Code = jute.NoRoom
	default:
		n = t.nodes.edit(path)
		t.state.withdraw(n.acl)
		t.state.give(list)
		n.setACL(list, n.aversion+1)
		t.state.count(n)
		t.result.Stat = n.stat()
	}
}

// check is a multi's operation that requires a version.
func (t *transaction) check(req *jute.CheckVersionRequest) jute.Code {
	path := borrow(req.Path)
	if !jute.ValidPath(path) {
		return jute.BadArguments
	}
	n := t.state.get(path)
	switch {
	case n == nil:
		return jute.NoNode
	case !t.grants(n.acl, jute.PermRead):
		return jute.NoAuth
	case req.Version != anyVersion && req.Version != n.data.version:
		return jute.BadVersion
	}
	return jute.OK
}

// allow reports whether who has any of the permissions on a node with this list. Readers call it.
func (r *Rules) allow(a *acl, perms jute.Perm, who []*proto.Identity) bool {
	if r.SkipACL || a.open&perms != 0 {
		return true
	}
	var k asker
	return k.be(who).may(a, perms, r.SASL)
}

// grants is allows for the client of a transaction that is applied. The operations of a multi have the same identities, so they
// are looked at once.
func (t *transaction) grants(a *acl, perms jute.Perm) bool {
	return t.state.term.SkipACL || a.open&perms != 0 || t.acls.asker.be(t.acls.sender.identities()).may(a, perms, t.state.term.SASL)
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
