package report

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/lab/result"
)

var update = flag.Bool("update", false, "write the golden files in testdata and docs/drills.schema.json anew")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o700), os.WriteFile(path, []byte(got), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: written\n%s\nwant\n%s", name, got, want)
	}
}

// written returns the output of write for a run.
func written(t *testing.T, write func(io.Writer, result.Run) error, run result.Run) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkError checks that err has the text want.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want one with %q", err, want)
	}
}

var sampleBegan = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// sample is a run with each outcome.
func sample() result.Run {
	return result.Run{
		Command: "rollcall drill leader-kill cut slow-disk --seed 7", Seed: 7,
		Began: sampleBegan, Ended: sampleBegan.Add(95 * time.Second),
		Ensemble: result.Ensemble{Software: "Rollcall 0.1.0", Kind: "processes", TickMS: 200, Members: []result.Member{
			{Name: "1", Clients: "127.0.0.1:2181"},
			{Name: "2", Clients: "127.0.0.1:2182"},
			{Name: "3", Clients: "127.0.0.1:2183"},
		}},
		Drills: []result.Drill{leaderKill(1), brokenCut(), {
			Name: "slow-disk", Title: "The leader's disk stalls for 10 s", Repeat: 1, Outcome: result.NotRun,
			Reason: "a disk that stalls needs root",
		}},
	}
}

func span(from, to result.Millis) result.Interval { return result.Interval{From: from, To: to} }

func leaderKill(repeat int) result.Drill {
	return result.Drill{
		Name: "leader-kill", Title: "The leader is killed, and starts again",
		Repeat: repeat, Seed: uint64(6 + repeat), Outcome: result.Pass, Began: sampleBegan, Took: 20_000,
		Faults: []result.Fault{{Kind: "kill", Member: "2", Text: "kill -9 of member 2, the leader", From: 5_000, To: 11_000}},
		Verdicts: []result.Verdict{
			{
				Rule: "lost-writes", Promise: "A write that was acknowledged is there for ever.",
				Page: "docs/sessions.md#writes", Outcome: result.Pass, Judged: 14_211,
			}, {
				Rule: "sessions-ended", Promise: "A session ends only if no reachable member heard from its client in time.",
				Page: "docs/sessions.md#the-end-of-a-session", Outcome: result.Pass, Judged: 120, Slack: 250,
			}, {
				Rule: "two-holders", Promise: "A lock has one holder.",
				Page: "docs/guide/lock.md", Outcome: result.NotRun, Reason: "no lock changed hands",
			},
		},
		Gaps: []result.Gap{
			{
				Kind: "write", Longest: span(5_010, 5_422), Answered: 14_211, Failed: 12,
				Pauses: []result.Interval{span(5_010, 5_422)},
			},
			{Kind: "read", Longest: span(5_003, 5_034), Answered: 30_104},
			{
				Member: "1", Kind: "write", Longest: span(5_010, 5_430), Answered: 4_700,
				Pauses: []result.Interval{span(5_010, 5_430)},
			},
			{
				Member: "2", Kind: "write", Longest: span(5_000, 11_900), Answered: 2_900, Failed: 40,
				Pauses: []result.Interval{span(5_000, 11_900), span(14_000, 14_150)},
			},
			{Member: "2", Kind: "read", Longest: span(5_000, 11_800), Answered: 5_100, Failed: 38},
		},
		Leaders: []result.Leader{{At: 0, Member: "2", Term: 4}, {At: 5_000}, {At: 5_350, Member: "1", Term: 5}},
		Sessions: []result.SessionCount{
			{At: 0, Connected: map[string]int{"1": 40, "2": 40, "3": 40}},
			{At: 5_100, Connected: map[string]int{"1": 40, "3": 40}, Suspended: 40},
			{At: 5_300, Connected: map[string]int{"1": 61, "3": 59}},
			{At: 12_000, Connected: map[string]int{"1": 61, "2": 1, "3": 58}},
		},
		Load: result.Load{Sessions: 120, Writes: 14_211, Reads: 30_104, Events: 2_100, Locks: 0},
	}
}

func brokenCut() result.Drill {
	d := leaderKill(1)
	d.Name, d.Title, d.Outcome = "cut", "The leader is cut off from the others", result.Fail
	d.Faults = []result.Fault{
		{Kind: "cut", Member: "2", Text: "member 2 is cut off from members 1 and 3", From: 3_000, To: 9_000},
		{Kind: "slow", Member: "3", Text: "member 3 answers 50 ms later", From: 4_000},
	}
	d.Verdicts[0].Outcome = result.Fail
	d.Verdicts[0].Violations = []result.Violation{{
		At: 3_120, Text: "the write of 17 to /probes/2 was acknowledged, and is not there", History: []string{
			"3.118 s  session 0x200000a  set /probes/2 = 17", "3.120 s  session 0x200000a  set /probes/2: ok, version 17",
			"9.400 s  session 0x100000b  get /probes/2: 16, version 16",
		},
	}, {At: 3_140, Text: "the write of 18 to /probes/2 was acknowledged, and is not there"}}
	d.Verdicts[0].More = 3
	d.Sessions[3].Expired = 2
	return d
}

// repeated is a run of one drill that ran n times, with pauses of 1, 2, … n tenths of a second.
func repeated(n int) result.Run {
	r := sample()
	r.Drills = nil
	for i := 1; i <= n; i++ {
		d := leaderKill(i)
		d.Gaps[0].Longest.To = d.Gaps[0].Longest.From + result.Millis(100*i)
		r.Drills = append(r.Drills, d)
	}
	return r
}

// nasty is text that would be obeyed if a format did not escape it.
const nasty = "</script></title><svg onload=alert(1)>\"' &amp; ]]> {{.}} \x1b[31m \u202e \u009b31m \x00 \xff \n"

// hostile is a run in which each name and text is nasty.
func hostile() result.Run {
	r := sample()
	r.Command, r.Ensemble.Software, r.Ensemble.Kind = "command"+nasty, "software"+nasty, "kind"+nasty
	r.Ensemble.Members = []result.Member{{Name: "member" + nasty, Clients: "clients" + nasty}}
	r.Drills = nil
	for i, o := range outcomes {
		d := brokenCut()
		d.Name, d.Title, d.Reason, d.Outcome = fmt.Sprint(i, "name", nasty), "title"+nasty, "reason"+nasty, o
		d.Faults[0].Text, d.Faults[0].Member, d.Faults[0].Kind = "fault"+nasty, "faulty"+nasty, "kind"+nasty
		d.Leaders[0].Member, d.Gaps[2].Member = "leader"+nasty, "gap"+nasty
		d.Sessions[0].Connected = map[string]int{"sessions" + nasty: 3}
		for j, o := range outcomes {
			d.Verdicts[j] = result.Verdict{
				Rule: "rule" + nasty, Promise: "promise" + nasty, Page: "page" + nasty, Outcome: o, Reason: "why" + nasty,
				Violations: []result.Violation{{At: 5, Text: "violation" + nasty, History: []string{"history" + nasty}}},
			}
		}
		r.Drills = append(r.Drills, d)
	}
	return r
}
