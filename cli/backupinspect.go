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
				return usageErrorf("%s is a directory, and inspect takes one file; rollcall backup verify takes directories",
					args[0])
			}
			u := &subtreeTotals{openByLevel: make([]subtreeRow, depth), limit: limit}
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
	if err := printTable(out, table, subtreeColumns, rowsOf(row.Subtrees)); err != nil {
		return err
	}
	_ = table.Flush() // to memory
	_, err := w.Out.Write(text.Bytes())
	return err
}

// subtreeTotals adds up the sizes of subtrees. Parents come before their children, so one subtree of each
// level is open at a time.
type subtreeTotals struct {
	openByLevel   []subtreeRow // by level, from 1 on; Path is "" if none is open
	limit         int
	largestClosed []subtreeRow // the largest so far, and some more
	ephemerals    int
}

func (u *subtreeTotals) addNode(n znode.ImageNode) error {
	if n.OwnerSession != 0 {
		u.ephemerals++
	}
	level, at := 0, 0
	for at < len(n.Path) && n.Path != "/" && level < len(u.openByLevel) {
		end := strings.IndexByte(n.Path[at+1:], '/')
		if end < 0 {
			end = len(n.Path) - at - 1
		}
		at += end + 1
		o := &u.openByLevel[level]
		if o.Path != n.Path[:at] {
			u.closeFrom(level)
			o.Path = n.Path[:at]
		}
		o.Nodes++
		o.Bytes += int64(len(n.Path) + len(n.Data))
		if n.OwnerSession != 0 {
			o.Ephemerals++
		}
		level++
	}
	return nil
}

func (u *subtreeTotals) closeFrom(level int) {
	for i := level; i < len(u.openByLevel); i++ {
		if u.openByLevel[i].Path != "" {
			u.largestClosed = append(u.largestClosed, u.openByLevel[i])
		}
		u.openByLevel[i] = subtreeRow{}
	}
	if len(u.largestClosed) >= 2*u.limit+maxDepth {
		u.keepLargest()
	}
}

func (u *subtreeTotals) keepLargest() {
	slices.SortStableFunc(u.largestClosed, func(a, b subtreeRow) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Path, b.Path))
	})
	u.largestClosed = u.largestClosed[:min(len(u.largestClosed), u.limit)]
}

func (u *subtreeTotals) largestSubtrees() []subtreeRow {
	u.closeFrom(0)
	u.keepLargest()
	return append([]subtreeRow{}, u.largestClosed...)
}
