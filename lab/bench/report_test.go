package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// someResults returns results of every kind.
func someResults() []Result {
	return []Result{
		{
			Case: "set 64x1 100 B", Op: "request", Seconds: 10, Ops: 123456, PerSecond: 12345.6,
			Latency: Summary{Mean: 3600, P50: 3500.4, P90: 9000, P99: 21_123, P999: 44_000, Max: 1_234_567},
			Cost:    Cost{ServerCPU: 123.4, ToolCPU: 8.25, ServerRSS: 300 << 20},
		},
		{
			Case: "get 8x64 100 B at 100/s", Op: "request", Seconds: 10, Ops: 1000, PerSecond: 100,
			Errors:  map[string]int64{"node does not exist": 2, "client: closed": 1},
			Latency: Summary{P50: 0.5, P90: 1, P99: 99.96, P999: 100, Max: 999},
			Cost:    Cost{ServerCPU: 3, ToolCPU: 1.5, Void: true},
			Extra:   []Figure{millisFigure("tool late p99", 70*time.Microsecond), faultFigure("early", 0), {Name: "opened", Value: 812.3, Unit: unitRate}},
			Notes:   []string{"something to note"},
		},
		{Case: "expiry 100", Op: "session"},
	}
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("ROLLCALL_GOLDEN") == "1" {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run the test with ROLLCALL_GOLDEN=1 to rewrite it:\n%s", path, got)
	}
}

// The output that people and programs read does not change.
func TestReports(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, someResults()); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "table.txt", b.Bytes())
	text, err := json.MarshalIndent(someResults()[:2], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "results.json", text)
	c := someComparison(t)
	b.Reset()
	if err := WriteComparison(&b, c); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "comparison.txt", b.Bytes())
	b.Reset()
	if err := WriteMarkdown(&b, c); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "comparison.md", b.Bytes())
}

// A result is void if the tool used more than a third of the servers' CPU time. It is never void if
// no server is watched.
func TestCost(t *testing.T) {
	at := func(server, tool time.Duration) usageReading {
		return usageReading{serverUsage: usage{cpuByPID: map[int]time.Duration{1: server, 2: server}}, toolCPU: tool}
	}
	begin := at(time.Second, time.Second)
	if c := costPerOp(begin, at(4*time.Second, 3*time.Second), 1e6); c.Void || c.ServerCPU != 6 || c.ToolCPU != 2 {
		t.Errorf("%+v", c)
	}
	if c := costPerOp(begin, at(4*time.Second, 3*time.Second+time.Millisecond), 1e6); !c.Void {
		t.Errorf("%+v", c)
	}
	if c := costPerOp(usageReading{}, usageReading{toolCPU: time.Second}, 10); c.Void || c.ServerCPU != 0 || c.ToolCPU != 1e5 {
		t.Errorf("%+v", c)
	}
	if c := costPerOp(begin, at(4*time.Second, 30*time.Second), 0); c.ToolCPU != 0 || c.Void {
		t.Errorf("no ops: %+v", c)
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.001": 0.0012, "0.500": 0.5, "1": 1, "1.50": 1.5, "12.3": 12.345, "123": 123.45, "1234568": 1234567.8, "-1.50": -1.5,
	} {
		if got := formatNumber(v); got != want {
			t.Errorf("%v is printed %s, want %s", v, got, want)
		}
	}
}
