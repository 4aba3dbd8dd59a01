package judge

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall/operator/drill/result"
)

// Limits are the user's demands on the ensemble beyond its promises.
type Limits struct {
	Gap result.Millis // the longest time without an answer for clients that may use any member; 0: the usual one, of the rule gaps
}

// rule judges one promise.
type rule struct {
	name    string
	promise string
	page    string // in the docs, with the heading
	judge   func(e *Evidence, l Limits, f *finding)
	// applies reports whether the drill did what the rule is about; nil: every drill does.
	applies func(e *Evidence) bool
}

// rules are all rules, in the order of the verdicts.
var rules = []rule{
	sessionEnded, sessionStayed, connectedAfterExpiry,
	ephemeralVanished, ephemeralStayed,
	twoHolders,
	lostWrites, doubledWrites, readsBack,
	watchLost, watchDoubled, watchOrder,
	gaps,
	oneLeader, statesEqual, endsInLog, endsKept, afterEnd,
	backupComplete, joinedComplete, staysConnected, sessionsMoved,
}

// Promises returns the promise of each rule, by its name.
func Promises() map[string]string {
	all := map[string]string{}
	for _, r := range rules {
		all[r.name] = r.promise
	}
	return all
}

// Judge returns a verdict for each rule that is about what the drill did. It does not change e.
func Judge(e *Evidence, l Limits) []result.Verdict {
	var verdicts []result.Verdict
	for _, r := range rules {
		if r.applies != nil && !r.applies(e) {
			continue
		}
		f := &finding{}
		r.judge(e, l, f)
		verdicts = append(verdicts, f.verdict(r, e))
	}
	return verdicts
}

// finding is the result of a rule.
type finding struct {
	judged     int
	slack      result.Millis
	none       string // why there was nothing to judge
	reason     string // said with the verdict
	kinds      []string
	violations []result.Violation
	more       int
}

// maxKept limits the violations that are kept before the first ones are chosen.
const maxKept = 100 * result.MaxViolations

// broken adds a violation. lines are the history that shows it, in any order.
func (f *finding) broken(at result.Millis, text string, lines ...line) {
	if len(f.violations) >= maxKept {
		f.more++
		return
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	v := result.Violation{At: at, Text: text}
	for _, l := range lines {
		v.History = append(v.History, l.String())
	}
	f.violations = append(f.violations, v)
}

func (f *finding) verdict(r rule, e *Evidence) result.Verdict {
	v := result.Verdict{
		Rule: r.name, Promise: r.promise, Page: r.page, Outcome: result.Pass,
		Judged: f.judged, Slack: f.slack, Reason: f.reason, More: f.more,
	}
	for _, kind := range f.kinds {
		if n := e.Dropped[kind]; n > 0 {
			v.Reason = join(v.Reason, fmt.Sprintf("%d later %s were not kept and not judged", n, kind))
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
		v.Outcome, v.Reason = result.NotRun, join(f.none, v.Reason)
	}
	return v
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// line is a line of history.
type line struct {
	at   result.Millis
	text string
}

// at returns a line of history.
func at(t result.Millis, format string, args ...any) line {
	return line{at: t, text: fmt.Sprintf(format, args...)}
}

func (l line) String() string { return fmt.Sprintf("%s %s", clock(l.at), l.text) }

// clock prints a time of the drill, such as 12.345 s.
func clock(t result.Millis) string { return fmt.Sprintf("%.3f s", float64(t)/1000) }

// around returns the faults that were in force between two times, as lines of history.
func (e *Evidence) around(from, to result.Millis) (lines []line) {
	for _, f := range e.Faults {
		if f.From <= to && e.to(f) >= from {
			lines = append(lines, at(f.From, "fault: %s, until %s", f.Text, clock(e.to(f))))
		}
	}
	return lines
}

func (a Answer) line() line {
	return at(a.At, "%s answered by %s, sent at %s", a.Ask, memberName(a.Member), clock(a.Sent))
}

func memberName(name string) string {
	if name == "" {
		return "an unknown member"
	}
	return "member " + name
}
