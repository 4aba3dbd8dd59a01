package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// lines returns the lines of go test -json for a package: each word is a test with its action, as in "TestA:pass", an output,
// as in "TestA>text" or ">text", or the action of the package alone.
func lines(pkg string, words ...string) string {
	var b strings.Builder
	for _, word := range words {
		if test, text, ok := strings.Cut(word, ">"); ok {
			fmt.Fprintf(&b, `{"Action":"output","Package":%q,"Test":%q,"Output":%q}`+"\n", pkg, test, text+"\n")
		} else if test, action, ok := strings.Cut(word, ":"); ok {
			fmt.Fprintf(&b, `{"Action":%q,"Package":%q,"Test":%q}`+"\n", action, pkg, test)
		} else {
			fmt.Fprintf(&b, `{"Action":%q,"Package":%q,"Elapsed":1}`+"\n", word, pkg)
		}
	}
	return b.String()
}

const (
	gaveUp = ">ThreadSanitizer: CHECK failed: x.cpp:1"
	form   = "TestA>    a_test.go:1: needs the usual form: run it without -short"
	lacks  = "TestA>    a_test.go:1: needs a browser: apt-get install chromium"
)

func TestReport(t *testing.T) {
	a, ok := "rollcall/a", lines("rollcall/b", "TestB:pass", "pass")
	for _, tt := range []struct {
		name    string
		strict  bool
		runs    []string // what go test prints, one run after the other
		prints  string
		hides   string
		counts  string
		success bool
	}{
		{"all pass", true, []string{ok + lines(a, "TestA>detail", "TestA/x:pass", "TestA:pass", "pass")}, "ok   rollcall/a 1.0 s\n", "detail", "tests: 2 passed, 0 failed", true},
		{"a package without tests", true, []string{ok + lines(a, ">?   \trollcall/a\t[no test files]", "skip")}, "", "rollcall/a", "tests: 1 passed, 0 failed", true},
		{"one is cached", true, []string{lines(a, "TestA:pass", ">ok  \trollcall/a\t(cached)", "pass")}, "ok   rollcall/a 1.0 s, cached\n", "", "tests: 1 passed, 0 failed", true},
		{"one fails", false, []string{ok + lines(a, "TestA>because", "TestA/x:fail", "TestA:fail", "fail")}, "because\n", "", "tests: 1 passed, 1 failed", false},
		{"one dies", false, []string{ok + lines(a, "TestA>panic: boom", "fail")}, "panic: boom\n", "", "tests: 1 passed, 1 failed", false},
		{"one does not end", false, []string{lines(a, "TestA>panic: test timed out after 5m0s", "TestA>\trunning tests:", "TestA>\t\tTestA/x (4m58s)", "fail")}, "failed: rollcall/a\ndid not end: rollcall/a.TestA/x (4m58s)\n", "", "tests: 0 passed, 1 failed", false},
		{"one prints what looks like it", false, []string{lines(a, "TestA>\t\tTestB (4m58s)", "TestA:fail", "fail")}, "failed: rollcall/a.TestA\n", "did not end", "tests: 0 passed, 1 failed", false},
		{"no build", false, []string{`{"ImportPath":"rollcall/a [rollcall/a.test]","Action":"build-output","Output":"a.go:1: bad\n"}` + "\n" + lines(a, "fail")}, "a.go:1: bad\n", "", "tests: 0 passed, 1 failed", false},
		{"nothing runs", false, []string{""}, "go test: exit status 1\n", "", "tests: 0 passed, 1 failed", false},
		{"one lacks something", false, []string{lines(a, lacks, "TestA:skip", "TestB:pass", "pass")}, "skipped: 1, needs a browser: apt-get install chromium\n", "", "tests: 1 passed, 0 failed", true},
		{"one is skipped", true, []string{lines(a, lacks, "TestA:skip", "TestB:pass", "pass")}, "must run, and was skipped: rollcall/a.TestA\n", "", "tests: 1 passed, 1 failed", false},
		{
			"another machine", true,
			[]string{lines(a, strings.Replace(form, "the usual form: run it without -short", "groups of memory: run it as root", 1), "TestA:skip", "TestB:pass", "pass")},
			"skipped: 1, needs groups of memory: run it as root", "", "tests: 1 passed, 0 failed", true,
		},
		{"another form", true, []string{lines(a, form, "TestA:skip", "TestB:pass", "pass")}, "skipped: 1, needs the usual form", "", "tests: 1 passed, 0 failed", true},
		{"a subtest is skipped", true, []string{lines(a, "TestA/x:skip", "TestA:pass", "pass")}, "", "must run", "tests: 1 passed, 0 failed", true},
		{"none runs", true, []string{lines(a, ">testing: warning: no tests to run", ">PASS", "pass")}, "failed: rollcall/a\n", "", "tests: 0 passed, 1 failed", false},
		{"the race detector gives up", true, []string{ok + lines(a, "TestA:pass", gaveUp, "fail"), lines(a, "TestC:pass", "pass")}, "on with rollcall/a\n", "failed: rollcall", "tests: 3 passed, 0 failed", true},
		{"by a signal", true, []string{lines(a, ">SIGSEGV: segmentation violation", ">PC=0x41cb49 m=4", "fail"), lines(a, "TestC:pass", "pass")}, "on with", "", "tests: 1 passed, 0 failed", true},
		{"by a signal in Go's code", true, []string{lines(a, ">[signal SIGSEGV: segmentation violation code=0x1]", ">PC=0x41cb49 m=4", "fail")}, "", "on with", "tests: 0 passed, 1 failed", false},
		{"after another form", true, []string{lines(a, form, "TestA:skip", "TestB:pass", gaveUp, "fail"), lines(a, "TestC:pass", "pass")}, "skipped: 1, needs the usual form", "must run", "tests: 2 passed, 0 failed", true},
		{"for ever", true, slices.Repeat([]string{lines(a, gaveUp, "fail")}, mostTries), "", "", "tests: 0 passed, 1 failed", false},
		{"after a race", true, []string{lines(a, "TestA>WARNING: DATA RACE", gaveUp, "fail")}, "DATA RACE", "on with", "tests: 0 passed, 1 failed", false},
		{"beside a failed test", true, []string{lines(a, gaveUp, "fail") + lines("rollcall/b", "TestB:fail", "fail")}, "", "on with", "tests: 0 passed, 2 failed", false},
		{"and a test fails afterwards", true, []string{lines(a, gaveUp, "fail"), lines(a, "TestA:fail", "fail")}, "", "", "tests: 0 passed, 1 failed", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out, tt.strict)
			runs := 0
			r.run(func(args []string, read func(io.Reader)) error {
				if runs == len(tt.runs) {
					t.Fatalf("one more run, with %q", args)
				}
				runs++
				read(strings.NewReader(tt.runs[runs-1]))
				if tt.success && runs == len(tt.runs) {
					return nil
				}
				return fmt.Errorf("exit status 1")
			}, []string{"./a", "./b"})
			success, text := r.finish(), out.String()
			if success != tt.success || runs != len(tt.runs) || !strings.Contains(text, tt.prints) || !strings.HasSuffix(text, "\n"+tt.counts+"\n") && text != tt.counts+"\n" ||
				tt.hides != "" && strings.Contains(text, tt.hides) {
				t.Errorf("success %t after %d runs; want %t after %d, %q, not %q, and %q:\n%s",
					success, runs, tt.success, len(tt.runs), tt.prints, tt.hides, tt.counts, text)
			}
		})
	}
}

// The slowest tests are printed, the slowest first, and not those that took a moment.
func TestSlowestTests(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out, true)
	for i := range mostSlow + 2 {
		r.add(event{Action: "pass", Package: "rollcall/a", Test: fmt.Sprintf("Test%d", i), Elapsed: slow - 1 + float64(i)})
	}
	r.finish()
	want := ""
	for i := mostSlow + 1; i >= 2; i-- {
		want += fmt.Sprintf("slow: %d s, rollcall/a.Test%d\n", slow-1+i, i)
	}
	if want += fmt.Sprintf("tests: %d passed, 0 failed\n", mostSlow+2); out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// A package is begun again without the tests that have passed, those that are left out anyway, and the other packages.
func TestArgumentsOfAnotherTry(t *testing.T) {
	var got [][]string
	r := newReport(io.Discard, true)
	r.run(func(args []string, read func(io.Reader)) error {
		got = append(got, args)
		if len(got) == 1 {
			read(strings.NewReader(lines("rollcall/a", "TestA:pass", gaveUp, "fail")))
		}
		return nil
	}, []string{"-race", "-skip", "^TestSlow$", "./a", "rollcall/b"})
	want := []string{"-race", "-skip", "^TestSlow$", "-skip", "^(TestA)$|^TestSlow$", "rollcall/a"}
	if len(got) != 2 || !slices.Equal(got[1], want) {
		t.Errorf("%q, want %q", got, want)
	}
}
