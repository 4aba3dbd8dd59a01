package subtree

import (
	"context"
	"errors"
	"fmt"
	"io"

	"rollcall/operator/backup"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// LoadMode is the treatment of existing nodes.
type LoadMode int

const (
	FailIfExists LoadMode = iota // fail if the top exists
	Merge                        // set what differs, and leave other nodes
	Replace                      // set what differs, and delete nodes that are not in the dump
)

// LoadOptions select how a dump is loaded.
type LoadOptions struct {
	Into        string // the new top; "": the dump's own
	Mode        LoadMode
	AllowEdited bool          // the content may differ from the checksum
	DryRun      bool          // only report the changes
	ACL         []jute.ACL    // instead of the lists in the dump; nil: those
	OnBegin     func(Summary) // called before the first change
	OnChange    func(Change)  // is called with each change, when it is made or would be
}

// Change is a change of one node by a load.
type Change struct {
	Action string `json:"action"` // "create", "set", "acl", "delete", "leave" or "same"
	Path   string `json:"path"`
	Bytes  int    `json:"bytes"` // of data, with "create" and "set"
}

// LoadResult counts the changes of a load, or of a dry run.
type LoadResult struct {
	Nodes     int   `json:"nodes"` // of the dump that are as the dump says
	Bytes     int64 `json:"bytes"` // of their data
	Created   int   `json:"created"`
	Set       int   `json:"set"`     // nodes that existed and got other data
	ACLs      int   `json:"acls"`    // nodes that existed and got another list
	Deleted   int   `json:"deleted"` // nodes that were not in the dump
	LeftAlone int   `json:"left"`    // ephemeral nodes of living sessions, and nodes above them, that stay as they are
	Skipped   int   `json:"skipped"` // ephemeral nodes of the dump: no load makes them
}

// ErrExists is returned if the top exists and the mode does not allow that.
var ErrExists = errors.New("exists")

// ErrIncomplete is returned for Replace if the dump lacks nodes that its maker was not allowed to read:
// Replace would delete them.
var ErrIncomplete = errors.New("the dump lacks nodes that its maker was not allowed to read")

// ErrHiddenDigests is returned for a dump with hidden digests: its nodes would be inaccessible.
var ErrHiddenDigests = errors.New("the dump has access control lists with digests that were hidden from its maker")

// Load reads the dump twice, or three times for Replace. It checks all of it first, so that a truncated dump
// changes nothing. After an error, LoadResult has the progress so far; the same load with Merge or Replace
// completes it. Nodes are created and set in multis; lists are set one by one after each multi.
//
// Ephemeral nodes of living sessions are never changed or deleted. Versions, times and counters of sequential
// nodes start over. Created nodes are plain, because a dump has no other kind.
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

// Source is a subtree that can be loaded. The caller has checked that it can be read completely.
type Source struct {
	Summary // Path is the first node. Hidden and Unread keep it from being loaded as they do with a dump
	// Read calls each with every node in the order of Space.Walk, and returns an error of each at once. It
	// can be called again.
	Read func(each func(*Record) error) error
}

// LoadFrom loads a source other than a dump. It reads it once, or twice for Replace.
func (s Space) LoadFrom(ctx context.Context, from Source, how LoadOptions) (LoadResult, error) {
	l := &loader{space: s, ctx: ctx, options: how, from: from.Path, into: how.Into}
	l.extraRemover = &remover{
		space: s, ctx: ctx,
		options: RemoveOptions{KeepEphemerals: true, DryRun: how.DryRun, OnNode: l.countRemoved},
	}
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

// loadAll makes the changes. read reads the dump from its start.
func (l *loader) loadAll(read func(func(*Record) error) error) error {
	if err := read(l.queueRecord); err != nil {
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

// checkTarget returns an error if the dump must not be loaded at its target.
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

// checkEmptyRoot returns an error if the root has other children than the servers' own.
func (l *loader) checkEmptyRoot() error {
	names, _, err := l.space.Children(l.ctx, "/")
	if err != nil {
		return err
	}
	for _, name := range names {
		if path := joinPath("/", name); !l.space.IsServersNode(path) {
			return fmt.Errorf("%s %w", path, ErrExists)
		}
	}
	return nil
}

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

// ErrNotInBackup is the error of a restore whose node is not in the backup.
var ErrNotInBackup = errors.New("the backup has no node")

// SourceFromBackup returns the subtree at from in a backup. read reads and checks the whole backup; it is
// called now, and by Source.Read. The servers' own nodes are left out, unless from is below them. Ephemeral
// nodes are counted and not loaded.
func (s Space) SourceFromBackup(from string, read func(znode.ImageVisitor) (backup.Head, error)) (Source, error) {
	source := Source{Summary: Summary{Path: from}}
	nodes := func(each func(*Record) error) (backup.Head, error) {
		p := &subtreePicker{space: s, top: from, onRecord: each}
		return read(znode.ImageVisitor{Node: p.pickNode})
	}
	head, err := nodes(func(n *Record) error {
		if source.Count++; source.Count == 1 && n.Owner != "" {
			return fmt.Errorf("%s is an ephemeral node, which is not restored", n.Path)
		}
		if n.Owner != "" {
			source.Ephemerals++
		}
		return nil
	})
	switch {
	case err != nil:
		return source, err
	case source.Count == 0:
		return source, fmt.Errorf("%w %s", ErrNotInBackup, s.FullPath(from))
	}
	source.Read = func(each func(*Record) error) error {
		now, err := nodes(each)
		if err == nil && (now.Index != head.Index || now.Digest != head.Digest) {
			err = errors.New("the backup was changed while it was restored")
		}
		return err
	}
	return source, nil
}

// subtreePicker selects a subtree of a backup, whose nodes come in the order of Space.Walk.
type subtreePicker struct {
	space      Space
	top        string
	onRecord   func(*Record) error
	skippedTop string // a node that is left out with all below it
}

func (p *subtreePicker) pickNode(n znode.ImageNode) error {
	path := p.space.TrimRoot(n.Path)
	switch {
	case !IsAtOrBelow(n.Path, p.space.FullPath(p.top)), p.skippedTop != "" && IsAtOrBelow(path, p.skippedTop):
		return nil
	case p.space.IsServersNode(path) && !IsAtOrBelow(p.top, ServersNode):
		p.skippedTop = path
		return nil
	}
	r := &Record{Path: path, Data: n.Data, ACL: n.ACL, Container: n.Container, TTL: n.TTLMs}
	if n.OwnerSession != 0 {
		r.Owner = n.OwnerSession.String()
	}
	return p.onRecord(r)
}
