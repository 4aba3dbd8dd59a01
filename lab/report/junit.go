package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// The elements of JUnit XML that both Jenkins and GitLab read: those of junit-10.xsd in Jenkins's xunit plugin, which
// is the strictest reader.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Classname string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"`
		Failure   *junitMessage `xml:"failure"`
		Skipped   *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// wholeDrill is the name of the test case for the drill itself, beside those for its verdicts. It is there if the
// verdicts do not show the drill's outcome. No rule has this name.
const wholeDrill = "the drill as a whole"

// WriteJUnit writes r as JUnit XML: a test suite for each drill, and a test case for each verdict. NOT RUN is a
// skipped case. FAIL is a failure, with the history of its violations.
func WriteJUnit(w io.Writer, r result.Run) error {
	all := junitSuites{Name: "rollcall drill", Time: formatSeconds(result.Since(r.Ended.Sub(r.Began)))}
	repeats := map[string]bool{}
	for _, g := range groupByName(r.Drills) {
		repeats[g.name] = g.isRepeated()
	}
	for _, d := range r.Drills {
		s := suiteOf(r, d, repeats[d.Name])
		all.Tests, all.Failures = all.Tests+s.Tests, all.Failures+s.Failures
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write the results of the drills as JUnit XML: %w", err)
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("write the results of the drills as JUnit XML: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func suiteOf(r result.Run, d result.Drill, repeated bool) junitSuite {
	name := screentext.Escape(d.Name)
	if repeated {
		name = fmt.Sprintf("%s, run %d", name, d.Repeat)
	}
	s := junitSuite{Name: name, Time: formatSeconds(d.Took), Properties: []junitProperty{
		{"title", screentext.Escape(d.Title)},
		{"seed", strconv.FormatUint(d.Seed, 10)},
		{"ensemble", screentext.Escape(r.Ensemble.Software + ", " + r.Ensemble.Kind)},
		{"command", screentext.Escape(r.Command)},
	}}
	if !d.Began.IsZero() {
		s.Timestamp = d.Began.UTC().Format("2006-01-02T15:04:05") // without a zone, which some schemas reject
	}
	if tallyOfVerdicts([]result.Drill{d}).overallOutcome() != d.Outcome || len(d.Verdicts) == 0 {
		s.addCase(name, wholeDrill, d.Outcome, d.Reason, "")
	}
	for _, v := range d.Verdicts {
		s.addCase(name, v.Rule, v.Outcome, messageOf(v), historyOf(v))
	}
	if len(s.Cases) > 0 {
		s.Cases[0].Time = s.Time // GitLab adds up the cases. A verdict has no time of its own
	}
	return s
}

func (s *junitSuite) addCase(drill, name string, o result.Outcome, message, text string) {
	c := junitCase{Name: screentext.Escape(name), Classname: "drill." + drill, Time: formatSeconds(0)}
	switch o {
	case result.Pass:
	case result.Fail:
		s.Failures++
		c.Failure = &junitMessage{screentext.Escape(message), string(o), text}
	default:
		s.Skipped++
		c.Skipped = &junitMessage{Message: screentext.Escape(message)}
	}
	s.Tests++
	s.Cases = append(s.Cases, c)
}

// messageOf returns a verdict's text in one line.
func messageOf(v result.Verdict) string {
	switch {
	case v.Outcome == result.Fail && len(v.Violations) > 0:
		first := v.Violations[0]
		return fmt.Sprintf("%s of %s judged; the first at %s: %s", violationsText(v),
			formatNumber(v.Judged), formatMoment(first.At), first.Text)
	case v.Reason != "":
		return v.Reason
	}
	return v.Promise
}

// historyOf returns the promise and all listed violations with their histories, as lines of escaped text.
func historyOf(v result.Verdict) string {
	lines := []string{"", "promise: " + v.Promise, "promised in: " + v.Page}
	if v.Reason != "" {
		lines = append(lines, "reason: "+v.Reason)
	}
	for _, violation := range v.Violations {
		lines = append(lines, formatMoment(violation.At)+": "+violation.Text)
		for _, line := range violation.History {
			lines = append(lines, "    "+line)
		}
	}
	if v.More > 0 {
		lines = append(lines, countText(v.More, "more violation", "more violations")+", not listed")
	}
	for i := range lines {
		lines[i] = screentext.Escape(lines[i])
	}
	return strings.Join(lines, "\n") + "\n"
}

func formatSeconds(m result.Millis) string {
	return strconv.FormatFloat(float64(max(0, m))/1000, 'f', 3, 64)
}
