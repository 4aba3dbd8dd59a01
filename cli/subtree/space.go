// Package subtree works on whole subtrees of an ensemble, over ZooKeeper's protocol or inside a member:
//
//   - Space: a session, and the node that its paths begin at.
//   - Space.Walk: visits a subtree in order, with many requests in flight.
//   - Space.Dump, Check and Space.Load: a subtree as a JSON document, and back.
//   - Space.FromBackup and Space.LoadFrom: a subtree of a backup into an ensemble.
//   - Space.Remove: deletes a subtree.
//   - Usage: sums up nodes and bytes by subtree.
//   - ParseACL: a list of permissions from its text.
//
// None of it is atomic: a subtree that others change meanwhile is seen, copied or deleted as each of its
// nodes is when its turn comes. Memory does not grow with the number of nodes, but with the number of
// children of one node.
package subtree

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Space is a session whose paths are below Root, as with a ZooKeeper client whose list of servers ends in
// a path. It is safe for concurrent use.
type Space struct {
	Client *client.Client
	Nodes  NodeClient // where the nodes are read and changed; nil: by Client
	Root   string     // "": paths are as the servers have them
	// OnWait, unless it is nil, is called when a request is sent, and over when that has its answer.
	OnWait func() (over func())
}

// NodeClient are the nodes of an ensemble, for whoever has no session: a member that works for an administrator. A client.Client
// has these methods. Sync and Dump need a Client.
type NodeClient interface {
	Exists(ctx context.Context, path string, watch bool) (jute.Stat, error) // watch is false here and below
	Get(ctx context.Context, path string, watch bool) ([]byte, jute.Stat, error)
	GetACL(ctx context.Context, path string) ([]jute.ACL, jute.Stat, error)
	Children(ctx context.Context, path string, watch bool) ([]string, jute.Stat, error)
	SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (jute.Stat, error)
	Multi(ctx context.Context, ops []jute.MultiOp) ([]client.MultiResult, error) // the results are not used

	// Ready waits until requests can be sent.
	Ready(ctx context.Context) error
	// Go sends a request. The requests are carried out in the order of the calls. If the error is nil, done is called once,
	// unless the answer is lost. It must not block.
	Go(ctx context.Context, op jute.Op, rec client.Record, done func(client.Reply, error)) error
}

// nodeClient returns where the nodes are.
func (s Space) nodeClient() NodeClient {
	if s.Nodes != nil {
		return s.Nodes
	}
	return s.Client
}

// FullPath returns a path of the space as the servers have it.
func (s Space) FullPath(path string) string {
	switch {
	case s.Root == "":
		return path
	case path == "/":
		return s.Root
	}
	return s.Root + path
}

// ShortPath returns a path of the servers as the space has it. A path that is not below Root is returned as
// it is.
func (s Space) ShortPath(full string) string {
	rest, below := strings.CutPrefix(full, s.Root)
	switch {
	case s.Root == "" || !below:
		return full
	case rest == "":
		return "/"
	case rest[0] == '/':
		return rest
	}
	return full
}

// RelativePath returns a path of the servers as the space has it. In a path that is not below Root, each ".."
// stands for the node above, so that it cannot be taken for one that is: no node has this name.
func (s Space) RelativePath(full string) string {
	if s.Root == "" {
		return full
	}
	up, above := "", s.Root
	for above != "/" && !IsBelow(full, above) {
		up, above = up+"/..", parentOf(above)
	}
	if rest := strings.Trim(strings.TrimPrefix(full, above), "/"); rest != "" || up == "" {
		return up + "/" + rest
	}
	return up
}

// joinPath returns the path of a child.
func joinPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// IsBelow reports whether path is top or a node below it.
func IsBelow(path, top string) bool {
	rest, below := strings.CutPrefix(path, top)
	return below && (rest == "" || rest[0] == '/' || top == "/")
}

// parentOf returns the parent of a path, which is "/" for a node right below it, and "" for "/".
func parentOf(path string) string {
	i := strings.LastIndexByte(path, '/')
	switch {
	case path == "/":
		return ""
	case i == 0:
		return "/"
	}
	return path[:i]
}

// CheckPath returns an error that says what is wrong with a path, or nil if a node may have it.
func CheckPath(path string) error {
	switch {
	case jute.ValidPath(path):
		return nil
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("path %.200q: a path begins with a slash", path)
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("path %.200q: a path does not end with a slash", path)
	case strings.Contains(path, "//"):
		return fmt.Errorf("path %.200q: between two slashes there is a name", path)
	case strings.Contains(path+"/", "/./"), strings.Contains(path+"/", "/../"):
		return fmt.Errorf(`path %.200q: names "." and ".." are not allowed`, path)
	}
	return fmt.Errorf("path %.200q: control characters, private and special ones, and those above U+FFEF are not allowed", path)
}

const (
	// maxTries is how often a request is sent if the connection breaks each time. A server closes the
	// connection on a request that is longer than it accepts, and would do so forever.
	maxTries = 5
	// requestTimeout is how long a request may take. That is longer than an election and a session together.
	requestTimeout = 45 * time.Second
)

// ErrNoReply says that no server has answered a request for too long. A change may have been made or not.
var ErrNoReply = fmt.Errorf("no answer for %v", requestTimeout)

// withTimeout calls a function that sends a request, which may take as long as patience.
func (s Space) withTimeout(ctx context.Context, call func(context.Context) error) error {
	if s.OnWait != nil {
		defer s.OnWait()()
	}
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	err := call(limited)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return ErrNoReply
	}
	return err
}

// retryBroken calls a function that sends a request until the connection does not break meanwhile, at most
// maxTries times. The request must have the same effect if it is sent twice.
func (s Space) retryBroken(ctx context.Context, call func(context.Context) error) error {
	var err error
	for range maxTries {
		if err = s.withTimeout(ctx, call); !errors.Is(err, client.ErrConnectionLost) {
			return err
		}
	}
	return fmt.Errorf("the connection broke at each of %d tries: %w", maxTries, err)
}

// Stat returns the Stat of a node. The error is jute.NoNode if there is none. Like the other reads of a
// Space, it is repeated if the connection breaks.
func (s Space) Stat(ctx context.Context, path string) (stat jute.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		stat, err = s.nodeClient().Exists(ctx, s.FullPath(path), false)
		return err
	})
	return stat, err
}

// Get returns the data of a node, nil if they are null, and its Stat.
func (s Space) Get(ctx context.Context, path string) (data []byte, stat jute.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		data, stat, err = s.nodeClient().Get(ctx, s.FullPath(path), false)
		return err
	})
	return data, stat, err
}

// ACL returns the access control list of a node.
func (s Space) ACL(ctx context.Context, path string) (acl []jute.ACL, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		acl, _, err = s.nodeClient().GetACL(ctx, s.FullPath(path))
		return err
	})
	return acl, err
}

// Children returns the names of a node's children, in no order, and its Stat.
func (s Space) Children(ctx context.Context, path string) (names []string, stat jute.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		names, stat, err = s.nodeClient().Children(ctx, s.FullPath(path), false)
		return err
	})
	return names, stat, err
}

// Sync waits until the server has applied everything that was written anywhere before the call, and returns
// the zxid up to which that is.
func (s Space) Sync(ctx context.Context, path string) (zxid int64, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		zxid, err = s.Client.Do(ctx, jute.OpSync, jute.SyncRequest{Path: []byte(s.FullPath(path))}, nil)
		return err
	})
	return zxid, err
}

// Write calls a function that sends a change, once. Its error wraps ErrSilent if no server has answered.
func (s Space) Write(ctx context.Context, change func(context.Context) error) error {
	return s.withTimeout(ctx, change)
}
