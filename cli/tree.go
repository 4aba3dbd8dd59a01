package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
)

// treeRow is a node of a tree, as JSON has it.
type treeRow struct {
	Path     string `json:"path"`
	Depth    int    `json:"depth"`
	Bytes    int32  `json:"bytes"` // of data
	Children int32  `json:"children"`
	Owner    string `json:"owner"` // session of an ephemeral node; "": none

	isLast bool
}

// newTree returns the command that draws a subtree.
func newTree(w IOStreams) *cobra.Command {
	n, depth := newNodeCommand(w), 0
	cmd := n.registerCommand(&cobra.Command{
		Use: "tree [flags] [PATH]", Short: "draw a subtree, with sizes", Args: RangeArgs(0, 1, "one path"),
		Long: "Draws the subtree at a node, by default that at /, with the size of each node's data, and counts it. It reads the nodes one after another, so nodes that change meanwhile may be drawn " +
			"as they were or as they are. -o json and yaml print a row for each node.",
	}, false, func(ctx context.Context, s subtree.Space, args []string) error {
		seen := &unreadNodes{streams: n.IOStreams, space: s}
		rows := visitedRows(seen, s.Walk(ctx, pathOr(args, "/"), subtree.WalkOptions{MaxDepth: depth}), func(node *subtree.Node) (treeRow, bool) {
			stat := toAPIStat(node.Stat)
			return treeRow{node.Path, node.Depth, stat.DataLength, stat.NumChildren, stat.Owner, node.Last}, true
		})
		var err error
		if n.IsText() {
			err = n.drawTree(countRows(n.IOStreams, "nodes", rows), depth)
		} else {
			err = PrintRows(n.Output, nil, countRows(n.IOStreams, "nodes", rows))
		}
		return errors.Join(err, seen.reportUnread())
	})
	cmd.Flags().IntVar(&depth, "depth", 0, "draw so many `levels` below the node only (0: all)")
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkDepth("tree", depth) }
	n.Output.Register(cmd)
	return cmd
}

func checkDepth(command string, depth int) error {
	if depth < 0 {
		return WithStatus(UsageError, fmt.Errorf("%s: --depth %d: allowed are 0, which is all, and more", command, depth))
	}
	return nil
}

// drawTree prints a tree, and how many nodes it has.
func (n *nodeCommand) drawTree(rows iter.Seq2[treeRow, error], depth int) error {
	out := bufio.NewWriterSize(n.Out, outBuffer)
	var branches []string // what stands left of the children of each node above
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
		name := baseName(row.Path)
		if row.Depth == 0 {
			name = row.Path
		}
		_, _ = fmt.Fprintln(out, head+EscapeUnprintable(name)+tintText(n.allowsColor(), Dim, nodeDetails(row, depth))) // a bufio.Writer keeps its error for Flush
		if nodes, bytes = nodes+1, bytes+int64(row.Bytes); row.Owner != "" {
			ephemerals++
		}
	}
	_, _ = fmt.Fprintf(out, "\n%s, %d of them ephemeral, %s of data\n", formatCount(nodes, "node", "nodes"), ephemerals, FormatSize(bytes))
	return out.Flush()
}

// nodeDetails returns what stands behind the name of a node: its size, its owner, and how many children are not
// drawn.
func nodeDetails(row treeRow, depth int) string {
	var parts []string
	if row.Bytes > 0 {
		parts = append(parts, FormatSize(int64(row.Bytes)))
	}
	if row.Owner != "" {
		parts = append(parts, "ephemeral of "+row.Owner)
	}
	if depth > 0 && row.Depth == depth && row.Children > 0 {
		parts = append(parts, formatCount(int(row.Children), "child", "children"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, ", ") + ")"
}
