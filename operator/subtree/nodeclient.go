package subtree

import (
	"context"

	"rollcall/zk/jute"
)

// NodeClient reads and changes the nodes of an ensemble: over a session, or without one inside a member. Paths are the
// servers'. The error of a request wraps the server's code, such as jute.NoNode, or jute.ConnectionLoss if the connection
// broke after the request was sent.
type NodeClient interface {
	Stat(ctx context.Context, path string) (jute.Stat, error) // jute.NoNode: there is no node
	Get(ctx context.Context, path string) ([]byte, jute.Stat, error)
	ACL(ctx context.Context, path string) ([]jute.ACL, jute.Stat, error)
	Children(ctx context.Context, path string) ([]string, jute.Stat, error)
	SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (jute.Stat, error)

	// Write makes all writes or none.
	Write(ctx context.Context, writes []NodeWrite) error

	// AwaitConnected waits until requests can be sent.
	AwaitConnected(ctx context.Context) error

	// SendDelete sends a request to delete a node of any version. Requests are processed in the order of the calls.
	// Unless SendDelete returns an error or the reply is lost, done is called once. It must not block. Without a
	// connection, the error wraps jute.ConnectionLoss, too.
	SendDelete(ctx context.Context, path string, done func(error)) error
}

// NodeWrite creates a node, or sets the data of one.
type NodeWrite struct {
	Record
	NodeExists bool // only its data are set
}

// AnyVersion in a request matches any version of the node.
const AnyVersion = -1

// MultiOp returns the write as an operation of a multi, for a server's log.
func (w *NodeWrite) MultiOp() jute.MultiOp {
	path := []byte(w.Path)
	if w.NodeExists {
		return jute.MultiOp{
			Op:      jute.OpSetData,
			SetData: jute.SetDataRequest{Path: path, Data: w.Data, Version: AnyVersion},
		}
	}
	op := jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: path, Data: w.Data, ACL: w.ACL}}
	switch {
	case w.Container:
		op.Op, op.Create.Flags = jute.OpCreateContainer, jute.Container
	case w.TTL != 0:
		op.Op, op.Create.Flags, op.TTL = jute.OpCreateTTL, jute.PersistentWithTTL, w.TTL
	}
	return op
}
