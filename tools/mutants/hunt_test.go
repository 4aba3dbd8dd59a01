package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script returns a test binary that runs lines of a shell script, in a directory of its own.
func script(t *testing.T, lines string) (*bench, *binary) {
	t.Helper()
	dir := t.TempDir()
	bin := &binary{path: filepath.Join(dir, "x.test"), dir: dir}
	// A process that another test starts meanwhile would hold the file open for writing, and it could not be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(bin.path, []byte("#!/bin/sh\n"+lines), 0o700); err != nil {
		t.Fatal(err)
	}
	return &bench{work: dir, workers: 1, limits: limits{least: time.Second / 2}}, bin
}

// A fault is noticed by a test that fails twice, or does not end. It is not noticed by a test that fails once and then
// passes, and the other tests still run.
func TestWhatNoticesAFault(t *testing.T) {
	const fail = "echo '--- FAIL: TestB (0.00s)'; exit 1\n"
	for _, tt := range []struct {
		name, lines, by string
		hung            bool
	}{
		{"passes", "exit 0\n", "", false},
		{"fails", fail, "TestB", false},
		{"panics elsewhere", "echo 'panic: no test is named'; exit 2\n", "TestA", false},
		{"hangs", "sleep 60\n", "TestA", true},
		{"ends itself late", "echo 'panic: test timed out after 1s'; exit 2\n", "TestA", true},
		{"fails once", "[ -e failed ] && exit 0\ntouch failed\n" + fail, "", false},
		{"fails once, and then another", `case "$*" in *TestA*) ;; *) exit 0;; esac; case "$*" in *TestB*) ` + fail + "esac\necho '--- FAIL: TestA (0.00s)'; exit 1\n", "TestA", false},
		{"fails when it runs again", "[ -e 2 ] && { " + fail + "}\n[ -e 1 ] && { touch 2; exit 0; }\ntouch 1\n" + fail, "TestB", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, bin := script(t, tt.lines)
			b.limits.least = time.Minute
			if tt.hung {
				b.limits.least = -4 * time.Second // a second, with the five that a test binary has to end itself
			}
			by, hung := b.huntWith(bin, []*test{{name: "TestA"}, {name: "TestB"}}, 1)
			if by != tt.by || hung != tt.hung {
				t.Errorf("noticed by %q, does not end: %t; want %q, %t", by, hung, tt.by, tt.hung)
			}
		})
	}
}

// The processes that a test has started end with it, so that they take nothing from the faults after it.
func TestProcessesEndWithTheirTest(t *testing.T) {
	b, bin := script(t, "sleep 300 >/dev/null 2>&1 & echo $! >pid\n")
	if _, err := b.runBinary(bin, time.Minute, nil); err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(filepath.Join(bin.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s runs on", pid)
		}
	}
}

func sampleProgram(t *testing.T) *tree {
	t.Helper()
	p, err := readTree("testdata/program")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A seed draws the same faults again, and another seed draws others. No line has two.
func TestSeedNamesTheDraw(t *testing.T) {
	draw := func(seed uint64) (places []string) {
		p := sampleProgram(t)
		packages, err := p.productionPackages(nil)
		if err != nil {
			t.Fatal(err)
		}
		drawn, err := p.drawFaults(packages, 10, seed, false)
		if err != nil {
			t.Fatal(err)
		}
		lines := map[string]bool{}
		for _, m := range drawn {
			_, after := m.changedLines()
			places = append(places, m.kind+" "+after)
			line := fmt.Sprintf("%s:%d", m.file.name, m.line)
			if lines[line] {
				t.Errorf("two faults in %s", line)
			}
			lines[line] = true
		}
		return places
	}
	one, again, other := draw(1), draw(1), draw(2)
	if len(one) != 10 || !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Errorf("seed 1 draws\n%s\nand again\n%s\nseed 2 draws\n%s",
			strings.Join(one, "\n"), strings.Join(again, "\n"), strings.Join(other, "\n"))
	}
}

// The sample program has a place for every kind of fault, so that testdata/survivors.txt judges all of them.
func TestSampleProgramHasEveryKind(t *testing.T) {
	p := sampleProgram(t)
	s, err := p.readSource("program/shop")
	if err != nil {
		t.Fatal(err)
	}
	found := p.findFaults(s)
	for _, kind := range kinds {
		if !slices.ContainsFunc(found, func(m *mutant) bool { return m.kind == kind }) {
			t.Errorf("no place for a fault of kind %s", kind)
		}
	}
}

// Faults inside one another can all be switched.
func TestFaultsInsideOneAnother(t *testing.T) {
	f := &file{name: "x.go", text: []byte("if a && b < 1 { c() }")}
	at := func(number int, part string, guarded form) *mutant {
		from := bytes.Index(f.text, []byte(part))
		return &mutant{number: number, file: f, edits: []edit{{from: from, to: from + len(part), guarded: guarded}}}
	}
	got := withMutants(f, []*mutant{at(1, "b < 1", either("b <= 1")), at(2, "a && b < 1", never), at(3, "c()", skipped), at(4, "a && b < 1", negated), at(5, "a", never)})
	const want = "if (!mutantOn(2) && ((mutantOn(4) != ((!mutantOn(5) && (a)) && (mutantOn(1) && (b <= 1) || !mutantOn(1) && (b < 1)))))) { if !mutantOn(3) { c() } }"
	if got != want {
		t.Errorf("guarded:\n%s\nwant\n%s", got, want)
	}
}

// The tests of a fault's package come first, then those of the packages that import it, and those of integration if they
// can come by it.
func TestTesters(t *testing.T) {
	p := sampleProgram(t)
	for path, want := range map[string][3][]string{
		"program/shop": {{"program/shop"}, {"program/till"}, {"program/integration"}},
		"program/till": {{"program/till"}, nil, nil},
	} {
		if got := p.testersOf(path); !slices.EqualFunc(got[:], want[:], slices.Equal) {
			t.Errorf("%s: tests of %v, want %v", path, got, want)
		}
	}
	if _, err := p.productionPackages([]string{"nothing"}); err == nil || !strings.Contains(err.Error(), "such as quorum/trust") {
		t.Errorf("a package that does not exist: %v", err)
	}
}

// The tests of recipes on a server are unit tests of the recipes.
func TestTestersOfRecipes(t *testing.T) {
	p := &tree{module: "m", packages: map[string]*listed{}}
	add := func(path string, imports ...string) {
		p.packages[path] = &listed{ImportPath: path, Imports: imports, TestGoFiles: []string{"x_test.go"}}
		p.order = append(p.order, path)
	}
	add("m/client")
	add("m/client/lock", "m/client")
	add("m/cmd/program", "m/client")
	add("m/integration")
	add("m/integration/kills", "m/client/lock")
	add("m/integration/recipes", "m/client/lock")
	for path, want := range map[string][3][]string{
		"m/client":      {{"m/client", "m/integration/recipes"}, {"m/client/lock", "m/cmd/program"}, {"m/integration"}},
		"m/client/lock": {{"m/client/lock", "m/integration/recipes"}, nil, nil},
		"m/cmd/program": {{"m/cmd/program"}, nil, {"m/integration"}},
	} {
		if got := p.testersOf(path); !slices.EqualFunc(got[:], want[:], slices.Equal) {
			t.Errorf("%s: tests of %v, want %v", path, got, want)
		}
	}
}
