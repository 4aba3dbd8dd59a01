package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
)

type removeCommand struct {
	*nodeCommand
	recursive, dryRun, skipConfirm bool
	version                        int32
}

func newRm(w IOStreams) *cobra.Command {
	r := &removeCommand{nodeCommand: newNodeCommand(w)}
	cmd := r.registerWithOutput(&cobra.Command{
		Use: "rm [flags] PATH", Short: "delete a node, or all of a subtree", Args: RangeArgs(1, 1, "one path"),
		Long: "Deletes a node, which must not have children. With -r it deletes all below it, too, ephemeral nodes " +
			"included. On a terminal it asks before that; elsewhere -r needs --yes. " +
			"It can be repeated if it was interrupted.",
	}, true, r.run)
	cmd.Flags().BoolVarP(&r.recursive, "recursive", "r", false, "delete all nodes below it, too")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "with -r: print the paths of the nodes, and delete none")
	cmd.Flags().BoolVar(&r.skipConfirm, "yes", false, "with -r: do it without asking")
	addVersionFlag(cmd, &r.version, "version")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error { return WithStatus(UsageError, r.validate(args[0])) }
	return cmd
}

func (r *removeCommand) validate(path string) error {
	switch {
	case path == "/" || path == subtree.ServersNode:
		return fmt.Errorf("rm: %s cannot be deleted; name a node below it", path)
	case r.recursive && r.version != anyVersion:
		return errors.New("rm: --version is about one node, not for -r")
	case !r.recursive && (r.dryRun || r.skipConfirm):
		return errors.New("rm: --dry-run and --yes are for -r")
	case r.recursive && !r.dryRun && !r.skipConfirm && !r.streams.InTerminal:
		return errors.New("rm: there is no terminal to ask on; --yes deletes all of it without asking")
	}
	return nil
}

func (r *removeCommand) run(ctx context.Context, s nodes.Space, args []string) error {
	path := args[0]
	switch {
	case !r.recursive:
		if err := s.Delete(ctx, path, r.version); err != nil {
			return err
		}
		return PrintText(r.output, "", removedRow{path, 1})
	case r.dryRun && !r.output.IsText():
		return PrintRows(r.output, nil, r.plannedRemovals(ctx, s, path))
	case r.dryRun:
		return printLines(r.output, r.plannedRemovals(ctx, s, path), func(row pathRow) string { return row.Path })
	case !r.skipConfirm:
		if err := r.confirmRemoval(ctx, s, path); err != nil {
			return err
		}
	}
	progress := NewProgress(r.streams, "nodes deleted", 0)
	defer progress.Done()
	done, err := s.Remove(ctx, path, subtree.RemoveOptions{OnNode: func(string, bool) { progress.Add(1) }})
	progress.Done()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted after %s deleted; the same command deletes the rest", path,
			formatNodesWere(done.Nodes))
	case err != nil && done.Nodes > 0:
		return fmt.Errorf("after %s deleted: %w", formatNodesWere(done.Nodes), err)
	case err != nil:
		return err
	case done.LeftAlone > 0:
		return fmt.Errorf("%s deleted, and %s left, because others created children there meanwhile: %w; the same command "+
			"tries again", formatNodesWere(done.Nodes), formatNodesWere(done.LeftAlone), client.ErrNotEmpty)
	}
	return PrintText(r.output, formatNodesWere(done.Nodes)+" deleted.\n", removedRow{path, done.Nodes})
}

type removedRow struct {
	Path  string `json:"path"`
	Nodes int    `json:"nodes"` // with those below it
}

func (r *removeCommand) plannedRemovals(ctx context.Context, s nodes.Space, path string) iter.Seq2[pathRow, error] {
	return callbackRows(ctx, func(ctx context.Context, each func(pathRow)) error {
		_, err := s.Remove(ctx, path, subtree.RemoveOptions{DryRun: true, OnNode: func(path string, deleted bool) {
			if deleted {
				each(pathRow{path})
			}
		}})
		return err
	})
}

func formatNodesWere(n int) string { return FormatCount(n, "node was", "nodes were") }

// confirmRemoval counts the nodes, and returns an error unless the user confirms.
func (r *removeCommand) confirmRemoval(ctx context.Context, s nodes.Space, path string) error {
	total, err := r.sumUsage(ctx, s, path, &unreadNodes{streams: r.streams}, func(subtree.Usage, int) {})
	if err != nil {
		return err
	}
	return Confirm(r.streams,
		fmt.Sprintf("Delete %s with %s, %d of them ephemeral, and %s of data?", EscapeUnprintable(path),
			FormatCount(total.Nodes, "node", "nodes"), total.Ephemerals, FormatSize(total.Bytes)))
}
