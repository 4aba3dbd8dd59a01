package bench

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// quickParams returns the parameters of a short run with few requests.
func quickParams() Params {
	p := Defaults()
	p.Conns, p.Window, p.Nodes = 2, 1, 10
	p.Warmup, p.Duration = 100*time.Millisecond, time.Second
	return p
}

// In a closed loop each connection keeps its window full, so the rate follows from how long a reply
// takes. Requests of the warm-up do not count.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: time.Millisecond}
		r := f.runCase(t, "get", quickParams())
		if r.Ops < 1999 || r.Ops > 2001 || r.Latency.P50 != 1000 || r.Latency.Max != 1000 {
			t.Errorf("window 1: %d ops, %+v", r.Ops, r.Latency)
		}
		if sent := f.gets.Load(); sent < r.Ops+199 || sent > r.Ops+203 {
			t.Errorf("%d requests were sent, %d are counted", sent, r.Ops)
		}
		// The server handles one request at a time, so each of four requests waits for the other
		// three.
		r = (&fakeServer{delay: time.Millisecond}).runCase(t, "get:window=4", quickParams())
		if r.Ops < 1998 || r.Ops > 2010 || r.Latency.P50 != 4000 {
			t.Errorf("window 4: %d ops, %+v", r.Ops, r.Latency)
		}
	})
}

// At a fixed rate, a stall of one second delays every request that is due during it, and each of
// these delays is measured. Every request that is due in the measured time is counted.
func TestRateShowsStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: 10 * time.Microsecond, stallFrom: 700 * time.Millisecond, stallUntil: 1700 * time.Millisecond}
		p := quickParams()
		p.Duration, p.Window = 2*time.Second, 5
		r := f.runCase(t, "get:rate=100", p)
		if r.Ops != 200 || len(r.Errors) > 0 || len(r.Notes) > 0 {
			t.Errorf("%d ops, %v, %v", r.Ops, r.Errors, r.Notes)
		}
		near := func(what string, got, want float64) {
			if got < want-15_000 || got > want+15_000 {
				t.Errorf("%s is %v µs, want %v", what, got, want)
			}
		}
		near("p50", r.Latency.P50, 0)
		near("p90", r.Latency.P90, 800_000)
		near("max", r.Latency.Max, 1_000_000)
	})
}

// If the servers cannot keep up with the rate, a note in the result says so. Requests that could
// not be sent count with the time that they had waited.
func TestRateTooHigh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: 10 * time.Millisecond}
		p := quickParams()
		p.Warmup = 0
		r := f.runCase(t, "get:rate=1000,conns=1", p)
		if r.Ops != 1000 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "900 requests were due and could not be sent") {
			t.Errorf("%d ops, %q", r.Ops, r.Notes)
		}
		if sent := f.gets.Load(); sent != 100 || r.Latency.P50 < 400_000 {
			t.Errorf("%d were sent, %+v", sent, r.Latency)
		}
	})
}

// A request that the server rejects is counted under its error, and not as a success.
func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: time.Millisecond, code: jute.NoNode}
		r := f.runCase(t, "get", quickParams())
		if n := r.Errors[jute.NoNode.Error()]; r.Ops != 0 || n < 1999 || n > 2001 {
			t.Errorf("%d ops, %v", r.Ops, r.Errors)
		}
	})
}

// If a connection breaks, the requests in flight on it are lost. The load continues on the next
// connection.
func TestBrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: time.Millisecond, drop: 500 * time.Millisecond}
		r := f.runCase(t, "get", quickParams())
		if r.Ops < 1500 || r.Ops > 1999 || r.Errors["client: connection lost, outcome unknown"] != 2 || f.conns.Load() != 5 {
			t.Errorf("%d ops, %v, %d connections", r.Ops, r.Errors, f.conns.Load())
		}
	})
}

// Requests that are still unanswered ten seconds after the end are abandoned and counted as errors.
func TestUnansweredRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{delay: time.Millisecond, stallFrom: 600 * time.Millisecond, stallUntil: time.Minute}
		p := quickParams()
		p.Timeout = time.Minute
		r := f.runCase(t, "get", p)
		if r.Errors["client: closed"] != 2 || r.Ops < 990 || r.Ops > 1001 {
			t.Errorf("%d ops, %v", r.Ops, r.Errors)
		}
	})
}

// Connections are spread over the servers in turn, in the order in which the servers are named.
func TestHomes(t *testing.T) {
	r := &caseRun{chosenServers: []string{"a", "b", "c"}}
	var homes, firsts []string
	for i := range 4 {
		homes = append(homes, r.serverFor(i)...)
		firsts = append(firsts, strings.Join(rotateServers(r.chosenServers, i), ""))
	}
	if strings.Join(homes, "") != "abca" || strings.Join(firsts, " ") != "abc bca cab abc" {
		t.Errorf("%q, %q", homes, firsts)
	}
}
