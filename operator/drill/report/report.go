// Package report makes readable what a run of drills found (package result): JSON, JUnit XML, tables for a terminal,
// one HTML page, a comparison of two runs, and a display while the drills run.
//
// It judges nothing. Names, reasons and histories come from the ensemble and its clients, so every format escapes
// them. Nothing here keeps state between calls except a Live.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/operator/drill/result"
)

// anyMember is the member of the gaps of clients that may use any member.
const anyMember = ""

// The kinds of gaps.
const (
	writes = "write"
	reads  = "read"
)

// group has the runs of one drill. A drill that was not repeated has one.
type group struct {
	name, title string
	runs        []result.Drill
}

// grouped returns the drills by name, in the order in which each of them ran first.
func grouped(drills []result.Drill) []group {
	var groups []group
	for _, d := range drills {
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == d.Name })
		if i < 0 {
			i, groups = len(groups), append(groups, group{name: d.Name, title: d.Title})
		}
		groups[i].runs = append(groups[i].runs, d)
	}
	return groups
}

func (g group) repeated() bool { return len(g.runs) > 1 }

// tally counts outcomes.
type tally struct{ passed, failed, notRun int }

func (t *tally) add(o result.Outcome) {
	switch o {
	case result.Pass:
		t.passed++
	case result.Fail:
		t.failed++
	default:
		t.notRun++
	}
}

func (t tally) judged() int { return t.passed + t.failed }

// outcome returns FAIL if anything failed, and NOT RUN if nothing ran.
func (t tally) outcome() result.Outcome {
	switch {
	case t.failed > 0:
		return result.Fail
	case t.passed > 0:
		return result.Pass
	}
	return result.NotRun
}

func tallyOfRuns(drills []result.Drill) (t tally) {
	for _, d := range drills {
		t.add(d.Outcome)
	}
	return t
}

func tallyOfVerdicts(drills []result.Drill) (t tally) {
	for _, d := range drills {
		for _, v := range d.Verdicts {
			t.add(v.Outcome)
		}
	}
	return t
}

// headline returns the sentences that a manager reads first. Drills that did not run come before everything else, because
// nothing is known of what they try.
func headline(r result.Run) string {
	t := tallyOfVerdicts(r.Drills)
	text := fmt.Sprintf("Of %s judged, %s kept.", count(t.judged(), "promise", "promises"), countOf(t.passed))
	if t.judged() == 0 {
		text = "No promise was judged."
	}
	if runs := tallyOfRuns(r.Drills); runs.notRun > 0 {
		text = fmt.Sprintf("Of %s, %s did not run. ", count(len(r.Drills), "drill", "drills"), number(runs.notRun)) + text
	}
	return text
}

// countOf returns a number with its verb.
func countOf(n int) string {
	if n == 1 {
		return "1 was"
	}
	return number(n) + " were"
}

// sentence returns the outcome of a drill in one or two sentences.
func (g group) sentence() string {
	if g.repeated() {
		return g.repeatedSentence()
	}
	d := g.runs[0]
	if d.Outcome == result.NotRun {
		return "It did not run: " + stop(cmp.Or(d.Reason, "no reason is known"))
	}
	t, broken := tallyOfVerdicts(g.runs), brokenRules(g.runs)
	var text string
	switch {
	case len(broken) > 0:
		text = fmt.Sprintf("Of %s, %s broken: %s.", count(t.judged(), "promise", "promises"), countOf(t.failed),
			strings.Join(broken, ", "))
	case t.judged() == 0:
		text = "No promise was judged."
	case t.judged() == 1:
		text = "The only promise that was judged was kept."
	case t.judged() == 2:
		text = "Both promises were kept."
	default:
		text = fmt.Sprintf("All %s promises were kept.", number(t.judged()))
	}
	if d.Reason != "" {
		text += " " + stop(upper(d.Reason))
	}
	return text + pausesSentence(g.runs)
}

func (g group) repeatedSentence() string {
	t, runs := tallyOfRuns(g.runs), count(len(g.runs), "run", "runs")
	text := fmt.Sprintf("Of %s, %s passed and %s failed.", runs, number(t.passed), number(t.failed))
	switch {
	case t.passed == len(g.runs):
		text = fmt.Sprintf("All %s passed.", runs)
	case t.notRun == len(g.runs):
		text = fmt.Sprintf("None of the %s took place: %s", runs, stop(cmp.Or(g.runs[0].Reason, "no reason is known")))
	case t.notRun > 0:
		text = fmt.Sprintf("Of %s, %s passed, %s failed and %s did not run.", runs, number(t.passed), number(t.failed),
			number(t.notRun))
	}
	if broken := brokenRules(g.runs); len(broken) > 0 {
		text += fmt.Sprintf(" Broken: %s.", strings.Join(broken, ", "))
	}
	return text + pausesSentence(g.runs)
}

// brokenRules returns the rules that failed, each once.
func brokenRules(drills []result.Drill) []string {
	var rules []string
	for _, d := range drills {
		for _, v := range d.Verdicts {
			if v.Outcome == result.Fail && !slices.Contains(rules, v.Rule) {
				rules = append(rules, v.Rule)
			}
		}
	}
	return rules
}

// pausesSentence returns the longest pauses, or nothing if they are not known.
func pausesSentence(drills []result.Drill) string {
	w, r := longestPauses(drills, writes), longestPauses(drills, reads)
	switch {
	case len(w) > 0 && len(r) > 0:
		return fmt.Sprintf(" The longest pause of writes was %s, that of reads %s.", duration(slices.Max(w)),
			duration(slices.Max(r)))
	case len(w) > 0:
		return fmt.Sprintf(" The longest pause of writes was %s.", duration(slices.Max(w)))
	case len(r) > 0:
		return fmt.Sprintf(" The longest pause of reads was %s.", duration(slices.Max(r)))
	}
	return ""
}

// longestPause returns the longest gap of a kind for clients that may use any member. It reports false if it was
// not measured.
func longestPause(d result.Drill, kind string) (result.Millis, bool) {
	for _, g := range d.Gaps {
		if g.Member == anyMember && g.Kind == kind {
			return length(g.Longest), true
		}
	}
	return 0, false
}

// longestPauses returns the longest pause of each drill that measured it.
func longestPauses(drills []result.Drill, kind string) []result.Millis {
	var all []result.Millis
	for _, d := range drills {
		if pause, ok := longestPause(d, kind); ok {
			all = append(all, pause)
		}
	}
	return all
}

func length(i result.Interval) result.Millis { return max(0, i.To-i.From) }

// expired returns the sessions that had expired at the end of a drill.
func expired(d result.Drill) int {
	if len(d.Sessions) == 0 {
		return 0
	}
	return d.Sessions[len(d.Sessions)-1].Expired
}

// violations returns the number of violations, with those that are not listed.
func violations(v result.Verdict) int { return len(v.Violations) + v.More }

// duration formats a duration: 3.2 ms, 412 ms, 1.20 s, 12.3 s, 2 min 3 s.
func duration(m result.Millis) string {
	switch ms := float64(m); {
	case ms == 0:
		return "0 ms"
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 9_995:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms < 119_950:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	seconds := int64(m/1000 + .5)
	return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
}

// moment formats a time since the beginning of a drill, in seconds with milliseconds.
func moment(m result.Millis) string { return fmt.Sprintf("%.3f s", float64(m)/1000) }

// wallTime formats a time of the wall clock. The zone is that of the time.
func wallTime(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// number formats a number with a comma before each group of three digits.
func number(n int) string {
	text := strconv.Itoa(n)
	first := len(text) % 3
	if n < 0 || len(text) <= 3 {
		return text
	}
	parts := []string{}
	if first > 0 {
		parts = append(parts, text[:first])
	}
	for i := first; i < len(text); i += 3 {
		parts = append(parts, text[i:i+3])
	}
	return strings.Join(parts, ",")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// stop ends a sentence.
func stop(text string) string { return strings.TrimRight(text, ". ") + "." }

// upper begins a sentence.
func upper(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
