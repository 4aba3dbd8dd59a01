package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
)

var loadedColumns = []Column[subtree.LoadResult]{
	{Name: "nodes", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.Nodes) }},
	{Name: "size", Cell: func(r subtree.LoadResult) string { return FormatSize(r.Bytes) }},
	{Name: "created", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.Created) }},
	{Name: "set", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.Set) }},
	{Name: "acls", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.ACLs) }},
	{Name: "deleted", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.Deleted) }},
	{Name: "left", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.LeftAlone) }},
	{Name: "skipped", Cell: func(r subtree.LoadResult) string { return fmt.Sprint(r.Skipped) }},
}

var changeColumns = []Column[subtree.Change]{
	{Name: "action", Cell: func(r subtree.Change) string { return r.Action }},
	{Name: "bytes", AlignRight: true, Cell: func(r subtree.Change) string { return FormatSize(int64(r.Bytes)) }},
	{Name: "path", Cell: func(r subtree.Change) string { return r.Path }},
}

type loadCommand struct {
	*nodeCommand
	into                                string
	merge, replace, allowEdited, dryRun bool
	acl                                 aclFlag
}

func newLoad(w IOStreams) *cobra.Command {
	l := &loadCommand{nodeCommand: newNodeCommand(w)}
	cmd := l.registerWithOutput(&cobra.Command{
		Use: "load [flags] FILE", Short: "load a dump of rollcall dump", Args: RangeArgs(1, 1, "one file"),
		Long: "Loads a dump made by rollcall dump. If FILE is -, it reads stdin. It checks the whole file first, and " +
			"loads nothing from a truncated or changed one. Without --merge or --replace " +
			"the subtree must not exist yet.\n\nIf the command is interrupted, it says " +
			"how far it came, and --merge does the rest. It never changes or deletes " +
			"ephemeral nodes. The numbers of sequential names, versions and times " +
			"of created nodes start over.",
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
	fs.Var(&l.acl, "acl", "give all nodes this access control `list` instead of their own, as scheme:id:perms,...; may "+
		"be repeated")
	cmd.PreRunE = func(*cobra.Command, []string) error { return WithStatus(UsageError, l.validate()) }
	return cmd
}

func (l *loadCommand) validate() error {
	if l.merge && l.replace {
		return errors.New("load: --merge and --replace exclude each other")
	}
	if l.into != "" {
		if err := subtree.CheckPath(l.into); err != nil {
			return fmt.Errorf("load: --into: %w", err)
		}
	}
	return nil
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

// openFile opens the dump. It spools input that cannot be read twice, such as a pipe.
func (l *loadCommand) openFile(name string) (*os.File, error) {
	if name == "-" {
		return spoolFile(l.streams.In)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, UsageError.Errorf("load: %w", err)
	}
	if _, err := f.Seek(0, io.SeekCurrent); err == nil {
		return f, nil
	}
	defer func() { _ = f.Close() }() // it was only read
	return spoolFile(f)
}

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

func (l *loadCommand) loadOrShow(ctx context.Context, s nodes.Space, file io.ReadSeeker) error {
	work := &loadJob{
		streams: l.streams, output: l.output, sourceName: "the dump", resumeAdvice: "with --merge, " + repeatCompletes,
		noAuthAdvice: ", or --acl",
		options:      subtree.LoadOptions{Into: l.into, AllowEdited: l.allowEdited, ACL: l.acl},
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

const repeatCompletes = "the same command does the rest"

// loadJob loads a dump, or a subtree of a backup.
type loadJob struct {
	streams      IOStreams
	output       *Output
	sourceName   string // such as "the dump"
	resumeAdvice string // after an interruption
	noAuthAdvice string // follows the advice about permissions
	options      subtree.LoadOptions
	runLoad      func(context.Context, subtree.LoadOptions) (subtree.LoadResult, error)
}

func (l *loadJob) printChanges(ctx context.Context) error {
	var would subtree.LoadResult
	if err := PrintRows(l.output, changeColumns, l.plannedChanges(ctx, &would)); err != nil {
		return err
	}
	warnf(l.streams, "%s", planSummary(l.sourceName, would))
	return nil
}

func planSummary(from string, w subtree.LoadResult) string {
	return fmt.Sprintf("of %s in %s, %d would be created, %d get other data and %d another access control list; %d "+
		"others would be deleted, and %d left as they are",
		FormatCount(w.Nodes+w.Skipped, "node", "nodes"), from, w.Created, w.Set, w.ACLs, w.Deleted, w.LeftAlone)
}

// plannedChanges yields the changes of a dry run, and then sets would to their numbers.
func (l *loadJob) plannedChanges(ctx context.Context, would *subtree.LoadResult) iter.Seq2[subtree.Change, error] {
	return callbackRows(ctx, func(ctx context.Context, each func(subtree.Change)) (err error) {
		*would, err = l.dryRunLoad(ctx, func(c subtree.Change) {
			if c.Action != "same" {
				each(c)
			}
		})
		return err
	})
}

// dryRunLoad is a dry run.
func (l *loadJob) dryRunLoad(ctx context.Context, each func(subtree.Change)) (subtree.LoadResult, error) {
	how := l.options
	how.DryRun, how.OnBegin, how.OnChange = true, func(subtree.Summary) {}, each
	done, err := l.runLoad(ctx, how)
	if err != nil {
		err = l.explainFailure(subtree.LoadResult{}, 0, err)
	}
	return done, err
}

func (l *loadJob) loadAndPrint(ctx context.Context) error {
	progress := NewProgress(l.streams, "nodes", 0)
	defer progress.Done()
	total, last := 0, ""
	how := l.options
	how.OnBegin = func(sum subtree.Summary) {
		total = sum.Count
		progress.SetTotal(sum.Count)
	}
	how.OnChange = func(c subtree.Change) {
		if c.Path != last { // a node can have two changes
			progress.Add(1)
		}
		last = c.Path
	}
	done, err := l.runLoad(ctx, how)
	progress.Done()
	if err != nil {
		return l.explainFailure(done, total, err)
	}
	if done.Created > 0 {
		warnf(l.streams, "%s", startsOver)
	}
	return printRow(l.output, loadedColumns, done)
}

// startsOver names state that neither a dump nor a subtree of a backup restores, because clients cannot set it.
const startsOver = "in the created nodes, the numbers of sequential names, versions and times start over: a new name may be one that a client had before"

var loadAdvice = []struct {
	reason error
	text   string
}{
	{subtree.ErrExists, "--merge or --replace loads into what exists, and --into loads elsewhere"},
	{subtree.ErrIncomplete, "--merge deletes nothing"},
	{subtree.ErrHiddenDigests, "dump again with --auth of an administrator of these nodes, or give all nodes another list with --acl"},
	{subtree.ErrChecksum, "after an edit on purpose, --edited takes it"},
	{client.ErrNoNode, "rollcall create -p makes what is missing"},
	{client.ErrNoAuth, "a list that is loaded may keep you from making children: use --auth digest:super:PASSWORD"},
	{client.ErrUnimplemented, "nodes with a time to live need extendedTypesEnabled=true in the configuration of the servers"},
}

// explainFailure adds advice, and the number of nodes that were loaded.
func (l *loadJob) explainFailure(done subtree.LoadResult, total int, err error) error {
	for _, a := range loadAdvice {
		if errors.Is(err, a.reason) {
			err = fmt.Errorf("%w; %s", err, a.text)
		}
	}
	if errors.Is(err, client.ErrNoAuth) {
		err = fmt.Errorf("%w%s", err, l.noAuthAdvice)
	}
	if errors.Is(err, subtree.ErrExists) {
		err = WithStatus(Conflict, err)
	}
	switch {
	case errors.Is(err, context.Canceled): // not wrapped: it is a failure
		return fmt.Errorf("interrupted after %d of %d nodes; %s", done.Nodes, total, l.resumeAdvice)
	case done == (subtree.LoadResult{}):
		return fmt.Errorf("%w; nothing was changed", err)
	}
	return fmt.Errorf("after %d of %d nodes: %w; %s", done.Nodes, total, err, l.resumeAdvice)
}
