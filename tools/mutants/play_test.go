package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each named mutant changes a text that its file has once, in a function, and names a test that exists.
func TestNamedMutantsFit(t *testing.T) {
	fset := token.NewFileSet()
	const root = "../.."
	names := map[string]bool{}
	for _, n := range named {
		if names[n.name] {
			t.Errorf("%s: duplicate name", n.name)
		}
		names[n.name] = true
		f := &file{path: filepath.Join(root, n.file)}
		var err error
		if f.text, err = os.ReadFile(f.path); err != nil {
			t.Errorf("%s: %v", n.name, err)
			continue
		}
		if f.ast, err = parser.ParseFile(fset, f.path, f.text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", n.name, err)
			continue
		}
		if _, _, err := n.changedFunction(f, fset); err != nil {
			t.Error(err)
		}
		test, _, _ := strings.Cut(n.test, "/")
		if !hasTest(t, filepath.Join(root, n.pkg), test) {
			t.Errorf("%s: package %s has no %s", n.name, n.pkg, test)
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// These mutants of the sample program are noticed by the tests that they name, or not.
var (
	inResults = namedMutant{"too many sold", "shop/shop.go", "items > most", "items > 2*most", "shop", "TestSell"}
	inSame    = namedMutant{"sold for nothing", "shop/shop.go", "price: items * price", "price: 0 * price", "shop", "TestSell"}
	inNothing = namedMutant{"nobody told", "shop/shop.go", "if s.waiting != nil && items != 0 {", "if false {", "shop", "TestSell"}
	inNamed   = namedMutant{"steps not counted", "shop/shop.go", "\t\tsteps++\n", "", "shop", "TestCount"}
	elsewhere = namedMutant{"between that adds", "shop/shop.go", "(high - low)", "(high + low)", "integration", "TestMiddle"}
	unnoticed = namedMutant{"no alarm", "shop/shop.go", "\t\t\talarms++\n", "", "shop", "TestSell"}
	endless   = namedMutant{"steps the wrong way", "shop/shop.go", "\t\tn--\n", "", "shop", "TestCount"}
)

func playShop(t *testing.T, limit time.Duration, named ...namedMutant) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	p := playing{named: named, workers: 2, limit: limit, out: &b}
	err = p.playAll("testdata/program")
	return b.String(), err
}

// Mutants are noticed in functions of every form, also several in one function.
func TestNamedMutantsAreCaught(t *testing.T) {
	all := []namedMutant{inResults, inSame, inNothing, inNamed, elsewhere}
	out, err := playShop(t, time.Minute, all...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, n := range all {
		if !strings.Contains(out, "mutant caught: "+n.name+", by "+n.test+",") {
			t.Errorf("%s is not caught:\n%s", n.name, out)
		}
	}
	if !strings.Contains(out, ": 5 of 5 mutants caught\n") {
		t.Errorf("no count:\n%s", out)
	}
}

// A mutant that its test does not notice, or with which the test does not end, fails the run.
func TestNamedMutantsThatAreNotCaught(t *testing.T) {
	out, err := playShop(t, 5*time.Second, inResults, unnoticed, endless)
	if err == nil || !strings.Contains(out, ": 1 of 3 mutants caught\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"no alarm: shop.TestSell does not notice it\n", "steps the wrong way: not judged: the tests do not end\n"} {
		if !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A row that does not fit the code fails the run, by its name.
func TestNamedMutantsThatDoNotFit(t *testing.T) {
	shop := sampleProgram(t)
	for _, tt := range []struct {
		name   string
		change func(n *namedMutant)
		want   string
	}{
		{"fits", func(*namedMutant) {}, ""},
		{"text is missing", func(n *namedMutant) { n.old = "items > least" }, `too many sold: shop/shop.go has "items > least" 0 times, want once`},
		{"text occurs twice", func(n *namedMutant) { n.old = "errEmpty" }, `too many sold: shop/shop.go has "errEmpty" 3 times, want once`},
		{"text is empty", func(n *namedMutant) { n.old = "" }, `too many sold: shop/shop.go has "" `},
		{"not in a function", func(n *namedMutant) { n.old, n.new = "most = 40", "most = 41" }, `too many sold: "most = 40" in shop/shop.go is not in the body of a function`},
		{"no such file", func(n *namedMutant) { n.file = "shop/shops.go" }, "too many sold: no file shop/shops.go"},
		{"no such package", func(n *namedMutant) { n.file = "shops/shop.go" }, "too many sold: no package shops"},
		{"no such package of the test", func(n *namedMutant) { n.pkg = "shops" }, "too many sold: no package shops"},
		{"does not compile", func(n *namedMutant) { n.new = "items > unknown" }, "too many sold does not compile: "},
		{"does not parse", func(n *namedMutant) { n.new = "items > )" }, "too many sold does not compile: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := inResults
			tt.change(&changed)
			p := playing{named: []namedMutant{inSame, changed}}
			_, err := p.mutants(shop)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// A named test that does not run, or fails without its mutant, fails the run. Then no mutant is played.
func TestNamedTestsPassWithoutMutants(t *testing.T) {
	missing, fails := inResults, inResults
	missing.test, fails.test = "TestSells", "TestAlwaysFails"
	out, err := playShop(t, time.Minute, inSame, missing, fails)
	if err == nil || strings.Contains(out, "caught") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"shop.TestSells without a mutant: it did not run\n", "shop.TestAlwaysFails without a mutant: exit status 1\n"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// These outputs of tests say something about a mutant, or nothing.
func TestNoticed(t *testing.T) {
	const (
		seed    = "--- FAIL: TestSchedules (1.00s)\n    --- FAIL: TestSchedules/seed=7 (0.10s)\n"
		floors  = "--- FAIL: TestSchedules (1.00s)\n"
		crash   = "panic: runtime error: index out of range\n"
		timeout = "panic: test timed out after 3m0s\n"
	)
	for _, tt := range []struct{ test, out, want string }{
		{"TestSchedules/seed=", seed, "TestSchedules/seed=7"},
		{"TestSchedules/seed=", floors, ""},
		{"TestSchedules/seed=", crash, "a panic in integration.TestSchedules/seed="},
		{"TestSchedules/seed=", timeout, ""},
		{"TestTornWrites", "--- FAIL: TestTornWrites (0.10s)\n", "TestTornWrites"},
		{"TestTornWrites", timeout, ""},
		{"TestTornWrites", "--- FAIL: TestTornWrites (0.10s)\n" + timeout, "TestTornWrites"},
		{"TestTornWrites", crash, "a panic in integration.TestTornWrites"},
		{"TestTornWrites", "", ""},
	} {
		n := namedMutant{pkg: "integration", test: tt.test}
		if got := n.noticedBy(tt.out); got != tt.want {
			t.Errorf("%s: %q is noticed by %q, want %q", tt.test, tt.out, got, tt.want)
		}
	}
}

// A draw has as many mutants as were wanted, each once and in the order of the table. Another seed draws others.
func TestDrawNamed(t *testing.T) {
	names := func(drawn []namedMutant) (names []string) {
		for _, n := range drawn {
			names = append(names, n.name)
		}
		return names
	}
	all, half := names(named), len(named)/2
	first, second := names(drawNamed(named, half, 1)), names(drawNamed(named, half, 2))
	for _, drawn := range [][]string{first, second} {
		next := 0
		for _, name := range all {
			if next < len(drawn) && drawn[next] == name {
				next++
			}
		}
		if len(drawn) != half || next != half {
			t.Errorf("%d are drawn, and %d of them in order: %q", len(drawn), next, drawn)
		}
	}
	if slices.Equal(first, second) || !slices.Equal(first, names(drawNamed(named, half, 1))) {
		t.Errorf("seed 1 draws %q, and seed 2 %q", first, second)
	}
	for _, n := range []int{0, len(named), len(named) + 1} {
		if got := names(drawNamed(named, n, 1)); !slices.Equal(got, all) {
			t.Errorf("a draw of %d has %d of %d", n, len(got), len(all))
		}
	}
}
