package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/client"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// newLs returns the command that lists the children of a node.
func newLs(w World) *cobra.Command {
	n, long := newNodes(w), false
	cmd := n.register(&cobra.Command{
		Use: "ls [flags] [PATH]", Short: "list the children of a node", Args: Takes(0, 1, "one path"),
		Long: "Lists the names of a node's children, one on each line; by default those of /. -l also shows some fields of each child's Stat. -o wide, json and yaml show all of them.",
	}, false, func(ctx context.Context, s subtree.Space, args []string) error {
		top := pathOr(args, "/")
		if n.format == "table" && !long {
			return n.names(ctx, s, top)
		}
		listed := &unread{world: n.World, space: s}
		err := Print(n.Output, lsColumns(n.World), visited(listed, s.Walk(ctx, top, subtree.Walking{Levels: 1}), func(node *subtree.Node) (lsRow, bool) {
			return lsRow{Name: last(node.Path), nodeStat: nodeStat{node.Path, statOf(node.Stat)}}, node.Depth == 1
		}))
		return errors.Join(err, listed.err())
	})
	cmd.Flags().BoolVarP(&long, "long", "l", false, "with size, number of children, owner and age")
	n.Output.Register(cmd)
	return cmd
}

// pathOr returns the path that the first argument names, or another.
func pathOr(args []string, other string) string {
	if len(args) == 0 {
		return other
	}
	return args[0]
}

// last returns the last name of a path, or the path of the root.
func last(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' && len(path) > 1 {
			return path[i+1:]
		}
	}
	return path
}

// names prints the names of a node's children.
func (n *nodes) names(ctx context.Context, s subtree.Space, top string) error {
	names, _, err := s.Children(ctx, top)
	if err != nil {
		return err
	}
	slices.Sort(names)
	out := bufio.NewWriterSize(n.Out, outBuffer)
	for _, name := range names {
		_, _ = fmt.Fprintln(out, Visible(name)) // a bufio.Writer keeps its error for Flush
	}
	return out.Flush()
}

// lsRow is a child of a node.
type lsRow struct {
	Name string `json:"name"`
	nodeStat
}

func lsColumns(w World) []Column[lsRow] {
	return append([]Column[lsRow]{{Name: "name", Cell: func(r lsRow) string { return r.Name }}},
		statColumns(w.Now(), func(r lsRow) api.Stat { return r.Stat })...)
}

// unread remembers the nodes of a walk that may not be read.
type unread struct {
	world World
	space subtree.Space
	nodes int
	first []string // of their paths
}

// maxUnreadShown is how many nodes that may not be read are named.
const maxUnreadShown = 20

// look takes note of a node if it may not be read. If that is the top of the walk, look returns an error.
func (u *unread) look(node *subtree.Node) error {
	switch {
	case node.Err == nil:
		return nil
	case node.Depth == 0:
		return &client.Error{Op: jute.OpGetChildren2, Path: u.space.Full(node.Path), Err: node.Err}
	}
	if u.nodes++; len(u.first) < maxUnreadShown {
		u.first = append(u.first, node.Path)
	}
	return nil
}

// err warns of the nodes that may not be read, and returns an error if there are any.
func (u *unread) err() error {
	for _, path := range u.first {
		warn(u.world, "%s may not be read", path)
	}
	if u.nodes == 0 {
		return nil
	}
	return fmt.Errorf("%s may not be read: %w; what is there and below is missing", plural(u.nodes, "node", "nodes"), jute.NoAuth)
}

// visited yields the rows that row makes of the nodes of a walk, unless it returns false. It leaves out nodes
// that may not be read, of which unread then knows.
func visited[T any](u *unread, walk iter.Seq2[*subtree.Node, error], row func(*subtree.Node) (T, bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for node, err := range walk {
			if err == nil {
				err = u.look(node)
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
