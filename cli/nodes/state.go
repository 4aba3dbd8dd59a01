package nodes

import (
	"context"
	"errors"
	"slices"

	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// OfState returns the nodes of a state below a root. Nothing may change the state meanwhile. Its reads need no permission, since
// the caller has the whole state. It has no Client, and changes nothing.
func OfState(s *znode.State, root string) Space {
	return Space{Space: subtree.Space{Nodes: stateNodes{s.TreeView()}, Root: root}}
}

// stateNodes is the subtree.NodeClient of a state.
type stateNodes struct{ tree znode.TreeView }

// everyPermission is an identity that may read every node.
var everyPermission = []*proto.Identity{{Scheme: "super"}}

var errReadOnlyState = errors.New("a state of the past can only be read")

// readError returns the error of the client for a code.
func readError(op jute.Op, path string, code jute.Code) error {
	if code == jute.OK {
		return nil
	}
	return &client.Error{Op: op.String(), Path: path, Err: code}
}

// Stat implements subtree.NodeClient.
func (n stateNodes) Stat(_ context.Context, path string) (jute.Stat, error) {
	_, stat, code := n.tree.GetData([]byte(path), everyPermission)
	return stat, readError(jute.OpExists, path, code)
}

// Get implements subtree.NodeClient.
func (n stateNodes) Get(_ context.Context, path string) ([]byte, jute.Stat, error) {
	data, stat, code := n.tree.GetData([]byte(path), everyPermission)
	return data, stat, readError(jute.OpGetData, path, code)
}

// Children implements subtree.NodeClient.
func (n stateNodes) Children(ctx context.Context, path string) ([]string, jute.Stat, error) {
	names, code := n.tree.Children([]byte(path), everyPermission)
	if code != jute.OK {
		return nil, jute.Stat{}, readError(jute.OpGetChildren, path, code)
	}
	stat, err := n.Stat(ctx, path)
	return slices.Collect(names.All()), stat, err
}

// ACL implements subtree.NodeClient. It shows no list: those of a state have the hashes of passwords.
func (stateNodes) ACL(context.Context, string) ([]jute.ACL, jute.Stat, error) {
	return nil, jute.Stat{}, errors.New("access control lists of the past are not shown: they have the hashes of passwords")
}

// SetACL implements subtree.NodeClient.
func (stateNodes) SetACL(context.Context, string, []jute.ACL, int32) (jute.Stat, error) {
	return jute.Stat{}, errReadOnlyState
}

// Write implements subtree.NodeClient.
func (stateNodes) Write(context.Context, []subtree.NodeWrite) error { return errReadOnlyState }

// AwaitConnected implements subtree.NodeClient.
func (stateNodes) AwaitConnected(context.Context) error { return nil }

// SendDelete implements subtree.NodeClient.
func (stateNodes) SendDelete(context.Context, string, func(error)) error { return errReadOnlyState }
