package shell

import (
	"context"
	"errors"
	"strings"
	"sync"

	"rollcall/client"
	"rollcall/zk/jute"
)

// watchKind is a set of kinds of watches, as ZooKeeper's Java client tells them apart.
type watchKind uint8

const (
	watchData watchKind = 1 << iota
	watchExist
	watchChild
	watchPersistent
	watchRecursive

	watchLasting = watchPersistent | watchRecursive
)

// watchTable holds the watches of a session by path. zkCli.sh keeps such a table too: it decides
// what removewatches prints. It is safe for concurrent use.
type watchTable struct {
	mu    *sync.Mutex
	paths map[string]watchKind
}

func newWatchTable() watchTable {
	return watchTable{mu: new(sync.Mutex), paths: map[string]watchKind{}}
}

// requestAnswered notes the watch that a request has set, if it has. A request that looks whether a node
// exists sets one in both cases.
func (t watchTable) requestAnswered(path string, kind watchKind, code jute.Code) {
	if kind == watchExist && code == jute.OK {
		kind = watchData
	}
	if kind == 0 || code != jute.OK && (kind != watchExist || code != jute.NoNode) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paths[path] |= kind
}

// eventReceived forgets the watches that an event ends.
func (t watchTable) eventReceived(event jute.EventType, path string) {
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

// remove removes the watches of some kinds, and returns those that there were.
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
	mode, kind := jute.AddWatchPersistentRecursive, watchRecursive
	switch name, given := a.optionValues["m"]; {
	case given && strings.EqualFold(name, "PERSISTENT"):
		mode, kind = jute.AddWatchPersistent, watchPersistent
	case given && !strings.EqualFold(name, "PERSISTENT_RECURSIVE"):
		return errUsage
	}
	path := a.path()
	if err := checkPath(path); err != nil {
		return err
	}
	var answer jute.ErrorResponse
	return s.session.sendWatchRequest(ctx, kind, jute.OpAddWatch, path, jute.AddWatchRequest{Path: []byte(s.session.space.FullPath(path)), Mode: mode}, &answer)
}

// watchRemoval is what one flag of removewatches removes.
type watchRemoval struct {
	flag        string
	watcherType jute.WatcherType
	kinds       watchKind
}

// watchRemovals are the flags of removewatches in the order in which they count. The last is what it
// removes without a flag.
var watchRemovals = []watchRemoval{
	{"c", jute.WatcherChildren, watchChild},
	{"d", jute.WatcherData, watchData | watchExist},
	{"a", jute.WatcherAny, watchData | watchExist | watchChild | watchLasting},
}

// removeWatches removes this session's watches on a node. It prints an event for each kind that it
// has removed, as the Java client does.
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
	rec := jute.RemoveWatchesRequest{Path: []byte(s.session.space.FullPath(path)), Type: what.watcherType}
	err := s.session.sendRequest(ctx, jute.OpRemoveWatches, path, rec, nil)
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

// postWatchEvent prints what a watch has seen, or a change of the session's state if path is "". It never
// waits.
func (s *Shell) postWatchEvent(event jute.EventType, state jute.KeeperState, path string) {
	if !s.printWatches.Load() {
		return
	}
	if event == jute.EventNone {
		path = "null"
	}
	s.screen.postEvent("\nWATCHER::\n\nWatchedEvent state:" + state.String() + " type:" + event.String() + " path:" + path + "\n")
}

func (s *Shell) addAuth(ctx context.Context, a *arguments) error {
	identity := client.Auth{Scheme: a.words[1]}
	if len(a.words) > 2 {
		identity.Auth = []byte(a.words[2])
	}
	return s.session.addAuth(ctx, identity)
}
