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
	Nodes     int   `json:"nodes"` // of the dump that are now as it says
	Bytes     int64 `json:"bytes"` // of their data
	Created   int   `json:"created"`
	Set       int   `json:"set"`     // nodes that existed and got other data
	ACLs      int   `json:"acls"`    // nodes that existed and got another list
	Deleted   int   `json:"deleted"` // nodes that were not in the dump
	LeftAlone int   `json:"left"`    // ephemeral nodes of living sessions, and nodes above them, that stay as they are
	Skipped   int   `json:"skipped"` // ephemeral nodes of the dump
}

var loadedColumns = []Column[loadedRow]{
	{Name: "nodes", Cell: func(r loadedRow) string { return fmt.Sprint(r.Nodes) }},
	{Name: "size", Cell: func(r loadedRow) string { return FormatSize(r.Bytes) }},
	{Name: "created", Cell: func(r loadedRow) string { return fmt.Sprint(r.Created) }},
	{Name: "set", Cell: func(r loadedRow) string { return fmt.Sprint(r.Set) }},
	{Name: "acls", Cell: func(r loadedRow) string { return fmt.Sprint(r.ACLs) }},
	{Name: "deleted", Cell: func(r loadedRow) string { return fmt.Sprint(r.Deleted) }},
	{Name: "left", Cell: func(r loadedRow) string { return fmt.Sprint(r.LeftAlone) }},
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
	{Name: "bytes", AlignRight: true, Cell: func(r changeRow) string { return FormatSize(int64(r.Bytes)) }},
	{Name: "path", Cell: func(r changeRow) string { return r.Path }},
}

// loadCommand is the command that loads a dump.
type loadCommand struct {
	*nodeCommand
	into                                string
	merge, replace, allowEdited, dryRun bool
	acl                                 []string
}

// newLoad returns the command that loads a dump.
func newLoad(w IOStreams) *cobra.Command {
	l := &loadCommand{nodeCommand: newNodeCommand(w)}
	cmd := l.registerCommand(&cobra.Command{
		Use: "load [flags] FILE", Short: "load a dump of rollcall dump", Args: RangeArgs(1, 1, "one file"),
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
	fs.BoolVar(&l.allowEdited, "edited", false, "the dump was edited: take it though its checksum does not fit")
	fs.BoolVar(&l.dryRun, "dry-run", false, "print what would be done, and do nothing")
	fs.StringArrayVar(&l.acl, "acl", nil, "give all nodes this access control `list` instead of their own, as scheme:id:perms,...; may be repeated")
	l.Output.Register(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error { return WithStatus(UsageError, l.validate()) }
	return cmd
}

// validate returns an error if the flags do not go together.
func (l *loadCommand) validate() error {
	if l.merge && l.replace {
		return errors.New("load: --merge and --replace exclude each other")
	}
	if l.into != "" {
		if err := subtree.CheckPath(l.into); err != nil {
			return fmt.Errorf("load: --into: %w", err)
		}
	}
	_, err := parseACLFlags("load", l.acl)
	return err
}

func (l *loadCommand) run(ctx context.Context, name string) error {
	file, err := l.openFile(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	s, err := l.openSpace(ctx)
	if err != nil {
		return err
	}
	defer closeSession(s.Client)
	return explainNodeError("load: "+name, s, true, l.loadOrShow(ctx, s, file))
}

// openFile opens the file. The input, and a file that cannot be read twice, such as a pipe, are copied into
// another one first.
func (l *loadCommand) openFile(name string) (*os.File, error) {
	if name == "-" {
		return spoolFile(l.In)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, WithStatus(UsageError, fmt.Errorf("load: %w", err))
	}
	if _, err := f.Seek(0, io.SeekCurrent); err == nil {
		return f, nil
	}
	defer func() { _ = f.Close() }() // it was only read
	return spoolFile(f)
}

// spoolFile copies r into a file that nobody else sees.
func spoolFile(r io.Reader) (*os.File, error) {
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

// loadOrShow loads the file, or prints what a load would do.
func (l *loadCommand) loadOrShow(ctx context.Context, s subtree.Space, file io.ReadSeeker) error {
	acl, err := parseACLFlags("load", l.acl)
	if err != nil {
		return err
	}
	work := &loadJob{
		IOStreams: l.IOStreams, Output: l.Output, sourceName: "the dump", resumeAdvice: "with --merge, " + repeatCompletes, noAuthAdvice: ", or --acl",
		options: subtree.LoadOptions{Into: l.into, AllowEdited: l.allowEdited, ACL: acl},
		runLoad: func(ctx context.Context, how subtree.LoadOptions) (subtree.LoadResult, error) {
			return s.Load(ctx, file, how)
		},
	}
	switch {
	case l.merge:
		work.options.Mode = subtree.Merge
	case l.replace:
		work.options.Mode, work.resumeAdvice = subtree.Replace, repeatCompletes
	}
	if l.dryRun {
		return work.printChanges(ctx)
	}
	return work.loadAndPrint(ctx)
}
