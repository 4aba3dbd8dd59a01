package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/internal/screentext"
)

// Column is a column of a table of rows of type T. JSON and YAML use the tags of T instead.
type Column[T any] struct {
	Name       string // its heading
	WideOnly   bool   // shown with -o wide only
	AlignRight bool   // aligned on the right, for numbers
	// Cell returns the text of a row. PrintRows escapes it.
	Cell func(T) string
	// Tint returns the colour of a cell. It may be nil.
	Tint func(T) Tint
	// Compare orders rows for --sort. If it is nil, the column cannot be sorted by.
	Compare func(a, b T) int
	// GreatestFirst is set if --sort with this column begins with the greatest. Otherwise it does with a minus in front.
	GreatestFirst bool
	// MarkChanges is set if --watch marks the cells of this column that have changed.
	MarkChanges bool
}

// sortedColumn returns a column of values, which format writes, that --sort orders by the values.
func sortedColumn[T any, K cmp.Ordered](name string, value func(T) K, format func(K) string) Column[T] {
	return Column[T]{Name: name, Cell: func(row T) string { return format(value(row)) }, Compare: compareBy(value)}
}

// numberColumn is sortedColumn, aligned on the right.
func numberColumn[T any, K cmp.Ordered](name string, value func(T) K, format func(K) string) Column[T] {
	c := sortedColumn(name, value, format)
	c.AlignRight = true
	return c
}

func compareBy[T any, K cmp.Ordered](key func(T) K) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(key(a), key(b)) }
}

// columnOf returns a column of a part of a row. Rows without that part show a dash, and are sorted as if it were zero.
func columnOf[T, U any](c Column[U], part func(T) *U) Column[T] {
	known := func(row T) U {
		if u := part(row); u != nil {
			return *u
		}
		return *new(U)
	}
	of := Column[T]{
		Name: c.Name, WideOnly: c.WideOnly, AlignRight: c.AlignRight, GreatestFirst: c.GreatestFirst, MarkChanges: c.MarkChanges,
		Cell: func(row T) string {
			if part(row) == nil {
				return unknownText
			}
			return c.Cell(known(row))
		},
	}
	if c.Tint != nil {
		of.Tint = func(row T) Tint { return c.Tint(known(row)) }
	}
	if c.Compare != nil {
		of.Compare = func(a, b T) int { return c.Compare(known(a), known(b)) }
	}
	return of
}

// fixedLines are columns with fixed texts, for the lines of one row.
type fixedLines[T any] struct {
	columns  []Column[T]
	lastName string
}

// add adds a line. Of adjacent lines with one name, the first shows it.
func (l *fixedLines[T]) add(name, text string) {
	shown := name
	if name == l.lastName {
		shown = ""
	}
	l.lastName = name
	l.columns = append(l.columns, Column[T]{Name: shown, Cell: func(T) string { return text }})
}

// marked, greatestFirst, tinted and wide return the column with one more property.

func (c Column[T]) marked() Column[T] {
	c.MarkChanges = true
	return c
}

func (c Column[T]) greatestFirst() Column[T] {
	c.GreatestFirst = true
	return c
}

func (c Column[T]) tinted(tint func(T) Tint) Column[T] {
	c.Tint = tint
	return c
}

func (c Column[T]) wide() Column[T] {
	c.WideOnly, c.MarkChanges = true, false // a mark would name a column that is not there
	return c
}

// Tint is a terminal colour.
type Tint string

const (
	Plain  Tint = ""
	Bold   Tint = "\x1b[1m"
	Dim    Tint = "\x1b[2m"
	Red    Tint = "\x1b[31m"
	Green  Tint = "\x1b[32m"
	Yellow Tint = "\x1b[33m"
	Cyan   Tint = "\x1b[36m"

	tintReset = "\x1b[0m"
)

var outputFormats = []string{"table", "wide", "json", "yaml"}

// Output prints rows in the format of the flag -o.
type Output struct {
	streams IOStreams
	format  string
}

// NewOutput returns an Output that prints tables.
func NewOutput(w IOStreams) *Output { return &Output{streams: w, format: outputFormats[0]} }

// Register adds the flag -o to cmd, and returns cmd.
func (o *Output) Register(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VarP(o, "output", "o", "`format`: "+strings.Join(outputFormats, ", "))
	markShared(cmd.Flags(), "output")
	completeFlag(cmd, "output", outputFormats...)
	return cmd
}

// Set implements pflag.Value.
func (o *Output) Set(text string) error {
	if !slices.Contains(outputFormats, text) {
		return fmt.Errorf("there are %s", strings.Join(outputFormats, ", "))
	}
	o.format = text
	return nil
}

// String implements pflag.Value.
func (o *Output) String() string { return o.format }

// Type implements pflag.Value.
func (o *Output) Type() string { return "format" }

// IsText reports whether the format is a table, and not JSON or YAML.
func (o *Output) IsText() bool { return o.format == "table" || o.format == "wide" }

// PrintRows prints rows as they arrive, in bounded memory: a table, or one array. It stops at the first error
// of rows, and returns it after printing the rows before.
func PrintRows[T any](o *Output, columns []Column[T], rows iter.Seq2[T, error]) error {
	out := bufio.NewWriterSize(o.streams.Out, outBuffer)
	var err error
	if o.IsText() {
		err = printTable(o, out, columns, rows)
	} else {
		err = printArray(out, o.format, rows)
	}
	return errors.Join(err, out.Flush())
}

const outBuffer = 64 << 10 // bytes

// PrintText prints text, or v as one object.
func PrintText(o *Output, text string, v any) error {
	if !o.IsText() {
		return printRow(o, nil, v)
	}
	_, err := io.WriteString(o.streams.Out, text)
	return err
}

// printLines prints rows as they arrive, without a buffer: a line for each, or one array.
func printLines[T any](o *Output, rows iter.Seq2[T, error], line func(T) string) error {
	if !o.IsText() {
		return printArray(o.streams.Out, o.format, rows)
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(o.streams.Out, EscapeUnprintable(line(row))); err != nil {
			return err
		}
	}
	return nil
}

// printRow prints one row as a line for each column, WideOnly included, or as one object.
func printRow[T any](o *Output, columns []Column[T], row T) error {
	var text []byte
	var err error
	if o.IsText() {
		text = formatLines(o, columns, row)
	} else if text, err = encodeObject(o.format, row); err != nil {
		return err
	}
	_, err = o.streams.Out.Write(text)
	return err
}

const (
	// alignRows is the number of rows that determine the column widths. They are buffered; later rows are
	// printed as they arrive.
	alignRows = 1000
	// alignColumns is the maximum width of a column. A longer cell shifts the rest of its row.
	alignColumns = 60
)

type tableWriter[T any] struct {
	out      io.Writer
	colours  bool
	columns  []Column[T]
	widths   []int
	heldRows []T // nil: the head is printed
}

func printTable[T any](o *Output, out io.Writer, columns []Column[T], rows iter.Seq2[T, error]) error {
	t := &tableWriter[T]{out: out, colours: o.streams.AllowsColor()}
	for _, c := range columns {
		if !c.WideOnly || o.format == "wide" {
			t.columns = append(t.columns, c)
			t.widths = append(t.widths, screentext.Columns(c.Name))
		}
	}
	begun := false
	for row, err := range rows {
		switch {
		case err != nil:
			_ = t.printHead(begun || len(t.heldRows) == 0) // the error of rows is the one to return
			return err
		case begun:
			if err := t.printRow(row); err != nil {
				return err
			}
		default:
			t.heldRows = append(t.heldRows, row)
			if len(t.heldRows) == alignRows {
				begun = true
				if err := t.printHead(false); err != nil {
					return err
				}
			}
		}
	}
	return t.printHead(begun)
}

func (t *tableWriter[T]) printHead(done bool) error {
	if done {
		return nil
	}
	for i, c := range t.columns {
		for _, row := range t.heldRows {
			t.widths[i] = max(t.widths[i], min(screentext.Columns(EscapeUnprintable(c.Cell(row))), alignColumns))
		}
	}
	err := t.printLine(func(c Column[T]) (string, Tint) { return strings.ToUpper(c.Name), Bold })
	for _, row := range t.heldRows {
		if err != nil {
			return err
		}
		err = t.printRow(row)
	}
	t.heldRows = nil
	return err
}

func (t *tableWriter[T]) printRow(row T) error {
	return t.printLine(func(c Column[T]) (string, Tint) { return renderCell(c, row) })
}

func (t *tableWriter[T]) printLine(cell func(Column[T]) (string, Tint)) error {
	var b bytes.Buffer
	for i, c := range t.columns {
		text, tint := cell(c)
		pad := strings.Repeat(" ", max(0, t.widths[i]-screentext.Columns(text)))
		if i > 0 {
			b.WriteString("  ")
		}
		if c.AlignRight {
			b.WriteString(pad)
		}
		b.WriteString(tintText(t.colours, tint, text))
		if !c.AlignRight && i < len(t.columns)-1 {
			b.WriteString(pad)
		}
	}
	_, err := t.out.Write(append(bytes.TrimRight(b.Bytes(), " "), '\n'))
	return err
}

// renderCell returns the escaped text of a cell, and its colour.
func renderCell[T any](c Column[T], row T) (string, Tint) {
	tint := Plain
	if c.Tint != nil {
		tint = c.Tint(row)
	}
	return EscapeUnprintable(c.Cell(row)), tint
}

func tintText(colours bool, tint Tint, text string) string {
	if !colours || tint == Plain || text == "" {
		return text
	}
	return string(tint) + text + tintReset
}

func formatLines[T any](o *Output, columns []Column[T], row T) []byte {
	var b bytes.Buffer
	longest := 0
	for _, c := range columns {
		longest = max(longest, screentext.Columns(c.Name))
	}
	for _, c := range columns {
		text, tint := renderCell(c, row)
		pad := strings.Repeat(" ", longest-screentext.Columns(c.Name))
		b.WriteString(strings.TrimRight(tintText(o.streams.AllowsColor(), Bold, c.Name)+pad+"  "+
			tintText(o.streams.AllowsColor(), tint, text), " ") + "\n")
	}
	return b.Bytes()
}
