package znode

import (
	"bytes"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// anyVersion matches every version.
const anyVersion = -1

// runCreate serves create, create2, createContainer and createTTL. It checks the request before the session,
// as ZooKeeper does.
func (t *transaction) runCreate() {
	d := jute.NewDecoder(t.txn.GetBody())
	op, req, ttl := jute.Op(t.txn.GetOp()), &t.createRequest, int64(0)
	defer req.Forget()
	if req.Decode(&d); op == jute.OpCreateTTL {
		ttl = d.ReadInt64()
	}
	if d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	var l lifetime
	if l, t.result.Code = t.checkedLifetime(op, req.Flags, ttl); t.result.Code != jute.OK {
		return
	}
	var n *node
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code == jute.OK {
		n, t.result.Code = t.createNode(req, l)
	}
	if t.result.Code == jute.OK {
		t.result.Path, t.result.Stat = n.path, n.stat()
	}
}

// checkedLifetime returns the lifetime of the created node. createContainer always makes a container, whatever the
// mode, and no other operation makes one.
func (t *transaction) checkedLifetime(op jute.Op, mode jute.CreateMode, ttl int64) (lifetime, jute.Code) {
	switch {
	case !mode.IsKnown():
		return lifetime{}, jute.BadArguments
	case mode.IsTTL() && !t.state.term.TTLNodes:
		return lifetime{}, jute.Unimplemented
	case mode.IsTTL() != (op == jute.OpCreateTTL):
		return lifetime{}, jute.BadArguments
	case mode.IsTTL() && (ttl <= 0 || ttl > jute.MaxTTL):
		return lifetime{}, jute.BadArguments
	case mode.IsTTL():
		return lifetime{ttlMs: ttl}, jute.OK
	case op == jute.OpCreateContainer:
		return lifetime{isContainer: true}, jute.OK
	case mode.IsEphemeral():
		return lifetime{owner: jute.SessionID(t.txn.GetSession())}, jute.OK
	}
	return lifetime{}, jute.OK
}

// createNode adds a node with a lifetime. It uses the request's mode only for sequential names.
func (t *transaction) createNode(req *jute.CreateRequest, l lifetime) (*node, jute.Code) {
	if req.Flags.IsEphemeral() && !l.isContainer && l.owner == 0 {
		return nil, jute.SessionExpired // the transaction has no session
	}
	path := borrowString(req.Path)
	if code := checkSplittable(req.Path); code != jute.OK {
		return nil, code
	}
	list, code := t.acls.resolveList(req.ACL, t.acls.client.identities())
	if code != jute.OK {
		return nil, code
	}
	above, _ := splitPath(path)
	parent := t.state.tree.nodeAt(above)
	switch {
	case parent == nil:
		return nil, jute.NoNode
	case !t.clientMayAccess(parent.acl, jute.PermCreate):
		return nil, jute.NoAuth
	}
	number := parent.nextNumber(t.state.term.LongNames)
	if req.Flags.IsSequential() {
		t.sequentialPath = jute.AppendSequence(append(t.sequentialPath[:0], path...), number)
		path = borrowString(t.sequentialPath)
	}
	switch {
	case !jute.ValidPath(path):
		return nil, jute.BadArguments
	case t.state.tree.nodeAt(path) != nil:
		t.state.tree.noteCreated(parent)
		return nil, jute.NodeExists
	case parent.lifetime().owner != 0:
		return nil, jute.NoChildrenForEphemerals
	case t.state.term.EnforceQuota && t.quotas.wouldExceedHardLimit(path, 1, int64(len(req.Data))):
		return nil, jute.QuotaExceeded
	case t.state.wouldExceedDataQuota(len(path) + len(req.Data) + addedACLBytes(list, nil)):
		return nil, jute.NoRoom
	}
	n := &node{
		gen: t.gen.Load(), path: strings.Clone(path), data: packCopy(req.Data), nodeExtra: &list.sharedExtra,
		czxid: t.state.zxid, mzxid: t.state.zxid, ctime: t.state.timeMs, mtime: t.state.timeMs,
	}
	n.setLifetime(l)
	parent = t.editor.linkAndEditParent(n)
	parent.countCreate(number)
	t.state.tree.noteCreated(parent)
	parent.pzxid = t.state.zxid
	t.state.tree.addHash(parent)
	t.watches.addPending(notification{
		event: jute.EventNodeCreated, path: n.path, acl: list, parent: parent.path, parentACL: parent.acl,
	})
	t.changes.addNode(NodeCreated, n)
	t.quotas.addUsage(n.path, 1, n.data.len())
	t.quotas.recomputeForNewQuota(n.path)
	return n, jute.OK
}

func (t *transaction) runDelete() {
	var req jute.DeleteRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code == jute.OK {
		t.result.Code = t.deleteNode(&req)
	}
}

// deleteNode checks only as much of the path as the parent's lookup needs. A path that is invalid in another
// way names a node that does not exist.
func (t *transaction) deleteNode(req *jute.DeleteRequest) jute.Code {
	path := borrowString(req.Path)
	if code := checkSplittable(req.Path); code != jute.OK {
		return code
	}
	if isBuiltin(path) {
		return jute.BadArguments
	}
	above, _ := splitPath(path)
	parent := t.state.tree.nodeAt(above)
	switch {
	case parent == nil:
		return jute.NoNode
	case !t.clientMayAccess(parent.acl, jute.PermDelete):
		return jute.NoAuth
	}
	n := t.state.tree.nodeAt(path)
	switch {
	case n == nil:
		return jute.NoNode
	case req.Version != anyVersion && req.Version != n.data.version:
		return jute.BadVersion
	case n.numChildren() > 0:
		return jute.NotEmpty
	}
	t.removeNode(n)
	return jute.OK
}

// removeNode takes a node without children out of the tree.
func (t *transaction) removeNode(n *node) {
	parent := t.editor.unlinkAndEditParent(n)
	parent.pzxid = t.state.zxid
	t.state.tree.addHash(parent)
	t.removals.addPending(n.path)
	t.changes.addNode(NodeDeleted, n)
	t.watches.addPending(notification{
		event: jute.EventNodeDeleted, path: n.path, acl: n.acl, parent: parent.path, parentACL: parent.acl,
	})
	t.quotas.addUsage(n.path, -1, -n.data.len())
}

func (t *transaction) runSetData() {
	var req jute.SetDataRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	var n *node
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code == jute.OK {
		n, t.result.Code = t.setData(&req)
	}
	if t.result.Code == jute.OK {
		t.result.Stat = n.stat()
	}
}

func (t *transaction) setData(req *jute.SetDataRequest) (*node, jute.Code) {
	path := borrowString(req.Path)
	if !jute.ValidPath(path) {
		return nil, jute.BadArguments
	}
	n := t.state.tree.nodeAt(path)
	switch {
	case n == nil:
		return nil, jute.NoNode
	case !t.clientMayAccess(n.acl, jute.PermWrite):
		return nil, jute.NoAuth
	case t.state.term.EnforceQuota && t.quotas.wouldExceedHardLimit(path, 0, int64(len(req.Data)-n.data.len())):
		return nil, jute.QuotaExceeded
	case req.Version != anyVersion && req.Version != n.data.version:
		return nil, jute.BadVersion
	case path != ConfigPath && t.state.wouldExceedDataQuota(len(req.Data)-n.data.len()):
		return nil, jute.NoRoom
	}
	n = t.editor.beginEdit(n)
	more, had := len(req.Data)-n.data.len(), n.data
	t.state.tree.setPackedData(n, packCopy(req.Data))
	n.data.version++
	t.state.tree.changeAndReindex(n.gen, n, func() { n.mzxid, n.mtime = t.state.zxid, t.state.timeMs })
	t.state.tree.addHash(n)
	t.watches.addPending(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
	t.changes.addNode(DataSet, n)
	t.quotas.addUsage(n.path, 0, more)
	t.quotas.restoreIfUsageNode(n, had)
	return n, jute.OK
}

func (t *transaction) runSetACL() {
	var req jute.SetACLRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code != jute.OK {
		return
	}
	path := borrowString(req.Path)
	if !jute.ValidPath(path) {
		t.result.Code = jute.BadArguments
		return
	}
	var list *acl
	if list, t.result.Code = t.acls.resolveList(req.ACL, t.acls.client.identities()); t.result.Code != jute.OK {
		return
	}
	n := t.state.tree.nodeAt(path)
	switch {
	case n == nil:
		t.result.Code = jute.NoNode
	case !t.clientMayAccess(n.acl, jute.PermAdmin):
		t.result.Code = jute.NoAuth
	case req.Version != anyVersion && req.Version != n.aversion:
		t.result.Code = jute.BadVersion
	case list != n.acl && t.state.wouldExceedDataQuota(addedACLBytes(list, n.acl)):
		t.result.Code = jute.NoRoom
	default:
		n = t.editor.beginEdit(n)
		t.watches.aclPending = t.watches.aclPending || list != n.acl
		t.state.tree.releaseACL(n.acl)
		t.state.tree.retainACL(list)
		n.setACL(list, n.aversion+1)
		t.changes.addNode(ACLSet, n)
		t.state.tree.addHash(n)
		t.result.Stat = n.stat()
	}
}

// checkVersion is the operation check of a multi.
func (t *transaction) checkVersion(req *jute.CheckVersionRequest) jute.Code {
	path := borrowString(req.Path)
	if !jute.ValidPath(path) {
		return jute.BadArguments
	}
	n := t.state.tree.nodeAt(path)
	switch {
	case n == nil:
		return jute.NoNode
	case !t.clientMayAccess(n.acl, jute.PermRead):
		return jute.NoAuth
	case req.Version != anyVersion && req.Version != n.data.version:
		return jute.BadVersion
	}
	return jute.OK
}

// mayAccess reports whether one of the identities has any of the permissions on a node with this list.
// Readers call it.
func (r *Rules) mayAccess(a *acl, perms jute.Perm, who []*proto.Identity) bool {
	if r.SkipACL || a.worldPerms&perms != 0 {
		return true
	}
	var k principal
	return k.setIdentities(who).hasAnyPerm(a, perms, r)
}

// clientMayAccess is mayAccess for the client of the running transaction. The operations of a multi share its
// principal.
func (t *transaction) clientMayAccess(a *acl, perms jute.Perm) bool {
	return t.state.term.SkipACL || a.worldPerms&perms != 0 ||
		t.acls.principal.setIdentities(t.acls.client.identities()).hasAnyPerm(a, perms, &t.state.term.Rules)
}

// checkSplittable checks as much of the path of a create or delete as splitPath needs.
func checkSplittable(path []byte) jute.Code {
	switch {
	case path == nil:
		return jute.MarshallingError
	case bytes.IndexByte(path, '/') < 0 || bytes.IndexByte(path, 0) >= 0:
		return jute.BadArguments
	}
	return jute.OK
}
