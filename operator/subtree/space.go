// Package subtree works on whole subtrees of an ensemble, over ZooKeeper's protocol or inside a member. It has nodes as the
// protocol does, in the types of package jute:
//
//   - Space: the nodes below a root. A NodeClient reads and changes them.
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

	"rollcall/zk/jute"
)

// Space is the nodes of an ensemble below Root, like a ZooKeeper client with a chroot. It is safe for concurrent use if
// Nodes is.
type Space struct {
	Nodes   NodeClient // reads and changes the nodes
	Root    string     // "": paths are as the servers have them
	NoRetry bool       // a read fails when its connection breaks; otherwise it is sent again
	// OnWait, unless it is nil, is called when a request is sent, and over when its reply has arrived.
	OnWait func() (over func())
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
	err := call(limited)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return ErrNoReply
	}
	return err
}

// SendIdempotent calls a function that sends an idempotent request. Unless NoRetry is set, it calls it again while the
// connection breaks, at most maxTries times.
func (s Space) SendIdempotent(ctx context.Context, call func(context.Context) error) error {
	var err error
	for range maxTries {
		if err = s.withTimeout(ctx, call); s.NoRetry || !errors.Is(err, jute.ConnectionLoss) {
			return err
		}
	}
	return fmt.Errorf("the connection broke at each of %d tries: %w", maxTries, err)
}

// Stat returns the Stat of a node, or jute.NoNode. Like the other reads of a Space, it retries if the
// connection breaks.
func (s Space) Stat(ctx context.Context, path string) (stat jute.Stat, err error) {
	err = s.SendIdempotent(ctx, func(ctx context.Context) error {
		stat, err = s.Nodes.Stat(ctx, s.FullPath(path))
		return err
	})
	return stat, err
}

// Get returns the data of a node, nil if they are null, and its Stat.
func (s Space) Get(ctx context.Context, path string) (data []byte, stat jute.Stat, err error) {
	err = s.SendIdempotent(ctx, func(ctx context.Context) error {
		data, stat, err = s.Nodes.Get(ctx, s.FullPath(path))
		return err
	})
	return data, stat, err
}

// ACL returns the access control list of a node.
func (s Space) ACL(ctx context.Context, path string) ([]jute.ACL, error) {
	acl, _, err := s.ACLAndStat(ctx, path)
	return acl, err
}

// ACLAndStat returns the access control list of a node and its Stat.
func (s Space) ACLAndStat(ctx context.Context, path string) (acl []jute.ACL, stat jute.Stat, err error) {
	err = s.SendIdempotent(ctx, func(ctx context.Context) error {
		acl, stat, err = s.Nodes.ACL(ctx, s.FullPath(path))
		return err
	})
	return acl, stat, err
}

// Children returns the names of a node's children, unsorted, and its Stat.
func (s Space) Children(ctx context.Context, path string) (names []string, stat jute.Stat, err error) {
	err = s.SendIdempotent(ctx, func(ctx context.Context) error {
		names, stat, err = s.Nodes.Children(ctx, s.FullPath(path))
		return err
	})
	return names, stat, err
}

// SendOnce calls a function that sends a change, once. Its error wraps ErrNoReply if no server has replied.
func (s Space) SendOnce(ctx context.Context, change func(context.Context) error) error {
	return s.withTimeout(ctx, change)
}

// SetACL sets the access control list of a node. version is that of the list, or -1 for any.
func (s Space) SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (stat jute.Stat, err error) {
	err = s.SendOnce(ctx, func(ctx context.Context) error {
		stat, err = s.Nodes.SetACL(ctx, s.FullPath(path), acl, version)
		return err
	})
	return stat, err
}

// writeAll makes all writes or none.
func (s Space) writeAll(ctx context.Context, writes []NodeWrite) error {
	return s.SendOnce(ctx, func(ctx context.Context) error { return s.Nodes.Write(ctx, writes) })
}
