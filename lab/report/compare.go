package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// Comparison has two runs side by side.
type Comparison struct {
	Sides       [2]Side
	Differences []string // other than in the outcomes: what makes the runs hard to compare
	Drills      []ComparedDrill
}

// Side is one of the runs of a Comparison.
type Side struct {
	Name     string // the software, with A or B if both are the same
	Headline string
	Run      result.Run
}

// ComparedDrill is a drill in both runs.
type ComparedDrill struct {
	Name, Title string
	Sides       [2]ComparedOutcome
	Rules       []ComparedRule
}

// ComparedRule is a rule of a drill in both runs.
type ComparedRule struct {
	Rule, Promise string
	Sides         [2]ComparedOutcome
}

// ComparedOutcome is the outcome of a drill or a rule in one run. Of a repeated drill it is that of all runs together.
type ComparedOutcome struct {
	Outcome       result.Outcome // "": the run does not have it
	Text          string         // the outcome, and how often it passed
	Detail        string         // why it did not run or was not judged, or the number of violations
	Writes, Reads string         // the longest pauses; "": not measured
}

// Compare puts two runs side by side: the drills and rules of a, and then those that only b has.
func Compare(a, b result.Run) Comparison {
	c := Comparison{Differences: listDifferences(a, b)}
	c.Sides = [2]Side{{sideName(a), headlineText(a), a}, {sideName(b), headlineText(b), b}}
	if c.Sides[0].Name == c.Sides[1].Name {
		c.Sides[0].Name, c.Sides[1].Name = "A: "+c.Sides[0].Name, "B: "+c.Sides[1].Name
	}
	groups := [2][]drillGroup{groupByName(a.Drills), groupByName(b.Drills)}
	for _, name := range unionOfNames(groups, func(g drillGroup) string { return g.name }) {
		c.Drills = append(c.Drills, compareDrill([2]drillGroup{findGroup(groups[0], name), findGroup(groups[1], name)}))
	}
	return c
}

func sideName(r result.Run) string {
	return screentext.Escape(cmp.Or(r.Ensemble.Software, "unknown"))
}

// unionOfNames returns the names of the things of both sides, each once.
func unionOfNames[T any](sides [2][]T, name func(T) string) []string {
	var all []string
	for _, side := range sides {
		for _, t := range side {
			if !slices.Contains(all, name(t)) {
				all = append(all, name(t))
			}
		}
	}
	return all
}

// findGroup returns the group of a drill, or one without runs.
func findGroup(groups []drillGroup, name string) drillGroup {
	if i := slices.IndexFunc(groups, func(g drillGroup) bool { return g.name == name }); i >= 0 {
		return groups[i]
	}
	return drillGroup{name: name}
}

func compareDrill(sides [2]drillGroup) ComparedDrill {
	d := ComparedDrill{Name: sides[0].name, Title: cmp.Or(sides[0].title, sides[1].title)}
	var verdicts [2][]result.Verdict
	for i, g := range sides {
		for _, run := range g.runs {
			verdicts[i] = append(verdicts[i], run.Verdicts...)
		}
		d.Sides[i] = comparedRuns(g)
	}
	for _, rule := range unionOfNames(verdicts, func(v result.Verdict) string { return v.Rule }) {
		r := ComparedRule{Rule: rule}
		for i, all := range verdicts {
			of := slices.DeleteFunc(slices.Clone(all), func(v result.Verdict) bool { return v.Rule != rule })
			if len(of) > 0 {
				r.Promise = cmp.Or(r.Promise, of[0].Promise)
				r.Sides[i] = comparedVerdicts(of)
			}
		}
		d.Rules = append(d.Rules, r)
	}
	return d
}

func comparedRuns(g drillGroup) ComparedOutcome {
	if len(g.runs) == 0 {
		return ComparedOutcome{}
	}
	c := ComparedOutcome{
		Outcome: tallyOfRuns(g.runs).overallOutcome(), Text: outcomeText(g),
		Writes: distributionOf(g.runs, writes).maxText(), Reads: distributionOf(g.runs, reads).maxText(),
	}
	for _, d := range g.runs {
		c.Detail = cmp.Or(c.Detail, d.Reason)
	}
	return c
}

// comparedVerdicts joins the verdicts of one rule.
func comparedVerdicts(verdicts []result.Verdict) ComparedOutcome {
	var t outcomeCounts
	broken, reason := 0, ""
	for _, v := range verdicts {
		t.countOutcome(v.Outcome)
		broken, reason = broken+countViolations(v), cmp.Or(reason, v.Reason)
	}
	c := ComparedOutcome{Outcome: t.overallOutcome(), Text: string(t.overallOutcome()), Detail: reason}
	if len(verdicts) > 1 {
		c.Text = fmt.Sprintf("%s (%d of %d passed)", c.Outcome, t.passed, len(verdicts))
	}
	if broken > 0 {
		c.Detail = countText(broken, "violation", "violations")
	}
	return c
}

// listDifferences returns the differences between the conditions of two runs.
func listDifferences(a, b result.Run) []string {
	var all []string
	differ := func(what string, x, y any) {
		if x != y {
			all = append(all, fmt.Sprintf("%s: %v and %v", what, x, y))
		}
	}
	differ("seed", a.Seed, b.Seed)
	differ("how the members are controlled", screentext.Escape(a.Ensemble.Kind), screentext.Escape(b.Ensemble.Kind))
	differ("number of members", len(a.Ensemble.Members), len(b.Ensemble.Members))
	if a.Ensemble.TickMS > 0 && b.Ensemble.TickMS > 0 {
		differ("tick in ms", a.Ensemble.TickMS, b.Ensemble.TickMS)
	}
	return all
}

// bothNumbers returns the numbers of both sides.
func bothNumbers(x, y string) string {
	if x == "" && y == "" {
		return ""
	}
	return cmp.Or(x, "-") + " and " + cmp.Or(y, "-")
}

func keptOrMissing(o result.Outcome) bool { return o == result.Pass || o == "" }

// WriteText writes the comparison as a table for a terminal: a row for each drill, and below it a row for each rule
// that failed or was not judged on one side.
func (c Comparison) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	t := &textTable{heads: []string{"drill", c.Sides[0].Name, c.Sides[1].Name, "writes paused", "reads paused"}}
	for _, d := range c.Drills {
		x, y := d.Sides[0], d.Sides[1]
		t.addRow(d.Name, x.Text, y.Text, bothNumbers(x.Writes, y.Writes), bothNumbers(x.Reads, y.Reads))
		for _, r := range d.Rules {
			if !keptOrMissing(r.Sides[0].Outcome) || !keptOrMissing(r.Sides[1].Outcome) {
				t.addRow("  "+r.Rule, r.Sides[0].Text, r.Sides[1].Text, " ", " ")
			}
		}
	}
	t.writeTo(&b, o)
	b.WriteString("\n")
	for _, s := range c.Sides {
		fmt.Fprintf(&b, "%s: %s\n", s.Name, s.Headline)
	}
	for _, d := range c.Differences {
		fmt.Fprintf(&b, "The runs differ in the %s.\n", d)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteHTML writes the comparison as one HTML page, which needs no network and no script.
func (c Comparison) WriteHTML(w io.Writer) error {
	if err := pages.ExecuteTemplate(w, "compare.html", c); err != nil {
		return fmt.Errorf("write the comparison as HTML: %w", err)
	}
	return nil
}
