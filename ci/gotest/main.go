// Command gotest runs go test -json with its arguments, and prints a summary: a line for each package, the output of each
// failed test, each skipped test with its reason, the tests that did not end within -timeout, and the tests that took longest. The last line is "tests: N passed, N failed".
// Subtests do not count.
//
// If ROLLCALL_TESTS is set, a test that was skipped is a failure, and so is a package that ran no test: a test must not be
// lost unseen. A form that is not played (see integration/needs) is none, and neither is one of root's tests for another user.
//
// The race detector of Go 1.26 may end itself in the middle of a synctest bubble (golang/go#78156). Then nothing was found and
// nothing passed, and gotest continues with the tests of that package that have not passed, a few times.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// mostTries is how often one package is begun, if the race detector ends itself.
const mostTries = 7

// Of the tests that took at least slow, in seconds, the mostSlow slowest are printed.
const (
	slow     = 5
	mostSlow = 12
)

func main() {
	r := newReport(os.Stdout, os.Getenv("ROLLCALL_TESTS") != "")
	r.run(goTest, os.Args[1:])
	if !r.finish() {
		os.Exit(1)
	}
}

// goTest runs go test -json and passes what it prints to read. It returns an error if go test fails.
func goTest(args []string, read func(io.Reader)) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read(out)
	return cmd.Wait()
}

// run runs the tests, and continues with the packages in which the race detector has ended itself.
func (r *report) run(test func(args []string, read func(io.Reader)) error, args []string) {
	err := test(args, r.read)
	for range mostTries - 1 {
		again := r.givenUp()
		if len(again) == 0 {
			break
		}
		for _, p := range again {
			fmt.Fprintf(r.out, "the race detector ended itself (golang/go#78156): on with %s\n", p.name)
			p.beginAgain()
			err = test(slices.Concat(withoutPackages(args), []string{"-skip", p.passedPattern(args), p.name}), r.read)
		}
	}
	r.broken = err
}

// withoutPackages returns the arguments that are flags, or values of flags.
func withoutPackages(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return arg == "work" || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "rollcall/")
	})
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// outcome is that of one package.
type outcome struct {
	name           string
	tests          map[string]string // the last action of each test, without subtests
	output         map[string][]byte // of each test that has not passed; "": of the package
	failed, cached bool
	itself         bool     // the race detector has ended itself
	fault, signal  bool     // a race or a panic was printed; the last line was a signal
	endless        []string // tests that were running when the time was over, with how long they ran
}

// beginAgain forgets what was printed of tests that have not ended.
func (p *outcome) beginAgain() {
	maps.DeleteFunc(p.output, func(test string, _ []byte) bool { return p.tests[test] == "" })
	p.failed, p.itself, p.fault = false, false, false
}

// testsWith returns the tests whose last action is the given one, in order.
func (p *outcome) testsWith(action string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.tests)), func(test string) bool { return p.tests[test] != action })
}

// passedPattern matches the tests that passed, and those that args leave out.
func (p *outcome) passedPattern(args []string) string {
	pattern := "^(" + strings.Join(append(p.testsWith("pass"), p.testsWith("skip")...), "|") + ")$"
	if i := slices.Index(args, "-skip"); i >= 0 && i+1 < len(args) {
		pattern += "|" + args[i+1]
	}
	return pattern
}

type report struct {
	out      io.Writer
	strict   bool // a skipped test is a failure
	packages map[string]*outcome
	built    map[string][]byte // what go printed about a build, by its import path
	slow     []event           // the ends of tests that took at least slow; those of a cached package tell of its last run
	broken   error             // go test itself failed
}

func newReport(out io.Writer, strict bool) *report {
	return &report{out: out, strict: strict, packages: map[string]*outcome{}, built: map[string][]byte{}}
}

// read reads the lines of one run of go test -json.
func (r *report) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			_, _ = r.out.Write(line)
		case e.Action == "build-output":
			r.built[e.ImportPath] = append(r.built[e.ImportPath], e.Output...)
		case e.Package != "":
			r.add(e)
		}
		if err != nil {
			return
		}
	}
}

func (r *report) add(e event) {
	p := r.packages[e.Package]
	if p == nil {
		p = &outcome{name: e.Package, tests: map[string]string{}, output: map[string][]byte{}}
		r.packages[e.Package] = p
	}
	top, _, isSubtest := strings.Cut(e.Test, "/")
	switch e.Action {
	case "output":
		p.look(e.Output)
		if !boring.MatchString(e.Output) {
			p.output[top] = append(p.output[top], e.Output...)
		}
		if noTests.MatchString(e.Output) && r.strict {
			p.failed = true
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.end(p, e)
		} else if !isSubtest {
			p.tests[top] = e.Action
			if e.Action == "pass" {
				delete(p.output, top)
			}
			if e.Elapsed >= slow {
				r.slow = append(r.slow, e)
			}
		}
	}
}

// boring matches lines of go test that say nothing beside the events.
var (
	boring  = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS|PASS\s*$|ok  \t|FAIL\t|FAIL\s*$|\?   \t)`)
	noTests = regexp.MustCompile(`\[no tests to run\]$|^testing: warning: no tests to run`)
	isForm  = regexp.MustCompile(`needs (the (usual|nightly) form|root|groups of memory): `)
	reason  = regexp.MustCompile(`needs [^\n]+`)
	ofFault = regexp.MustCompile(`--- FAIL|WARNING: DATA RACE|^panic: |^fatal error: `)
	running = regexp.MustCompile(`^\t\t(Test\S+ \(\S+\))\s*$`) // in the list of running tests after "panic: test timed out"
)

// look looks for what a test binary prints before it dies. The race detector ends itself by a check, or by a signal outside
// of Go's code, of which these tests have none of their own.
func (p *outcome) look(line string) {
	if strings.Contains(line, "ThreadSanitizer: CHECK failed") || p.signal && strings.HasPrefix(line, "PC=0x") {
		p.itself = true
	}
	p.signal = strings.HasPrefix(line, "SIGSEGV: segmentation violation")
	p.cached = p.cached || strings.HasPrefix(line, "ok  \t") && strings.Contains(line, "(cached)")
	p.fault = p.fault || ofFault.MatchString(line)
	if test := running.FindStringSubmatch(line); test != nil && p.fault {
		p.endless = append(p.endless, test[1])
	}
}

// end prints the line of a package, and what is to be read.
func (r *report) end(p *outcome, e event) {
	p.failed = p.failed || e.Action == "fail"
	switch {
	case e.Action == "skip" && len(p.tests) == 0 && !p.failed: // no test files
		return
	case p.failed:
		fmt.Fprintf(r.out, "FAIL %s %.1f s\n", p.name, e.Elapsed)
		for path, text := range r.built {
			if strings.HasPrefix(path, p.name) {
				_, _ = r.out.Write(text)
			}
		}
	default:
		cached := ""
		if p.cached {
			cached = ", cached"
		}
		fmt.Fprintf(r.out, "ok   %s %.1f s%s\n", p.name, e.Elapsed, cached)
	}
	for _, test := range slices.Sorted(maps.Keys(p.output)) {
		action := p.tests[test]
		if action == "skip" || action == "pass" && test != "" || len(p.output[test]) == 0 {
			continue
		}
		_, _ = r.out.Write(p.output[test])
	}
}

// givenUp returns the packages in which the race detector has ended itself, or none if anything else has failed.
func (r *report) givenUp() (again []*outcome) {
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		switch p := r.packages[name]; {
		case !p.failed:
		case p.itself && !p.fault && len(p.testsWith("fail")) == 0:
			again = append(again, p)
		default:
			return nil
		}
	}
	return again
}

// finish prints what was skipped and the counts. It reports whether all is well.
func (r *report) finish() bool {
	passed, failed, lost := 0, 0, []string{}
	skipped := map[string]int{} // by reason
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[name]
		passed += len(p.testsWith("pass"))
		bad := p.testsWith("fail")
		for _, test := range bad {
			fmt.Fprintf(r.out, "failed: %s.%s\n", name, test)
		}
		failed += len(bad)
		if p.failed && len(bad) == 0 {
			failed++
			fmt.Fprintf(r.out, "failed: %s\n", name)
		}
		for _, test := range p.endless {
			fmt.Fprintf(r.out, "did not end: %s.%s\n", name, test)
		}
		for _, test := range p.testsWith("skip") {
			why := reason.FindString(string(p.output[test]))
			skipped[why]++
			if !isForm.MatchString(why) {
				lost = append(lost, name+"."+test)
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(r.out, "skipped: %d, %s\n", skipped[why], why)
	}
	if r.strict {
		failed += len(lost)
		for _, test := range lost {
			fmt.Fprintf(r.out, "must run, and was skipped: %s\n", test)
		}
	}
	slices.SortFunc(r.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range r.slow[:min(len(r.slow), mostSlow)] {
		fmt.Fprintf(r.out, "slow: %.0f s, %s.%s\n", e.Elapsed, e.Package, e.Test)
	}
	if r.broken != nil && failed == 0 {
		failed++
		fmt.Fprintf(r.out, "go test: %v\n", r.broken)
	}
	fmt.Fprintf(r.out, "tests: %d passed, %d failed\n", passed, failed)
	return failed == 0
}
