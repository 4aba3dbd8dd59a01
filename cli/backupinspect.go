package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/operator/backup"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	maxDepth    = 16
	maxSubtrees = 10_000
)

type inspectedRow struct {
	backupRow
	Ephemerals int          `json:"ephemerals"`
	Subtrees   []subtreeRow `json:"subtrees"` // the largest, largest first
}

type subtreeRow struct {
	Path       string `json:"path"`
	Nodes      int    `json:"nodes"`
	Ephemerals int    `json:"ephemerals"`
	Bytes      int64  `json:"bytes"` // of paths and data
}

var subtreeColumns = []Column[subtreeRow]{
	{Name: "bytes", AlignRight: true, Cell: func(r subtreeRow) string { return FormatSize(r.Bytes) }},
	{Name: "nodes", AlignRight: true, Cell: func(r subtreeRow) string { return fmt.Sprint(r.Nodes) }},
	{Name: "ephemerals", AlignRight: true, Cell: func(r subtreeRow) string { return fmt.Sprint(r.Ephemerals) }},
	{Name: "path", Cell: func(r subtreeRow) string { return r.Path }},
}

func newBackupInspect(w IOStreams) *cobra.Command {
	out, depth, limit := NewOutput(w), 1, 10
	cmd := out.Register(&cobra.Command{
		Use: "inspect [flags] FILE|-", Short: "print what is in a backup",
		Args: RangeArgs(1, 1, "a file, or - for standard input"),
		Long: "Reads a whole backup, checks it as backup verify does, and prints what it says of itself, and its largest " +
			"subtrees. It asks no member.",
		RunE: PrefixErrors(func(_ *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				return UsageError.Errorf("%s is a directory, and inspect takes one file; rollcall backup verify takes directories",
					args[0])
			}
			u := newSubtreeTotals(depth, limit)
			row, err := readBackup(w, args[0], znode.ImageVisitor{Node: u.addNode})
			if err != nil {
				return err
			}
			return printInspected(w, out, inspectedRow{row, u.ephemerals, u.largestSubtrees()})
		}),
	})
	addIntFlag(cmd, &depth, "depth", "`levels` of subtrees that are counted", 1, maxDepth)
	addIntFlag(cmd, &limit, "limit", "the most `subtrees` that are printed", 1, maxSubtrees)
	return cmd
}

// readBackup reads a backup, from standard input if file is "-".
func readBackup(w IOStreams, file string, v znode.ImageVisitor) (row backupRow, err error) {
	row.File = file
	in := w.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return row, err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	if in == nil {
		in = strings.NewReader("")
	}
	work := NewProgress(w, "reading "+file, 0)
	defer work.Done()
	row.Head, row.Size, err = backup.Read(in, v)
	if err != nil {
		row.Size = max(row.Size, fileSize(in)) // it was not read to its end
		err = fmt.Errorf("%s: %w", file, err)
	}
	return row, err
}

// fileSize returns the size of an open file, or 0 for a reader that is not a file.
func fileSize(r io.Reader) int64 {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}

func printInspected(w IOStreams, out *Output, row inspectedRow) error {
	if !out.IsText() {
		return printRow(out, nil, row)
	}
	var text bytes.Buffer
	text.Write(formatLines(out, backupColumns, row.backupRow))
	text.WriteByte('\n')
	table := bufio.NewWriter(&text)
	if err := printTable(out, table, subtreeColumns, RowsOf(row.Subtrees)); err != nil {
		return err
	}
	_ = table.Flush() // to memory
	_, err := w.Out.Write(text.Bytes())
	return err
}

// subtreeTotals adds up the sizes of the subtrees of a backup, paths included.
type subtreeTotals struct {
	sum        *subtree.UsageSum
	limit      int
	largest    []subtreeRow // the largest so far, and some more
	ephemerals int
}

// newSubtreeTotals adds up subtrees down to a depth, and keeps the largest ones, limit at most.
func newSubtreeTotals(depth, limit int) *subtreeTotals {
	u := &subtreeTotals{limit: limit}
	u.sum = subtree.NewUsageSum(func(s subtree.Usage, level int) {
		if level == 0 || level > depth {
			return
		}
		u.largest = append(u.largest, subtreeRow{s.Path, s.Nodes, s.Ephemerals, s.Bytes})
		if len(u.largest) >= 2*limit+maxDepth {
			u.keepLargest()
		}
	})
	return u
}

func (u *subtreeTotals) addNode(n znode.ImageNode) error {
	if n.OwnerSession != 0 {
		u.ephemerals++
	}
	u.sum.Add(&subtree.Node{
		Path: n.Path, Depth: strings.Count(strings.TrimSuffix(n.Path, "/"), "/"),
		Stat: jute.Stat{DataLength: int32(len(n.Path) + len(n.Data)), EphemeralOwner: n.OwnerSession},
	})
	return nil
}

func (u *subtreeTotals) keepLargest() {
	slices.SortStableFunc(u.largest, func(a, b subtreeRow) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Path, b.Path))
	})
	u.largest = u.largest[:min(len(u.largest), u.limit)]
}

func (u *subtreeTotals) largestSubtrees() []subtreeRow {
	u.sum.Done()
	u.keepLargest()
	return append([]subtreeRow{}, u.largest...)
}
