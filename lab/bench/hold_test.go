package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
)

// keepArgument is the argument that makes the test binary a keeper.
const keepArgument = "keep-sessions"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == keepArgument {
		if err := ServeKeeper(context.Background(), nil, os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// The latencies of pings count only in the measured time. Expiries and dropped connections always
// count.
func TestHolding(t *testing.T) {
	h := newLocalHolder(nil)
	ping := func(measured bool, d time.Duration) {
		if err := h.setMeasuring(measured); err != nil {
			t.Fatal(err)
		}
		h.recordPing(d)
	}
	ping(false, time.Second)
	ping(true, 2*time.Millisecond)
	ping(false, time.Second)
	record := h.stateRecorder()
	for _, s := range []client.State{client.Connected, client.Suspended, client.Reconnected, client.Suspended, client.Expired, client.Closed} {
		record(client.StateChange{State: s})
	}
	got, err := h.fetchCounts()
	if err != nil || got.Pings.Count() != 1 || got.Pings.Max() != 2*time.Millisecond || got.Seen != 3 || got.Expired != 1 ||
		got.Dropped != 2 || got.Back.Count() != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// If one process may not hold all sessions, several processes share them. All sessions are opened,
// send pings, are counted, and are closed.
func TestHoldInProcesses(t *testing.T) {
	f := &fakeServer{startedAt: time.Now()}
	p, err := ParseCase("hold:sessions=23,timeout=3s,warmup=0s,duration=2s", Defaults())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Config{
		Target: Target{Servers: []string{listenTCP(t, f.serve)}, PIDs: []int{os.Getpid()}, KeeperCommand: []string{os.Args[0], keepArgument}}, Params: p, maxConnections: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops == 0 || r.Latency.P50 <= 0 || r.Latency.P50 > r.Latency.Max || r.ToolCPU <= 0 {
		t.Errorf("%+v", r)
	}
	if pids := childProcesses(t); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	extra := map[string]float64{}
	for _, e := range r.Extra {
		extra[e.Name] = e.Value
	}
	// One connection is the run's own. On a slow machine some of the others may break, and be tried more than once.
	n, dropped := f.conns.Load(), extra["connections dropped"]
	if n < 24 || dropped == 0 && n > 24 || extra["expired"] != 0 || extra["not closed"] > dropped || extra["opened"] <= 0 || extra["closed"] <= 0 {
		t.Errorf("%d connections, %v", n, extra)
	}
}

// childProcesses returns the processes that this one has started, and that have not ended.
func childProcesses(t *testing.T) (pids []string) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) { // see proc(5)
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// A run rejects more sessions than its processes can hold. If a request to a keeper fails, the error
// has the reason.
func TestHoldRefused(t *testing.T) {
	p, err := ParseCase("hold:sessions=1000,timeout=200ms", Defaults())
	if err != nil {
		t.Fatal(err)
	}
	servers := []string{listenTCP(t, (&fakeServer{startedAt: time.Now()}).serve)}
	for want, cfg := range map[string]Config{
		"1000 sessions, but one process may have 100 connections":         {maxConnections: 100},
		"1000 sessions, but each of 16 processes may have 10 connections": {maxConnections: 10, Target: Target{KeeperCommand: []string{"x"}}},
		"start a process for more sessions: exec: \"no-such-program\"":    {maxConnections: 500, Target: Target{KeeperCommand: []string{"no-such-program"}}},
		"for more sessions: open: ":                                       {maxConnections: 500, Target: Target{KeeperCommand: []string{"true"}}},
	} {
		cfg.Target.Servers, cfg.Params = servers, p
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	var out bytes.Buffer
	if err := ServeKeeper(t.Context(), nil, strings.NewReader(`{"Do":"dance"}`), &out); err != nil ||
		!strings.Contains(out.String(), `unknown request \"dance\"`) {
		t.Errorf("%s, %v", &out, err)
	}
	if err := ServeKeeper(t.Context(), nil, strings.NewReader(`dance`), io.Discard); err == nil {
		t.Error("input that is not a request was accepted")
	}
}

// closeAtOnce sends all close requests before it waits for the first reply, so it takes only as
// long as one reply. It does not wait for missing replies after ctx has ended.
func TestCloseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: time.Second, startedAt: time.Now(), stallFrom: 10 * time.Second, stallUntil: time.Hour}
		r := &caseRun{ctx: t.Context(), params: Params{Timeout: time.Minute}, reportLine: func(string) {}, target: Target{Dial: f.dial}}
		open := func() []*client.Client {
			clients, err := r.openManySessions(t.Context(), 100, func(int) sessionConfig { return sessionConfig{servers: []string{"a:1"}} }, func(int, *client.Client) {})
			if err != nil {
				t.Fatal(err)
			}
			return append(clients, nil)
		}
		clients, began := open(), time.Now()
		if n := closeAtOnce(t.Context(), clients); n != 100 || time.Since(began) != time.Second {
			t.Errorf("%d sessions were closed after %v", n, time.Since(began))
		}
		clients = open()
		time.Sleep(10 * time.Second)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		began = time.Now()
		if n := closeAtOnce(ctx, clients); n != 0 || time.Since(began) != 5*time.Second {
			t.Errorf("%d sessions were closed after %v", n, time.Since(began))
		}
		abandonAll(clients)
		f.serving.Wait()
	})
}

// A histogram is the same after it was written as JSON and read again. JSON that is not a histogram
// is rejected.
func TestHistogramJSON(t *testing.T) {
	var h, got Histogram
	for v := time.Duration(1); v < 10*time.Minute; v = v*5/4 + 1 {
		h.Add(v)
	}
	text, err := json.Marshal(&h)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || summarize(&got) != summarize(&h) || got.Count() != h.Count() || got.min != h.min {
		t.Errorf("%v, want %v (%v)", summarize(&got), summarize(&h), err)
	}
	for _, text := range []string{`{"Buckets":{"-1":1}}`, `{"Buckets":{"4608":1}}`, `[]`} {
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// The hook runs while the sessions are held. If it fails, so does the run.
func TestHoldHook(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	synctest.Test(t, func(t *testing.T) {
		base := quickParams()
		base.Timeout, base.Hook = time.Minute, "touch '"+ran+"'"
		r, _ := (&fakeEnsemble{delay: time.Millisecond}).runCase(t, "hold:sessions=3", base)
		if _, err := os.Stat(ran); err != nil || extraOf(r)["expired"] != 0 {
			t.Errorf("%v, %+v", err, r)
		}
	})
	servers := []string{listenTCP(t, (&fakeServer{startedAt: time.Now()}).serve)}
	base := quickParams()
	base.Hook = "exit 3"
	p, err := ParseCase("hold:sessions=1", base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Config{Target: Target{Servers: servers}, Params: p}); err == nil ||
		!strings.Contains(err.Error(), `hook "exit 3"`) {
		t.Errorf("%v", err)
	}
}
