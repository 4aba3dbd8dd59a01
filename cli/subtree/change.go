package subtree

import (
	"context"
	"time"

	client "rollcall/client/before"
	"rollcall/zk/jute"
)

// The changes of a Space are sent once. Their error wraps ErrNoReply if no server has replied, and
// client.ErrConnectionLost if the connection broke; the change may have been made then. Version -1 matches any version.

// Create creates a node and returns its path in the space, to which a sequential mode appends a number. ttl is
// for modes with a time to live.
func (s Space) Create(ctx context.Context, path string, data []byte, mode jute.CreateMode, acl []jute.ACL,
	ttl time.Duration,
) (made string, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		if mode.IsTTL() {
			made, err = s.Client.CreateTTL(ctx, s.FullPath(path), data, mode, acl, ttl)
		} else {
			made, err = s.Client.Create(ctx, s.FullPath(path), data, mode, acl)
		}
		return err
	})
	return s.TrimRoot(made), err
}

// Set sets the data of a node.
func (s Space) Set(ctx context.Context, path string, data []byte, version int32) (stat jute.Stat, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		stat, err = s.Client.Set(ctx, s.FullPath(path), data, version)
		return err
	})
	return stat, err
}

// SetACL sets the access control list of a node. version is that of the list.
func (s Space) SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (stat jute.Stat, err error) {
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

// Multi carries out all changes or none. Their paths are the servers'.
func (s Space) Multi(ctx context.Context, ops []jute.MultiOp) error {
	return s.SendOnce(ctx, func(ctx context.Context) error {
		_, err := s.nodeClient().Multi(ctx, ops)
		return err
	})
}

// Do sends a request that has no method of its own, and decodes the reply into into, unless that is nil.
func (s Space) Do(ctx context.Context, op jute.Op, request client.Record, into client.Readable) error {
	return s.SendOnce(ctx, func(ctx context.Context) error {
		_, err := s.Client.Do(ctx, op, request, into)
		return err
	})
}
