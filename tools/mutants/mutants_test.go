package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/survivors.txt")

// limits of a test: the program's tests take milliseconds.
func quickLimits() limits {
	return limits{longest: time.Minute, others: time.Minute, slower: 4, least: 5 * time.Second, quick: time.Minute}
}

// All faults for which the sample program has a place are built in at once. With all switched off, its tests pass. With
// each of them on, they notice what they test, and nothing else.
func TestSurvivorsOfTheSampleProgram(t *testing.T) {
	const all = 1000
	var out bytes.Buffer
	s := sample{n: all, seed: 1, workers: 2, limits: quickLimits(), crowded: true, out: &out}
	if _, err := s.takeSample("testdata/program"); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	_, report, ok := strings.Cut(out.String(), "judged\n")
	if !ok {
		t.Fatalf("no report:\n%s", out.String())
	}
	const golden = "testdata/survivors.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if report != string(want) {
		t.Errorf("the report is not %s:\n%s", golden, report)
	}
}
