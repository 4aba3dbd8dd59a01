package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// limits bound what the tests may take.
type limits struct {
	longest time.Duration // A longer test does not hunt faults: it would cost more than it finds.
	others  time.Duration // what tests of other packages may take for one fault; unit tests of its own package all run
	// With a fault, tests may take slower times as long as without one, and least on top, because the machine may be busy.
	slower, least time.Duration
	quick         time.Duration // shorter tests run first
}

// usualLimits are the limits of make mutants.
func usualLimits() limits {
	return limits{longest: 15 * time.Second, others: 20 * time.Second, slower: 4, least: 15 * time.Second, quick: 300 * time.Millisecond}
}

const (
	// memory, in KiB, limits what a process may map, because a fault may grow a list for ever. The tests map a third of it.
	memory = 12 << 20
	// attempts limits the runs of a test that has failed, which show whether it failed by chance.
	attempts = 3
)

// bench has the test binaries with all faults inside.
type bench struct {
	tree    *tree
	work    string // a temporary directory
	overlay string
	workers int
	limits  limits

	binaries map[string]*binary // by import path
}

// binary is the test binary of a package.
type binary struct {
	path  string
	dir   string // in which its tests run
	tests []*test
	bad   []string // tests that fail without a fault
}

// test is one test, with what a run without faults has shown.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool // faults, by number
}

// writeFaults writes the code with the faults to the directory work, and the overlay that puts it in the tree's place.
func (b *bench) writeFaults(drawn []*mutant) error {
	replace := map[string]string{}
	packages := map[string]bool{}
	for _, m := range drawn {
		if packages[m.pkg] {
			continue
		}
		packages[m.pkg] = true
		for path, text := range guardPackage(b.tree.parsed[m.pkg], faultsIn(m.pkg, drawn)) {
			file := filepath.Join(b.work, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return err
			}
			replace[path] = file
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	b.overlay = filepath.Join(b.work, "overlay.json")
	return os.WriteFile(b.overlay, text, 0o600)
}

// buildTests builds the test binaries of packages, and runs each of their tests once.
func (b *bench) buildTests(packages map[string]bool) error {
	added, err := b.compileTests(packages)
	if err != nil {
		return err
	}
	return b.measureTests(added)
}

// compileTests builds the test binaries of packages, and returns those that were not yet built. The linker uses one processor
// most of the time, so it links several at a time.
func (b *bench) compileTests(packages map[string]bool) (added []string, err error) {
	for _, path := range b.tree.order {
		if packages[path] && b.binaries[path] == nil {
			b.binaries[path] = &binary{path: filepath.Join(b.work, fmt.Sprintf("%d.test", len(b.binaries))), dir: b.tree.packages[path].Dir}
			added = append(added, path)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	if err := b.goTool(append([]string{"list", "-export", "-test"}, added...)); err != nil { // compiles each package once
		return nil, err
	}
	errs := make([]error, len(added))
	b.inParallel(len(added), func(i int) {
		errs[i] = b.goTool([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", b.binaries[added[i]].path, added[i]})
	})
	return added, errors.Join(errs...)
}

// goTool runs a command of go on the code with the faults.
func (b *bench) goTool(args []string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = b.tree.dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+b.overlay)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s with the faults behind their switches: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return nil
}

// measureTests runs each test of packages alone, without a fault. It notes how long the test takes and which faults it reaches.
func (b *bench) measureTests(packages []string) error {
	type job struct {
		*binary
		*test
		err error
	}
	var jobs []*job
	for _, path := range packages {
		bin := b.binaries[path]
		out, err := b.runBinary(bin, time.Minute, nil, "-test.list=.")
		if err != nil {
			return fmt.Errorf("%s: list of tests: %w\n%s", path, err, out)
		}
		for line := range strings.Lines(out) {
			if name := strings.TrimSpace(line); listedTest.MatchString(name) {
				jobs = append(jobs, &job{binary: bin, test: &test{name: name}})
			}
		}
	}
	b.inParallel(len(jobs), func(i int) { jobs[i].err = b.measureTest(jobs[i].binary, jobs[i].test) })
	for _, j := range jobs {
		if j.err == nil {
			j.tests = append(j.tests, j.test)
		} else {
			j.bad = append(j.bad, j.name)
		}
	}
	return nil
}

// listedTest matches what a binary lists and can run without a benchmark.
var listedTest = regexp.MustCompile(`^(Test|Fuzz|Example)`)

// measureTest returns an error if the test fails, also when it is run again, or takes too long.
func (b *bench) measureTest(bin *binary, t *test) (err error) {
	file := bin.path + "." + t.name // of what it reaches, if it reaches anything
	defer os.Remove(file)
	for range 2 {
		start := time.Now()
		_, err = b.runBinary(bin, b.limits.longest, []string{mutantVariable + "=" + reach, reachedVariable + "=" + file}, selectTests(t))
		t.took = time.Since(start)
		if err == nil || t.took > b.limits.longest {
			break
		}
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	t.reaches = map[int]bool{}
	for _, number := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		t.reaches[n] = true
	}
	return nil
}

// selectTests returns the flag that selects tests.
func selectTests(tests ...*test) string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	return "-test.run=^(" + strings.Join(names, "|") + ")$"
}

// errHung is the error of tests that do not end in time.
var errHung = errors.New("the tests do not end")

// runBinary runs a test binary in its package's directory, and ends all processes that it has started.
func (b *bench) runBinary(bin *binary, limit time.Duration, env []string, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second) // the binary ends itself before, and prints where it hung
	defer cancel()
	args = append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory), bin.path, "-test.short", "-test.failfast", "-test.timeout=" + limit.String()}, args...)
	cmd := exec.CommandContext(ctx, "/bin/sh", args...)
	cmd.Dir = bin.dir
	cmd.Env = append(os.Environ(), append([]string{"ROLLCALL_SCHEDULES=10", "GOFLAGS=" + os.Getenv("GOFLAGS") + " -overlay=" + b.overlay}, env...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || strings.Contains(text.String(), "panic: test timed out after") {
		err = errHung
	}
	return text.String(), err
}

// inParallel calls do for each index below n, on all workers.
func (b *bench) inParallel(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(b.workers)
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait() // there are no errors
}

// verdict is the result of the tests for one fault.
type verdict struct {
	by      string // the test that notices it; "" if none does
	hung    bool   // it does not end
	reached int    // tests that come by it
	ran     int    // of these, the ones that ran
	took    time.Duration
}

// huntFault runs the tests of packages that reach the fault until one notices it, and adds to the verdict. If within is not 0,
// they take at most that long.
func (b *bench) huntFault(m *mutant, packages []string, within time.Duration, v *verdict) {
	start := time.Now()
	defer func() { v.took += time.Since(start) }()
	budget := within
	for _, path := range packages {
		var groups [2][]*test // quick ones, and others
		bin := b.binaries[path]
		tests := slices.DeleteFunc(slices.Clone(bin.tests), func(t *test) bool { return !t.reaches[m.number] })
		v.reached += len(tests)
		slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
		for _, t := range tests {
			if budget -= t.took; within > 0 && budget < 0 {
				break
			}
			group := 0
			if t.took > b.limits.quick {
				group = 1
			}
			groups[group] = append(groups[group], t)
		}
		for _, group := range groups {
			v.ran += len(group)
			if by, hung := b.huntWith(bin, group, m.number); by != "" {
				v.by, v.hung = b.tree.shortName(path)+"."+by, hung
				return
			}
		}
	}
}

// failed matches the line with which a test reports that it has failed.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// huntWith runs tests with a fault, and returns which of them notices it, if any does. A test that fails and then
// passes each time it is run alone has not noticed anything, and the others run without it.
func (b *bench) huntWith(bin *binary, tests []*test, number int) (by string, hung bool) {
	env := []string{mutantVariable + "=" + strconv.Itoa(number)}
	for len(tests) > 0 {
		limit := b.limits.least
		for _, t := range tests {
			limit += b.limits.slower * t.took
		}
		out, err := b.runBinary(bin, limit, env, selectTests(tests...))
		if err == nil {
			return "", false
		}
		if errors.Is(err, errHung) {
			return tests[0].name, true
		}
		suspects := tests
		if match := failed.FindStringSubmatch(out); match != nil {
			if i := slices.IndexFunc(tests, func(t *test) bool { return t.name == match[1] }); i >= 0 {
				suspects = tests[i : i+1]
			}
		}
		for range attempts {
			if _, err := b.runBinary(bin, limit, env, selectTests(suspects...)); err != nil {
				return suspects[0].name, errors.Is(err, errHung)
			}
		}
		tests = slices.DeleteFunc(slices.Clone(tests), func(t *test) bool { return slices.Contains(suspects, t) })
	}
	return "", false
}
