package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"rollcall/lab/result"
)

func TestJUnit(t *testing.T) { golden(t, "junit.xml", written(t, WriteJUnit, sample())) }

// What CI reads from the JUnit XML.
func TestJUnitIsRead(t *testing.T) {
	for _, run := range []result.Run{sample(), hostile(), repeated(3)} {
		read := parseJUnit(t, run)
		if len(read.Suites) != len(run.Drills) {
			t.Fatalf("%d suites of %d drills", len(read.Suites), len(run.Drills))
		}
		names, sum := map[string]bool{}, [2]int{}
		for i, s := range read.Suites {
			if names[s.Name] {
				t.Errorf("two suites are called %q", s.Name)
			}
			names[s.Name] = true
			cases := [3]int{len(s.Cases), 0, 0}
			for _, c := range s.Cases {
				if c.Failure != nil {
					cases[1]++
				}
				if c.Skipped != nil {
					cases[2]++
				}
			}
			if want := [3]int{s.Tests, s.Failures, s.Skipped}; cases != want {
				t.Errorf("%s has %v, and says %v", s.Name, cases, want)
			}
			if fail := run.Drills[i].Outcome == result.Fail; fail && s.Failures == 0 {
				t.Errorf("%s failed, and CI would not see it", s.Name)
			}
			for j := range sum {
				sum[j] += cases[j]
			}
		}
		if want := [2]int{read.Tests, read.Failures}; sum != want {
			t.Errorf("all suites have %v, and it says %v", sum, want)
		}
	}
}

// A drill that failed or did not run as a whole has a test case for that, although its verdicts do not say so.
func TestJUnitOfWholeDrills(t *testing.T) {
	run := sample()
	failed := leaderKill(1)
	failed.Outcome, failed.Reason = result.Fail, "the ensemble was not well again within 60 s"
	run.Drills = []result.Drill{
		failed, {Name: "bare", Outcome: result.Pass}, {Name: "skipped", Outcome: result.NotRun, Reason: "needs root"},
	}
	read := parseJUnit(t, run)
	c := read.Suites[0].Cases[0]
	if c.Name != wholeDrill || c.Failure == nil || c.Failure.Message != failed.Reason || c.Time != "20.000" {
		t.Errorf("the failed drill: %+v", c)
	}
	if c := read.Suites[1].Cases; len(c) != 1 || c[0].Failure != nil || c[0].Skipped != nil {
		t.Errorf("the drill without verdicts: %+v", c)
	}
	if c := read.Suites[2].Cases; len(c) != 1 || c[0].Skipped == nil || c[0].Skipped.Message != "needs root" {
		t.Errorf("the drill that did not run: %+v", c)
	}
}

// Elements and attributes occur in junit-10.xsd of Jenkins's xunit plugin, and the required ones are there.
func TestJUnitFitsItsSchema(t *testing.T) {
	allowed := map[string]string{
		"testsuites": "name time tests failures errors", "testsuite": "name tests failures errors time skipped timestamp",
		"properties": "", "property": "name value", "testcase": "name time classname", "failure": "type message",
		"skipped": "message",
	}
	required := map[string][]string{
		"testsuite": {"name", "tests", "failures", "errors"}, "property": {"name", "value"}, "testcase": {"name"},
	}
	d := xml.NewDecoder(strings.NewReader(written(t, WriteJUnit, hostile())))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		var names []string
		for _, a := range start.Attr {
			names = append(names, a.Name.Local)
			if !slices.Contains(strings.Fields(allowed[start.Name.Local]), a.Name.Local) {
				t.Errorf("<%s> has %s", start.Name.Local, a.Name.Local)
			}
		}
		if _, known := allowed[start.Name.Local]; !known {
			t.Errorf("there is <%s>", start.Name.Local)
		}
		for _, name := range required[start.Name.Local] {
			if !slices.Contains(names, name) {
				t.Errorf("<%s> has no %s", start.Name.Local, name)
			}
		}
	}
}

func parseJUnit(t *testing.T, run result.Run) (read junitSuites) {
	t.Helper()
	if err := xml.Unmarshal([]byte(written(t, WriteJUnit, run)), &read); err != nil {
		t.Fatal(err)
	}
	return read
}
