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

// table prints rows as a table. Its first rows decide how wide its columns are.
type table[T any] struct {
	out     io.Writer
	colours bool
	columns []Column[T]
	widths  []int
	held    []T // nil: the head is printed
}

func printTable[T any](o *Output, out io.Writer, columns []Column[T], rows iter.Seq2[T, error]) error {
	t := &table[T]{out: out, colours: o.world.colours()}
	for _, c := range columns {
		if !c.Wide || o.format == "wide" {
			t.columns = append(t.columns, c)
			t.widths = append(t.widths, columnsOf(c.Name))
		}
	}
	begun := false
	for row, err := range rows {
		switch {
		case err != nil:
			_ = t.begin(begun || len(t.held) == 0) // the error of rows is the one to return
			return err
		case begun:
			if err := t.row(row); err != nil {
				return err
			}
		default:
			t.held = append(t.held, row)
			if len(t.held) == alignRows {
				begun = true
				if err := t.begin(false); err != nil {
					return err
				}
			}
		}
	}
	return t.begin(begun)
}

// begin prints the head of the table and the rows that are held, unless done says that it is printed.
func (t *table[T]) begin(done bool) error {
	if done {
		return nil
	}
	for i, c := range t.columns {
		for _, row := range t.held {
			t.widths[i] = max(t.widths[i], min(columnsOf(Visible(c.Cell(row))), alignColumns))
		}
	}
	err := t.line(func(c Column[T]) (string, Tint) { return strings.ToUpper(c.Name), Bold })
	for _, row := range t.held {
		if err != nil {
			return err
		}
		err = t.row(row)
	}
	t.held = nil
	return err
}

func (t *table[T]) row(row T) error {
	return t.line(func(c Column[T]) (string, Tint) { return cellOf(c, row) })
}

// line prints one line. cell returns the text of a column and its colour.
func (t *table[T]) line(cell func(Column[T]) (string, Tint)) error {
	var b bytes.Buffer
	for i, c := range t.columns {
		text, tint := cell(c)
		pad := strings.Repeat(" ", max(0, t.widths[i]-columnsOf(text)))
		if i > 0 {
			b.WriteString("  ")
		}
		if c.Right {
			b.WriteString(pad)
		}
		b.WriteString(tinted(t.colours, tint, text))
		if !c.Right && i < len(t.columns)-1 {
			b.WriteString(pad)
		}
	}
	_, err := t.out.Write(append(bytes.TrimRight(b.Bytes(), " "), '\n'))
	return err
}

// cellOf returns the text of a cell, which a terminal shows as it is, and its colour.
func cellOf[T any](c Column[T], row T) (string, Tint) {
	tint := Plain
	if c.Tint != nil {
		tint = c.Tint(row)
	}
	return Visible(c.Cell(row)), tint
}

func tinted(colours bool, tint Tint, text string) string {
	if !colours || tint == Plain || text == "" {
		return text
	}
	return string(tint) + text + tintOff
}

// lines returns a row as a line for each of its columns.
func lines[T any](o *Output, columns []Column[T], row T) []byte {
	var b bytes.Buffer
	longest := 0
	for _, c := range columns {
		longest = max(longest, columnsOf(c.Name))
	}
	for _, c := range columns {
		text, tint := cellOf(c, row)
		pad := strings.Repeat(" ", longest-columnsOf(c.Name))
		b.WriteString(strings.TrimRight(tinted(o.world.colours(), Bold, c.Name)+pad+"  "+tinted(o.world.colours(), tint, text), " ") + "\n")
	}
	return b.Bytes()
}
