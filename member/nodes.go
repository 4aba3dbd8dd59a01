package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"rollcall/operator/admin"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// callerIdentities returns the identities of a caller over HTTP for ACLs. An administrator is the super user, with any
// credentials.
func callerIdentities(c admin.Caller) []*proto.Identity {
	var who []*proto.Identity
	if c.Host != "" {
		who = append(who, &proto.Identity{Scheme: "ip", Id: c.Host})
	}
	if c.IsAdministrator {
		who = append(who, &proto.Identity{Scheme: "super"})
	}
	return who
}

// errNotServing is the reply about nodes while this member serves no clients: its state may be old or wrong.
var errNotServing = &admin.Failure{
	Status: http.StatusServiceUnavailable,
	Text:   "this member serves no clients at the moment; /readyz says why",
}

// ReadNode implements admin.Operations. It reads everything under one hold of the tree's lock, as short as a
// listing's, and copies neither data nor names.
func (o operations) ReadNode(q admin.NodeQuery) (n admin.Node, err error) {
	if !o.m.servesAllClients() {
		return n, errNotServing
	}
	path, who := []byte(q.Path), callerIdentities(q.Caller)
	tree := o.m.state
	tree.RLock()
	defer tree.RUnlock()
	var code jute.Code
	if n.Data, n.Stat, code = tree.GetData(path, who, nil); code != jute.OK {
		return n, nodeFailure(code, q.Path)
	}
	if n.ACL, _, code = tree.GetACL(path, who); code != jute.OK {
		return n, nodeFailure(code, q.Path)
	}
	n.Children, n.MoreChildren, code = tree.TreeView().ChildrenAfter(path, q.AfterChild, q.Limit, view.MaxBytes, who)
	if code != jute.OK {
		return n, nodeFailure(code, q.Path)
	}
	return n, nil
}

// ChangeNode implements admin.Operations. The change is a write of the super user without a session. It is
// submitted like a client's write, and is in the log once.
func (o operations) ChangeNode(ctx context.Context, c admin.NodeChange) (path string, stat jute.Stat, err error) {
	m, body := o.m, nodeChangeBody(c)
	ids := callerIdentities(admin.Caller{Host: c.CallerHost, IsAdministrator: true})
	switch most := m.server.Limits().MaxBuffer; {
	case !m.servesAllClients():
		return "", stat, errNotServing
	case m.server.WriteLimits().RejectForMemory(c.Op, body, ids):
		return "", stat, errNoMemory
	case len(body) > most:
		return "", stat, &admin.Failure{
			Status: http.StatusRequestEntityTooLarge,
			Text:   fmt.Sprintf("the change has %d bytes, and jute.maxbuffer limits requests to %d", len(body), most),
		}
	}
	lists, code := m.server.WriteLimits().CheckCost(c.Op, body, ids)
	if code != jute.OK {
		return "", stat, nodeFailure(code, c.Path)
	}
	if err := m.follower.AwaitSync(ctx); err != nil {
		return "", stat, errNothingDone
	}
	r, err := submitAndWait(ctx, m.follower, &proto.Txn{Op: int32(c.Op), Body: body, Ids: ids, AclBytes: lists})
	switch {
	case errors.Is(err, ErrNotConfirmed):
		return "", stat, submitFailure(err, "look at the node")
	case err != nil:
		return "", stat, errNothingDone
	case r.Code != jute.OK:
		return "", stat, nodeFailure(r.Code, c.Path)
	case c.Op == jute.OpCreate:
		return r.Path, r.Stat, nil
	}
	return c.Path, r.Stat, nil
}

// errNoMemory is the reply to a change that adds data while this member is short of memory.
var errNoMemory = &admin.Failure{
	Status: http.StatusServiceUnavailable,
	Text:   "this member is short of memory and rejects writes that add data; delete nodes, or give it more memory",
}

// errNothingDone is the reply to a change that was not sent to a leader.
var errNothingDone = &admin.Failure{
	Status: http.StatusServiceUnavailable,
	Text:   "no leader has replied; nothing was done: try again when /v1/status shows a leader",
}

// nodeChangeBody returns the record of a client's request for a change.
func nodeChangeBody(c admin.NodeChange) []byte {
	path := []byte(c.Path)
	switch c.Op {
	case jute.OpCreate:
		return jute.CreateRequest{Path: path, Data: c.Data, ACL: c.ACL, Flags: c.Mode}.Append(nil)
	case jute.OpSetData:
		return jute.SetDataRequest{Path: path, Data: c.Data, Version: c.Version}.Append(nil)
	default:
		return jute.DeleteRequest{Path: path, Version: c.Version}.Append(nil)
	}
}

// nodeFailure converts a result code to an error for an operator.
func nodeFailure(code jute.Code, path string) error {
	for _, row := range nodeFailureReplies {
		if code == row.code {
			return &admin.Failure{Status: row.status, Text: fmt.Sprintf("%.300s: %s", path, row.text)}
		}
	}
	return &admin.Failure{
		Status: http.StatusConflict,
		Text:   fmt.Sprintf("%.300s: the ensemble rejects this: %v", path, code.Err()),
	}
}

var nodeFailureReplies = []struct {
	code   jute.Code
	status int
	text   string
}{
	{jute.NoNode, http.StatusNotFound, "there is no such node; to create one its parent must be there"},
	{jute.NoAuth, http.StatusForbidden, "its ACL does not let you read it; sign in as an administrator"},
	{jute.BadVersion, http.StatusConflict, "its version is another one: it was changed meanwhile"},
	{jute.NodeExists, http.StatusConflict, "there is such a node already"},
	{jute.NotEmpty, http.StatusConflict, "it has children; delete them first"},
	{jute.NoChildrenForEphemerals, http.StatusConflict, "its parent is ephemeral and can have no children"},
	{jute.QuotaExceeded, http.StatusConflict, "a hard quota of this node or of one above it is used up, so writes that add to it are rejected"},
	{jute.NoRoom, http.StatusConflict, "the data quota is used up, so writes that add data are rejected: delete nodes, or raise dataQuota"},
	{
		jute.InvalidACL, http.StatusBadRequest,
		"the acl is not allowed: an entry has the scheme world, digest, ip, sasl or x509, and an id that fits it",
	},
	{jute.BadArguments, http.StatusBadRequest, "this node cannot be created or deleted"},
	{
		jute.Unimplemented, http.StatusConflict,
		"a node with a time to live needs extendedTypesEnabled=true in the configuration of all members",
	},
}
