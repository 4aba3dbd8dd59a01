package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// namedMutant is a fault that a test must notice.
type namedMutant struct {
	name     string
	file     string // relative to the root
	old, new string // old occurs once in the file, in the body of one function
	pkg      string // the package of the test, relative to the root
	test     string // with a slash, such as TestSchedules/seed=, only failed subtests with this prefix count
}

// changedFunction returns the function whose body the fault changes, and the changed body without its braces.
func (n *namedMutant) changedFunction(f *file, fset *token.FileSet) (*ast.FuncDecl, string, error) {
	text := string(f.text)
	if count := strings.Count(text, n.old); n.old == "" || count != 1 {
		return nil, "", fmt.Errorf("%s: %s has %q %d times, want once", n.name, n.file, n.old, count)
	}
	from := strings.Index(text, n.old)
	to := from + len(n.old)
	for _, d := range f.ast.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		if start, end := fset.Position(function.Body.Lbrace).Offset+1, fset.Position(function.Body.Rbrace).Offset; start <= from && to <= end {
			return function, text[start:from] + n.new + text[to:end], nil
		}
	}
	return nil, "", fmt.Errorf("%s: %q in %s is not in the body of a function", n.name, n.old, n.file)
}

// mutant returns the fault with its switch: while it is on, the function does what its changed body does.
func (n *namedMutant) mutant(t *tree, number int) (*mutant, error) {
	for _, pkg := range []string{path.Dir(n.file), n.pkg} {
		if t.packages[t.importPath(pkg)] == nil {
			return nil, fmt.Errorf("%s: no package %s", n.name, pkg)
		}
	}
	s, err := t.readSource(t.importPath(path.Dir(n.file)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	i := slices.IndexFunc(s.files, func(f *file) bool { return f.name == n.file })
	if i < 0 {
		return nil, fmt.Errorf("%s: no file %s", n.name, n.file)
	}
	f := s.files[i]
	function, changed, err := n.changedFunction(f, t.fset)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return t.fset.Position(p).Offset }
	results := ""
	if r := function.Type.Results; r != nil {
		results = string(f.text[offset(r.Pos()):offset(r.End())])
	}
	body := edit{offset(function.Body.Lbrace) + 1, offset(function.Body.Rbrace), changed, anotherBody(results, changed)}
	return &mutant{number: number, pkg: s.ImportPath, file: f, edits: []edit{body}}, nil
}

// anotherBody fits the body of a function. The fault is a function literal with the same results, so it may declare and
// return what the original does.
func anotherBody(results, fault string) form {
	return func(on, original string) string {
		if results == "" {
			return " if " + on + " { func() {" + fault + "\n}(); return }; " + original
		}
		return " if " + on + " { return func() " + results + " {" + fault + "\n}() }; " + original
	}
}

// playing plays named mutants: with each of them on, its test must fail.
type playing struct {
	named   []namedMutant
	workers int
	limit   time.Duration // for all tries of one mutant
	out     io.Writer
}

const (
	// playLimit limits the time for all tries of one mutant. On a busy machine, the longest takes a minute.
	playLimit = 4 * time.Minute
	// tries limits the runs of a test until it notices, if there is time. Raft draws the time of elections at random, and
	// a member that votes although it must not is elected two times out of three.
	tries = 10
)

// playAll plays the named mutants in the tree in dir. First it checks that each of their tests passes without a fault.
func (p *playing) playAll(dir string) error {
	start := time.Now()
	if len(p.named) == 0 {
		return errors.New("no mutant has such a name")
	}
	t, err := readTree(dir)
	if err != nil {
		return err
	}
	mutants, err := p.mutants(t)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{tree: t, work: work, workers: p.workers, binaries: map[string]*binary{}}
	if err := b.writeFaults(mutants); err != nil {
		return err
	}
	packages := map[string]bool{}
	for _, n := range p.named {
		packages[t.importPath(n.pkg)] = true
	}
	if _, err := b.compileTests(packages); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%v: built\n", time.Since(start).Round(time.Second))
	if err := p.checkWithoutFaults(b); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%v: the tests pass without a mutant\n", time.Since(start).Round(time.Second))
	caught := 0
	var printing sync.Mutex
	errs := make([]error, len(p.named))
	b.inParallel(len(p.named), func(i int) {
		n, began := &p.named[i], time.Now()
		by, err := p.huntMutant(b, n, i+1)
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", n.name, err)
			return
		}
		printing.Lock()
		defer printing.Unlock()
		caught++
		fmt.Fprintf(p.out, "mutant caught: %s, by %s, in %v\n", n.name, by, time.Since(began).Round(100*time.Millisecond))
	})
	fmt.Fprintf(p.out, "%v: %d of %d mutants caught\n", time.Since(start).Round(time.Second), caught, len(p.named))
	return errors.Join(errs...)
}

// mutants returns the named mutants with their switches. All of them compile.
func (p *playing) mutants(t *tree) ([]*mutant, error) {
	var mutants []*mutant
	packages := map[string][]*mutant{}
	for i, n := range p.named {
		m, err := n.mutant(t, i+1)
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
		packages[m.pkg] = append(packages[m.pkg], m)
	}
	var errs []error
	for pkg, all := range packages {
		s := t.parsed[pkg]
		_, together := t.checkTypes(s, guardPackage(s, all), nil)
		if together == nil {
			continue
		}
		known := len(errs)
		for _, m := range all {
			if _, err := t.checkTypes(s, guardPackage(s, []*mutant{m}), nil); err != nil {
				errs = append(errs, fmt.Errorf("%s does not compile: %w", p.named[m.number-1].name, err))
			}
		}
		if len(errs) == known {
			errs = append(errs, fmt.Errorf("the mutants of %s do not compile together: %w", t.shortName(pkg), together))
		}
	}
	return mutants, errors.Join(errs...)
}

// testName returns the test of the mutant with its package.
func (n *namedMutant) testName() string { return n.pkg + "." + n.test }

// checkWithoutFaults runs the tests of all mutants once without any. One that fails runs again, because the machine may be busy.
func (p *playing) checkWithoutFaults(b *bench) error {
	tests := slices.Clone(p.named)
	slices.SortFunc(tests, func(a, b namedMutant) int { return cmp.Compare(a.testName(), b.testName()) })
	tests = slices.CompactFunc(tests, func(a, b namedMutant) bool { return a.testName() == b.testName() })
	errs := make([]error, len(tests))
	b.inParallel(len(tests), func(i int) {
		for range 2 {
			out, err := p.run(b, &tests[i], 0, "ROLLCALL_SCHEDULES=20", "ROLLCALL_OUTAGES=10")
			if err == nil && !strings.Contains(out, "--- PASS: ") {
				err = errors.New("it did not run")
			}
			if err == nil {
				errs[i] = nil
				return
			}
			errs[i] = fmt.Errorf("%s without a mutant: %w\n%s", tests[i].testName(), err, out)
		}
	})
	return errors.Join(errs...)
}

// huntMutant runs the test of the mutant with that number until it notices, and returns the test that does.
func (p *playing) huntMutant(b *bench, n *namedMutant, number int) (by string, err error) {
	start := time.Now()
	for try := range time.Duration(tries) {
		if spent := time.Since(start); try > 0 && spent+spent/try > p.limit {
			break
		}
		out, err := p.run(b, n, number, "ROLLCALL_SCHEDULES=200")
		if err == nil {
			continue
		}
		if by = n.noticedBy(out); by == "" {
			return "", fmt.Errorf("not judged: %w\n%s", err, out)
		}
		return by, nil
	}
	return "", fmt.Errorf("%s does not notice it", n.testName())
}

// run runs the test of a named mutant with the mutant of a number, or with none if it is 0.
func (p *playing) run(b *bench, n *namedMutant, number int, env ...string) (out string, err error) {
	parts := strings.Split(n.test, "/")
	pattern := "^" + parts[0] + "$"
	for _, part := range parts[1:] {
		pattern += "/^" + part
	}
	env = append(env, fmt.Sprintf("%s=%d", mutantVariable, number))
	return b.runBinary(b.binaries[b.tree.importPath(n.pkg)], p.limit, env, "-test.short=false", "-test.v", "-test.run="+pattern)
}

// noticedBy returns the test that noticed the mutant, or "" if none did. Tests that do not end in time say nothing about the
// mutant, and neither do schedules that pass, but with totals below their floors.
func (n *namedMutant) noticedBy(out string) (by string) {
	for line := range strings.Lines(out) {
		_, rest, ok := strings.Cut(line, "--- FAIL: ")
		if ok && strings.HasPrefix(rest, n.test) {
			by = strings.Fields(rest)[0] // the last one is the innermost
		}
	}
	if by == "" && strings.Contains(out, "panic: ") && !strings.Contains(out, "panic: test timed out") {
		by = "a panic in " + n.testName()
	}
	return by
}

// someNamed returns the mutants whose names contain one of the texts, or all if there are no texts.
func someNamed(named []namedMutant, texts []string) []namedMutant {
	return slices.DeleteFunc(slices.Clone(named), func(n namedMutant) bool {
		return len(texts) > 0 && !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(n.name, text) })
	})
}

// drawNamed returns n of the mutants, drawn by seed, or all if n is 0 or there are no more. They keep their order.
func drawNamed(named []namedMutant, n int, seed uint64) []namedMutant {
	if n == 0 || n >= len(named) {
		return named
	}
	drawn := rand.New(rand.NewPCG(seed, 0)).Perm(len(named))[:n]
	slices.Sort(drawn)
	some := make([]namedMutant, n)
	for i, at := range drawn {
		some[i] = named[at]
	}
	return some
}
