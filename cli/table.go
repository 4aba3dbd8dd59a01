package cli

import (
	"bytes"
	"io"
	"iter"
	"strings"
)

const (
	// alignRows is how many rows of a table decide how wide its columns are. They are held in memory;
	// the rows after them are printed as they come.
	alignRows = 1000
	// alignColumns is the width up to which a column makes room for its longest cell. A longer cell
	// moves the rest of its own row.
	alignColumns = 60
)

// tableWriter prints rows as a table. Its first rows decide how wide its columns are.
type tableWriter[T any] struct {
	out      io.Writer
	colours  bool
	columns  []Column[T]
	widths   []int
	heldRows []T // nil: the head is printed
}

func printTable[T any](o *Output, out io.Writer, columns []Column[T], rows iter.Seq2[T, error]) error {
	t := &tableWriter[T]{out: out, colours: o.streams.allowsColor()}
	for _, c := range columns {
		if !c.WideOnly || o.format == "wide" {
			t.columns = append(t.columns, c)
			t.widths = append(t.widths, displayColumns(c.Name))
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

// printHead prints the head of the table and the rows that are held, unless done says that it is printed.
func (t *tableWriter[T]) printHead(done bool) error {
	if done {
		return nil
	}
	for i, c := range t.columns {
		for _, row := range t.heldRows {
			t.widths[i] = max(t.widths[i], min(displayColumns(EscapeUnprintable(c.Cell(row))), alignColumns))
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

// printLine prints one line. cell returns the text of a column and its colour.
func (t *tableWriter[T]) printLine(cell func(Column[T]) (string, Tint)) error {
	var b bytes.Buffer
	for i, c := range t.columns {
		text, tint := cell(c)
		pad := strings.Repeat(" ", max(0, t.widths[i]-displayColumns(text)))
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

// renderCell returns the text of a cell, which a terminal shows as it is, and its colour.
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

// formatLines returns a row as a line for each of its columns.
func formatLines[T any](o *Output, columns []Column[T], row T) []byte {
	var b bytes.Buffer
	longest := 0
	for _, c := range columns {
		longest = max(longest, displayColumns(c.Name))
	}
	for _, c := range columns {
		text, tint := renderCell(c, row)
		pad := strings.Repeat(" ", longest-displayColumns(c.Name))
		b.WriteString(strings.TrimRight(tintText(o.streams.allowsColor(), Bold, c.Name)+pad+"  "+tintText(o.streams.allowsColor(), tint, text), " ") + "\n")
	}
	return b.Bytes()
}
