package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// rowList is a list of rows below /v1/ that can be filtered, sorted and watched.
type rowList[T any] struct {
	noun    string // the rows, and the list's path below /v1/
	columns func(now time.Time) []Column[T]
	key     func(T) string // tells rows apart
	// the column in whose order the members list the rows; "": no column
	inOrderOf string
}

// listCommand prints a rowList, once or again and again.
type listCommand[T any] struct {
	*adminCommand
	rowList[T]
	sort, member, address string
	limit                 int
	watch                 bool
	every                 time.Duration
	moreQuery             func() url.Values // further filters; nil: there are none
	changes               changeMarks[T]
}

func newListCommand[T any](w IOStreams, l rowList[T]) *listCommand[T] {
	return &listCommand[T]{adminCommand: newAdminCommand(w), rowList: l}
}

// register adds the flags of all lists to cmd, and the end of its long text.
func (f *listCommand[T]) register(cmd *cobra.Command) *cobra.Command {
	sortable := f.columnNames(func(c Column[T]) bool { return c.Compare != nil })
	greatest := f.columnNames(func(c Column[T]) bool { return c.GreatestFirst })
	cmd.GroupID, cmd.Args = InspectGroup, RangeArgs(0, 0, "flags only")
	cmd.Long += fmt.Sprintf(" RATE and BYTES are requests and bytes per second over the last minute. It sorts by one of %[3]s. With --sort "+
		"and no --limit it holds up to %[1]d %[2]s in memory. With --watch it prints the list again and again, and the column "+
		"CHANGED says what is new in a row.",
		maxSorted, f.noun, strings.Join(sortable, ", "))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.watch {
			return printRepeatedly(cmd.Context(), f.streams, f.every,
				func(w IOStreams, lines int) error { return f.printOnce(cmd.Context(), w, lines) })
		}
		return f.printOnce(cmd.Context(), f.streams, 0)
	}
	f.registerFlags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.member, "member", "", "only "+f.noun+" of the member with this `number`")
	fs.StringVar(&f.address, "address", "", "only "+f.noun+" of a client at this `address`, an IP with or without a port")
	fs.StringVar(&f.sort, "sort", "", "`column` to sort by; "+strings.Join(greatest[:len(greatest)-1], ", ")+" and "+greatest[len(greatest)-1]+" begin with the greatest, and others do with "+
		"a minus in front")
	addLimitFlag(cmd, &f.limit)
	fs.BoolVar(&f.watch, "watch", false, "print the list again and again, until Ctrl-C")
	fs.DurationVar(&f.every, "every", defaultWatchInterval, "with --watch: the `time` between two lists")
	completeFlag(cmd, "sort", sortable...)
	return cmd
}

// printOnce prints the list once. lines is the height of the screen, or 0.
func (f *listCommand[T]) printOnce(ctx context.Context, w IOStreams, lines int) error {
	if a := f.adminCommand; a.ensemble.pastClient != nil {
		w.Now = a.streams.Now // that of the state
	}
	out := *f.output
	out.streams = w
	if out.format == "json" && f.isUnsorted() {
		// not decoded, which would take most of the time
		return PrintRows(&out, nil, rowsAsListed[T, json.RawMessage](ctx, f, lines))
	}
	columns := knownColumns(f.adminCommand, f.columns(w.Now()), liveSessionColumns)
	rows := f.orderedRows(ctx, columns, lines)
	if f.watch {
		columns = f.changes.next(columns, f.key)
	}
	return PrintRows(&out, columns, rows)
}

func (f *listCommand[T]) isUnsorted() bool { return f.sort == "" || f.sort == f.inOrderOf }

// orderedRows returns at most lines rows; 0 means no limit.
func (f *listCommand[T]) orderedRows(ctx context.Context, columns []Column[T], lines int) iter.Seq2[T, error] {
	if f.isUnsorted() {
		return rowsAsListed[T, T](ctx, f, lines)
	}
	by, err := parseOrder(columns, f.sort)
	if err != nil {
		return failedRows[T](err)
	}
	rows := listRows[T](ctx, f.adminCommand, f.noun, f.queryValues(), 0)
	held, err := by.sortRows(withRowProgress(f.streams, f.noun, rows), f.rowLimit(lines))
	if err != nil {
		return failedRows[T](err)
	}
	return RowsOf(held)
}

// rowsAsListed returns at most lines rows in the members' order, decoded as U; 0 means no limit.
func rowsAsListed[T, U any](ctx context.Context, f *listCommand[T], lines int) iter.Seq2[U, error] {
	rows := listRows[U](ctx, f.adminCommand, f.noun, f.queryValues(), f.rowLimit(lines))
	if f.streams.OutTerminal {
		return rows
	}
	return withRowProgress(f.streams, f.noun, rows)
}

func (f *listCommand[T]) queryValues() url.Values {
	query := queryWithoutEmpty("member", f.member, "address", f.address)
	if f.moreQuery != nil {
		maps.Copy(query, f.moreQuery())
	}
	return query
}

func (f *listCommand[T]) rowLimit(lines int) int {
	if lines > 0 && (f.limit == 0 || f.limit > lines) {
		return lines
	}
	return f.limit
}

// columnNames returns the names of the columns that is reports.
func (f *listCommand[T]) columnNames(is func(Column[T]) bool) (names []string) {
	for _, c := range f.columns(time.Time{}) {
		if is(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// maxMarkedRows bounds the rows whose changes --watch marks, and which it remembers until the next list. That is more
// than anyone reads, and a few megabytes.
const maxMarkedRows = 10_000

// changeMarks finds what has changed in the rows of a list since the list before. The zero value has seen no list.
type changeMarks[T any] struct {
	before, now map[string][]string // the cells that are compared, by the row's key; nil: there was no list
}

// next begins the next list. It returns the columns with a further one that names what has changed in a row, in words,
// and with the changed cells in colour. In the first list nothing has.
func (m *changeMarks[T]) next(columns []Column[T], key func(T) string) []Column[T] {
	m.before, m.now = m.now, map[string][]string{}
	compared := slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return !c.MarkChanges })
	marked := slices.Clone(columns)
	for i, c := range marked {
		if !c.MarkChanges {
			continue
		}
		marked[i].Tint = func(row T) Tint {
			if slices.Contains(m.changes(compared, key(row), row), c.Name) {
				return Cyan
			}
			if c.Tint == nil {
				return Plain
			}
			return c.Tint(row)
		}
	}
	return append(marked, Column[T]{Name: "changed", Cell: func(row T) string {
		return strings.Join(m.changes(compared, key(row), row), ", ")
	}})
}

// changes returns the names of the compared columns that have changed in a row, or "new" for a row that the list before
// did not have. It remembers the row for the next list.
func (m *changeMarks[T]) changes(compared []Column[T], key string, row T) (names []string) {
	cells, known := m.now[key]
	if !known {
		if len(m.now) == maxMarkedRows {
			return nil
		}
		for _, c := range compared {
			cells = append(cells, c.Cell(row))
		}
		m.now[key] = cells
	}
	last, listed := m.before[key]
	switch {
	case m.before == nil || !listed && len(m.before) == maxMarkedRows:
		return nil
	case !listed:
		return []string{"new"}
	}
	for i, c := range compared {
		if cells[i] != last[i] {
			names = append(names, c.Name)
		}
	}
	return names
}
