package bench

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

func extraOf(r Result) map[string]float64 {
	extra := map[string]float64{}
	for _, e := range r.Extra {
		extra[e.Name] = e.Value
	}
	return extra
}

// Each write reaches every watch on its node once, a millisecond after it was due, and nothing is missing. One session's watches are on
// nodes of its own, and the writes of the warm-up do not count.
func TestFanOut(t *testing.T) {
	for text, events := range map[string]int64{
		"fanout:watchers=5,nodes=2,rate=100":                    250, // 3 sessions on one node, 2 on the other
		"fanout:watchers=5,nodes=2,rate=100,persistent=true":    250,
		"fanout:watchers=3,nodes=4,watches=2,rate=100":          150, // nodes 0 to 3, then 0 and 1
		"fanout:watchers=4,nodes=4,watches=4,rate=20,warmup=0s": 80,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEnsemble{delay: time.Millisecond}
			base := quickParams()
			base.Timeout = time.Minute
			r, _ := f.runCase(t, text, base)
			if r.Ops != events || r.Latency.P50 != 1000 || r.Latency.Max != 1000 || len(r.Errors) > 0 {
				t.Errorf("%s: %+v, want %d events after a millisecond", text, r, events)
			}
			extra := extraOf(r)
			for name, want := range map[string]float64{
				"missing events": 0, "writes seen with a later one": 0, "watches not set again": 0, "expired": 0, "connections dropped": 0,
				"write p50": 1, "others before p50": 1, "others p50": 1, "failed requests of others": 0,
			} {
				if got, ok := extra[name]; !ok || got != want {
					t.Errorf("%s: %s is %v, want %v", text, name, extra[name], want)
				}
			}
			if reads := f.requests[jute.OpGetData]; (reads == 0) != strings.Contains(text, "persistent") {
				t.Errorf("%s: %d reads", text, reads)
			}
		})
	}
}

// Events that do not come are missing, and the run waits for them only as long as for replies.
func TestFanOutMissesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEnsemble{delay: time.Millisecond}
		f.onWrite = func(path string) {
			if strings.Contains(path, "/watched/") {
				delete(f.lasting, path) // the watches of the node are gone
			}
		}
		base := quickParams()
		base.Timeout = time.Minute
		began := time.Now()
		r, _ := f.runCase(t, "fanout:watchers=3,nodes=1,rate=100,persistent=true", base)
		if extra := extraOf(r); r.Ops != 0 || extra["missing events"] != 330 || time.Since(began) > 4*drainTimeout+2*base.Timeout {
			t.Errorf("%d events, %v after %v", r.Ops, extra, time.Since(began))
		}
	})
}

// One failed write fails the run, also in the warm-up: the later events of persistent watches would count from earlier writes.
func TestFanOutFailedWrite(t *testing.T) {
	for _, warm := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEnsemble{delay: time.Millisecond}
			base := quickParams()
			base.Timeout = time.Minute
			writes, failing := 0, 3
			if !warm {
				failing = 50
			}
			f.reject = func(op jute.Op, path string) jute.Code {
				if op == jute.OpSetData && strings.Contains(path, "/watched/") {
					if writes++; writes == failing {
						return jute.NoAuth
					}
				}
				return jute.OK
			}
			_, _, err := f.tryCase(t, "fanout:watchers=3,nodes=2,rate=100,persistent=true", base)
			if want := "1 of 110 writes failed"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("write %d failed: %v, want %q", failing, err, want)
			}
		})
	}
}

// A session that reads a node after two more writes had one event for the first of them, and sees the others with it. An event counts
// from when its own write was due.
func TestLearn(t *testing.T) {
	start := time.Now()
	h := newLocalHolder(nil)
	nodes := &watchedNodes{Parent: "/a", Count: 10, PerSession: 3}
	s := newWatchingSession(h, nodes, 13) // watches 39 to 41, on nodes 9, 0 and 1
	if err := h.expectWrites(writeSchedule{Start: start, From: start.Add(15 * time.Second), Rate: 1, Nodes: 10}); err != nil {
		t.Fatal(err)
	}
	if s.nodeAt(0) != 9 || s.nodeAt(2) != 1 {
		t.Fatalf("its watches begin at node %d", s.first)
	}
	s.learn(2, 1, start.Add(2*time.Second))  // write 1 of node 1 was due after 1 s, in the warm-up
	s.learn(2, 4, start.Add(12*time.Second)) // writes 2, 3 and 4: the event was that of write 2, due after 11 s
	s.learn(2, 4, start.Add(13*time.Second)) // has been seen
	s.learn(1, 3, start.Add(24*time.Second)) // the event of write 1 of node 0, due after 0 s
	s.learn(1, 4, start.Add(33*time.Second)) // due after 30 s
	got, err := h.fetchCounts()
	if w := got.Watches; err != nil || w.Delivered != 4 || w.Merged != 4 || w.Events.Count() != 1 || w.Events.Max() != 3*time.Second {
		t.Errorf("%+v, %v; %v", w, err, w.Events.Max())
	}
	for path, want := range map[string]int{"/a/0000000009": 9, "/a/0000000010": -1, "/b/0000000001": -1, "/a/x": -1, "/a": -1} {
		if got := nodes.nodeOf(path); got != want {
			t.Errorf("%s is node %d, want %d", path, got, want)
		}
	}
	if _, err := decodeNumber([]byte("123")); err == nil {
		t.Error("data of another length were accepted")
	}
}

// A pace that the servers do not keep delays what is due, and what did not begin in time is an error.
func TestChurnTooFast(t *testing.T) {
	for text, late := range map[string]bool{"churn:conns=2,rate=1000": false, "churn:conns=2,rate=10000": true} { // 667 are possible
		synctest.Test(t, func(t *testing.T) {
			r, _ := (&fakeEnsemble{delay: time.Millisecond}).runCase(t, text, quickParams())
			if missed := r.Errors["it was due, and did not begin in time"]; missed > 0 != late || r.Latency.P99 < 400_000 {
				t.Errorf("%s: %+v", text, r)
			}
			if all := r.Ops + r.Errors["it was due, and did not begin in time"] + r.Errors["context deadline exceeded"]; late && all != 10_000 || !late && r.Ops != 1000 {
				t.Errorf("%s: %d sessions, %v", text, r.Ops, r.Errors)
			}
		})
	}
}
