package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// limit is the time that a suite may take, in seconds: about ten times as long as the longest takes on a busy machine.
const limit = "1200"

// outcome is the outcome of a test of a suite.
type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	skipped outcome = "skipped"
)

// run is one run of a suite.
type run struct {
	suite suite
	env   []string // of the suite, beside that of this process
	log   string   // file with the log of all members
}

// command runs a suite, or only the tests with these names, and returns the outcomes and what was printed.
type command func(t *testing.T, only []string) (map[string]outcome, string)

// newRun prepares a run of a suite, which needs packages.
func newRun(t *testing.T, s suite, packages ...needs.Need) *run {
	t.Helper()
	needs.Check(t, append([]needs.Need{needs.Nightly, needs.OwnNetwork}, packages...)...) // in another form, what is missing does not matter
	rollcall, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "members.log")
	return &run{suite: s, log: log, env: []string{"ROLLCALL=" + rollcall, "MEMBERS_LOG=" + log, "PYTHONDONTWRITEBYTECODE=1"}}
}

// wantVersion fails the test if the row is of another version than the one that is installed.
func (r *run) wantVersion(t *testing.T, installed string) {
	t.Helper()
	if installed != r.suite.version {
		t.Fatalf("%s is %s here, and the row in table_test.go is of %s: run it, and write a new row", r.suite.name, installed, r.suite.version)
	}
}

// standIn returns a directory that has only a copy of this program of testdata.
func (r *run) standIn(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(program(t, name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// besideMember returns the words before a command that needs a member at 127.0.0.1:2181.
func (r *run) besideMember(t *testing.T) []string {
	t.Helper()
	return []string{program(t, "beside-member"), t.TempDir()}
}

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// play runs the suite and compares the outcomes with its row. Tests that fail and have no place in the row are run once
// more: the suites wait for fixed times, and a busy machine may need longer.
func (r *run) play(t *testing.T, suite command) {
	t.Helper()
	outcomes, out := suite(t, nil)
	if again := r.unexpected(outcomes); len(again) > 0 && len(again) < len(outcomes)/2 {
		t.Logf("run once more: %s\n%s", strings.Join(again, ", "), tail([]byte(out)))
		second, more := suite(t, again)
		repeat(outcomes, again, second)
		out += more
	}
	for _, difference := range r.suite.differences(outcomes) {
		t.Error(difference)
	}
	if t.Failed() {
		t.Logf("%s\nthe members' log:\n%s", tail([]byte(out)), r.logged())
	}
}

// repeat puts the outcomes of tests that ran again in place of the first ones. A part that failed as a whole may have tests now.
func repeat(outcomes map[string]outcome, again []string, second map[string]outcome) {
	for _, name := range again {
		for test, got := range second {
			if strings.HasPrefix(test, name+".") {
				delete(outcomes, name)
				outcomes[test] = got
			}
		}
		if got, ran := second[name]; ran {
			outcomes[name] = got
		}
	}
}

// unexpected returns the names of the tests that failed without a place in the row, sorted.
func (r *run) unexpected(outcomes map[string]outcome) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		_, known := r.suite.reason(name)
		if _, flaky := reasonIn(r.suite.flaky, name); !known && !flaky && outcomes[name] == failed {
			names = append(names, name)
		}
	}
	return names
}

// differences returns the differences from the row.
func (s suite) differences(outcomes map[string]outcome) (all []string) {
	count, used := 0, map[exception]bool{}
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		if e, flaky := reasonIn(s.flaky, name); flaky {
			used[e] = true
			continue
		}
		e, known := s.reason(name)
		used[e] = true
		switch got := outcomes[name]; {
		case got == passed && known:
			all = append(all, fmt.Sprintf("%s passes, and the row says that it does not", name))
		case got == passed:
			count++
		case !known:
			all = append(all, fmt.Sprintf("%s %s, and the row does not say why", name, got))
		}
	}
	for _, e := range slices.Concat(s.leftOut, s.flaky) {
		if !used[e] {
			all = append(all, fmt.Sprintf("no test is called %s, which the row leaves out", e.tests))
		}
	}
	if count != s.passed {
		all = append(all, fmt.Sprintf("%d tests passed, and the row says %d", count, s.passed))
	}
	return all
}

// inOwnNetwork returns a command that has only a loopback interface of its own, so that the suites' fixed ports are free, and may
// mount file systems that no other process sees.
func (r *run) inOwnNetwork(words ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{
		"--map-root-user", "--net", "--mount", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", "timeout", limit,
	}, words...)...)
	cmd.Env = append(os.Environ(), r.env...)
	return cmd
}

// pytest returns a command that runs tests of installed Python packages, behind the words of before.
func (r *run) pytest(before []string, args ...string) command {
	return func(t *testing.T, only []string) (map[string]outcome, string) {
		t.Helper()
		report := filepath.Join(t.TempDir(), "report.xml")
		words := slices.Concat(before, []string{python, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--junitxml", report}, narrowed(args, only))
		cmd := r.inOwnNetwork(words...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		text, readErr := os.ReadFile(report)
		if readErr != nil {
			t.Fatalf("%s did not run: %v\n%s\n%s", r.suite.name, err, tail(out), r.logged())
		}
		outcomes, err := parseJUnit(text)
		if err != nil {
			t.Fatalf("%s: report of pytest: %v\n%s", r.suite.name, err, tail(out))
		}
		return outcomes, string(out)
	}
}

const python = "/usr/bin/python3" // Debian's Python, which has Debian's packages

// narrowed returns arguments of pytest that run only the named tests of those packages, or all.
func narrowed(args, only []string) []string {
	packages := slices.Clone(args)
	if len(only) > 0 {
		if i := slices.Index(packages, "-k"); i >= 0 {
			packages = slices.Delete(packages, i, i+2)
		}
		var words []string
		for _, name := range only {
			class, test, _ := strings.Cut(name, ".")
			words = append(words, "("+class+" and "+test+")")
		}
		packages = append([]string{"-k", strings.Join(words, " or ")}, packages...)
	}
	return append([]string{"--pyargs"}, packages...)
}

// testCase is a test in a report in JUnit's format.
type testCase struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Failure *struct{} `xml:"failure"`
	Error   *struct{} `xml:"error"`
	Skipped *struct{} `xml:"skipped"`
}

// parseJUnit returns the outcomes in a report of pytest, or of JUnit, by class and name.
func parseJUnit(text []byte) (map[string]outcome, error) {
	var report struct {
		OfSuites []testCase `xml:"testsuite>testcase"` // of pytest
		Cases    []testCase `xml:"testcase"`           // of JUnit
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	outcomes := map[string]outcome{}
	for _, c := range append(report.OfSuites, report.Cases...) {
		class := c.Class[strings.LastIndex(c.Class, ".")+1:]
		name, got := class+"."+strings.TrimSuffix(c.Name, "()"), passed
		switch {
		case c.Failure != nil || c.Error != nil:
			got = failed
		case c.Skipped != nil:
			got = skipped
		}
		if outcomes[name] != failed { // the end of a test may fail, too, in a case of its own
			outcomes[name] = got
		}
	}
	return outcomes, nil
}

// goTest returns a command that runs the tests of a Go package in the directory of its module. They are built before, with the
// network, and run in the package's directory.
func (r *run) goTest(module, pkg string) command {
	return func(t *testing.T, only []string) (map[string]outcome, string) {
		t.Helper()
		binary := filepath.Join(t.TempDir(), "tests")
		if out, err := exec.Command("go", "test", "-C", module, "-c", "-o", binary, pkg).CombinedOutput(); err != nil {
			t.Fatalf("%s cannot be built: %v\n%s", r.suite.name, err, tail(out))
		}
		words := []string{"go", "tool", "test2json", binary, "-test.v=test2json"}
		if len(only) > 0 {
			words = append(words, "-test.run", "^("+strings.Join(quoted(only), "|")+")$")
		}
		cmd := r.inOwnNetwork(words...)
		cmd.Dir = filepath.Join(module, pkg)
		out, err := cmd.CombinedOutput()
		outcomes := parseGoTest(out)
		if len(outcomes) == 0 {
			t.Fatalf("%s did not run: %v\n%s\n%s", r.suite.name, err, tail(out), r.logged())
		}
		return outcomes, string(out)
	}
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, regexp.QuoteMeta(name))
	}
	return all
}

// parseGoTest returns the outcomes in the output of go tool test2json. Subtests do not count. A test that did not end has failed.
func parseGoTest(text []byte) map[string]outcome {
	outcomes := map[string]outcome{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var event struct{ Action, Test string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" || strings.Contains(event.Test, "/") {
			continue
		}
		switch event.Action {
		case "run", "fail":
			outcomes[event.Test] = failed
		case "pass":
			outcomes[event.Test] = passed
		case "skip":
			outcomes[event.Test] = skipped
		}
	}
	return outcomes
}

// logged returns the end of the members' log.
func (r *run) logged() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return tail(text)
}

// tail returns the last 16 KiB of a text.
func tail(text []byte) string { return string(text[max(0, len(text)-16<<10):]) }
