package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Column is a column of a table of rows of type T. JSON and YAML show the whole row instead, by its tags.
type Column[T any] struct {
	Name       string // its heading
	WideOnly   bool   // shown with -o wide only
	AlignRight bool   // aligned on the right, for numbers
	// Cell returns the text of a row. What a terminal would not simply show is made visible.
	Cell func(T) string
	// Tint returns the colour of a cell. It may be nil.
	Tint func(T) Tint
	// Compare says how --sort orders rows by this column. If it is nil, it does not.
	Compare func(a, b T) int
}

// Tint is how a cell is coloured on a terminal.
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

// The values of the flag -o.
var outputFormats = []string{"table", "wide", "json", "yaml"}

// Output is how a command prints rows: its flag -o.
type Output struct {
	streams IOStreams
	format  string
}

// NewOutput returns an Output that prints tables.
func NewOutput(w IOStreams) *Output { return &Output{streams: w, format: outputFormats[0]} }

// Register adds the flag -o to cmd.
func (o *Output) Register(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "`format`: "+strings.Join(outputFormats, ", "))
	markShared(cmd.Flags(), "output")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputFormats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
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

// IsText reports whether the output is for people, as a table, and not JSON or YAML.
func (o *Output) IsText() bool { return o.format == "table" || o.format == "wide" }

// PrintRows prints the rows as they come, in bounded memory: a table with a line for each row, or one array.
// It stops at the first error of rows and returns it. What came before is printed.
func PrintRows[T any](o *Output, columns []Column[T], rows iter.Seq2[T, error]) error {
	out := bufio.NewWriterSize(o.streams.Out, outBuffer)
	var err error
	switch o.format {
	case "json":
		err = printJSON(out, rows)
	case "yaml":
		err = printYAML(out, rows)
	default:
		err = printTable(o, out, columns, rows)
	}
	return errors.Join(err, out.Flush())
}

const outBuffer = 64 << 10 // bytes

// PrintText prints a text for people, or v as one object.
func PrintText(o *Output, text string, v any) error {
	if !o.IsText() {
		return printRow(o, nil, v)
	}
	_, err := io.WriteString(o.streams.Out, text)
	return err
}

// printRow prints one row: a line for each of its columns, those of wide included, or one object.
func printRow[T any](o *Output, columns []Column[T], row T) error {
	var text []byte
	var err error
	switch o.format {
	case "json":
		text, err = indentedJSON(row)
	case "yaml":
		text, err = encodeYAML(row)
	default:
		text = formatLines(o, columns, row)
	}
	if err != nil {
		return err
	}
	_, err = o.streams.Out.Write(text)
	return err
}
