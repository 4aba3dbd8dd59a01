package cli

import (
	"context"
	"errors"
	"iter"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/znode"
)

// quotaRow is a quota. A limit of -1 is none. With a hard limit, a write that would exceed it is rejected.
type quotaRow struct {
	Path       string `json:"path"`
	Nodes      int64  `json:"nodes"`
	NodesLimit int64  `json:"nodes_limit"`
	NodesHard  int64  `json:"nodes_hard_limit"`
	Bytes      int64  `json:"bytes"` // of data
	BytesLimit int64  `json:"bytes_limit"`
	BytesHard  int64  `json:"bytes_hard_limit"`
}

var quotaColumns = []Column[quotaRow]{
	numberColumn("nodes", func(r quotaRow) int64 { return r.Nodes }, formatNumber),
	quotaLimitColumn("soft limit", func(r quotaRow) (used, limit int64) { return r.Nodes, r.NodesLimit }, formatNumber, Yellow),
	quotaLimitColumn("hard limit", func(r quotaRow) (used, limit int64) { return r.Nodes, r.NodesHard }, formatNumber, Red),
	numberColumn("bytes", func(r quotaRow) int64 { return r.Bytes }, FormatSize),
	quotaLimitColumn("soft limit of bytes", func(r quotaRow) (used, limit int64) { return r.Bytes, r.BytesLimit }, FormatSize, Yellow),
	quotaLimitColumn("hard limit of bytes", func(r quotaRow) (used, limit int64) { return r.Bytes, r.BytesHard }, FormatSize, Red),
	sortedColumn("path", func(r quotaRow) string { return r.Path }, orDash),
}

// quotaLimitColumn shows a limit, in a color if it is reached.
func quotaLimitColumn(name string, share func(quotaRow) (used, limit int64), format func(int64) string, reached Tint) Column[quotaRow] {
	return Column[quotaRow]{
		Name: name, AlignRight: true,
		Cell: func(r quotaRow) string {
			if _, limit := share(r); limit >= 0 {
				return format(limit)
			}
			return orDash("")
		},
		Tint: func(r quotaRow) Tint {
			used, limit := share(r)
			return tintIf(limit >= 0 && used >= limit, reached)
		},
	}
}

func newQuota(w IOStreams) *cobra.Command {
	n, limit, sort := newNodeCommand(w), 0, ""
	cmd := n.registerRead(&cobra.Command{
		Use: "quota [flags] [PATH]", Short: "print quotas and what is used of them", Args: RangeArgs(0, 1, "one path"),
		Long: "Prints the quotas of the nodes above, at and below a path, by default all, with the nodes and the bytes of data that count. " +
			"A write that would exceed a hard limit is rejected; the other limits make a warning in the leader's log. Of nested quotas, a node " +
			"counts for the deepest one. rollcall shell setquota sets one.",
	}, withinWalkTime(func(ctx context.Context, s nodes.Space, args []string) error {
		order, err := parseOrder(quotaColumns, sort)
		if err != nil {
			return err
		}
		seen := &unreadNodes{streams: n.streams}
		all, err := order.sortRows(quotaRows(ctx, s, pathOr(args, "/"), seen), limit)
		if err != nil {
			return err
		}
		return errors.Join(PrintRows(n.output, quotaColumns, RowsOf(all)), seen.reportUnread())
	}))
	addIntFlag(cmd, &limit, "limit", "print the first so many `rows` only (0: all)", 0, noMaximum)
	cmd.Flags().StringVar(&sort, "sort", "path", "`column` to sort by; a minus in front: the greatest first")
	return cmd
}

// quotaRows yields the quotas above, at and below a path of the space. A subtree with a quota has a copy of its path below
// znode.QuotaRoot, with the two nodes of the quota.
func quotaRows(ctx context.Context, s nodes.Space, top string, seen *unreadNodes) iter.Seq2[quotaRow, error] {
	whole := s
	whole.Root = ""
	full := strings.TrimSuffix(s.FullPath(top), "/")
	return func(yield func(quotaRow, error) bool) {
		for i := 1; i < len(full); i++ {
			if full[i] != '/' {
				continue
			}
			row, ok, err := readQuota(ctx, whole, full[:i], s.RelativePath(full[:i]))
			if (ok || err != nil) && !yield(row, err) || err != nil {
				return
			}
		}
		for node, err := range whole.Walk(ctx, znode.QuotaRoot+full, subtree.WalkOptions{}) {
			switch {
			case errors.Is(err, client.ErrNoNode): // no quota is there or below
				return
			case err == nil:
				err = seen.recordIfUnreadable(node)
			}
			row, ok := quotaRow{}, false
			if err == nil && node.Err == nil && path.Base(node.Path) == znode.QuotaLimits {
				of := path.Dir(strings.TrimPrefix(node.Path, znode.QuotaRoot))
				row, ok, err = readQuota(ctx, whole, of, s.RelativePath(of))
			}
			if (ok || err != nil) && !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// readQuota reads the quota of the subtree at full, which is shown as path. It returns false if there is none.
func readQuota(ctx context.Context, whole nodes.Space, full, path string) (row quotaRow, ok bool, err error) {
	limits, _, err := whole.Get(ctx, znode.QuotaRoot+full+"/"+znode.QuotaLimits)
	used := []byte(nil)
	if err == nil {
		used, _, err = whole.Get(ctx, znode.QuotaRoot+full+"/"+znode.QuotaUsage)
	}
	switch {
	case errors.Is(err, client.ErrNoNode): // a quota has both nodes
		return row, false, nil
	case err != nil:
		return row, false, err
	}
	l, u := znode.ParseQuota(limits), znode.ParseQuota(used)
	return quotaRow{
		Path: path, Nodes: u.Count, NodesLimit: l.Count, NodesHard: l.HardCount, Bytes: u.Bytes, BytesLimit: l.Bytes, BytesHard: l.HardBytes,
	}, true, nil
}
