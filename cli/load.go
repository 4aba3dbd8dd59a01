package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/jute"
)

// loadedRow is what a load did, as JSON has it.
type loadedRow struct {
	Nodes   int   `json:"nodes"` // of the dump that are now as it says
	Bytes   int64 `json:"bytes"` // of their data
	Created int   `json:"created"`
	Set     int   `json:"set"`     // nodes that existed and got other data
	ACLs    int   `json:"acls"`    // nodes that existed and got another list
	Deleted int   `json:"deleted"` // nodes that were not in the dump
	Left    int   `json:"left"`    // ephemeral nodes of living sessions, and nodes above them, that stay as they are
	Skipped int   `json:"skipped"` // ephemeral nodes of the dump
}

var loadedColumns = []Column[loadedRow]{
	{Name: "nodes", Cell: func(r loadedRow) string { return fmt.Sprint(r.Nodes) }},
	{Name: "size", Cell: func(r loadedRow) string { return Size(r.Bytes) }},
	{Name: "created", Cell: func(r loadedRow) string { return fmt.Sprint(r.Created) }},
	{Name: "set", Cell: func(r loadedRow) string { return fmt.Sprint(r.Set) }},
	{Name: "acls", Cell: func(r loadedRow) string { return fmt.Sprint(r.ACLs) }},
	{Name: "deleted", Cell: func(r loadedRow) string { return fmt.Sprint(r.Deleted) }},
	{Name: "left", Cell: func(r loadedRow) string { return fmt.Sprint(r.Left) }},
	{Name: "skipped", Cell: func(r loadedRow) string { return fmt.Sprint(r.Skipped) }},
}

// changeRow is a change that a load would make, as JSON has it.
type changeRow struct {
	Action string `json:"action"` // "create", "set", "acl", "delete" or "leave"
	Path   string `json:"path"`
	Bytes  int    `json:"bytes"` // of data, with "create" and "set"
}

var changeColumns = []Column[changeRow]{
	{Name: "action", Cell: func(r changeRow) string { return r.Action }},
	{Name: "bytes", Right: true, Cell: func(r changeRow) string { return Size(int64(r.Bytes)) }},
	{Name: "path", Cell: func(r changeRow) string { return r.Path }},
}

// loading is the command that loads a dump.
type loading struct {
	*nodes
	into                           string
	merge, replace, edited, dryRun bool
	acl                            []string
	would                          subtree.Loaded // what a dry run would have done
}

// newLoad returns the command that loads a dump.
func newLoad(w World) *cobra.Command {
	l := &loading{nodes: newNodes(w)}
	cmd := l.register(&cobra.Command{
		Use: "load [flags] FILE", Short: "load a dump of rollcall dump", Args: Takes(1, 1, "one file"),
		Long: "Loads a dump made by rollcall dump. If FILE is -, it reads stdin. It checks the whole file first, and loads nothing from a truncated or changed one. Without --merge or --replace " +
			"the subtree must not exist yet.\n\nNodes are created in transactions. If the command is interrupted, it says how far it came, and --merge does the rest. It never changes or deletes " +
			"ephemeral nodes, because they belong to living sessions.",
		Example: "  rollcall load --dry-run app.json\n  rollcall load --into /copy/app app.json",
	}, true, nil)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) }
	cmd.ValidArgsFunction = nil // a file
	fs := cmd.Flags()
	fs.StringVar(&l.into, "into", "", "load the top of the dump at this `path` (default: where it was)")
	fs.BoolVar(&l.merge, "merge", false, "set what differs in nodes that exist, and leave other nodes as they are")
	fs.BoolVar(&l.replace, "replace", false, "as --merge, and then delete nodes that are not in the dump")
	fs.BoolVar(&l.edited, "edited", false, "the dump was edited: take it though its checksum does not fit")
	fs.BoolVar(&l.dryRun, "dry-run", false, "print what would be done, and do nothing")
	fs.StringArrayVar(&l.acl, "acl", nil, "give all nodes this access control `list` instead of their own, as scheme:id:perms,...; may be repeated")
	l.Output.Register(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error { return With(WrongUse, l.check()) }
	return cmd
}

// check returns an error if the flags do not go together.
func (l *loading) check() error {
	if l.merge && l.replace {
		return errors.New("load: --merge and --replace exclude each other")
	}
	if l.into != "" {
		if err := subtree.CheckPath(l.into); err != nil {
			return fmt.Errorf("load: --into: %w", err)
		}
	}
	_, err := aclOf("load", l.acl)
	return err
}

func (l *loading) run(ctx context.Context, name string) error {
	file, err := l.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	s, err := l.space(ctx)
	if err != nil {
		return err
	}
	defer closeSession(s.Client)
	return explainedNode("load: "+name, s, true, l.load(ctx, s, file))
}

// open opens the file. The input, and a file that cannot be read twice, such as a pipe, are copied into
// another one first.
func (l *loading) open(name string) (*os.File, error) {
	if name == "-" {
		return spool(l.In)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, With(WrongUse, fmt.Errorf("load: %w", err))
	}
	if _, err := f.Seek(0, io.SeekCurrent); err == nil {
		return f, nil
	}
	defer func() { _ = f.Close() }() // it was only read
	return spool(f)
}

// spool copies r into a file that nobody else sees.
func spool(r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "rollcall-load-*")
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	os.Remove(f.Name()) // it lives as long as it is open
	_, err = io.Copy(f, r)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load: the input: %w", err), f.Close())
	}
	return f, nil
}

// load loads the file, or prints what a load would do.
func (l *loading) load(ctx context.Context, s subtree.Space, file io.ReadSeeker) error {
	acl, err := aclOf("load", l.acl)
	if err != nil {
		return err
	}
	how := subtree.Loading{Into: l.into, Edited: l.edited, DryRun: l.dryRun, ACL: acl, Begin: func(subtree.Summary) {}, Each: func(subtree.Change) {}}
	switch {
	case l.merge:
		how.Mode = subtree.Merge
	case l.replace:
		how.Mode = subtree.Replace
	}
	if l.dryRun {
		if err := Print(l.Output, changeColumns, l.changes(ctx, s, file, how)); err != nil {
			return err
		}
		warn(l.World, "of %s in the dump, %d would be created and %d get other data; %d others would be deleted, and %d left as they are", plural(l.would.Nodes+l.would.Skipped, "node", "nodes"), l.would.Created, l.would.Set, l.would.Deleted, l.would.Left)
		return nil
	}
	progress := NewProgress(l.World, "nodes", 0)
	defer progress.Done()
	total, last := 0, ""
	how.Begin = func(sum subtree.Summary) {
		total = sum.Count
		progress.Expect(sum.Count)
	}
	how.Each = func(c subtree.Change) {
		if c.Path != last { // a node can have two changes
			progress.Add(1)
		}
		last = c.Path
	}
	done, err := s.Load(ctx, file, how)
	progress.Done()
	if err != nil {
		return l.failure(done, total, err)
	}
	return printOne(l.Output, loadedColumns, loadedRow(done))
}

// changes yields the changes that a load would make.
func (l *loading) changes(ctx context.Context, s subtree.Space, file io.ReadSeeker, how subtree.Loading) iter.Seq2[changeRow, error] {
	return func(yield func(changeRow, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		how.Each = func(c subtree.Change) {
			if more && c.Action != "same" {
				more = yield(changeRow(c), nil)
			}
			if !more {
				stop()
			}
		}
		done, err := s.Load(ctx, file, how)
		switch {
		case !more:
		case err != nil:
			yield(changeRow{}, l.failure(done, 0, err))
		default:
			l.would = done
		}
	}
}

// loadAdvice says what a user can do about an error of a load.
var loadAdvice = []struct {
	reason error
	text   string
}{
	{subtree.ErrExists, "--merge or --replace loads into what exists, and --into loads elsewhere"},
	{subtree.ErrIncomplete, "--merge deletes nothing"},
	{subtree.ErrHidden, "dump again with --auth of an administrator of these nodes, or give all nodes another list with --acl"},
	{subtree.ErrChecksum, "after an edit on purpose, --edited takes it"},
	{jute.NoNode, "rollcall create -p makes what is missing"},
	{jute.NoAuth, "a list in the dump may keep you from making children: use --auth digest:super:PASSWORD, or --acl"},
}

// failure returns the error of a load that has done so much of so many nodes, with what the user can do.
func (l *loading) failure(done subtree.Loaded, total int, err error) error {
	for _, a := range loadAdvice {
		if errors.Is(err, a.reason) {
			err = fmt.Errorf("%w; %s", err, a.text)
		}
	}
	if errors.Is(err, subtree.ErrExists) {
		err = With(Conflict, err)
	}
	again := "with --merge, the same command does the rest"
	if l.replace {
		again = "the same command does the rest"
	}
	switch {
	case errors.Is(err, context.Canceled): // not wrapped: it is a failure
		return fmt.Errorf("interrupted after %d of %d nodes; %s", done.Nodes, total, again)
	case done == (subtree.Loaded{}) || l.dryRun:
		return fmt.Errorf("%w; nothing was changed", err)
	}
	return fmt.Errorf("after %d of %d nodes: %w; %s", done.Nodes, total, err, again)
}
