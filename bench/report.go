package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table writes results as a plain-text table. Below it are lines about rows whose case has values
// of its own.
func Table(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	lines := []string{"case\tops/s\tp50 ms\tp90\tp99\tp99.9\tmax\terrors\tserver µs/op\ttool µs/op\tRSS MB\t\t"}
	for _, r := range results {
		lines = append(lines, r.row())
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(tw, line); err != nil {
			return err
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if _, err := io.WriteString(w, r.remarks()); err != nil {
			return err
		}
	}
	return nil
}

func (r *Result) row() string {
	l := r.Latency
	cells := []string{r.Case, number(r.PerSecond), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max)}
	var failed int64
	for _, n := range r.Errors {
		failed += n
	}
	server, rss := "-", "-"
	if r.ServerCPU > 0 {
		server = number(r.ServerCPU)
	}
	if r.ServerRSS > 0 {
		rss = strconv.FormatInt(r.ServerRSS>>20, 10)
	}
	void := ""
	if r.Void {
		void = "void"
	}
	cells = append(cells, strconv.FormatInt(failed, 10), server, number(r.ToolCPU), rss, void)
	return strings.Join(cells, "\t") + "\t"
}

// remarks returns the lines below the table about one row.
func (r *Result) remarks() string {
	var b strings.Builder
	say := func(format string, args ...any) {
		if b.Len() == 0 {
			fmt.Fprintf(&b, "\n%s (an op is a %s):\n", r.Case, r.Op)
		}
		fmt.Fprintf(&b, "  "+format+"\n", args...)
	}
	for _, f := range r.Extra {
		say("%s: %s", f.Name, f)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Errors)) {
		say("%d x %s", r.Errors[why], why)
	}
	for _, note := range r.Notes {
		say("%s", note)
	}
	if r.Void {
		say("void: the tool used %s µs of CPU per op, more than a third of the servers' %s", number(r.ToolCPU), number(r.ServerCPU))
	}
	return b.String()
}

// String returns the value with its unit.
func (f Figure) String() string {
	s := number(f.Value)
	switch f.Unit {
	case unitCount, unitRate:
		return s + f.Unit
	}
	return s + " " + f.Unit
}

// ms formats microseconds as milliseconds.
func ms(us float64) string { return number(us / 1000) }

// number formats a value with three digits, or with all digits before the point.
func number(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1 || v <= -1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}
