package rollcall_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall/operator/drill/report"
	"rollcall/operator/drill/result"
)

// drillRuns makes TestDrillFigures write docs/drills.figures.json and the tables anew:
//
//	go test . -run DrillFigures -drills rollcall.json,zookeeper.json
var drillRuns = flag.String("drills", "", "files of `rollcall drill --json`, of Rollcall and of ZooKeeper, to write docs/drills.figures.json from")

const (
	drillFiguresFile       = "docs/drills.figures.json"
	applicationFiguresFile = "docs/applications.drills.json"
)

// drillFigures is what the pages show of a run of `rollcall drill`.
type drillFigures struct {
	Software string        `json:"software"`
	Command  string        `json:"command"`
	Date     string        `json:"date"`
	Drills   []drillFigure `json:"drills"`
}

type drillFigure struct {
	Name    string       `json:"name"`
	Outcome string       `json:"outcome"`
	Judged  int          `json:"judged"`
	PauseMs float64      `json:"pauseMs"` // the longest time without an answered write, for a client that may use any member
	Broken  []brokenRule `json:"broken,omitempty"`
}

type brokenRule struct {
	Rule       string `json:"rule"`
	Violations int    `json:"violations"`
	Judged     int    `json:"judged"`
}

// figuresOf returns what is shown of a run.
func figuresOf(run result.Run) drillFigures {
	f := drillFigures{Software: run.Ensemble.Software, Command: run.Command, Date: run.Began.UTC().Format("2006-01-02")}
	for _, d := range run.Drills {
		if d.Outcome == result.NotRun {
			continue
		}
		one := drillFigure{Name: d.Name, Outcome: string(d.Outcome)}
		for _, g := range d.Gaps {
			if g.Member == "" && g.Kind == "write" {
				one.PauseMs = math.Round(float64(g.Longest.To - g.Longest.From))
			}
		}
		for _, v := range d.Verdicts {
			if v.Outcome != result.NotRun {
				one.Judged++
			}
			if v.Outcome == result.Fail {
				one.Broken = append(one.Broken, brokenRule{v.Rule, len(v.Violations) + v.More, v.Judged})
			}
		}
		f.Drills = append(f.Drills, one)
	}
	return f
}

// cells returns the outcome of a drill and its pause.
func (f drillFigure) cells() string {
	outcome := f.Outcome
	for i, b := range f.Broken {
		outcome += fmt.Sprintf("%s`%s` (%d of %d)", map[bool]string{true: ": ", false: ", "}[i == 0], b.Rule, b.Violations, b.Judged)
	}
	pause := fmt.Sprintf("%.0f ms", f.PauseMs)
	if f.PauseMs >= 1000 {
		pause = fmt.Sprintf("%.1f s", f.PauseMs/1000)
	}
	return outcome + " | " + pause
}

// counts returns the promises that were judged, and those that were kept.
func (f drillFigures) counts() (judged, kept int) {
	for _, d := range f.Drills {
		judged += d.Judged
		kept += d.Judged - len(d.Broken)
	}
	return judged, kept
}

// figure returns the figure of a drill, or ok false if it did not run.
func (f drillFigures) figure(name string) (figure drillFigure, ok bool) {
	i := slices.IndexFunc(f.Drills, func(d drillFigure) bool { return d.Name == name })
	if i < 0 {
		return drillFigure{}, false
	}
	return f.Drills[i], true
}

// drillTable returns the rows of the table of two runs: those of the drills that ran in the first one.
func drillTable(a, b drillFigures) (rows string) {
	for _, d := range a.Drills {
		others := "has no such commands | "
		if other, ok := b.figure(d.Name); ok {
			others = other.cells()
		}
		rows += fmt.Sprintf("| %s | %s | %s |\n", d.Name, d.cells(), others)
	}
	return rows
}

// The table of docs/drills.md and the numbers of promises above it come from the file of figures.
func TestDrillFigures(t *testing.T) {
	if *drillRuns != "" {
		writeDrillFigures(t)
	}
	var runs [2]drillFigures
	readFigures(t, drillFiguresFile, &runs)
	for i, software := range []string{"Rollcall", "ZooKeeper"} {
		if !strings.HasPrefix(runs[i].Software, software) {
			t.Fatalf("run %d of %s is of %s", i+1, drillFiguresFile, runs[i].Software)
		}
		for _, d := range runs[i].Drills {
			if _, ok := runs[0].figure(d.Name); !ok {
				t.Errorf("%s ran on %s and not on Rollcall", d.Name, software)
			}
		}
	}
	const page = "docs/drills.md"
	if *drillRuns != "" {
		replaceTable(t, page, "| Drill | Rollcall | pause | ZooKeeper 3.8.0 | pause |\n", drillTable(runs[0], runs[1]))
	}
	judged, kept := runs[0].counts()
	others, othersKept := runs[1].counts()
	text := pages(t)[page]
	for _, want := range []string{
		drillTable(runs[0], runs[1]),
		fmt.Sprintf("Of %d promises judged on Rollcall, %d were kept, and of %d on ZooKeeper %d.", judged, kept, others, othersKept),
		"    " + runs[0].Command + "\n    " + runs[1].Command + "\n", runs[0].Date,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks, by %s:\n%s", page, drillFiguresFile, want)
		}
	}
}

func writeDrillFigures(t *testing.T) {
	t.Helper()
	var all []drillFigures
	for path := range strings.SplitSeq(*drillRuns, ",") {
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		run, err := report.Read(in)
		_ = in.Close() // it was only read
		if err != nil {
			t.Fatal(err)
		}
		// The files for the findings are no part of what is shown.
		run.Command = regexp.MustCompile(` --(json|junit|report)=\S+`).ReplaceAllString(run.Command, "")
		all = append(all, figuresOf(run))
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.WriteFile(drillFiguresFile, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readFigures(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// replaceTable replaces the rows of the table with a header.
func replaceTable(t *testing.T, path, header, rows string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), header)
	rule, after, _ := strings.Cut(after, "\n")
	_, after, ended := strings.Cut(after, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table %s", path, header)
	}
	if err := os.WriteFile(path, []byte(before+header+rule+"\n"+rows+"\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The table of drills in docs/applications.md comes from the file that applications.TestDrilled writes.
func TestApplicationFigures(t *testing.T) {
	var all []struct {
		Software, Drill, Outcome  string
		Judged, Broken, Primaries int
		InsertPauseSeconds        float64
		Demoted                   bool
		Load                      string
	}
	readFigures(t, applicationFiguresFile, &all)
	rows := ""
	for _, a := range all {
		kept := fmt.Sprintf("%d of %d", a.Judged-a.Broken, a.Judged)
		demoted := map[bool]string{true: "yes", false: "no"}[a.Demoted]
		rows += fmt.Sprintf("| %s | %s | %s | %.1f | %s | %d | %s |\n", a.Drill, a.Software, kept, a.InsertPauseSeconds, demoted, a.Primaries, a.Load)
	}
	const page = "docs/applications.md"
	if len(all) == 0 || !strings.Contains(pages(t)[page], "|---|---|---|---|---|---|---|\n"+rows+"\n") {
		t.Errorf("%s lacks, by %s:\n%s", page, applicationFiguresFile, rows)
	}
}
