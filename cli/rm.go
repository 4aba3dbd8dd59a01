package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/zk/jute"
)

// removal is the command that deletes nodes.
type removal struct {
	*nodes
	recursive, dryRun, yes bool
	version                int32
}

// newRm returns the command that deletes nodes.
func newRm(w World) *cobra.Command {
	r := &removal{nodes: newNodes(w)}
	cmd := r.register(&cobra.Command{
		Use: "rm [flags] PATH", Short: "delete a node, or all of a subtree", Args: Takes(1, 1, "one path"),
		Long: "Deletes a node, which must not have children. With -r it deletes all below it, too, ephemeral nodes included. On a terminal it asks before that; elsewhere -r needs --yes. " +
			"It can be repeated if it was interrupted.",
	}, true, r.run)
	cmd.Flags().BoolVarP(&r.recursive, "recursive", "r", false, "delete all nodes below it, too")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "with -r: print the paths of the nodes, and delete none")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "with -r: do it without asking")
	versionFlag(cmd, &r.version, "version")
	r.Output.Register(cmd)
	cmd.PreRunE = func(_ *cobra.Command, args []string) error { return With(WrongUse, r.check(args[0])) }
	return cmd
}

// check returns an error if the flags do not go together.
func (r *removal) check(path string) error {
	switch {
	case path == "/" || path == subtree.Servers:
		return fmt.Errorf("rm: %s cannot be deleted; name a node below it", path)
	case r.recursive && r.version != anyVersion:
		return errors.New("rm: --version is about one node, not for -r")
	case !r.recursive && (r.dryRun || r.yes):
		return errors.New("rm: --dry-run and --yes are for -r")
	case r.recursive && !r.dryRun && !r.yes && !r.InTerminal:
		return errors.New("rm: there is no terminal to ask on; --yes deletes all of it without asking")
	}
	return nil
}

func (r *removal) run(ctx context.Context, s subtree.Space, args []string) error {
	path := args[0]
	switch {
	case !r.recursive:
		if err := s.Write(ctx, func(ctx context.Context) error { return s.Client.Delete(ctx, s.Full(path), r.version) }); err != nil {
			return err
		}
		return PrintText(r.Output, "", removed{path, 1})
	case r.dryRun:
		return r.print(r.would(ctx, s, path))
	case !r.yes:
		if err := r.confirm(ctx, s, path); err != nil {
			return err
		}
	}
	progress := NewProgress(r.World, "nodes deleted", 0)
	defer progress.Done()
	done, err := s.Remove(ctx, path, subtree.Removing{Each: func(string, bool) { progress.Add(1) }})
	progress.Done()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted after %s deleted; the same command deletes the rest", path, nodesWere(done.Nodes))
	case err != nil && done.Nodes > 0:
		return fmt.Errorf("after %s deleted: %w", nodesWere(done.Nodes), err)
	case err != nil:
		return err
	case done.Left > 0:
		return fmt.Errorf("%s deleted, and %s left, because others created children there meanwhile: %w; the same command tries again", nodesWere(done.Nodes), nodesWere(done.Left), jute.NotEmpty)
	}
	return PrintText(r.Output, nodesWere(done.Nodes)+" deleted.\n", removed{path, done.Nodes})
}

// removed says what was deleted, as JSON has it.
type removed struct {
	Path  string `json:"path"`
	Nodes int    `json:"nodes"` // with those below it
}

// removable is a node that would be deleted, as JSON has it.
type removable struct {
	Path string `json:"path"`
}

// would yields the nodes that a removal would delete, children first.
func (r *removal) would(ctx context.Context, s subtree.Space, path string) iter.Seq2[removable, error] {
	return func(yield func(removable, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		_, err := s.Remove(ctx, path, subtree.Removing{DryRun: true, Each: func(path string, deleted bool) {
			if more && deleted {
				more = yield(removable{path}, nil)
			}
			if !more {
				stop()
			}
		}})
		if more && err != nil {
			yield(removable{}, err)
		}
	}
}

// print prints the nodes that would be deleted: for people, a path on each line.
func (r *removal) print(rows iter.Seq2[removable, error]) error {
	if !r.Text() {
		return Print(r.Output, nil, rows)
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(r.Out, Visible(row.Path)); err != nil {
			return err
		}
	}
	return nil
}

func nodesWere(n int) string { return plural(n, "node was", "nodes were") }

// confirm counts what would be deleted, and returns an error unless the user wants that.
func (r *removal) confirm(ctx context.Context, s subtree.Space, path string) error {
	total, err := r.usage(ctx, s, path, &unread{world: r.World, space: s}, func(subtree.Usage) {})
	if err != nil {
		return err
	}
	return Confirm(r.World, "rm", fmt.Sprintf("Delete %s with %s, %d of them ephemeral, and %s of data?", Visible(path), plural(total.Nodes, "node", "nodes"), total.Ephemerals, Size(total.Bytes)))
}
