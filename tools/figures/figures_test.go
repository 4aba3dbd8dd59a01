package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every target in compare.txt can be read.
func TestTargets(t *testing.T) {
	targets, err := readTargets("../../lab/bench/compare.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range targets {
		if x.figure != "" && x.limit == 0 && !strings.HasSuffix(x.text, " 0") {
			t.Errorf("%s: %q became %+v", x.row, x.text, x)
		}
	}
	for text, want := range map[string]target{
		"ops/s >= 2.5x":                  {figure: "ops/s", atLeast: true, limit: 2.5, unit: byBaseline},
		"p99 <= 1/4x":                    {figure: "p99", limit: 0.25, unit: byBaseline},
		"p50 <= 1.25f":                   {figure: "p50", limit: 1.25, unit: byFloor},
		"RSS growth per session <= 6000": {figure: "RSS growth per session", limit: 6000},
		"":                               {},
	} {
		var got target
		if err := got.parse(text); err != nil {
			t.Error(err)
		}
		if got.text = ""; got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"p99", "p99 <= fast", "p99 <= 1/x", "p99 <= f"} {
		var got target
		if err := got.parse(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}

const runs = `{"row":"set","side":"ZooKeeper","round":1,"results":[{"per_second":100,"latency":{"p99_us":9000},"extra":[{"name":"early","value":2}]}]}
{"row":"set","side":"ZooKeeper","round":2,"results":[{"per_second":140,"latency":{"p99_us":9000}}]}
{"row":"set","side":"ZooKeeper","round":3,"results":[{"per_second":120,"latency":{"p99_us":9000}}]}
{"row":"set","side":"Rollcall","round":1,"results":[{"per_second":360,"latency":{"p99_us":3001},"extra":[{"name":"early","value":0}]}]}
{"row":"set","side":"Floor","round":1,"results":[{"per_second":480,"server_cpu_us_per_op":8,"latency":{"p99_us":2000}}]}
{"row":"get","side":"ZooKeeper","round":1,"results":[{"per_second":100,"server_cpu_us_per_op":40,"tool_cpu_us_per_op":8,"latency":{"p99_us":9000}}]}
{"row":"get","side":"ZooKeeper","round":2,"results":[{"per_second":100,"server_cpu_us_per_op":40,"tool_cpu_us_per_op":8,"latency":{"p99_us":9000},"void":true}]}
{"row":"get","side":"Rollcall","round":1,"results":[{"per_second":110,"server_cpu_us_per_op":10,"tool_cpu_us_per_op":4,"latency":{"p99_us":9},"server_rss_bytes":1048576}]}
{"row":"get","side":"Floor","round":1,"results":[{"per_second":111,"server_cpu_us_per_op":8,"tool_cpu_us_per_op":4,"latency":{"p99_us":9},"void":true}]}
{"row":"list","side":"ZooKeeper","round":1,"results":[{"per_second":100,"server_cpu_us_per_op":40,"tool_cpu_us_per_op":20,"void":true}]}
{"row":"list","side":"Rollcall","round":1,"results":[{"per_second":400,"server_cpu_us_per_op":10,"tool_cpu_us_per_op":1}]}
{"row":"list","side":"Floor","round":1,"results":[{"per_second":500,"server_cpu_us_per_op":8,"void":true}]}
{"row":"start","side":"Rollcall","round":1,"figures":{"seconds":0.6}}
`

// Ratios are ratios of medians. A target that was not measured is neither met nor missed.
func TestJudge(t *testing.T) {
	lines, err := parseLines([]byte(runs))
	if err != nil {
		t.Fatal(err)
	}
	k := &measurements{runsByPart: map[string][]recordedRun{"three": lines, "alone": lines}}
	for _, c := range []struct{ part, row, target, reached, verdict string }{
		{"three", "set", "ops/s >= 3x", "3x", "met"},
		{"three", "set", "ops/s >= 3.1x", "3x", "**missed**"},
		{"three", "set", "p99 <= 1/3x", "0.333x", "**missed**"},
		{"three", "set", "ops/s >= 0.75f", "0.750f", "met"},
		{"three", "set", "ops/s >= 0.76f", "0.750f", "**missed**"},
		{"three", "set", "p99 <= 1.5f", "1.50f", "**missed**"},
		{"three", "set", "p99 <= 1.51f", "1.50f", "met"},
		{"three", "set", "early <= 1f", "-", "not measured on the floor"},
		{"three", "set", "early <= 0", "0", "met"},
		{"three", "set", "early <= 1/3x", "0x", "met"},
		{"three", "set", "closed >= 3x", "-", "not measured"},
		{"three", "start", "seconds <= 1/3x", "-", "not measured on ZooKeeper"},
		{"alone", "start", "seconds <= 0.5", "0.600", "**missed**"},
		{"alone", "start", "seconds <= 0.6", "0.600", "met"},
		{"one", "set", "ops/s >= 1x", "-", "not measured"},
		{"three", "get", "ops/s >= 1.1x", "1.10x", "met"},    // at least 1.1x without the load generator
		{"three", "get", "ops/s >= 1.2x", "1.10x", "void"},   // maybe more
		{"three", "get", "ops/s >= 0.99f", "0.991f", "void"}, // maybe less
		{"three", "get", "ops/s >= 0.995f", "0.991f", "**missed**"},
		{"three", "get", "p99 <= 1/3x", "0.001x", "met"},
		{"three", "get", "p99 <= 1f", "1f", "void"},
		{"three", "get", "p99 <= 0.9f", "1f", "**missed**"},
		{"three", "get", "ops/s >= 100", "110", "met"},       // the row is void on ZooKeeper only
		{"three", "list", "ops/s >= 3x", "4x", "void"},       // the tool took less of the faster side's time
		{"three", "list", "ops/s >= 0.9f", "0.800f", "void"}, // what the tool took was not measured
		{"three", "get", "server CPU per op <= 1/4x", "0.250x", "met"},
		{"three", "get", "RSS of the servers <= 1", "1", "met"},
	} {
		x := target{part: c.part, row: c.row}
		if err := x.parse(c.target); err != nil {
			t.Fatal(err)
		}
		if reached, verdict := k.judgeTarget(x); reached != c.reached || verdict != c.verdict {
			t.Errorf("%s, %s: %s, %s; want %s, %s", c.row, c.target, reached, verdict, c.reached, c.verdict)
		}
	}
	k.targets = []target{
		{part: "three", row: "set", figure: "ops/s", limit: 3, unit: byBaseline, text: "≤ 3x"},
		{part: "three", row: "set", figure: "early", text: "≤ 0"},
		{part: "three", row: "set", figure: "ops/s", limit: 0.76, atLeast: true, unit: byFloor, text: "≥ 0.76f"},
	}
	if got := k.Unmet(); !strings.Contains(got, "| set | ops/s | 120 (100-140) | 360 | ≤ 3x: 3x met; ≥ 0.76f: 0.750f **missed** |") || strings.Contains(got, "early") {
		t.Errorf("targets that are not met:\n%s", got)
	}
	if got := string(k.targetsCSV()); !strings.Contains(got, "three,set,ops/s,120 (100-140),360,≤ 3x: 3x met; ≥ 0.76f: 0.750f missed\n") || !strings.Contains(got, "three,set,early,") {
		t.Errorf("all targets:\n%s", got)
	}
	k.targets = []target{{part: "alone", row: "start"}, {part: "alone", row: "set", figure: "ops/s"}, {part: "alone", row: "set", figure: "p99"}}
	if got := k.All("alone"); !strings.Contains(got, "| start | seconds | - | 0.600 | - |\n| set | ops/s |") ||
		strings.Count(got, "| set |") != 1 {
		t.Errorf("all:\n%s", got)
	}
	k.targets = []target{{part: "three", row: "set"}, {part: "three", row: "start"}}
	if got := k.All("three"); !strings.Contains(got, "| set | ops/s | 120 (100-140) | 360 | 3x | 480 | 0.750f |\n") ||
		!strings.Contains(got, "|  | server CPU per op, µs | - | - | - | 8 | - |\n") ||
		!strings.Contains(got, "| start | seconds | - | 0.600 | - | - | - |\n") {
		t.Errorf("all:\n%s", got)
	}
	k.targets = []target{{part: "three", row: "get", figure: "ops/s", limit: 3, atLeast: true, unit: byBaseline, text: "≥ 3x"}}
	if got := k.TargetCount(); got != "Of 1 targets 0 are met, 0 missed, 1 void, and 0 not measured." {
		t.Errorf("count: %s", got)
	}
	if got, want := string(k.figuresCSV()), "three,get,ops/s,,ZooKeeper,100,100,100,2,1,0\n"; !strings.Contains(got, want) {
		t.Errorf("figures:\n%s, want\n%s", got, want)
	}
	if !k.isVoid("three", "get", "Rollcall", "ZooKeeper") || !k.isVoid("three", "get", floorSide) ||
		k.isVoid("three", "get", "Rollcall") || k.isVoid("three", "set", "Rollcall", "ZooKeeper") {
		t.Error("a row is not void because of one run on a side, or is void because of a side that does not count")
	}
	if got := k.remarkLines([]string{"three"}); !strings.Contains(got, "get on ZooKeeper: void, 1 of 2 runs") {
		t.Errorf("remarks: %q", got)
	}
}

// Parts of one build share a row, with the times of their first and last runs. A part of which only the day is known does not
// hide the time of another one.
func TestBuilds(t *testing.T) {
	k := &measurements{
		runsByPart: map[string][]recordedRun{
			"three": {{Build: "abc", At: "2026-01-02T08:00:00Z"}, {Build: "abc", At: "2026-01-02T07:00:00Z"}},
			"disk":  {{Build: "def", At: "2026-01-03T07:00:00Z"}},
		},
		benchBuilds: map[string]string{"znodes": "abc, 2026-01-02", "bench": ""},
	}
	want := "| build abc, 2026-01-02T07:00:00Z to 2026-01-02T08:00:00Z | three, znodes |\n" +
		"| build def, 2026-01-03T07:00:00Z to 2026-01-03T07:00:00Z | disk |\n"
	if got := k.Builds(); got != want {
		t.Errorf("builds:\n%s, want\n%s", got, want)
	}
}

// Links are measured if a part of any delay has runs.
func TestLinks(t *testing.T) {
	k := &measurements{runsByPart: map[string][]recordedRun{"links-5ms": {{Row: "set", Side: "Rollcall"}}}}
	if !k.HasLinks() {
		t.Error("a delay was measured, but there are no links")
	}
	if k.runsByPart = nil; k.HasLinks() {
		t.Error("nothing was measured, but there are links")
	}
}

// The ratio of a load with backups to the same without is the median of the pairs' ratios. A pair without one of the
// two does not count.
func TestPairs(t *testing.T) {
	const pairs = `{"row":"set","side":"no backups","round":1,"results":[{"latency":{"p99_us":1000}}]}
{"row":"set","side":"Rollcall","round":1,"results":[{"latency":{"p99_us":1100}}]}
{"row":"set","side":"Rollcall","round":2,"results":[{"latency":{"p99_us":6000}}]}
{"row":"set","side":"no backups","round":2,"results":[{"latency":{"p99_us":5000}}]}
{"row":"set","side":"no backups","round":3,"results":[{"latency":{"p99_us":2000}}]}
{"row":"set","side":"Rollcall","round":3,"results":[{"latency":{"p99_us":2600}}]}
{"row":"set","side":"Rollcall","round":4,"results":[{"latency":{"p99_us":9000}}]}
{"row":"alone","side":"Rollcall","round":1,"results":[{"latency":{"p99_us":9000}}]}
{"row":"apart","side":"Rollcall","round":1,"results":[{"latency":{"p99_us":9000}}]}
{"row":"apart","side":"no backups","round":2,"results":[{"latency":{"p99_us":9000}}]}
`
	lines, err := parseLines([]byte(pairs))
	if err != nil {
		t.Fatal(err)
	}
	k := &measurements{runsByPart: map[string][]recordedRun{"backup": lines}}
	for _, c := range []struct{ row, target, reached, verdict string }{
		{"set", "p99 <= 1.2x", "1.20x", "met"},
		{"set", "p99 <= 1.19x", "1.20x", "**missed**"},
		{"alone", "p99 <= 1.2x", "-", "not measured on no backups"},
		{"apart", "p99 <= 1.2x", "-", "no pair was measured"},
	} {
		x := target{part: "backup", row: c.row}
		if err := x.parse(c.target); err != nil {
			t.Fatal(err)
		}
		if reached, verdict := k.judgeTarget(x); reached != c.reached || verdict != c.verdict {
			t.Errorf("%s, %s: %s, %s; want %s, %s", c.row, c.target, reached, verdict, c.reached, c.verdict)
		}
	}
	k.targets = []target{{part: "backup", row: "set", figure: "p99"}}
	if got := k.All("backup"); !strings.Contains(got, "| set | p99, ms | without: 2 (1-5) | 4.30 (1.10-9) | 1.20x |") {
		t.Errorf("all:\n%s", got)
	}
}

// observed are runs of ensembles with observers, in no order.
const observed = `{"row":"3+4 set 64x1","side":"Rollcall","round":1,"results":[{"per_second":7000,"server_cpu_us_per_op":200}]}
{"row":"1+0 set at the leader","side":"Rollcall","round":1,"results":[{"latency":{"p50_us":300,"p99_us":1400}}]}
{"row":"3+0 set 64x1","side":"Rollcall","round":1,"results":[{"per_second":13000,"server_cpu_us_per_op":80}]}
{"row":"3+0 set 64x1","side":"Rollcall","round":2,"results":[{"per_second":15000,"server_cpu_us_per_op":120}]}
{"row":"3+0 get 64x1","side":"Rollcall","round":1,"results":[{"per_second":80000,"server_cpu_us_per_op":9}]}
{"row":"3+4 set at an observer","side":"Rollcall","round":1,"results":[{"latency":{"p50_us":2000,"p99_us":4000}}]}
{"row":"another row","side":"Rollcall","round":1,"results":[{"per_second":1}]}
`

const benchText = `build: abc, 2026-01-02
goos: linux
BenchmarkGrowth/get/nodes=1000-2         	 1000	       200 ns/op	       0 B/op
BenchmarkGrowth/get/nodes=1000-2         	 1000	       300 ns/op	       0 B/op
BenchmarkGrowth/get/nodes=1000000-2      	 1000	       800 ns/op
BenchmarkGrowth/snapshot/nodes=1000      	  100	   2000000 ns/op	   180.5 B/node
PASS
ok  	rollcall/znode	1.2s
`

// write turns the output of go test into curves and the pages.
func TestWrite(t *testing.T) {
	data, docs := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(data, "znodes.txt"):      benchText,
		filepath.Join(data, "three.jsonl"):     runs,
		filepath.Join(data, "observers.jsonl"): observed,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeReports(data, docs); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"performance/curves.csv", "znodes: get,ns,1000,250,200,300,2\nznodes: get,ns,1000000,800,800,800,1\n"},
		{"performance/znodes.svg", "</svg>"},
		{"performance/curves.csv", "\"observers: set 64x1, ops/s: 3 voters\",/s,0,14000,13000,15000,2\n\"observers: set 64x1, ops/s: 3 voters\",/s,4,7000,7000,7000,1\n"},
		{"performance/curves.csv", "\"observers: set at the leader, p50: 1 voter\",ms,0,0.3,0.3,0.3,1\n"},
		{"performance/observers.svg", "3 voters</text>"},
		{"performance/observers-p50.svg", "one client at an observer"},
		{"performance/observers-p99.svg", "</svg>"},
		{"performance/figures.csv", "observers,3+4 set 64x1,ops/s,,Rollcall,7000,7000,7000,1,0,0\n"},
		{"sizing.md", "a set took 100 µs of CPU time in 3 voters, and each observer added 25 µs."},
		{"sizing.md", "(not measured)"},
		{"sizing.md", "| a node of 100 B in a snapshot | 180 B |"},
	} {
		text, err := os.ReadFile(filepath.Join(docs, c[0]))
		if err != nil || !strings.Contains(string(text), c[1]) {
			t.Errorf("%s: %v, want %q in:\n%s", c[0], err, c[1], text)
		}
	}
}

// The pages have what the report writes from the recorded measurements. Text is changed in the templates.
func TestPagesAreCurrent(t *testing.T) {
	const docs = "../../docs"
	written := t.TempDir()
	if err := writeReports(filepath.Join(docs, "performance", "data"), written); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := page.file
		is, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(written, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(is) != string(want) {
			t.Errorf("docs/%s differs from what the report writes; change its template in tools/figures, and run lab/bench/growth.sh report", name)
		}
		if name == "performance.md" && strings.Contains(string(want), "| - | - |") {
			t.Errorf("%s names a row that was not measured:\n%s", name, want)
		}
	}
}
