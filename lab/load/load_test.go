package load

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/rollcalltest"
)

const (
	testTick    = 500 * time.Millisecond
	testTimeout = 3 * time.Second
)

// drill is a load on an ensemble of three, on virtual time.
type drill struct {
	t *testing.T
	*rollcalltest.Ensemble
	*Load
}

// inDrill runs f while a load runs, and returns the verdicts. f returns the faults. dial stands between clients and
// servers; nil: nothing does.
func inDrill(
	t *testing.T, dial func(e *rollcalltest.Ensemble) dialer, f func(t *testing.T, d *drill) []judge.Fault,
) (verdicts []result.Verdict) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := rollcalltest.StartEnsembleWith(t, 3, rollcalltest.Config{Pipes: true, Tick: testTick})
		cfg := testConfig(e)
		if dial != nil {
			cfg.DialConn = dial(e)
		}
		l, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		faults := f(t, &drill{t: t, Ensemble: e, Load: l})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		evidence := l.Stop(ctx)
		evidence.Faults = faults
		verdicts = judge.Judge(evidence, judge.Limits{})
		checkLoad(t, evidence)
		checkRecords(t, evidence)
		checkSessions(t, evidence)
	})
	return verdicts
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// testConfig is a small load.
func testConfig(e *rollcalltest.Ensemble) Config {
	began := time.Now()
	cfg := Config{
		Chroot: "/drills/one", Timeout: testTimeout, Tick: testTick, Seed: 7, Sessions: 6, Interval: 40 * time.Millisecond,
		DialConn: e.Dial,
		Clock:    func() time.Duration { return time.Since(began) + 1 },
	}
	for _, s := range e.Servers {
		cfg.Servers = append(cfg.Servers, result.Member{Name: name(s), Clients: s.ConnectString()})
	}
	return cfg
}

func name(s *rollcalltest.Server) string { return string(rune('0' + s.Number())) }

// checkLoad checks that every kind of client did something.
func checkLoad(t *testing.T, e *judge.Evidence) {
	t.Helper()
	if l := e.Load; l.Events == 0 || l.Locks == 0 || l.Reads == 0 || l.Writes == 0 || len(e.Creates) == 0 ||
		len(e.Counts) == 0 {
		t.Errorf("%+v, %d creates, %d counts", l, len(e.Creates), len(e.Counts))
	}
	if len(e.Unread) > 0 || len(e.Dropped) > 0 {
		t.Errorf("unread: %q, dropped: %v", e.Unread, e.Dropped)
	}
}

// checkRecords checks that each key has its last acknowledged write, and that a lock is held until the last call of Held
// that returned true.
func checkRecords(t *testing.T, e *judge.Evidence) {
	t.Helper()
	for _, k := range e.Keys {
		var last judge.Put
		for _, p := range k.Puts {
			if p.Outcome == judge.Acked {
				last = p
			}
		}
		if k.Last != last {
			t.Errorf("%s: the last acknowledged write is %+v, want %+v", k.Path, k.Last, last)
		}
	}
	for _, h := range e.Holds {
		if h.Checks > 2 && h.To <= h.From { // the second one comes at once if the drill ends
			t.Errorf("%s was held from %v to %v, after %d checks", h.Lock, h.From, h.To, h.Checks)
		}
	}
}

// checkSessions checks that readers move between members, and that the handshakes of holders are in the evidence.
func checkSessions(t *testing.T, e *judge.Evidence) {
	t.Helper()
	readers := map[string]bool{}
	for _, s := range e.Sessions {
		members, handshakes := map[string]bool{}, 0
		for _, state := range s.States {
			if state.On {
				members[state.Member] = true
			}
		}
		for _, a := range s.Answers {
			if a.Ask == judge.Connect {
				handshakes++
			}
		}
		if strings.HasPrefix(s.Client, "reader-") && len(members) > 1 {
			readers[s.Client] = true
		}
		if strings.HasPrefix(s.Client, "holder-") && handshakes == 0 {
			t.Errorf("session %s of %s has no handshake", s.ID, s.Client)
		}
	}
	if len(readers) != 2 {
		t.Errorf("%d readers move between members, want 2", len(readers))
	}
}

// want checks that the rules fail that are named, and no others.
func want(t *testing.T, verdicts []result.Verdict, failing ...string) {
	t.Helper()
	for _, v := range verdicts {
		fails := false
		for _, rule := range failing {
			fails = fails || rule == v.Rule
		}
		if fails == (v.Outcome == result.Fail) {
			continue
		}
		t.Errorf("%s: %s, judged %d, %s", v.Rule, v.Outcome, v.Judged, v.Reason)
		for _, violation := range v.Violations[:min(3, len(v.Violations))] {
			t.Errorf("  %s\n    %s", violation.Text, strings.Join(violation.History, "\n    "))
		}
	}
}

func judged(verdicts []result.Verdict, rule string) int {
	for _, v := range verdicts {
		if v.Rule == rule {
			return v.Judged
		}
	}
	return -1
}

// Without faults nothing is violated, and every rule that needs no fault checks something.
func TestNoFaults(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		time.Sleep(10 * time.Second)
		now := d.Now()
		if n := now.Connected["1"] + now.Connected["2"] + now.Connected["3"]; n != len(d.Clients()) || now.Suspended > 0 {
			t.Errorf("%d of %d sessions are connected: %+v", n, len(d.Clients()), now)
		}
		if now.Write > 100 || now.Members["2"].Read > 100 {
			t.Errorf("gaps: %+v", now)
		}
		return nil
	})
	want(t, verdicts)
	for _, v := range verdicts {
		if strings.Contains(v.Reason, "HTTP for operators") {
			continue // this ensemble has none, so nothing is known of what its members know
		}
		if v.Judged == 0 && v.Rule != "session-stayed" && v.Rule != "connected-after-expiry" && v.Rule != "gaps" {
			t.Errorf("%s judged nothing: %s", v.Rule, v.Reason)
		}
	}
}

// A member that is read as a copy has all that was acknowledged before, and nothing of what is said to come later.
func TestReadCopy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		began func(now result.Millis) result.Millis // of the copy, by what is said of it
		want  result.Outcome
	}{
		{"as it is", func(now result.Millis) result.Millis { return now }, result.Pass},
		{"too old", func(now result.Millis) result.Millis { return now + 1000 }, result.Fail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
				time.Sleep(time.Second)
				read := judge.Copy{Kind: judge.Joined, From: tt.began(d.recorder.sinceStartMillis())}
				if tt.want == result.Fail {
					read.To = read.From
				}
				if err := d.ReadCopy(t.Context(), d.cfg.Servers[0], read); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				return nil
			})
			for _, v := range verdicts {
				if v.Rule == "joined-complete" && v.Outcome == tt.want {
					return
				}
			}
			t.Errorf("joined-complete is not %s: %+v", tt.want, verdicts)
		})
	}
}

// A member whose state is from before the load began has no chroot. It is read all the same, and lacks everything.
func TestReadCopyWithoutChroot(t *testing.T) {
	verdicts := inDrill(t, nil, func(t *testing.T, d *drill) []judge.Fault {
		time.Sleep(time.Second)
		empty := &Load{cfg: d.cfg, recorder: d.recorder, probedKeys: d.probedKeys, sharedKeys: d.sharedKeys}
		empty.cfg.DialConn = rollcalltest.StartEnsembleWith(t, 3, rollcalltest.Config{Pipes: true, Tick: testTick}).Dial
		if err := empty.ReadCopy(t.Context(), d.cfg.Servers[0], judge.Copy{Kind: judge.Joined, From: d.recorder.sinceStartMillis()}); err != nil {
			t.Error(err)
		}
		return nil
	})
	want(t, verdicts, "joined-complete")
}
