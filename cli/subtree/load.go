package subtree

import (
	"context"
	"errors"
	"fmt"
	"io"

	"rollcall/zk/jute"
)

// Mode says what a load does with nodes that exist.
type Mode int

const (
	Refuse  Mode = iota // fail if the top exists
	Merge               // set what differs, and leave other nodes
	Replace             // set what differs, and delete nodes that are not in the dump
)

// Loading says how a dump is loaded.
type Loading struct {
	Into   string // the new top; "": the dump's own
	Mode   Mode
	Edited bool          // the content may differ from the checksum
	DryRun bool          // only tell the changes
	ACL    []jute.ACL    // instead of the lists in the dump; nil: those
	Begin  func(Summary) // is called before the first change, with what is loaded
	Each   func(Change)  // is called with each change, when it is made or would be
}

// Change is a change of one node by a load.
type Change struct {
	Action string // "create", "set", "acl", "delete", "leave" or "same"
	Path   string
	Bytes  int // of data, with "create" and "set"
}

// Loaded is what a load did, or would do.
type Loaded struct {
	Nodes   int   // of the dump that are as the dump says
	Bytes   int64 // their data
	Created int
	Set     int // data changed
	ACLs    int // lists changed
	Deleted int
	Left    int // ephemeral nodes of living sessions, and nodes above them, that were left as they are
	Skipped int // ephemeral nodes of the dump: no load makes them
}

// ErrExists says that the top exists and that the mode does not allow it.
var ErrExists = errors.New("exists")

// ErrIncomplete says that nodes are missing from the dump, because its maker was not allowed to read
// them, so that Replace would delete them.
var ErrIncomplete = errors.New("the dump lacks nodes that its maker was not allowed to read")

// ErrHidden says that a list in the dump has hidden digests, so that nobody could use them.
var ErrHidden = errors.New("the dump has access control lists with digests that were hidden from its maker")

// Load reads the dump twice, or three times for Replace: first all of it, so that a dump that is not whole
// changes nothing, and then to load it. After an error, Loaded says how far it
// came; the same load with Merge or Replace then does the rest. Nodes are created and their data set in
// transactions of many nodes; lists are changed one by one after each of these.
//
// Ephemeral nodes of living sessions are never changed or deleted. Versions, times and counters of
// sequential nodes begin anew. A node that is created is a plain one, because a dump does not say more.
func (s Space) Load(ctx context.Context, dump io.ReadSeeker, how Loading) (Loaded, error) {
	sum, err := Check(dump, how.Edited, nil)
	if err != nil {
		return Loaded{}, err
	}
	return s.LoadFrom(ctx, Source{Summary: sum, Read: func(each func(*Record) error) error {
		if _, err := dump.Seek(0, io.SeekStart); err != nil {
			return err
		}
		now, err := Check(dump, true, each)
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
func (s Space) LoadFrom(ctx context.Context, from Source, how Loading) (Loaded, error) {
	l := &loader{space: s, ctx: ctx, how: how, from: from.Path, into: how.Into}
	l.rest = &remover{space: s, ctx: ctx, how: Removing{Sessions: true, DryRun: how.DryRun, Each: l.removed}}
	if l.into == "" {
		l.into = from.Path
	}
	switch {
	case from.Hidden > 0 && how.ACL == nil:
		return l.done, ErrHidden
	case from.Unread > 0 && how.Mode == Replace:
		return l.done, ErrIncomplete
	}
	if err := l.admit(); err != nil {
		return l.done, err
	}
	how.Begin(from.Summary)
	err := l.load(from.Read)
	return l.done, err
}

// load does all that changes something. read reads the dump from its beginning.
func (l *loader) load(read func(func(*Record) error) error) error {
	if err := read(l.add); err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	if l.how.Mode != Replace {
		return nil
	}
	return l.deleteRest(read)
}

// admit returns an error if the dump may not be loaded where it would be.
func (l *loader) admit() error {
	stat, err := l.space.Stat(l.ctx, l.into)
	switch {
	case errors.Is(err, jute.NoNode):
		l.fresh = true
	case err != nil:
		return err
	case l.how.Mode == Refuse && l.into != "/":
		return fmt.Errorf("%s %w", l.into, ErrExists)
	case l.how.Mode == Refuse:
		return l.emptyRoot()
	case stat.EphemeralOwner != 0:
		return fmt.Errorf("%s is an ephemeral node, which cannot have children", l.into)
	}
	if parent := parentOf(l.into); l.fresh && parent != "" {
		if _, err := l.space.Stat(l.ctx, parent); err != nil {
			return fmt.Errorf("the parent of %s: %w", l.into, err)
		}
	}
	return nil
}

// emptyRoot returns an error unless the root has no children but the servers' own. The root itself always
// exists.
func (l *loader) emptyRoot() error {
	names, _, err := l.space.Children(l.ctx, "/")
	if err != nil {
		return err
	}
	for _, name := range names {
		if path := join("/", name); !l.space.Own(path) {
			return fmt.Errorf("%s %w", path, ErrExists)
		}
	}
	return nil
}

// target returns where a node of the dump is loaded.
func (l *loader) target(path string) string {
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
