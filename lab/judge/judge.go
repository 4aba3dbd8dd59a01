package judge

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall/lab/result"
)

// Limits are the user's demands on the ensemble beyond its promises.
type Limits struct {
	Gap result.Millis // the longest time without an answer for clients that may use any member; 0: the usual one, of the rule gaps
}

// judgeRule judges one promise.
type judgeRule struct {
	name    string
	promise string
	page    string // in the docs, with the heading
	judge   func(e *Evidence, l Limits, f *findings)
	// applies reports whether the drill did what the rule is about; nil: every drill does.
	applies func(e *Evidence) bool
}

// allRules are all rules, in the order of the verdicts.
var allRules = []judgeRule{
	sessionEnded, sessionStayed, connectedAfterExpiry,
	ephemeralVanished, ephemeralStayed,
	twoHolders,
	lostWrites, doubledWrites, readsBack,
	watchLost, watchDoubled, watchOrder,
	gapsRule,
	oneLeader, statesEqual, endsInLog, endsKept, afterEnd,
	backupComplete, joinedComplete, staysConnected, sessionsMoved,
}

// Promises returns the promise of each rule, by its name.
func Promises() map[string]string {
	all := map[string]string{}
	for _, r := range allRules {
		all[r.name] = r.promise
	}
	return all
}

// Judge returns a verdict for each rule that is about what the drill did. It does not change e.
func Judge(e *Evidence, l Limits) []result.Verdict {
	var verdicts []result.Verdict
	for _, r := range allRules {
		if r.applies != nil && !r.applies(e) {
			continue
		}
		f := &findings{}
		r.judge(e, l, f)
		verdicts = append(verdicts, f.makeVerdict(r, e))
	}
	return verdicts
}

// findings is the result of a rule.
type findings struct {
	judged        int
	slack         result.Millis
	nothingJudged string // why there was nothing to judge
	reason        string // said with the verdict
	kinds         []string
	violations    []result.Violation
	omitted       int
}

// maxKept limits the violations that are kept before the first ones are chosen.
const maxKept = 100 * result.MaxViolations

// addViolation adds a violation. lines are the history that shows it, in any order.
func (f *findings) addViolation(at result.Millis, text string, lines ...historyLine) {
	if len(f.violations) >= maxKept {
		f.omitted++
		return
	}
	slices.SortStableFunc(lines, func(a, b historyLine) int { return cmp.Compare(a.at, b.at) })
	v := result.Violation{At: at, Text: text}
	for _, l := range lines {
		v.History = append(v.History, l.String())
	}
	f.violations = append(f.violations, v)
}

func (f *findings) makeVerdict(r judgeRule, e *Evidence) result.Verdict {
	v := result.Verdict{
		Rule: r.name, Promise: r.promise, Page: r.page, Outcome: result.Pass,
		Judged: f.judged, Slack: f.slack, Reason: f.reason, More: f.omitted,
	}
	for _, kind := range f.kinds {
		if n := e.Dropped[kind]; n > 0 {
			v.Reason = joinSentences(v.Reason, fmt.Sprintf("%d later %s were not kept and not judged", n, kind))
		}
	}
	slices.SortStableFunc(f.violations, func(a, b result.Violation) int { return cmp.Compare(a.At, b.At) })
	v.Violations = f.violations
	if n := len(v.Violations); n > result.MaxViolations {
		v.Violations, v.More = v.Violations[:result.MaxViolations], v.More+n-result.MaxViolations
	}
	switch {
	case len(v.Violations) > 0:
		v.Outcome = result.Fail
	case f.judged == 0:
		v.Outcome, v.Reason = result.NotRun, joinSentences(f.nothingJudged, v.Reason)
	}
	return v
}

func joinSentences(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// historyLine is a line of history.
type historyLine struct {
	at   result.Millis
	text string
}

// lineAt returns a line of history.
func lineAt(t result.Millis, format string, args ...any) historyLine {
	return historyLine{at: t, text: fmt.Sprintf(format, args...)}
}

func (l historyLine) String() string { return fmt.Sprintf("%s %s", formatTime(l.at), l.text) }

// formatTime prints a time of the drill, such as 12.345 s.
func formatTime(t result.Millis) string { return fmt.Sprintf("%.3f s", float64(t)/1000) }

// faultLines returns the faults that were in force between two times, as lines of history.
func (e *Evidence) faultLines(from, to result.Millis) (lines []historyLine) {
	for _, f := range e.Faults {
		if f.From <= to && e.endOfFault(f) >= from {
			lines = append(lines, lineAt(f.From, "fault: %s, until %s", f.Text, formatTime(e.endOfFault(f))))
		}
	}
	return lines
}

func (a Answer) toLine() historyLine {
	return lineAt(a.At, "%s answered by %s, sent at %s", a.Ask, memberName(a.Member), formatTime(a.Sent))
}

func memberName(name string) string {
	if name == "" {
		return "an unknown member"
	}
	return "member " + name
}
