package shell

import (
	"context"
	"slices"

	"rollcall/zk/jute"
)

// nodeRequests sends requests about nodes, given their paths in the shell. Paths are checked before anything is sent, as zkCli.sh
// does.
type nodeRequests struct{ session *session }

// createNode creates a node, and returns its path in the shell.
func (n *nodeRequests) createNode(ctx context.Context, path string, data []byte, acl []jute.ACL, mode jute.CreateMode, ttl int64) (string, error) {
	if len(acl) == 0 {
		return "", &requestError{code: jute.InvalidACL}
	}
	rec := jute.CreateRequest{Path: []byte(n.session.space.FullPath(path)), Data: data, ACL: acl, Flags: mode}
	var made jute.Create2Response
	var err error
	switch {
	case mode.IsTTL():
		err = n.session.sendRequest(ctx, jute.OpCreateTTL, path, jute.CreateTTLRequest{CreateRequest: rec, TTL: ttl}, &made)
	case mode.IsContainer():
		err = n.session.sendRequest(ctx, jute.OpCreateContainer, path, rec, &made)
	default:
		var name jute.CreateResponse
		err = n.session.sendRequest(ctx, jute.OpCreate, path, rec, &name)
		made.Path = name.Path
	}
	return n.session.space.ShortPath(string(made.Path)), err
}

// getData returns a node's data and Stat.
func (n *nodeRequests) getData(ctx context.Context, path string, watch bool) ([]byte, jute.Stat, error) {
	if err := checkPath(path); err != nil {
		return nil, jute.Stat{}, err
	}
	var got jute.GetDataResponse
	rec := jute.GetDataRequest{Path: []byte(n.session.space.FullPath(path)), Watch: watch}
	err := n.session.sendWatchRequest(ctx, watchKindIf(watch, watchData), jute.OpGetData, path, rec, &got)
	return got.Data, got.Stat, err
}

// listChildren returns the names of a node's children, sorted, and its Stat.
func (n *nodeRequests) listChildren(ctx context.Context, path string, watch bool) ([]string, jute.Stat, error) {
	if err := checkPath(path); err != nil {
		return nil, jute.Stat{}, err
	}
	var got jute.GetChildren2Response
	rec := jute.GetChildrenRequest{Path: []byte(n.session.space.FullPath(path)), Watch: watch}
	err := n.session.sendWatchRequest(ctx, watchKindIf(watch, watchChild), jute.OpGetChildren2, path, rec, &got)
	names := make([]string, len(got.Children))
	for i, name := range got.Children {
		names[i] = string(name)
	}
	slices.Sort(names)
	return names, got.Stat, err
}

// statNode returns a node's Stat.
func (n *nodeRequests) statNode(ctx context.Context, path string, watch bool) (jute.Stat, error) {
	if err := checkPath(path); err != nil {
		return jute.Stat{}, err
	}
	var got jute.ExistsResponse
	rec := jute.ExistsRequest{Path: []byte(n.session.space.FullPath(path)), Watch: watch}
	err := n.session.sendWatchRequest(ctx, watchKindIf(watch, watchExist), jute.OpExists, path, rec, &got)
	return got.Stat, err
}

func (n *nodeRequests) setData(ctx context.Context, path string, data []byte, version int32) (jute.Stat, error) {
	if err := checkPath(path); err != nil {
		return jute.Stat{}, err
	}
	var got jute.SetDataResponse
	rec := jute.SetDataRequest{Path: []byte(n.session.space.FullPath(path)), Data: data, Version: version}
	err := n.session.sendRequest(ctx, jute.OpSetData, path, rec, &got)
	return got.Stat, err
}

func (n *nodeRequests) deleteNode(ctx context.Context, path string, version int32) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return n.session.sendRequest(ctx, jute.OpDelete, path, jute.DeleteRequest{Path: []byte(n.session.space.FullPath(path)), Version: version}, nil)
}

// visitSubtree calls do with a node and all below it. The children of a node come together, and the nodes
// below them follow. Nodes that disappear meanwhile are left out.
func (n *nodeRequests) visitSubtree(ctx context.Context, path string, watch bool, do func(path string) error) error {
	if _, _, err := n.getData(ctx, path, watch); err != nil {
		return err
	}
	if err := do(path); err != nil {
		return err
	}
	return n.visitDescendants(ctx, path, watch, do)
}

func (n *nodeRequests) visitDescendants(ctx context.Context, path string, watch bool, do func(path string) error) error {
	names, _, err := n.listChildren(ctx, path, watch)
	if failedWith(err, jute.NoNode) {
		return nil
	}
	for _, name := range names {
		if err := do(joinPath(path, name)); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := n.visitDescendants(ctx, joinPath(path, name), watch, do); err != nil {
			return err
		}
	}
	return err
}

func (n *nodeRequests) setACL(ctx context.Context, path string, acl []jute.ACL, version int32) (jute.Stat, error) {
	if err := checkPath(path); err != nil {
		return jute.Stat{}, err
	}
	if len(acl) == 0 {
		return jute.Stat{}, &requestError{code: jute.InvalidACL}
	}
	var got jute.SetACLResponse
	err := n.session.sendRequest(ctx, jute.OpSetACL, path, jute.SetACLRequest{Path: []byte(n.session.space.FullPath(path)), ACL: acl, Version: version}, &got)
	return got.Stat, err
}

// ensureNode creates a node unless it exists.
func (n *nodeRequests) ensureNode(ctx context.Context, path string, data []byte) error {
	_, err := n.statNode(ctx, path, false)
	if !failedWith(err, jute.NoNode) {
		return err
	}
	_, err = n.createNode(ctx, path, data, jute.OpenACL, jute.Persistent, 0)
	if failedWith(err, jute.NodeExists) {
		return nil
	}
	return err
}

func watchKindIf(watch bool, kind watchKind) watchKind {
	if watch {
		return kind
	}
	return 0
}
