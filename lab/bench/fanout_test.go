package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

func extraOf(r Result) map[string]float64 {
	extra := map[string]float64{}
	for _, e := range r.Extra {
		extra[e.Name] = e.Value
	}
	return extra
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
