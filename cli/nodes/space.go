// Package nodes reads and changes the nodes of an ensemble over a session of package client:
//
//   - Space: a session and its root. Its embedded subtree.Space works on whole subtrees.
//   - StatRecord: a Stat as package subtree has it.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// Space is a session whose paths are below Root, like a ZooKeeper client with a chroot. It is safe for
// concurrent use. Make one with New.
type Space struct {
	subtree.Space
	Client *client.Client
}

// New returns the space below root of a session. The Client must fail while it is suspended; the Space waits.
func New(c *client.Client, root string) Space {
	return Space{Space: subtree.Space{Nodes: sessionNodes{c: c}, Root: root}, Client: c}
}

// Watching returns the same space with a Stat, Get and Children that set watches, whose events Config.OnEvent gets.
func (s Space) Watching() Space {
	s.Nodes = sessionNodes{c: s.Client, watch: true, noRetry: s.NoRetry}
	return s
}

// WithoutRetry returns the same space with reads that fail with client.ErrConnectionLost when their connection breaks,
// and requests that fail with client.ErrSuspended without a connection. In other spaces a read is sent again, and a
// request waits for a connection.
func (s Space) WithoutRetry() Space {
	s.NoRetry, s.Nodes = true, sessionNodes{c: s.Client, noRetry: true}
	return s
}

// SendOnce calls a function that sends a change, once. The error wraps subtree.ErrNoReply if no server has replied, and
// client.ErrConnectionLost if the connection broke; the change may have been made then.
func (s Space) SendOnce(ctx context.Context, change func(context.Context) error) error {
	return s.Space.SendOnce(ctx, func(ctx context.Context) error {
		return whenConnected(ctx, s.Client, s.NoRetry, change)
	})
}

// The changes below are sent by SendOnce. Version -1 matches any version.

// Create creates a node and returns its path in the space, to which a sequential mode appends a number. If acl is nil,
// everyone has every permission.
func (s Space) Create(ctx context.Context, path string, data []byte, mode client.Mode, acl []jute.ACL) (made string, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		made, _, err = s.Client.Create(ctx, s.FullPath(path), data, mode.WithACL(clientACL(acl)...))
		return err
	})
	return s.TrimRoot(made), err
}

// Mode returns the mode of a node. A container has no number in its name. If life is 0, the node has no time to live.
func Mode(ephemeral, sequential, container bool, life time.Duration) client.Mode {
	mode := client.Persistent
	switch {
	case container:
		return client.Container
	case ephemeral && sequential:
		return client.EphemeralSequential
	case ephemeral:
		return client.Ephemeral
	case sequential:
		mode = client.PersistentSequential
	}
	if life != 0 {
		mode = mode.WithTTL(life)
	}
	return mode
}

// Set sets the data of a node.
func (s Space) Set(ctx context.Context, path string, data []byte, version int32) (jute.Stat, error) {
	var stat client.Stat
	err := s.SendOnce(ctx, func(ctx context.Context) (err error) {
		stat, err = s.Client.Set(ctx, s.FullPath(path), data, version)
		return err
	})
	return StatRecord(stat), err
}

// Delete deletes a node without children.
func (s Space) Delete(ctx context.Context, path string, version int32) error {
	return s.SendOnce(ctx, func(ctx context.Context) error { return s.Client.Delete(ctx, s.FullPath(path), version) })
}

// Multi carries out all changes or none. Their paths are the servers'. The error is that of the operation that failed.
func (s Space) Multi(ctx context.Context, ops []client.Operation) error {
	return s.SendOnce(ctx, func(ctx context.Context) error { return sendMulti(ctx, s.Client, ops) })
}

// Sync waits until the server has applied everything written before the call, and returns the zxid of that.
func (s Space) Sync(ctx context.Context, path string) (client.Zxid, error) {
	err := s.SendIdempotent(ctx, func(ctx context.Context) error {
		return whenConnected(ctx, s.Client, s.NoRetry, s.Client.Sync)
	})
	if failed, ok := errors.AsType[*client.Error](err); ok {
		failed.Path = s.FullPath(path)
	}
	return s.Client.LastZxid(), err
}

// Dump is subtree.Space.Dump after a Sync, which is the moment that the dump counts later changes from.
func (s Space) Dump(ctx context.Context, w io.Writer, top string, how subtree.DumpOptions) (subtree.Summary, error) {
	zxid, err := s.Sync(ctx, top)
	if err != nil {
		return subtree.Summary{}, fmt.Errorf("sync: %w", err)
	}
	how.BeginZxid = int64(zxid)
	return s.Space.Dump(ctx, w, top, how)
}
