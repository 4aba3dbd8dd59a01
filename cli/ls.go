package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/api"
	"rollcall/operator/subtree"
)

func newLs(w IOStreams) *cobra.Command {
	n, long := newNodeCommand(w), false
	cmd := n.registerRead(&cobra.Command{
		Use: "ls [flags] [PATH]", Short: "list the children of a node", Args: RangeArgs(0, 1, "one path"),
		Long: "Lists the names of a node's children, one on each line; by default those of /. -l also shows some fields " +
			"of each child's Stat. -o wide, json and yaml show all of them.",
	}, withinWalkTime(func(ctx context.Context, s nodes.Space, args []string) error {
		top := pathOr(args, "/")
		if n.output.format == "table" && !long {
			return n.printNames(ctx, s, top)
		}
		listed := &unreadNodes{streams: n.streams}
		columns := withStat(n.streams.Now(), "name", func(r lsRow) string { return r.Name }, func(r lsRow) *api.Stat { return &r.Stat })
		err := PrintRows(n.output, columns,
			readableRows(listed, s.Walk(ctx, top, subtree.WalkOptions{MaxDepth: 1}), func(node *subtree.Node) (lsRow, bool) {
				return lsRow{Name: path.Base(node.Path), nodeStat: nodeStat{node.Path, toAPIStat(node.Stat)}}, node.Depth == 1
			}))
		return errors.Join(err, listed.reportUnread())
	}))
	cmd.Flags().BoolVarP(&long, "long", "l", false, "with size, number of children, owner and age")
	return cmd
}

func pathOr(args []string, other string) string {
	if len(args) == 0 {
		return other
	}
	return args[0]
}

func (n *nodeCommand) printNames(ctx context.Context, s nodes.Space, top string) error {
	names, _, err := s.Children(ctx, top)
	if err != nil {
		return err
	}
	slices.Sort(names)
	out := bufio.NewWriterSize(n.streams.Out, outBuffer)
	for _, name := range names {
		_, _ = fmt.Fprintln(out, EscapeUnprintable(name)) // a bufio.Writer keeps its error for Flush
	}
	return out.Flush()
}

type lsRow struct {
	Name string `json:"name"`
	nodeStat
}

// unreadNodes collects the nodes of a walk that the user may not read.
type unreadNodes struct {
	streams    IOStreams
	count      int
	firstPaths []string // of their paths
}

const maxUnreadShown = 20

// recordIfUnreadable notes an unreadable node. It returns an error if that is the top of the walk.
func (u *unreadNodes) recordIfUnreadable(node *subtree.Node) error {
	switch {
	case node.Err == nil:
		return nil
	case node.Depth == 0:
		return node.Err
	}
	if u.count++; len(u.firstPaths) < maxUnreadShown {
		u.firstPaths = append(u.firstPaths, node.Path)
	}
	return nil
}

func (u *unreadNodes) reportUnread() error {
	for _, path := range u.firstPaths {
		warnf(u.streams, "%s may not be read", path)
	}
	if u.count == 0 {
		return nil
	}
	return fmt.Errorf("%s may not be read: %w; what is there and below is missing", FormatCount(u.count, "node", "nodes"),
		client.ErrNoAuth)
}

// readableRows yields the result of row for each readable node, unless row returns false.
func readableRows[T any](u *unreadNodes, walk iter.Seq2[*subtree.Node, error],
	row func(*subtree.Node) (T, bool),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for node, err := range walk {
			if err == nil {
				err = u.recordIfUnreadable(node)
			}
			if err != nil {
				yield(*new(T), err)
				return
			}
			if node.Err != nil {
				continue
			}
			if r, shown := row(node); shown && !yield(r, nil) {
				return
			}
		}
	}
}
