package shell

import (
	"context"
	"slices"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

// The requests of a session take paths in the shell. Like zkCli.sh, they check a path before they are sent.

// checkPathAndSend checks the path and runs request once there is a connection. The error is one of failures.go.
func (s *session) checkPathAndSend(ctx context.Context, path string, request func(context.Context, nodes.Space) error) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return s.sendWhenConnected(ctx, path, request)
}

// sendWatching is checkPathAndSend for a request that also sets a watch of a kind. If kind is 0, it sets none.
func (s *session) sendWatching(ctx context.Context, path string, kind watchKind,
	request func(context.Context, nodes.Space) error,
) error {
	return s.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) error {
		if kind != 0 {
			space = space.Watching()
		}
		return s.watches.setThroughRequest(path, kind, func() error { return request(ctx, space) })
	})
}

// createNode creates a node, and returns its path in the shell.
func (s *session) createNode(ctx context.Context, path string, data []byte, acl []jute.ACL,
	mode client.Mode,
) (made string, err error) {
	if len(acl) == 0 {
		return "", &requestError{code: jute.InvalidACL}
	}
	err = s.sendWhenConnected(ctx, path, func(ctx context.Context, space nodes.Space) error {
		made, err = space.Create(ctx, path, data, mode, acl)
		return err
	})
	return made, err
}

// getData returns a node's data and Stat.
func (s *session) getData(ctx context.Context, path string, watch bool) (data []byte, stat jute.Stat, err error) {
	err = s.sendWatching(ctx, path, watchKindIf(watch, watchData), func(ctx context.Context, space nodes.Space) error {
		data, stat, err = space.Get(ctx, path)
		return err
	})
	return data, stat, err
}

// listChildren returns the names of a node's children, sorted, and its Stat.
func (s *session) listChildren(ctx context.Context, path string, watch bool) (names []string, stat jute.Stat,
	err error,
) {
	err = s.sendWatching(ctx, path, watchKindIf(watch, watchChild), func(ctx context.Context, space nodes.Space) error {
		names, stat, err = space.Children(ctx, path)
		return err
	})
	slices.Sort(names)
	return names, stat, err
}

func (s *session) statNode(ctx context.Context, path string, watch bool) (stat jute.Stat, err error) {
	err = s.sendWatching(ctx, path, watchKindIf(watch, watchExist), func(ctx context.Context, space nodes.Space) error {
		stat, err = space.Stat(ctx, path)
		return err
	})
	return stat, err
}

func (s *session) setData(ctx context.Context, path string, data []byte, version int32) (stat jute.Stat,
	err error,
) {
	err = s.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) error {
		stat, err = space.Set(ctx, path, data, version)
		return err
	})
	return stat, err
}

func (s *session) setACL(ctx context.Context, path string, acl []jute.ACL, version int32) (stat jute.Stat,
	err error,
) {
	if err := checkPath(path); err != nil {
		return stat, err
	}
	if len(acl) == 0 {
		return stat, &requestError{code: jute.InvalidACL}
	}
	err = s.sendWhenConnected(ctx, path, func(ctx context.Context, space nodes.Space) error {
		stat, err = space.SetACL(ctx, path, acl, version)
		return err
	})
	return stat, err
}

func (s *session) deleteNode(ctx context.Context, path string, version int32) error {
	return s.checkPathAndSend(ctx, path, func(ctx context.Context, space nodes.Space) error { return space.Delete(ctx, path, version) })
}

// visitSubtree calls do with a node and its descendants. The children of a node come together, and their descendants
// follow. It skips nodes that disappear meanwhile.
func (s *session) visitSubtree(ctx context.Context, path string, watch bool, do func(path string) error) error {
	if _, _, err := s.getData(ctx, path, watch); err != nil {
		return err
	}
	if err := do(path); err != nil {
		return err
	}
	return s.visitDescendants(ctx, path, watch, do)
}

func (s *session) visitDescendants(ctx context.Context, path string, watch bool,
	do func(path string) error,
) error {
	names, _, err := s.listChildren(ctx, path, watch)
	if hasCode(err, jute.NoNode) {
		return nil
	}
	for _, name := range names {
		if err := do(joinPath(path, name)); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.visitDescendants(ctx, joinPath(path, name), watch, do); err != nil {
			return err
		}
	}
	return err
}

// ensureNode creates a node unless it exists.
func (s *session) ensureNode(ctx context.Context, path string, data []byte) error {
	_, err := s.statNode(ctx, path, false)
	if !hasCode(err, jute.NoNode) {
		return err
	}
	_, err = s.createNode(ctx, path, data, anyoneAll, client.Persistent)
	if hasCode(err, jute.NodeExists) {
		return nil
	}
	return err
}

func watchKindIf(watch bool, kind watchKind) watchKind {
	if watch {
		return kind
	}
	return 0
}
