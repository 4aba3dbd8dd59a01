package bench

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
)

// A writer's acknowledged writes must be there. Further writes may be there, too, and a write that
// was not acknowledged may be missing.
func TestMissingWrites(t *testing.T) {
	for name, c := range map[string]struct {
		acked, newest int64
		version       int32
		data          string
		lost          int64
	}{
		"none":                            {0, 0, 0, "\x00\x00", 0},
		"all there":                       {5, 5, 5, "5   ", 0},
		"one more that was not answered":  {5, 5, 6, "6", 0},
		"one between was not carried out": {5, 6, 5, "6 ", 0},
		"two are missing":                 {5, 5, 3, "3", 2},
		"the last was undone":             {5, 6, 5, "4 ", 1},
		"an older one came last":          {5, 5, 6, "3 ", 1},
		"the data are gone":               {5, 5, 5, "", 1},
	} {
		u := &failoverClient{ackedCount: c.acked, newestAcked: c.newest}
		if lost := u.lostWrites([]byte(c.data), c.version); lost != c.lost {
			t.Errorf("%s: %d writes are lost, want %d", name, lost, c.lost)
		}
	}
	if got := string(numberedData(12, 5)); got != "12   " {
		t.Errorf("%q", got)
	}
	if got := string(numberedData(123, 2)); got != "123" {
		t.Errorf("%q", got)
	}
}

// A gap is the longest time without a success within the measured time. It may begin when that time
// begins, and end when it ends.
func TestGaps(t *testing.T) {
	from := time.Now()
	at := func(s int) time.Time { return from.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		successes []int
		gap       time.Duration
	}{
		{nil, 10 * time.Second},
		{[]int{-5, -1}, 10 * time.Second},
		{[]int{1, 2, 3, 6, 7, 9}, 3 * time.Second},
		{[]int{4, 5, 6, 7, 8, 9}, 4 * time.Second},
		{[]int{1, 2, 3, 11}, 7 * time.Second},
	} {
		u := &failoverClient{failover: &failover{measureFrom: from, measureUntil: at(10)}, lastSuccess: from}
		for _, s := range c.successes {
			u.endGap(at(s))
		}
		u.endGap(u.failover.measureUntil)
		if u.longestGap != c.gap {
			t.Errorf("%v: %v", c.successes, u.longestGap)
		}
	}
}

// The gaps of all clients are summed up. The gaps of readers at a member that the hook names do not count for
// the others.
func TestGapsOfAll(t *testing.T) {
	f := &failover{run: &caseRun{target: Target{Servers: []string{"a:1", "b:2", "c:3"}}}}
	for home, gaps := range [][2]time.Duration{{900, 800}, {100, 30}, {120, 40}} {
		f.clients = append(f.clients, &failoverClient{firstServer: home, isWriter: true, longestGap: gaps[0] * time.Millisecond}, &failoverClient{firstServer: home, longestGap: gaps[1] * time.Millisecond})
	}
	for _, tt := range []struct {
		said string
		want []float64
	}{
		{"", []float64{900, 900, 800, 100, 30, 120, 40}},
		{"a:1\n", []float64{900, 120, 40, 900, 800, 100, 30, 120, 40}},
		{"a:1 c:3", []float64{900, 100, 30, 900, 800, 100, 30, 120, 40}},
	} {
		f.hookOutput = tt.said
		var got []float64
		for _, figure := range f.longestGaps() {
			got = append(got, figure.Value)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("after the hook printed %q: %v, want %v", tt.said, got, tt.want)
		}
	}
}

// An expiry is early or late compared with its own session's deadline. A session that does not
// expire in time counts as an error.
func TestAwaitExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &caseRun{ctx: t.Context(), params: Params{Timeout: 4 * time.Second, Duration: time.Second}, reportLine: func(string) {}}
		base := time.Now()
		var gone []<-chan time.Time
		var due []time.Time
		for _, c := range []struct{ due, at time.Duration }{{4000, 4500}, {4000, 3900}, {4100, 6000}, {4000, 0}, {4200, 4200}} {
			g := make(chan time.Time, 1)
			if c.at > 0 {
				time.AfterFunc(c.at*time.Millisecond, func() { g <- time.Now() })
			}
			gone, due = append(gone, g), append(due, base.Add(c.due*time.Millisecond))
		}
		e := &expiryResults{}
		if err := r.awaitExpiry(e, gone, due); err != nil {
			t.Fatal(err)
		}
		result := e.caseResult(r)
		extra := map[string]float64{}
		for _, f := range result.Extra {
			extra[f.Name] = f.Value
		}
		if result.Ops != 4 || result.Latency.Max != 1_900_000 || result.Errors["did not expire in time"] != 1 ||
			time.Since(base) != 22*time.Second {
			t.Errorf("after %v: %+v", time.Since(base), result)
		}
		if extra["early"] != 1 || extra["earliest by"] != 100 || extra["first to last"] != 2100 {
			t.Errorf("%v", extra)
		}
	})
}

// The span of several storms is their median. Time and CPU time count only while expiries are
// awaited.
func TestStorms(t *testing.T) {
	base := time.Now()
	at := func(s int, cpu time.Duration) usageReading {
		return usageReading{at: base.Add(time.Duration(s) * time.Second), toolCPU: cpu / 2, serverUsage: usage{cpuByPID: map[int]time.Duration{7: cpu}}}
	}
	e := &expiryResults{burstSpans: []time.Duration{2 * time.Second, 80 * time.Millisecond, 90 * time.Millisecond}}
	for range 4 {
		e.lateness.latencies.Add(time.Second)
	}
	e.addInterval(at(10, 100*time.Millisecond), at(12, 104*time.Millisecond))
	e.addInterval(at(20, 300*time.Millisecond), at(22, 308*time.Millisecond))
	got := e.caseResult(&caseRun{})
	if got.Seconds != 4 || got.PerSecond != 1 || got.Cost.ServerCPU != 3000 || got.Cost.ToolCPU != 1500 {
		t.Errorf("%+v; want 4 s, 1/s, 3 and 1.5 ms each", got)
	}
	if median, worst := got.Extra[2], got.Extra[3]; median.Name != "first to last" || median.Value != 90 || worst.Value != 2000 {
		t.Errorf("median %+v, worst %+v", median, worst)
	}
}

// All sessions come back in each storm, and only the storms are measured. A session that cannot be resumed is lost, and
// is not missed again.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{resume: 100 * time.Millisecond}
		f.expired.Store(3) // the control session is 1
		r := f.runCase(t, "resume:conns=5,storms=3", Defaults())
		if r.Ops != 3*4 || f.resumes.Load() != 5+4+4 || r.Errors["session expired"] != 1 || len(r.Errors) != 1 {
			t.Errorf("%d sessions came back, %d were resumed, errors %v", r.Ops, f.resumes.Load(), r.Errors)
		}
		if r.Latency.Max != 100_000 || r.Seconds != 0.3 || r.PerSecond != 40 {
			t.Errorf("%+v", r)
		}
		for i, want := range []Figure{{Name: "sessions lost", Value: 1}, {Name: "all back p50", Value: 100}, {Name: "all back at most", Value: 100}} {
			if got := r.Extra[i]; got.Name != want.Name || got.Value != want.Value {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

// An observer reports the end of a group at the last deletion in it. It ignores all other events.
func TestObserver(t *testing.T) {
	o := &deletionObserver{groups: map[string]*nodeGroup{}}
	one, two := o.expectDeletions("3-14", 2), o.expectDeletions("31-4", 1)
	for _, e := range []struct {
		kind client.EventType
		path string
		ends <-chan time.Time
	}{
		{client.NodeCreated, "/r/e/3-14-0000000000", nil},
		{client.NodeDeleted, "/r/e/3-14-0000000000", nil},
		{client.NodeDeleted, "/r/e/3-1-0000000000", nil},
		{client.NodeDeleted, "/r/e", nil},
		{client.NodeDeleted, "/r/e/3-14-0000000001", one},
		{client.NodeDeleted, "/r/e/3-14-0000000001", nil},
		{client.NodeDeleted, "/r/e/31-4-0000000000", two},
	} {
		o.onEvent(client.Event{Type: e.kind, Path: e.path})
		if len(one)+len(two) != 0 != (e.ends != nil) || e.ends != nil && (<-e.ends).IsZero() {
			t.Errorf("after %v %s: %d, %d", e.kind, e.path, len(one), len(two))
		}
	}
	o.expectDeletions("5-6", 1)
	o.forgetGroup("5-6")
	if len(o.groups) != 0 {
		t.Errorf("%v", o.groups)
	}
}
