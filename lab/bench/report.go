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

// WriteTable writes results as a plain-text table. Below it are lines about cases with values of their own.
func WriteTable(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	lines := []string{"case\tops/s\tp50 ms\tp90\tp99\tp99.9\tmax\terrors\tserver µs/op\ttool µs/op\tRSS MB\t\t"}
	for _, r := range results {
		lines = append(lines, r.tableRow())
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
		if _, err := io.WriteString(w, r.remarkLines()); err != nil {
			return err
		}
	}
	return nil
}

func (r *Result) tableRow() string {
	l := r.Latency
	cells := []string{
		r.Case, formatNumber(r.PerSecond), formatMillis(l.P50), formatMillis(l.P90), formatMillis(l.P99),
		formatMillis(l.P999), formatMillis(l.Max),
	}
	var failed int64
	for _, n := range r.Errors {
		failed += n
	}
	server, rss := "-", "-"
	if r.ServerCPU > 0 {
		server = formatNumber(r.ServerCPU)
	}
	if r.ServerRSS > 0 {
		rss = strconv.FormatInt(r.ServerRSS>>20, 10)
	}
	void := ""
	if r.Void {
		void = "void"
	}
	cells = append(cells, strconv.FormatInt(failed, 10), server, formatNumber(r.ToolCPU), rss, void)
	return strings.Join(cells, "\t") + "\t"
}

// remarkLines returns the lines below the table for one row.
func (r *Result) remarkLines() string {
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
		say("void: the tool used %s µs of CPU per op, more than a third of the servers' %s", formatNumber(r.ToolCPU),
			formatNumber(r.ServerCPU))
	}
	return b.String()
}

// String returns the value with its unit.
func (f Figure) String() string {
	s := formatNumber(f.Value)
	switch f.Unit {
	case unitCount, unitRate:
		return s + f.Unit
	}
	return s + " " + f.Unit
}

// formatMillis formats microseconds as milliseconds.
func formatMillis(us float64) string { return formatNumber(us / 1000) }

// formatNumber formats a value with three digits, or with all digits before the point.
func formatNumber(v float64) string {
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
