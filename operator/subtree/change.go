package subtree

import (
	"context"

	"rollcall/client"
)

// The changes of a Space are sent once. Their error wraps ErrNoReply if no server has replied, and
// client.ErrConnectionLost if the connection broke; the change may have been made then. Version -1 matches any version.

// Create creates a node and returns its path in the space, to which a sequential mode appends a number.
func (s Space) Create(ctx context.Context, path string, data []byte, mode client.Mode) (made string, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		made, _, err = s.Client.Create(ctx, s.FullPath(path), data, mode)
		return err
	})
	return s.TrimRoot(made), err
}

// Set sets the data of a node.
func (s Space) Set(ctx context.Context, path string, data []byte, version int32) (stat client.Stat, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		stat, err = s.Client.Set(ctx, s.FullPath(path), data, version)
		return err
	})
	return stat, err
}

// SetACL sets the access control list of a node. version is that of the list.
func (s Space) SetACL(ctx context.Context, path string, acl []client.ACL, version int32) (stat client.Stat, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		stat, err = s.nodeClient().SetACL(ctx, s.FullPath(path), acl, version)
		return err
	})
	return stat, err
}

// Delete deletes a node without children.
func (s Space) Delete(ctx context.Context, path string, version int32) error {
	return s.SendOnce(ctx, func(ctx context.Context) error { return s.Client.Delete(ctx, s.FullPath(path), version) })
}

// Multi carries out all changes or none. Their paths are the servers'. The error is that of the operation that failed.
func (s Space) Multi(ctx context.Context, ops []client.Operation) error {
	return s.SendOnce(ctx, func(ctx context.Context) error { return sendMulti(ctx, s.Client, ops) })
}

// writeAll makes all writes or none.
func (s Space) writeAll(ctx context.Context, writes []NodeWrite) error {
	return s.SendOnce(ctx, func(ctx context.Context) error { return s.nodeClient().Write(ctx, writes) })
}
