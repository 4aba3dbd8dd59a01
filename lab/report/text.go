package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// TextOptions describe the terminal of a text. The zero value is for a file.
type TextOptions struct {
	Colours bool // outcomes are coloured
}

// The colours of a terminal.
const (
	tintRed    = "\x1b[31m"
	tintGreen  = "\x1b[32m"
	tintYellow = "\x1b[33m"
	tintBold   = "\x1b[1m"
	tintReset  = "\x1b[0m"
)

// WriteText writes the outcome as a whole, a table of the drills, the violations of broken promises, and how repeated drills varied.
func WriteText(w io.Writer, r result.Run, o TextOptions) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", headlineText(r))
	groups := groupByName(r.Drills)
	drillTable(groups).writeTo(&b, o)
	writeNotRun(&b, groups)
	if repeats := repeatTable(groups); len(repeats.rows) > 0 {
		b.WriteString("\n")
		repeats.writeTo(&b, o)
	}
	for _, g := range groups {
		if note := fewRuns(len(g.runs)); g.isRepeated() && note != "" {
			fmt.Fprintf(&b, "%s: %s\n", screentext.Escape(g.name), note)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// drillTable has a row for each drill, and below it a line for each rule that failed.
func drillTable(groups []drillGroup) *textTable {
	t := &textTable{heads: []string{"drill", "outcome", "writes paused", "reads paused", "sessions"}}
	for _, g := range groups {
		t.addRow(g.name, outcomeText(g), distributionOf(g.runs, writes).maxText(), distributionOf(g.runs, reads).maxText(),
			sessionsText(g.runs))
		for _, d := range g.runs {
			for _, v := range d.Verdicts {
				if v.Outcome == result.Fail {
					t.addNote("  " + runPrefix(g, d) + v.Rule + ": " + messageOf(v))
				}
			}
			if d.Outcome == result.Fail && d.Reason != "" {
				t.addNote("  " + runPrefix(g, d) + d.Reason)
			}
		}
	}
	return t
}

func runPrefix(g drillGroup, d result.Drill) string {
	if !g.isRepeated() {
		return ""
	}
	return fmt.Sprintf("run %d: ", d.Repeat)
}

// outcomeText returns the outcome of a drill, and for a repeated one how often it passed.
func outcomeText(g drillGroup) string {
	t := tallyOfRuns(g.runs)
	if !g.isRepeated() {
		return string(t.overallOutcome())
	}
	return fmt.Sprintf("%s (%d of %d passed)", t.overallOutcome(), t.passed, len(g.runs))
}

// sessionsText returns the sessions of one run, and those that expired in all runs.
func sessionsText(drills []result.Drill) string {
	sessions, ended := 0, 0
	for _, d := range drills {
		sessions, ended = max(sessions, d.Load.Sessions), ended+expiredSessions(d)
	}
	switch {
	case sessions == 0:
		return ""
	case ended == 0:
		return formatNumber(sessions)
	}
	return fmt.Sprintf("%s, %s expired", formatNumber(sessions), formatNumber(ended))
}

// writeNotRun lists the drills that did not run, and the rules of the others that were not judged, with the reasons.
func writeNotRun(b *strings.Builder, groups []drillGroup) {
	var order []string
	runs := map[string]int{} // with the same reason
	add := func(what, reason string) {
		line := fmt.Sprintf("  %s: %s", what, cmp.Or(reason, "no reason is known"))
		if runs[line]++; runs[line] == 1 {
			order = append(order, line)
		}
	}
	for _, g := range groups {
		for _, d := range g.runs {
			if d.Outcome == result.NotRun {
				add(d.Name, d.Reason)
				continue
			}
			for _, v := range d.Verdicts {
				if v.Outcome == result.NotRun {
					add(d.Name+", "+v.Rule, v.Reason)
				}
			}
		}
	}
	if len(order) > 0 {
		b.WriteString("\nNot run or not judged:\n")
	}
	for _, line := range order {
		text := screentext.Escape(line)
		if n := runs[line]; n > 1 {
			text += fmt.Sprintf(" (%s)", countText(n, "run", "runs"))
		}
		b.WriteString(text + "\n")
	}
}

// repeatTable has the distribution of the pauses of each repeated drill.
func repeatTable(groups []drillGroup) *textTable {
	t := &textTable{heads: append([]string{"repeated drill", "pause of"}, distributionHeads()...)}
	for _, g := range groups {
		if !g.isRepeated() {
			continue
		}
		for _, kind := range []string{writes, reads} {
			if d := distributionOf(g.runs, kind); len(d) > 0 {
				t.addRow(append([]string{g.name, kind + "s"}, d.tableCells()...)...)
			}
		}
	}
	return t
}

// textTable is a table for a terminal.
type textTable struct {
	heads []string
	rows  []tableRow
}

type tableRow struct {
	cells []string
	note  string // instead of cells: a line below the row before
}

func (t *textTable) addRow(cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(screentext.Escape(cells[i]), "-")
	}
	t.rows = append(t.rows, tableRow{cells: cells})
}

func (t *textTable) addNote(text string) {
	t.rows = append(t.rows, tableRow{note: screentext.Escape(text)})
}

func (t *textTable) writeTo(b *strings.Builder, o TextOptions) {
	widths := make([]int, len(t.heads))
	heads := make([]string, len(t.heads))
	for i, head := range t.heads {
		heads[i] = strings.ToUpper(head)
		widths[i] = screentext.Columns(heads[i])
		for _, row := range t.rows {
			if i < len(row.cells) {
				widths[i] = max(widths[i], screentext.Columns(row.cells[i]))
			}
		}
	}
	writeCells(b, widths, heads, func(string) string { return tintBold }, o)
	for _, row := range t.rows {
		if row.cells == nil {
			b.WriteString(row.note + "\n")
			continue
		}
		writeCells(b, widths, row.cells, outcomeTint, o)
	}
}

func writeCells(b *strings.Builder, widths []int, cells []string, tint func(string) string, o TextOptions) {
	for len(cells) > 0 && strings.TrimSpace(cells[len(cells)-1]) == "" {
		cells = cells[:len(cells)-1]
	}
	for i, cell := range cells {
		text := cell
		if colour := tint(cell); o.Colours && colour != "" {
			text = colour + cell + tintReset
		}
		b.WriteString(text)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-screentext.Columns(cell)+2))
		}
	}
	b.WriteString("\n")
}

// outcomeTint returns the colour of a cell that begins with an outcome, or nothing.
func outcomeTint(cell string) string {
	tints := map[result.Outcome]string{result.Pass: tintGreen, result.Fail: tintRed, result.NotRun: tintYellow}
	for outcome, tint := range tints {
		if cell == string(outcome) || strings.HasPrefix(cell, string(outcome)+" (") {
			return tint
		}
	}
	return ""
}
