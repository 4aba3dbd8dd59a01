package subtree

import (
	"context"
	"errors"
	"fmt"
	"io"

	"rollcall/zk/jute"
)

// LoadMode says what a load does with nodes that exist.
type LoadMode int

const (
	FailIfExists LoadMode = iota // fail if the top exists
	Merge                        // set what differs, and leave other nodes
	Replace                      // set what differs, and delete nodes that are not in the dump
)

// LoadOptions says how a dump is loaded.
type LoadOptions struct {
	Into        string // the new top; "": the dump's own
	Mode        LoadMode
	AllowEdited bool          // the content may differ from the checksum
	DryRun      bool          // only tell the changes
	ACL         []jute.ACL    // instead of the lists in the dump; nil: those
	OnBegin     func(Summary) // is called before the first change, with what is loaded
	OnChange    func(Change)  // is called with each change, when it is made or would be
}

// Change is a change of one node by a load.
type Change struct {
	Action string // "create", "set", "acl", "delete", "leave" or "same"
	Path   string
	Bytes  int // of data, with "create" and "set"
}

// LoadResult is what a load did, or would do.
type LoadResult struct {
	Nodes     int   // of the dump that are as the dump says
	Bytes     int64 // their data
	Created   int
	Set       int // data changed
	ACLs      int // lists changed
	Deleted   int
	LeftAlone int // ephemeral nodes of living sessions, and nodes above them, that were left as they are
	Skipped   int // ephemeral nodes of the dump: no load makes them
}

// ErrExists says that the top exists and that the mode does not allow it.
var ErrExists = errors.New("exists")

// ErrIncomplete says that nodes are missing from the dump, because its maker was not allowed to read
// them, so that Replace would delete them.
var ErrIncomplete = errors.New("the dump lacks nodes that its maker was not allowed to read")

// ErrHiddenDigests says that a list in the dump has hidden digests, so that nobody could use them.
var ErrHiddenDigests = errors.New("the dump has access control lists with digests that were hidden from its maker")

// Load reads the dump twice, or three times for Replace: first all of it, so that a dump that is not whole
// changes nothing, and then to load it. After an error, Loaded says how far it
// came; the same load with Merge or Replace then does the rest. Nodes are created and their data set in
// transactions of many nodes; lists are changed one by one after each of these.
//
// Ephemeral nodes of living sessions are never changed or deleted. Versions, times and counters of
// sequential nodes begin anew. A node that is created is a plain one, because a dump does not say more.
func (s Space) Load(ctx context.Context, dump io.ReadSeeker, how LoadOptions) (LoadResult, error) {
	sum, err := CheckDump(dump, how.AllowEdited, nil)
	if err != nil {
		return LoadResult{}, err
	}
	return s.LoadFrom(ctx, Source{Summary: sum, Read: func(each func(*Record) error) error {
		if _, err := dump.Seek(0, io.SeekStart); err != nil {
			return err
		}
		now, err := CheckDump(dump, true, each)
		if err == nil && now.SHA256 != sum.SHA256 {
			err = errors.New("the file was changed while it was loaded")
		}
		return err
	}}, how)
}

// Source is a subtree that can be loaded. Its caller has checked that all of it can be read.
type Source struct {
	Summary // Path is the first node. Hidden and Unread keep it from being loaded as they do with a dump
	// Read calls each with every node, in the order of Space.Walk. It can be called again. It returns an error of each
	// at once.
	Read func(each func(*Record) error) error
}

// LoadFrom loads a source that is no dump, as Load does. It reads the source once, or twice for Replace.
func (s Space) LoadFrom(ctx context.Context, from Source, how LoadOptions) (LoadResult, error) {
	l := &loader{space: s, ctx: ctx, options: how, from: from.Path, into: how.Into}
	l.extraRemover = &remover{space: s, ctx: ctx, options: RemoveOptions{KeepEphemerals: true, DryRun: how.DryRun, OnNode: l.countRemoved}}
	if l.into == "" {
		l.into = from.Path
	}
	switch {
	case from.Hidden > 0 && how.ACL == nil:
		return l.result, ErrHiddenDigests
	case from.Unread > 0 && how.Mode == Replace:
		return l.result, ErrIncomplete
	}
	if err := l.checkTarget(); err != nil {
		return l.result, err
	}
	how.OnBegin(from.Summary)
	err := l.loadAll(from.Read)
	return l.result, err
}

// loadAll does all that changes something. read reads the dump from its beginning.
func (l *loader) loadAll(read func(func(*Record) error) error) error {
	if err := read(l.addRecord); err != nil {
		return err
	}
	if err := l.flushBatch(); err != nil {
		return err
	}
	if l.options.Mode != Replace {
		return nil
	}
	return l.deleteExtras(read)
}

// checkTarget returns an error if the dump may not be loaded where it would be.
func (l *loader) checkTarget() error {
	stat, err := l.space.Stat(l.ctx, l.into)
	switch {
	case errors.Is(err, jute.NoNode):
		l.isNewTop = true
	case err != nil:
		return err
	case l.options.Mode == FailIfExists && l.into != "/":
		return fmt.Errorf("%s %w", l.into, ErrExists)
	case l.options.Mode == FailIfExists:
		return l.checkEmptyRoot()
	case stat.EphemeralOwner != 0:
		return fmt.Errorf("%s is an ephemeral node, which cannot have children", l.into)
	}
	if parent := parentOf(l.into); l.isNewTop && parent != "" {
		if _, err := l.space.Stat(l.ctx, parent); err != nil {
			return fmt.Errorf("the parent of %s: %w", l.into, err)
		}
	}
	return nil
}

// checkEmptyRoot returns an error unless the root has no children but the servers' own. The root itself always
// exists.
func (l *loader) checkEmptyRoot() error {
	names, _, err := l.space.Children(l.ctx, "/")
	if err != nil {
		return err
	}
	for _, name := range names {
		if path := joinPath("/", name); !l.space.IsServersOwn(path) {
			return fmt.Errorf("%s %w", path, ErrExists)
		}
	}
	return nil
}

// targetPath returns where a node of the dump is loaded.
func (l *loader) targetPath(path string) string {
	switch {
	case path == l.from:
		return l.into
	case l.from != "/":
		path = path[len(l.from):]
	}
	if l.into == "/" {
		return path
	}
	return l.into + path
}
