package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/operator/subtree"
)

var usageColumns = []Column[subtree.Usage]{
	{Name: "bytes", AlignRight: true, Cell: func(r subtree.Usage) string { return FormatSize(r.Bytes) }, Compare: compareUsage},
	numberColumn("nodes", func(r subtree.Usage) int { return r.Nodes }, formatNumber),
	numberColumn("ephemerals", func(r subtree.Usage) int { return r.Ephemerals }, formatNumber),
	sortedColumn("path", func(r subtree.Usage) string { return r.Path }, orDash),
}

// compareUsage orders a subtree before the one that contains it.
func compareUsage(a, b subtree.Usage) int {
	return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Nodes, b.Nodes))
}

func newDu(w IOStreams) *cobra.Command {
	n, depth, limit, sort := newNodeCommand(w), 1, 0, ""
	cmd := n.registerRead(&cobra.Command{
		Use: "du [flags] [PATH]", Short: "print which subtrees have how many nodes and bytes",
		Args: RangeArgs(0, 1, "one path"),
		Long: "Prints how many nodes a subtree has and how many bytes of data, and the same for each subtree in it, the " +
			"largest first. It reads all of it, whatever --depth says. " +
			"Paths and the servers' own records take memory, too, and are not counted.",
	}, withinWalkTime(func(ctx context.Context, s nodes.Space, args []string) error {
		order, err := parseOrder(usageColumns, sort)
		if err != nil {
			return err
		}
		seen := &unreadNodes{streams: n.streams}
		all, err := order.sortRows(n.usageRows(ctx, s, pathOr(args, "/"), depth, seen), limit)
		if err != nil {
			return err
		}
		return errors.Join(PrintRows(n.output, usageColumns, RowsOf(all)), seen.reportUnread())
	}))
	addIntFlag(cmd, &depth, "depth", "print subtrees up to so many `levels` below the node", 0, noMaximum)
	addIntFlag(cmd, &limit, "limit", "print the first so many `rows` only (0: all)", 0, noMaximum)
	cmd.Flags().StringVar(&sort, "sort", "-bytes", "`column` to sort by; a minus in front: the greatest first")
	return cmd
}

// usageRows yields the subtrees below top down to depth.
func (n *nodeCommand) usageRows(ctx context.Context, s nodes.Space, top string, depth int,
	seen *unreadNodes,
) iter.Seq2[subtree.Usage, error] {
	return callbackRows(ctx, func(ctx context.Context, each func(subtree.Usage)) error {
		_, err := n.sumUsage(ctx, s, top, seen, func(u subtree.Usage, level int) {
			if level <= depth {
				each(u)
			}
		})
		return err
	})
}

// sumUsage walks a subtree, calls each with the totals of every node in it, and returns those of top.
func (n *nodeCommand) sumUsage(ctx context.Context, s nodes.Space, top string, seen *unreadNodes,
	each func(subtree.Usage, int),
) (total subtree.Usage, err error) {
	progress := NewProgress(n.streams, "nodes", 0)
	defer progress.Done()
	sum := subtree.NewUsageSum(func(u subtree.Usage, depth int) {
		total = u // the last one is the whole
		each(u, depth)
	})
	for node, err := range s.Walk(ctx, top, subtree.WalkOptions{}) {
		if err == nil {
			err = seen.recordIfUnreadable(node)
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

type treeRow struct {
	Path     string `json:"path"`
	Depth    int    `json:"depth"`
	Bytes    int32  `json:"bytes"` // of data
	Children int32  `json:"children"`
	Owner    string `json:"owner"` // session of an ephemeral node; "": none

	isLast bool
}

func newTree(w IOStreams) *cobra.Command {
	n, depth := newNodeCommand(w), 0
	cmd := n.registerRead(&cobra.Command{
		Use: "tree [flags] [PATH]", Short: "draw a subtree, with sizes", Args: RangeArgs(0, 1, "one path"),
		Long: "Draws the subtree at a node, by default that at /, with the size of each node's data, and counts it. It " +
			"reads the nodes one after another, so nodes that change meanwhile may be drawn " +
			"as they were or as they are. -o json and yaml print a row for each node.",
	}, withinWalkTime(func(ctx context.Context, s nodes.Space, args []string) error {
		seen := &unreadNodes{streams: n.streams}
		rows := readableRows(seen, s.Walk(ctx, pathOr(args, "/"), subtree.WalkOptions{MaxDepth: depth}),
			func(node *subtree.Node) (treeRow, bool) {
				stat := toAPIStat(node.Stat)
				return treeRow{node.Path, node.Depth, stat.DataLength, stat.NumChildren, stat.Owner, node.IsLastChild}, true
			})
		var err error
		if n.output.IsText() {
			err = n.drawTree(withRowProgress(n.streams, "nodes", rows), depth)
		} else {
			err = PrintRows(n.output, nil, withRowProgress(n.streams, "nodes", rows))
		}
		return errors.Join(err, seen.reportUnread())
	}))
	addIntFlag(cmd, &depth, "depth", "draw so many `levels` below the node only (0: all)", 0, noMaximum)
	return cmd
}

func (n *nodeCommand) drawTree(rows iter.Seq2[treeRow, error], depth int) error {
	out := bufio.NewWriterSize(n.streams.Out, outBuffer)
	var branches []string // prefixes of the children of each ancestor
	nodes, bytes, ephemerals := 0, int64(0), 0
	for row, err := range rows {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		head := ""
		if row.Depth > 0 {
			branches = branches[:row.Depth-1]
			head = strings.Join(branches, "") + map[bool]string{false: "├── ", true: "└── "}[row.isLast]
			branches = append(branches, map[bool]string{false: "│   ", true: "    "}[row.isLast])
		}
		name := row.Path
		if row.Depth > 0 {
			name = path.Base(name)
		}
		// a bufio.Writer keeps its error for Flush
		_, _ = fmt.Fprintln(out, head+EscapeUnprintable(name)+tintText(n.streams.AllowsColor(), Dim, nodeDetails(row, depth)))
		if nodes, bytes = nodes+1, bytes+int64(row.Bytes); row.Owner != "" {
			ephemerals++
		}
	}
	_, _ = fmt.Fprintf(out, "\n%s, %d of them ephemeral, %s of data\n", FormatCount(nodes, "node", "nodes"), ephemerals,
		FormatSize(bytes))
	return out.Flush()
}

func nodeDetails(row treeRow, depth int) string {
	var parts []string
	if row.Bytes > 0 {
		parts = append(parts, FormatSize(int64(row.Bytes)))
	}
	if row.Owner != "" {
		parts = append(parts, "ephemeral of "+row.Owner)
	}
	if depth > 0 && row.Depth == depth && row.Children > 0 {
		parts = append(parts, FormatCount(int(row.Children), "child", "children"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, ", ") + ")"
}
