package shell

import (
	"context"
	"errors"
	"strings"
	"sync"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

// watchKind is a set of kinds of watches, as in ZooKeeper's Java client.
type watchKind uint8

const (
	watchData watchKind = 1 << iota
	watchExist
	watchChild
	watchPersistent
	watchRecursive

	watchLasting = watchPersistent | watchRecursive
)

// watchTable holds the watches of a session by path. Like the table of zkCli.sh, it decides what removewatches
// prints. It is safe for concurrent use.
type watchTable struct {
	mu    *sync.Mutex
	paths map[string]watchKind
}

func newWatchTable() watchTable {
	return watchTable{mu: new(sync.Mutex), paths: map[string]watchKind{}}
}

// setThroughRequest records watches of a kind before request sets them, so that an event that arrives at once
// removes them. If request fails, set removes the watches that it added. If kind is watchExist and the node
// exists, the watch is one for data.
func (t watchTable) setThroughRequest(path string, kind watchKind, request func() error) error {
	added := t.add(path, kind)
	err := request()
	switch {
	case err == nil && kind == watchExist:
		if t.remove(path, added) == added { // no event came meanwhile
			t.add(path, watchData)
		}
	case err != nil && (kind != watchExist || !errors.Is(err, jute.NoNode)):
		t.remove(path, added)
	}
	return err
}

// add adds watches, and returns the new ones among them.
func (t watchTable) add(path string, kind watchKind) watchKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	added := kind &^ t.paths[path]
	if kind != 0 {
		t.paths[path] |= kind
	}
	return added
}

// removeFired removes the watches that an event ends.
func (t watchTable) removeFired(event jute.EventType, path string) {
	var kind watchKind
	switch event {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		kind = watchData | watchExist
	case jute.EventNodeChildrenChanged:
		kind = watchChild
	case jute.EventNodeDeleted:
		kind = watchData | watchExist | watchChild
	}
	t.remove(path, kind)
}

// remove removes watches of some kinds, and returns the ones that existed.
func (t watchTable) remove(path string, kind watchKind) watchKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.paths[path] & kind
	if t.paths[path] &^= kind; t.paths[path] == 0 {
		delete(t.paths, path)
	}
	return had
}

func (t watchTable) hasWatch(path string, kind watchKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paths[path]&kind != 0
}

func (s *Shell) addWatch(ctx context.Context, a *arguments) error {
	kind := watchRecursive
	switch name, given := a.optionValues["m"]; {
	case given && strings.EqualFold(name, "PERSISTENT"):
		kind = watchPersistent
	case given && !strings.EqualFold(name, "PERSISTENT_RECURSIVE"):
		return errUsage
	}
	path := a.path()
	return s.session.sendWatching(ctx, path, kind, func(ctx context.Context, space nodes.Space) error {
		return space.Client.AddWatch(ctx, space.FullPath(path), kind == watchRecursive)
	})
}

// watchRemoval is the effect of a flag of removewatches.
type watchRemoval struct {
	flag        string
	watcherType client.WatchType
	kinds       watchKind
}

// watchRemovals are the flags of removewatches by precedence. The last is the default.
var watchRemovals = []watchRemoval{
	{"c", client.ChildrenWatches, watchChild},
	{"d", client.DataWatches, watchData | watchExist},
	{"a", client.AllWatches, watchData | watchExist | watchChild | watchLasting},
}

// removeWatches removes this session's watches on a node. Like the Java client, it prints an event for each
// kind that it removed.
func (s *Shell) removeWatches(ctx context.Context, a *arguments) error {
	path := a.path()
	if err := checkPath(path); err != nil {
		return err
	}
	what := watchRemovals[len(watchRemovals)-1]
	for _, r := range watchRemovals {
		if a.hasFlag(r.flag) {
			what = r
			break
		}
	}
	err := s.session.sendWhenConnected(ctx, path, func(ctx context.Context, space nodes.Space) error {
		return space.Client.RemoveWatches(ctx, space.FullPath(path), what.watcherType)
	})
	switch {
	case errors.Is(err, errInterrupted):
		return err
	case !s.session.watches.hasWatch(path, what.kinds|watchLasting):
		return &requestError{code: jute.NoWatcher, path: path}
	case err != nil && !a.hasFlag("l"):
		return err
	}
	had := s.session.watches.remove(path, what.kinds)
	if had == 0 {
		return err
	}
	for _, gone := range []struct {
		kinds watchKind
		event jute.EventType
	}{
		{watchChild, jute.EventChildWatchRemoved},
		{watchData | watchExist, jute.EventDataWatchRemoved},
		{watchLasting, jute.EventPersistentWatchRemoved},
	} {
		if had&gone.kinds != 0 {
			s.postWatchEvent(gone.event, jute.StateSyncConnected, path)
		}
	}
	return nil
}

// postWatchEvent prints an event of a watch, or a change of the session's state if path is "". It never
// blocks.
func (s *Shell) postWatchEvent(event jute.EventType, state jute.KeeperState, path string) {
	if !s.printWatches.Load() {
		return
	}
	if event == jute.EventNone {
		path = "null"
	}
	s.screen.postEvent("\nWATCHER::\n\nWatchedEvent state:" + state.String() + " type:" + event.String() + " path:" +
		s.screen.name(path) + "\n")
}

func (s *Shell) addAuth(ctx context.Context, a *arguments) error {
	identity := client.Auth{Scheme: a.words[1]}
	if len(a.words) > 2 {
		identity.Proof = []byte(a.words[2])
	}
	return s.session.addAuth(ctx, identity)
}
