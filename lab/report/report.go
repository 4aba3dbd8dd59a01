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

	"rollcall/lab/result"
)

// anyMember is the member of the gaps of clients that may use any member.
const anyMember = ""

// The kinds of gaps.
const (
	writes = "write"
	reads  = "read"
)

// drillGroup has the runs of one drill. A drill that was not repeated has one.
type drillGroup struct {
	name, title string
	runs        []result.Drill
}

// groupByName returns the drills by name, in the order in which each of them ran first.
func groupByName(drills []result.Drill) []drillGroup {
	var groups []drillGroup
	for _, d := range drills {
		i := slices.IndexFunc(groups, func(g drillGroup) bool { return g.name == d.Name })
		if i < 0 {
			i, groups = len(groups), append(groups, drillGroup{name: d.Name, title: d.Title})
		}
		groups[i].runs = append(groups[i].runs, d)
	}
	return groups
}

func (g drillGroup) isRepeated() bool { return len(g.runs) > 1 }

// outcomeCounts counts outcomes.
type outcomeCounts struct{ passed, failed, notRun int }

func (t *outcomeCounts) countOutcome(o result.Outcome) {
	switch o {
	case result.Pass:
		t.passed++
	case result.Fail:
		t.failed++
	default:
		t.notRun++
	}
}

func (t outcomeCounts) judgedCount() int { return t.passed + t.failed }

// overallOutcome returns FAIL if anything failed, and NOT RUN if nothing ran.
func (t outcomeCounts) overallOutcome() result.Outcome {
	switch {
	case t.failed > 0:
		return result.Fail
	case t.passed > 0:
		return result.Pass
	}
	return result.NotRun
}

func tallyOfRuns(drills []result.Drill) (t outcomeCounts) {
	for _, d := range drills {
		t.countOutcome(d.Outcome)
	}
	return t
}

func tallyOfVerdicts(drills []result.Drill) (t outcomeCounts) {
	for _, d := range drills {
		for _, v := range d.Verdicts {
			t.countOutcome(v.Outcome)
		}
	}
	return t
}

// headlineText returns the sentences that a manager reads first. Drills that did not run come before everything else, because
// nothing is known of what they try.
func headlineText(r result.Run) string {
	t := tallyOfVerdicts(r.Drills)
	text := fmt.Sprintf("Of %s judged, %s kept.", countText(t.judgedCount(), "promise", "promises"), countOf(t.passed))
	if t.judgedCount() == 0 {
		text = "No promise was judged."
	}
	if runs := tallyOfRuns(r.Drills); runs.notRun > 0 {
		text = fmt.Sprintf("Of %s, %s did not run. ", countText(len(r.Drills), "drill", "drills"), formatNumber(runs.notRun)) + text
	}
	return text
}

// countOf returns a number with its verb.
func countOf(n int) string {
	if n == 1 {
		return "1 was"
	}
	return formatNumber(n) + " were"
}

// outcomeSentence returns the outcome of a drill in one or two sentences.
func (g drillGroup) outcomeSentence() string {
	if g.isRepeated() {
		return g.repeatedSentence()
	}
	d := g.runs[0]
	if d.Outcome == result.NotRun {
		return "It did not run: " + endSentence(cmp.Or(d.Reason, "no reason is known"))
	}
	t, broken := tallyOfVerdicts(g.runs), brokenRules(g.runs)
	var text string
	switch {
	case len(broken) > 0:
		text = fmt.Sprintf("Of %s, %s broken: %s.", countText(t.judgedCount(), "promise", "promises"), countOf(t.failed),
			strings.Join(broken, ", "))
	case t.judgedCount() == 0:
		text = "No promise was judged."
	case t.judgedCount() == 1:
		text = "The only promise that was judged was kept."
	case t.judgedCount() == 2:
		text = "Both promises were kept."
	default:
		text = fmt.Sprintf("All %s promises were kept.", formatNumber(t.judgedCount()))
	}
	if d.Reason != "" {
		text += " " + endSentence(upperFirst(d.Reason))
	}
	return text + pausesSentence(g.runs)
}

func (g drillGroup) repeatedSentence() string {
	t, runs := tallyOfRuns(g.runs), countText(len(g.runs), "run", "runs")
	text := fmt.Sprintf("Of %s, %s passed and %s failed.", runs, formatNumber(t.passed), formatNumber(t.failed))
	switch {
	case t.passed == len(g.runs):
		text = fmt.Sprintf("All %s passed.", runs)
	case t.notRun == len(g.runs):
		text = fmt.Sprintf("None of the %s took place: %s", runs, endSentence(cmp.Or(g.runs[0].Reason, "no reason is known")))
	case t.notRun > 0:
		text = fmt.Sprintf("Of %s, %s passed, %s failed and %s did not run.", runs, formatNumber(t.passed), formatNumber(t.failed),
			formatNumber(t.notRun))
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
		return fmt.Sprintf(" The longest pause of writes was %s, that of reads %s.", formatDuration(slices.Max(w)),
			formatDuration(slices.Max(r)))
	case len(w) > 0:
		return fmt.Sprintf(" The longest pause of writes was %s.", formatDuration(slices.Max(w)))
	case len(r) > 0:
		return fmt.Sprintf(" The longest pause of reads was %s.", formatDuration(slices.Max(r)))
	}
	return ""
}

// longestPause returns the longest gap of a kind for clients that may use any member. It reports false if it was
// not measured.
func longestPause(d result.Drill, kind string) (result.Millis, bool) {
	for _, g := range d.Gaps {
		if g.Member == anyMember && g.Kind == kind {
			return lengthOf(g.Longest), true
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

func lengthOf(i result.Interval) result.Millis { return max(0, i.To-i.From) }

// expiredSessions returns the sessions that had expired at the end of a drill.
func expiredSessions(d result.Drill) int {
	if len(d.Sessions) == 0 {
		return 0
	}
	return d.Sessions[len(d.Sessions)-1].Expired
}

// countViolations returns the number of violations, with those that are not listed.
func countViolations(v result.Verdict) int { return len(v.Violations) + v.More }

func violationsText(v result.Verdict) string {
	return countText(countViolations(v), "violation", "violations")
}

// formatDuration formats a duration: 3.2 ms, 412 ms, 1.20 s, 12.3 s, 2 min 3 s.
func formatDuration(m result.Millis) string {
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

// formatMoment formats a time since the beginning of a drill, in seconds with milliseconds.
func formatMoment(m result.Millis) string { return fmt.Sprintf("%.3f s", float64(m)/1000) }

// wallTime formats a time of the wall clock. The zone is that of the time.
func wallTime(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// formatNumber formats a number with a comma before each group of three digits.
func formatNumber(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && n > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func countText(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatNumber(n) + " " + many
}

// endSentence ends a sentence.
func endSentence(text string) string { return strings.TrimRight(text, ". ") + "." }

// upperFirst begins a sentence.
func upperFirst(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
