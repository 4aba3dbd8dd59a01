// Package subtree works on whole subtrees of an ensemble, over ZooKeeper's protocol or inside a member:
//
//   - Space: a session and its root.
//   - Space.Walk: visits a subtree in order, with many requests in flight.
//   - Space.Dump, CheckDump and Space.Load: a subtree as a JSON document, and back.
//   - Space.SourceFromBackup and Space.LoadFrom: a subtree of a backup into an ensemble.
//   - Space.Remove: deletes a subtree.
//   - UsageSum: sums up nodes and bytes by subtree.
//   - ParseACL: parses an access control list.
//
// Nothing here is atomic: if others change a subtree meanwhile, each node is seen, copied or deleted as it is at
// that time. Memory grows with the number of children of one node, not with the number of nodes.
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

// Space is a session whose paths are below Root, like a ZooKeeper client with a chroot. It is safe for
// concurrent use.
type Space struct {
	Client *client.Client // it must fail while it is suspended; the Space waits
	Nodes  NodeClient     // where the nodes are read and changed; nil: by Client
	Root   string         // "": paths are as the servers have them
	Watch  bool           // Stat, Get and Children set watches, whose events the Client's Config.OnEvent gets
	// NoRetry makes a read fail with client.ErrConnectionLost when its connection breaks, and a request with
	// client.ErrSuspended without a connection. Otherwise a read is sent again, and a request waits for a connection.
	NoRetry bool
	// OnWait, unless it is nil, is called when a request is sent, and over when its reply has arrived.
	OnWait func() (over func())
}

func (s Space) nodeClient() NodeClient {
	if s.Nodes != nil {
		return s.Nodes
	}
	return sessionNodes{s.Client, s.Watch}
}

// FullPath adds Root to a path.
func (s Space) FullPath(path string) string {
	switch {
	case s.Root == "":
		return path
	case path == "/":
		return s.Root
	}
	return s.Root + path
}

// TrimRoot removes Root from a path. It returns other paths unchanged.
func (s Space) TrimRoot(full string) string {
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

// RelativePath removes Root from a path. A path outside Root begins with ".." for each level up, which no
// node can be named.
func (s Space) RelativePath(full string) string {
	if s.Root == "" {
		return full
	}
	up, above := "", s.Root
	for above != "/" && !IsAtOrBelow(full, above) {
		up, above = up+"/..", parentOf(above)
	}
	if rest := strings.Trim(strings.TrimPrefix(full, above), "/"); rest != "" || up == "" {
		return up + "/" + rest
	}
	return up
}

func joinPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// IsAtOrBelow reports whether path is top or a node below it.
func IsAtOrBelow(path, top string) bool {
	rest, below := strings.CutPrefix(path, top)
	return below && (rest == "" || rest[0] == '/' || top == "/")
}

// parentOf returns "/" for the parent of a top-level node, and "" for that of "/".
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

// CheckPath returns an error if no node can have this path.
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
	return fmt.Errorf("path %.200q: control characters, private and special ones, and those above U+FFEF are not allowed",
		path)
}

const (
	// maxTries bounds the tries of a request on breaking connections. A server closes the connection on a
	// request that is too long, and would do so forever.
	maxTries = 5
	// requestTimeout is longer than an election and a session together.
	requestTimeout = 45 * time.Second
)

// ErrNoReply is returned if no server has replied to a request in time. A change may have been made or not.
var ErrNoReply = fmt.Errorf("no answer for %v", requestTimeout)

// withTimeout calls a function that sends a request, with requestTimeout.
func (s Space) withTimeout(ctx context.Context, call func(context.Context) error) error {
	if s.OnWait != nil {
		defer s.OnWait()()
	}
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	err := s.callWhenConnected(limited, call)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return ErrNoReply
	}
	return err
}

// callWhenConnected calls a function that sends a request. While there is no connection it waits for one, unless
// NoRetry is set.
func (s Space) callWhenConnected(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		failed, ok := errors.AsType[*client.Error](err)
		if !ok || s.NoRetry || !errors.Is(err, client.ErrSuspended) {
			return err
		}
		if err := s.nodeClient().AwaitConnected(ctx); err != nil {
			return &client.Error{Op: failed.Op, Path: failed.Path, Err: err}
		}
	}
}

// retryBroken repeats call while the connection breaks, at most maxTries times. The request must be
// idempotent.
func (s Space) retryBroken(ctx context.Context, call func(context.Context) error) error {
	var err error
	for range maxTries {
		if err = s.withTimeout(ctx, call); s.NoRetry || !errors.Is(err, client.ErrConnectionLost) {
			return err
		}
	}
	return fmt.Errorf("the connection broke at each of %d tries: %w", maxTries, err)
}

// Stat returns the Stat of a node, or client.ErrNoNode. Like the other reads of a Space, it retries if the
// connection breaks.
func (s Space) Stat(ctx context.Context, path string) (stat client.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		stat, err = s.nodeClient().Stat(ctx, s.FullPath(path))
		return err
	})
	return stat, err
}

// Get returns the data of a node, nil if they are null, and its Stat.
func (s Space) Get(ctx context.Context, path string) (data []byte, stat client.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		data, stat, err = s.nodeClient().Get(ctx, s.FullPath(path))
		return err
	})
	return data, stat, err
}

// ACL returns the access control list of a node.
func (s Space) ACL(ctx context.Context, path string) ([]client.ACL, error) {
	acl, _, err := s.ACLAndStat(ctx, path)
	return acl, err
}

// ACLAndStat returns the access control list of a node and its Stat.
func (s Space) ACLAndStat(ctx context.Context, path string) (acl []client.ACL, stat client.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		acl, stat, err = s.nodeClient().ACL(ctx, s.FullPath(path))
		return err
	})
	return acl, stat, err
}

// Children returns the names of a node's children, unsorted, and its Stat.
func (s Space) Children(ctx context.Context, path string) (names []string, stat client.Stat, err error) {
	err = s.retryBroken(ctx, func(ctx context.Context) error {
		names, stat, err = s.nodeClient().Children(ctx, s.FullPath(path))
		return err
	})
	return names, stat, err
}

// Sync waits until the server has applied everything written before the call, and returns the zxid of that.
func (s Space) Sync(ctx context.Context, path string) (client.Zxid, error) {
	err := s.retryBroken(ctx, s.Client.Sync)
	if failed, ok := errors.AsType[*client.Error](err); ok {
		failed.Path = s.FullPath(path)
	}
	return s.Client.LastZxid(), err
}

// SendOnce calls a function that sends a change, once. Its error wraps ErrNoReply if no server has replied.
func (s Space) SendOnce(ctx context.Context, change func(context.Context) error) error {
	return s.withTimeout(ctx, change)
}
