package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// maxDetailedRuns is the number of runs of a repeated drill that the page shows in full, with an axis and verdicts:
// those that failed first, then those with the longest pauses of writes. A run takes 10 to 170 KB of the page.
const maxDetailedRuns = 10

//go:embed page.html compare.html style.css
var files embed.FS

// pages escapes every name for its place in the page (html/template), and e also escapes what would be invisible.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"e": screentext.Escape, "style": styleSheet, "badge": badgeClass,
	"duration": formatDuration, "moment": formatMoment, "number": formatNumber, "wallTime": wallTime,
	"healed": healedText, "leader": leaderText, "member": memberName, "longest": longestText, "pauses": countPauses,
	"history": historyText, "violations": violationsText,
}).ParseFS(files, "*.html"))

// styleSheet returns the style sheet, which is ours.
func styleSheet() (template.CSS, error) {
	text, err := files.ReadFile("style.css")
	return template.CSS(text), err
}

// badgeClass returns the class of an outcome.
func badgeClass(o result.Outcome) string {
	switch o {
	case result.Pass:
		return "good"
	case result.Fail:
		return "bad"
	}
	return "plain"
}

// page is the data of page.html.
type page struct {
	Run      result.Run
	Headline string
	Outcome  result.Outcome
	Unjudged int
	Drills   []drillView
}

// drillView is a drill with all of its runs.
type drillView struct {
	ID          string
	Name, Title string
	Outcome     result.Outcome
	OutcomeText string
	Sentence    string
	Repeated    *repeatedView // nil: it ran once
	Runs        []runView     // those that are shown in full
	Others      int           // runs that are not
}

// Ran reports whether the drill ran at least once.
func (v drillView) Ran() bool { return v.Outcome != result.NotRun }

// repeatedView shows the spread of a drill's runs.
type repeatedView struct {
	Heads []string
	Rows  []repeatedRow
	Note  string
	Dots  []*dots
	Runs  []result.Drill
}

type repeatedRow struct {
	Kind  string
	Cells []string
}

// runView is one run of a drill.
type runView struct {
	result.Drill
	ID      string
	Heading string    // "" if the drill ran once
	Axis    *timeAxis // nil if it did not run
	Broken  []result.Verdict
	Expired int
}

// WriteHTML writes r as one HTML page, which needs no network and no script.
func WriteHTML(w io.Writer, r result.Run) error {
	verdicts := tallyOfVerdicts(r.Drills)
	p := page{Run: r, Headline: headlineText(r), Outcome: tallyOfRuns(r.Drills).overallOutcome(), Unjudged: verdicts.notRun}
	for i, g := range groupByName(r.Drills) {
		p.Drills = append(p.Drills, drillViewOf(g, fmt.Sprintf("drill-%d", i+1), membersOf(r)))
	}
	if err := pages.ExecuteTemplate(w, "page.html", p); err != nil {
		return fmt.Errorf("write the report as HTML: %w", err)
	}
	return nil
}

// membersOf returns the names of the members, with those that only the results name.
func membersOf(r result.Run) []string {
	var names, others []string
	for _, m := range r.Ensemble.Members {
		names = append(names, m.Name)
	}
	for _, d := range r.Drills {
		for _, c := range d.Sessions {
			for name := range c.Connected {
				if !slices.Contains(names, name) && !slices.Contains(others, name) {
					others = append(others, name)
				}
			}
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

func drillViewOf(g drillGroup, id string, members []string) drillView {
	v := drillView{
		ID: id, Name: g.name, Title: g.title,
		Outcome: tallyOfRuns(g.runs).overallOutcome(), OutcomeText: outcomeText(g), Sentence: g.outcomeSentence(),
	}
	shown := g.runs
	if g.isRepeated() {
		v.Repeated = repeatedViewOf(g)
		shown = detailedRuns(g.runs)
		v.Others = len(g.runs) - len(shown)
	}
	for _, d := range shown {
		v.Runs = append(v.Runs, runViewOf(d, id, g.isRepeated(), members))
	}
	return v
}

func repeatedViewOf(g drillGroup) *repeatedView {
	v := &repeatedView{Heads: distributionHeads(), Note: fewRuns(len(g.runs)), Runs: g.runs}
	for _, kind := range []string{writes, reads} {
		if d := dotsOf(g, kind); d != nil {
			v.Dots = append(v.Dots, d)
			v.Rows = append(v.Rows, repeatedRow{kind + "s", distributionOf(g.runs, kind).tableCells()})
		}
	}
	return v
}

// detailedRuns returns the runs that are shown in full, in the order in which they ran.
func detailedRuns(runs []result.Drill) []result.Drill {
	if len(runs) <= maxDetailedRuns {
		return runs
	}
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, _ := longestPause(runs[i], writes)
		b, _ := longestPause(runs[j], writes)
		return cmp.Or(compareFailed(runs[j], runs[i]), cmp.Compare(b, a))
	})
	order = order[:maxDetailedRuns]
	slices.Sort(order)
	var shown []result.Drill
	for _, i := range order {
		shown = append(shown, runs[i])
	}
	return shown
}

func runViewOf(d result.Drill, id string, repeated bool, members []string) runView {
	v := runView{Drill: d, ID: id, Expired: expiredSessions(d)}
	if repeated {
		v.ID = fmt.Sprintf("%s-run-%d", id, d.Repeat)
		v.Heading = fmt.Sprintf("Run %d", d.Repeat)
	}
	if d.Outcome != result.NotRun {
		v.Axis = axisOf(d, members)
	}
	for _, verdict := range d.Verdicts {
		if verdict.Outcome == result.Fail {
			v.Broken = append(v.Broken, verdict)
		}
	}
	return v
}

// countPauses returns the number of pauses of a gap that are long enough to be listed.
func countPauses(g result.Gap) string {
	n := len(g.Pauses)
	if n >= result.MaxPauses {
		return "at least " + formatNumber(n)
	}
	return formatNumber(n)
}

// longestText returns a gap's longest time without an answer.
func longestText(g result.Gap) string {
	return fmt.Sprintf("%s, from %s", formatDuration(lengthOf(g.Longest)), formatMoment(g.Longest.From))
}

// Did returns the work of the drill's clients.
func (v runView) Did() string {
	l := v.Load
	parts := []string{
		countText(l.Sessions, "session", "sessions"), countText(l.Writes, "write", "writes"), countText(l.Reads, "read", "reads"),
	}
	if l.Events > 0 {
		parts = append(parts, countText(l.Events, "event", "events"))
	}
	if l.Locks > 0 {
		parts = append(parts, "locks held "+countText(l.Locks, "time", "times"))
	}
	return strings.Join(parts, ", ")
}

// historyText returns the lines of a violation's history.
func historyText(of result.Violation) string {
	lines := make([]string, len(of.History))
	for i, line := range of.History {
		lines[i] = screentext.Escape(line)
	}
	return strings.Join(lines, "\n")
}
