package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
)

// usageRow is what a subtree takes, as JSON has it.
type usageRow struct {
	Path       string `json:"path"`
	Nodes      int    `json:"nodes"`
	Bytes      int64  `json:"bytes"` // of data
	Ephemerals int    `json:"ephemerals"`
	Unread     int    `json:"unread"` // nodes that may not be read; they and all below them are not counted
}

var usageColumns = []Column[usageRow]{
	{Name: "bytes", AlignRight: true, Cell: func(r usageRow) string { return FormatSize(r.Bytes) }, Compare: compareUsage},
	{Name: "nodes", AlignRight: true, Cell: func(r usageRow) string { return fmt.Sprint(r.Nodes) }, Compare: compareBy(func(r usageRow) int { return r.Nodes })},
	{Name: "ephemerals", AlignRight: true, Cell: func(r usageRow) string { return fmt.Sprint(r.Ephemerals) }, Compare: compareBy(func(r usageRow) int { return r.Ephemerals })},
	{Name: "path", Cell: func(r usageRow) string { return r.Path }, Compare: compareBy(func(r usageRow) string { return r.Path })},
}

// compareUsage compares what two subtrees take. One within the other has fewer nodes.
func compareUsage(a, b usageRow) int {
	return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Nodes, b.Nodes))
}

// newDu returns the command that says which subtrees take how much.
func newDu(w IOStreams) *cobra.Command {
	n, depth, limit, sort := newNodeCommand(w), 0, 0, ""
	cmd := n.registerCommand(&cobra.Command{
		Use: "du [flags] [PATH]", Short: "print which subtrees have how many nodes and bytes", Args: RangeArgs(0, 1, "one path"),
		Long: "Prints how many nodes a subtree has and how many bytes of data, and the same for each subtree in it, the largest first. It reads all of it, whatever --depth says. " +
			"Paths and the servers' own records take memory, too, and are not counted.",
	}, false, func(ctx context.Context, s subtree.Space, args []string) error {
		order, err := parseOrder(usageColumns, sort)
		if err != nil {
			return err
		}
		seen := &unreadNodes{streams: n.IOStreams, space: s}
		all, err := order.sortRows(n.usageRows(ctx, s, pathOr(args, "/"), depth, seen), limit)
		if err != nil {
			return err
		}
		return errors.Join(PrintRows(n.Output, usageColumns, rowsOf(all)), seen.reportUnread())
	})
	cmd.Flags().IntVar(&depth, "depth", 1, "print subtrees up to so many `levels` below the node")
	cmd.Flags().IntVar(&limit, "limit", 0, "print the first so many `rows` only (0: all)")
	cmd.Flags().StringVar(&sort, "sort", "-bytes", "`column` to sort by; a minus in front: the greatest first")
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkDepth("du", depth) }
	n.Output.Register(cmd)
	return cmd
}

// usageRows yields what each subtree at top takes, down to a depth.
func (n *nodeCommand) usageRows(ctx context.Context, s subtree.Space, top string, depth int, seen *unreadNodes) iter.Seq2[usageRow, error] {
	return func(yield func(usageRow, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		_, err := n.sumUsage(ctx, s, top, seen, func(u subtree.Usage) {
			if more && u.Depth <= depth {
				more = yield(usageRow{u.Path, u.Nodes, u.Bytes, u.Ephemerals, u.Unread}, nil)
			}
			if !more {
				stop()
			}
		})
		if more && err != nil {
			yield(usageRow{}, err)
		}
	}
}

// sumUsage walks a subtree and calls each with what every node in it takes with all below it. It returns what
// the whole takes.
func (n *nodeCommand) sumUsage(ctx context.Context, s subtree.Space, top string, seen *unreadNodes, each func(subtree.Usage)) (total subtree.Usage, err error) {
	progress := NewProgress(n.IOStreams, "nodes", 0)
	defer progress.Done()
	sum := subtree.NewUsageSum(func(u subtree.Usage) {
		total = u // the last one is the whole
		each(u)
	})
	for node, err := range s.Walk(ctx, top, subtree.WalkOptions{}) {
		if err == nil {
			err = seen.noteUnread(node)
		}
		if err != nil {
			return total, err
		}
		progress.Add(1)
		sum.Add(node)
	}
	sum.Done()
	return total, nil
}
