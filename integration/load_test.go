package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/bench"
)

// Every case of `rollcall bench` runs against three members, measures something, fails nothing, and
// leaves nothing behind.
func TestBenchCases(t *testing.T) {
	runCases(t, benchTimeout, "get", "set:size=1000", "create", "mix:reads=50", "children:children=20", "multi:ops=3", "get:rate=500", "set:rate=300,conns=1,window=1",
		"sync", "sessions", "ephemerals:each=3", "watches:watchers=20")
}

// So do the cases whose sessions end, or would end, by the clock of the machine.
func TestBenchCasesOfTimeouts(t *testing.T) {
	needs.Check(t, needs.Nightly)
	runCases(t, 4*time.Second, "hold:sessions=20,timeout=4s,duration=3s", "resume:conns=20,storms=3", "expiry:silent=10,timeout=4s")
}

const (
	benchTick    = 500 * time.Millisecond
	benchTimeout = 20 * benchTick // the longest that members grant
)

// runCases runs cases with sessions of a timeout against three members.
func runCases(t *testing.T, timeout time.Duration, cases ...string) {
	t.Helper()
	e := startBench(t, benchTick)
	base := bench.Defaults()
	base.Duration, base.Warmup, base.Timeout = 500*time.Millisecond, 0, timeout
	base.Conns, base.Window, base.Nodes = 3, 4, 50
	for _, text := range cases {
		t.Run(text, func(t *testing.T) {
			p, err := bench.ParseCase(text, base)
			if err != nil {
				t.Fatal(err)
			}
			run := func() (bench.Result, error) {
				return bench.Run(t.Context(), bench.Config{Target: bench.Target{Servers: e.clients, PIDs: []int{os.Getpid()}}, Params: p})
			}
			r, err := run()
			for ; err == nil && r.Ops == 0 && len(r.Errors) == 0; r, err = run() {
				p.Duration *= 2 // the machine is so busy that no request began in time
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Ops == 0 || r.PerSecond <= 0 || len(r.Errors) > 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P99 {
				t.Errorf("%+v", r)
			}
			if r.ServerRSS == 0 || r.ToolCPU == 0 {
				t.Errorf("no cost: %+v", r.Cost)
			}
			checkCase(t, text, p.Duration, &r)
		})
	}
	e.checkEmpty(t)
}

// checkCase checks the results that only one case has.
func checkCase(t *testing.T, text string, duration time.Duration, r *bench.Result) {
	t.Helper()
	extra := map[string]float64{}
	for _, f := range r.Extra {
		extra[f.Name] = f.Value
	}
	switch {
	case text == "get:rate=500" && r.Ops != int64(500*duration/time.Second):
		t.Errorf("%d requests in %v", r.Ops, duration)
	case strings.Contains(text, "hold") && (extra["expired"] != 0 || extra["connections dropped"] != 0 || extra["opened"] <= 0 || extra["closed"] <= 0):
		t.Errorf("%v", extra)
	case strings.HasPrefix(text, "watches") && (r.Ops != int64(20*extra["writes"]) || extra["first event p50"] > extra["last event p50"]):
		t.Errorf("%d events, %v", r.Ops, extra)
	case strings.HasPrefix(text, "resume") && (r.Ops != 3*20 || extra["sessions lost"] != 0 || extra["all back p50"] <= 0 || extra["all back at most"] < extra["all back p50"]):
		t.Errorf("%d sessions came back in three storms, %v", r.Ops, extra)
	case strings.HasPrefix(text, "expiry") && (r.Ops != 3*10 || extra["early"] != 0):
		t.Errorf("%d expired in three storms, %v", r.Ops, extra)
	}
}

// checkEmpty checks that no nodes of a benchmark are left.
func (e *benchEnsemble) checkEmpty(t *testing.T) {
	t.Helper()
	c, err := client.Dial(t.Context(), strings.Join(e.clients, ","), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, _, err := c.Children(t.Context(), "/")
	if err != nil || len(names) != 1 {
		t.Errorf("the root has children %q, %v", names, err)
	}
}

// A run that is broken off says so and also leaves nothing behind.
func TestBenchBrokenOff(t *testing.T) {
	e := startBench(t, benchTick)
	for _, text := range []string{"create", "get:rate=100", "sessions", "watches:watchers=5", "expiry:silent=5"} {
		p, err := bench.ParseCase(text, bench.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		begun := false
		_, err = bench.Run(ctx, bench.Config{Target: bench.Target{Servers: e.clients}, Params: p, Progress: func(line string) {
			if strings.HasSuffix(line, "/s") || strings.Contains(line, "warming up") || strings.Contains(line, "expired") {
				begun = true
				stop()
			}
		}})
		stop()
		if !begun || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the run had begun: %v; it ended with %v", text, begun, err)
		}
	}
	e.checkEmpty(t)
}

// Failover: the hook stops one of three members for good. Its clients move elsewhere with their
// sessions, and no acknowledged write is missing.
func TestBenchFailover(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e := startBench(t, benchTick)
	flag := filepath.Join(t.TempDir(), "hooked")
	go func() {
		for t.Context().Err() == nil {
			if _, err := os.Stat(flag); err == nil {
				e.stop[0]()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	base := bench.Defaults()
	base.Duration, base.Warmup, base.Timeout, base.Hook = 8*time.Second, 0, 10*time.Second, "touch "+flag
	p, err := bench.ParseCase("failover:conns=2", base)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Run(t.Context(), bench.Config{Target: bench.Target{Servers: e.clients}, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	extra := map[string]float64{}
	for _, f := range r.Extra {
		extra[f.Name] = f.Value
	}
	if r.Ops == 0 || extra["sessions lost"] != 0 || extra["acknowledged writes lost"] != 0 {
		t.Errorf("%+v", r)
	}
	if gap := extra["longest gap of writes, "+e.clients[0]]; gap <= 0 || gap >= 5000 { // it stopped 6 s before the end
		t.Errorf("clients of the member that stopped: %v ms without a write", gap)
	}
}

// Two names for one ensemble are compared: each case has run three times on both, and every value
// has both sides.
func TestBenchCompare(t *testing.T) {
	e := startBench(t, benchTick)
	base := bench.Defaults()
	base.Duration, base.Warmup, base.Nodes, base.Conns = 100*time.Millisecond, 0, 10, 2
	cfg := bench.CompareConfig{Rounds: bench.MinRounds}
	for i := range cfg.Sides {
		cfg.Sides[i].Target = bench.Target{Name: fmt.Sprint("side ", i), Servers: e.clients}
	}
	for _, text := range []string{"get", "sessions"} {
		p, err := bench.ParseCase(text, base)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Cases = append(cfg.Cases, p)
	}
	c, err := bench.Compare(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil || len(c.Cases) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, m := range c.Cases {
		if len(m.Runs) != 6 || m.Figures[0].A.Median <= 0 || m.Figures[0].B.Median <= 0 || m.Figures[0].Ratio == nil {
			t.Errorf("%s", text)
		}
	}
}
