package subtree

import (
	"context"
	"errors"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// NodeClient reads and changes the nodes of an ensemble: over the session of a Space, or without one inside a member.
// Paths are the servers'. The errors of requests are *client.Error. Sync and Dump need a Space's Client.
type NodeClient interface {
	Stat(ctx context.Context, path string) (client.Stat, error) // client.ErrNoNode: there is no node
	Get(ctx context.Context, path string) ([]byte, client.Stat, error)
	ACL(ctx context.Context, path string) ([]client.ACL, client.Stat, error)
	Children(ctx context.Context, path string) ([]string, client.Stat, error)
	SetACL(ctx context.Context, path string, acl []client.ACL, version int32) (client.Stat, error)

	// Write makes all writes or none.
	Write(ctx context.Context, writes []NodeWrite) error

	// AwaitConnected waits until requests can be sent.
	AwaitConnected(ctx context.Context) error

	// SendDelete sends a request to delete a node of any version. Requests are processed in the order of the calls.
	// Unless SendDelete returns an error or the reply is lost, done is called once. It must not block.
	SendDelete(ctx context.Context, path string, done func(error)) error
}

// NodeWrite creates a node, or sets the data of one.
type NodeWrite struct {
	Record
	NodeExists bool // only its data are set
}

// opNames are the names of operations in errors that a walk keeps for later.
var opNames = struct{ getData, getChildren, exists string }{
	getData: jute.OpGetData.String(), getChildren: jute.OpGetChildren2.String(), exists: jute.OpExists.String(),
}

// sessionNodes is the NodeClient of a session.
type sessionNodes struct {
	c     *client.Client
	watch bool // reads set watches, whose events Config.OnEvent gets
}

// Stat implements NodeClient.
func (n sessionNodes) Stat(ctx context.Context, path string) (client.Stat, error) {
	var stat client.Stat
	var exists bool
	var err error
	if n.watch {
		stat, exists, _, err = n.c.ExistsWatch(ctx, path)
	} else {
		stat, exists, err = n.c.Exists(ctx, path)
	}
	if err == nil && !exists {
		err = &client.Error{Op: opNames.exists, Path: path, Err: client.ErrNoNode}
	}
	return stat, err
}

// Get implements NodeClient.
func (n sessionNodes) Get(ctx context.Context, path string) (data []byte, stat client.Stat, err error) {
	if n.watch {
		data, stat, _, err = n.c.GetWatch(ctx, path)
		return data, stat, err
	}
	return n.c.Get(ctx, path)
}

// ACL implements NodeClient.
func (n sessionNodes) ACL(ctx context.Context, path string) ([]client.ACL, client.Stat, error) {
	return n.c.GetACL(ctx, path)
}

// Children implements NodeClient.
func (n sessionNodes) Children(ctx context.Context, path string) (names []string, stat client.Stat, err error) {
	if n.watch {
		names, stat, _, err = n.c.ChildrenWatch(ctx, path)
		return names, stat, err
	}
	return n.c.Children(ctx, path)
}

// SetACL implements NodeClient.
func (n sessionNodes) SetACL(ctx context.Context, path string, acl []client.ACL, version int32) (client.Stat, error) {
	return n.c.SetACL(ctx, path, acl, version)
}

// Write implements NodeClient.
func (n sessionNodes) Write(ctx context.Context, writes []NodeWrite) error {
	ops := make([]client.Operation, len(writes))
	for i, w := range writes {
		if w.NodeExists {
			ops[i] = client.SetOp(w.Path, w.Data, client.AnyVersion)
		} else {
			ops[i] = client.CreateOp(w.Path, w.Data, w.mode())
		}
	}
	return sendMulti(ctx, n.c, ops)
}

func (r *Record) mode() client.Mode {
	mode := client.Persistent
	switch {
	case r.Container:
		mode = client.Container
	case r.TTL != 0:
		mode = mode.WithTTL(time.Duration(r.TTL) * time.Millisecond)
	}
	return mode.WithACL(r.ACL...)
}

// sendMulti sends a multi. The error is that of the operation that failed it.
func sendMulti(ctx context.Context, c *client.Client, ops []client.Operation) error {
	_, err := c.Multi(ctx, ops...)
	if failed, ok := errors.AsType[*client.MultiError](err); ok {
		return &client.Error{Op: failed.Op, Path: failed.Path, Err: failed.Err}
	}
	return err
}

// AwaitConnected implements NodeClient.
func (n sessionNodes) AwaitConnected(ctx context.Context) error { return n.c.AwaitConnected(ctx) }

// SendDelete implements NodeClient.
func (n sessionNodes) SendDelete(ctx context.Context, path string, done func(error)) error {
	return n.c.Pipeline().Delete(ctx, path, client.AnyVersion, done)
}
