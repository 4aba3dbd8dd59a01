package proxy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"rollcall/internal/screentext"
)

// WriteJSON writes a result as one JSON document.
func WriteJSON(w io.Writer, r Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Summary describes what has been recorded, and what a survey does next, in one sentence.
func (r Result) Summary() string {
	sessions := 0
	for _, request := range r.Recorded {
		sessions = max(sessions, request.Session)
	}
	text := fmt.Sprintf("recorded %s in %s; a run took %v, and may take %v with a fault; the longest session timeout is %v",
		countText(len(r.Recorded), "request"), countText(sessions, "session"), fromMillis(r.RunMS), fromMillis(r.LimitMS), fromMillis(r.TimeoutMS))
	if r.Unsteady > 0 {
		text += fmt.Sprintf("; %s did not come in the same session in a second run", countText(r.Unsteady, "request"))
	}
	if r.Unkept > 0 {
		text += fmt.Sprintf("; %s came after the first %d, and get no fault", countText(r.Unkept, "request"), maxRecorded)
	}
	return text
}

// Verdict says in one sentence whether the program survived.
func (r Result) Verdict() string {
	broken := r.Counts[Broke] + r.Counts[Hung]
	text := fmt.Sprintf("the program survived %d of %s", r.Counts[Survived], countText(r.Counts[Survived]+broken, "fault"))
	if other := len(r.Runs) - r.Counts[Survived] - broken; other > 0 {
		text += fmt.Sprintf("; %s showed nothing", countText(other, "run"))
	}
	if r.LeftOut > 0 {
		text += fmt.Sprintf("; %d were left out by the limit", r.LeftOut)
	}
	if r.Unended > 0 {
		text += fmt.Sprintf("; %s that the program left could not be ended, and will expire (%s)", countText(r.Unended, "session"), r.UnendedReason)
	}
	return text
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Line describes a run that has ended in one line.
func (run Run) Line() string {
	text := fmt.Sprintf("%-11s %-6s at %s", run.Outcome, run.Fault, run.Key)
	if ending := run.Ending(); ending != "" {
		text += "; " + ending
	}
	return text
}

// Ending is the end of a program that did not succeed, and the result of a second run.
func (run Run) Ending() string {
	parts := []string{run.Exit, run.Reason, run.secondResult()}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// secondResult is the result of a second run with the same fault.
func (run Run) secondResult() string {
	switch {
	case run.Again == "":
		return ""
	case run.Again.IsBreak():
		return "and once more when it was repeated"
	}
	return "when it was repeated: " + string(run.Again)
}

// WriteText writes a result for people: a table of the faults, and each run that broke.
func WriteText(w io.Writer, r Result) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "fault")
	for _, o := range r.shownOutcomes() {
		fmt.Fprintf(table, "\t%s", o)
	}
	fmt.Fprintln(table)
	for _, f := range r.Faults {
		fmt.Fprint(table, f)
		for _, o := range r.shownOutcomes() {
			fmt.Fprintf(table, "\t%d", r.Count(f, o))
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // into memory
	for _, run := range r.Broken() {
		fmt.Fprintf(&b, "\n%s\n", screentext.Escape(run.Line()))
		fmt.Fprintf(&b, "  %s\n", run.Fault.Meaning())
		for _, line := range run.breakLines() {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// breakLines returns the lines about a run that broke, escaped: programs choose the paths, and what they print.
func (run Run) breakLines() (lines []string) {
	defer func() {
		for i := range lines {
			lines[i] = screentext.Escape(strings.ReplaceAll(lines[i], "\t", tabSpaces))
		}
	}()
	if run.Path != "" {
		lines = append(lines, "path: "+run.Path)
	}
	if len(run.Next) > 0 {
		lines = append(lines, "then it requested:")
		for _, next := range run.Next {
			lines = append(lines, "  "+next.Key().String())
		}
	}
	if len(run.Output) > 0 {
		lines = append(lines, "its last lines:")
		for _, line := range run.Output {
			lines = append(lines, "  | "+line)
		}
	}
	if run.Repeat != "" {
		lines = append(lines, "to repeat it: "+run.Repeat)
	}
	return lines
}

// tabSpaces replaces a tab of a program's output.
const tabSpaces = "    "

// shownOutcomes returns the outcomes that a table has columns for: those that occurred, and always survived and broke.
func (r Result) shownOutcomes() []Outcome {
	return slices.DeleteFunc(Outcomes(), func(o Outcome) bool { return r.Counts[o] == 0 && o != Survived && o != Broke })
}

// Count returns the number of runs with a fault and an outcome.
func (r Result) Count(f Fault, o Outcome) (n int) {
	for _, run := range r.Runs {
		if run.Fault == f && run.Outcome == o {
			n++
		}
	}
	return n
}

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"millis": fromMillis, "join": strings.Join,
	"sentence": func(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." },
	"class":    func(o Outcome) string { return strings.ReplaceAll(string(o), " ", "-") },
}).Parse(pageText))

// pageData is the data of the page.
type pageData struct {
	Result
	Rows     []pageRow
	Outcomes []Outcome
	Breaks   []pageBreak
}

// pageRow is a request with one cell for each fault.
type pageRow struct {
	Request string
	Cells   []pageCell
}

// pageCell is a run, or nothing if the fault was not tried at the request.
type pageCell struct {
	Run  *Run
	Link int // the number of the run among those that broke, from 1; 0: it did not
}

type pageBreak struct {
	Number int
	Run
}

// WriteHTML writes a result as one page that needs no network.
func WriteHTML(w io.Writer, r Result) error {
	data := pageData{Result: r, Outcomes: r.shownOutcomes()}
	rows := map[Key]int{}
	for i := range r.Runs {
		run := &r.Runs[i]
		at, ok := rows[run.Key]
		if !ok {
			at = len(data.Rows)
			rows[run.Key] = at
			data.Rows = append(data.Rows, pageRow{Request: run.Key.String(), Cells: make([]pageCell, len(r.Faults))})
		}
		cell := pageCell{Run: run}
		if run.Outcome.IsBreak() {
			data.Breaks = append(data.Breaks, pageBreak{len(data.Breaks) + 1, *run})
			cell.Link = len(data.Breaks)
		}
		if column := slices.Index(r.Faults, run.Fault); column >= 0 {
			data.Rows[at].Cells[column] = cell
		}
	}
	return page.Execute(w, data)
}

// Headline is the result in a few words.
func (p pageData) Headline() string {
	switch n := len(p.Breaks); {
	case n > 0:
		return "The program broke at " + countText(n, "fault")
	case p.Counts[Survived] == 0:
		return "No fault happened"
	}
	return "The program survived every fault"
}

// CommandLine returns the program's command line.
func (p pageData) CommandLine() string { return strings.Join(p.Command, " ") }

// Details returns the lines about a run that broke.
func (b pageBreak) Details() []string { return b.breakLines() }
