package nodes

import (
	"context"
	"errors"
	"time"

	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// sessionNodes is the subtree.NodeClient of a session.
type sessionNodes struct {
	c       *client.Client
	watch   bool // reads set watches
	noRetry bool
}

// whenConnected calls a function that sends a request. While there is no connection it waits for one, unless noRetry is
// set.
func whenConnected(ctx context.Context, c *client.Client, noRetry bool, call func(context.Context) error) error {
	for {
		err := call(ctx)
		failed, ok := errors.AsType[*client.Error](err)
		if !ok || noRetry || !errors.Is(err, client.ErrSuspended) {
			return err
		}
		if err := c.AwaitConnected(ctx); err != nil {
			return &client.Error{Op: failed.Op, Path: failed.Path, Err: err}
		}
	}
}

func (n sessionNodes) send(ctx context.Context, call func(context.Context) error) error {
	return whenConnected(ctx, n.c, n.noRetry, call)
}

// Stat implements subtree.NodeClient.
func (n sessionNodes) Stat(ctx context.Context, path string) (jute.Stat, error) {
	var stat client.Stat
	err := n.send(ctx, func(ctx context.Context) (err error) {
		var exists bool
		if n.watch {
			stat, exists, _, err = n.c.ExistsWatch(ctx, path)
		} else {
			stat, exists, err = n.c.Exists(ctx, path)
		}
		if err == nil && !exists {
			err = &client.Error{Op: jute.OpExists.String(), Path: path, Err: client.ErrNoNode}
		}
		return err
	})
	return StatRecord(stat), err
}

// Get implements subtree.NodeClient.
func (n sessionNodes) Get(ctx context.Context, path string) (data []byte, _ jute.Stat, err error) {
	var stat client.Stat
	err = n.send(ctx, func(ctx context.Context) error {
		if n.watch {
			data, stat, _, err = n.c.GetWatch(ctx, path)
		} else {
			data, stat, err = n.c.Get(ctx, path)
		}
		return err
	})
	return data, StatRecord(stat), err
}

// ACL implements subtree.NodeClient.
func (n sessionNodes) ACL(ctx context.Context, path string) ([]jute.ACL, jute.Stat, error) {
	var list []client.ACL
	var stat client.Stat
	err := n.send(ctx, func(ctx context.Context) (err error) {
		list, stat, err = n.c.GetACL(ctx, path)
		return err
	})
	return aclRecords(list), StatRecord(stat), err
}

// Children implements subtree.NodeClient.
func (n sessionNodes) Children(ctx context.Context, path string) (names []string, _ jute.Stat, err error) {
	var stat client.Stat
	err = n.send(ctx, func(ctx context.Context) error {
		if n.watch {
			names, stat, _, err = n.c.ChildrenWatch(ctx, path)
		} else {
			names, stat, err = n.c.Children(ctx, path)
		}
		return err
	})
	return names, StatRecord(stat), err
}

// SetACL implements subtree.NodeClient.
func (n sessionNodes) SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (jute.Stat, error) {
	var stat client.Stat
	err := n.send(ctx, func(ctx context.Context) (err error) {
		stat, err = n.c.SetACL(ctx, path, clientACL(acl), version)
		return err
	})
	return StatRecord(stat), err
}

// Write implements subtree.NodeClient.
func (n sessionNodes) Write(ctx context.Context, writes []subtree.NodeWrite) error {
	ops := make([]client.Operation, len(writes))
	for i, w := range writes {
		if w.NodeExists {
			ops[i] = client.SetOp(w.Path, w.Data, client.AnyVersion)
		} else {
			mode := Mode(false, false, w.Container, time.Duration(w.TTL)*time.Millisecond)
			ops[i] = client.CreateOp(w.Path, w.Data, mode.WithACL(clientACL(w.ACL)...))
		}
	}
	return n.send(ctx, func(ctx context.Context) error { return sendMulti(ctx, n.c, ops) })
}

// sendMulti sends a multi. The error is that of the operation that failed it.
func sendMulti(ctx context.Context, c *client.Client, ops []client.Operation) error {
	_, err := c.Multi(ctx, ops...)
	if failed, ok := errors.AsType[*client.MultiError](err); ok {
		return &client.Error{Op: failed.Op, Path: failed.Path, Err: failed.Err}
	}
	return err
}

// AwaitConnected implements subtree.NodeClient.
func (n sessionNodes) AwaitConnected(ctx context.Context) error { return n.c.AwaitConnected(ctx) }

// SendDelete implements subtree.NodeClient.
func (n sessionNodes) SendDelete(ctx context.Context, path string, done func(error)) error {
	return lostOrOther(n.c.Pipeline().Delete(ctx, path, client.AnyVersion, func(err error) { done(lostOrOther(err)) }))
}

// lostOrOther returns client.ErrConnectionLost if the connection broke before or after the request was sent, and other
// errors unchanged.
func lostOrOther(err error) error {
	if errors.Is(err, client.ErrSuspended) || errors.Is(err, client.ErrConnectionLost) {
		return client.ErrConnectionLost
	}
	return err
}

// clientACL returns a list for a call of the client. It returns nil for nil, which is a list of its own there.
func clientACL(records []jute.ACL) []client.ACL {
	if records == nil {
		return nil
	}
	list := make([]client.ACL, len(records))
	for i, r := range records {
		list[i] = client.ACL{
			Permissions: client.Permission(r.Perms),
			Identity:    client.Identity{Scheme: string(r.ID.Scheme), ID: string(r.ID.ID)},
		}
	}
	return list
}

// aclRecords is the inverse of clientACL.
func aclRecords(list []client.ACL) []jute.ACL {
	records := make([]jute.ACL, len(list))
	for i, a := range list {
		records[i] = jute.ACL{
			Perms: jute.Perm(a.Permissions),
			ID:    jute.ID{Scheme: []byte(a.Identity.Scheme), ID: []byte(a.Identity.ID)},
		}
	}
	return records
}

// StatRecord returns the Stat of a node as servers send it.
func StatRecord(s client.Stat) jute.Stat {
	return jute.Stat{
		Czxid: int64(s.Created), Mzxid: int64(s.Changed), Pzxid: int64(s.ChildrenChanged), Ctime: s.CreatedMs, Mtime: s.ChangedMs,
		Version: s.Version, Cversion: s.ChildrenVersion, Aversion: s.ACLVersion,
		EphemeralOwner: jute.SessionID(s.Owner), DataLength: int32(s.DataLength), NumChildren: int32(s.NumChildren),
	}
}
