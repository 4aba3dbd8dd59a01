package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
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
	work := &loadWork{
		World: l.World, Output: l.Output, from: "the dump", again: "with --merge, " + sameAgain, noAuth: ", or --acl",
		how: subtree.Loading{Into: l.into, Edited: l.edited, ACL: acl},
		do: func(ctx context.Context, how subtree.Loading) (subtree.Loaded, error) {
			return s.Load(ctx, file, how)
		},
	}
	switch {
	case l.merge:
		work.how.Mode = subtree.Merge
	case l.replace:
		work.how.Mode, work.again = subtree.Replace, sameAgain
	}
	if l.dryRun {
		return work.show(ctx)
	}
	return work.carryOut(ctx)
}
