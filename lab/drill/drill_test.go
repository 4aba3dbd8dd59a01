package drill

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// fakeTarget has three members and writes down what happens to them.
type fakeTarget struct {
	server string // the address of its only member; "": it has three without servers
	cannot map[target.Kind]error
	fails  map[target.Kind]error // errors of Repair, by the kind of the fault
	did    []string
}

func (f *fakeTarget) Kind() string { return "fake" }

func (f *fakeTarget) Members() []target.Member {
	if f.server != "" {
		return []target.Member{{Name: "1", Clients: f.server}}
	}
	return []target.Member{{Name: "1", Clients: "127.0.0.1:1"}, {Name: "2", Clients: "127.0.0.1:2"}, {Name: "3", Clients: "127.0.0.1:3"}}
}

func (f *fakeTarget) Can(fault target.Fault) error { return f.cannot[fault.Kind] }

func (f *fakeTarget) Break(_ context.Context, fault target.Fault) error {
	f.did = append(f.did, "break "+string(fault.Kind)+" "+fault.Member)
	return nil
}

func (f *fakeTarget) Repair(_ context.Context, fault target.Fault) error {
	f.did = append(f.did, "repair "+string(fault.Kind)+" "+fault.Member)
	return f.fails[fault.Kind]
}

func (f *fakeTarget) Heal(context.Context) error {
	f.did = append(f.did, "heal")
	return nil
}

func (f *fakeTarget) Close(context.Context) error { return nil }

// newStage returns a stage on a fake target whose member 2 leads.
func newStage(t *testing.T, f *fakeTarget) *stage {
	return &stage{
		ctx: t.Context(), target: f, apart: map[string][]string{}, timeout: 4 * time.Second, rng: rand.New(rand.NewPCG(1, 1)), startedAt: time.Now(),
		currentLeader: func(context.Context) (string, error) { return "2", nil },
		checkHealth:   func(context.Context) error { return nil },
		live:          report.NewLive(io.Discard, report.LiveOptions{}),
	}
}

// Names select drills in the order of the catalogue. "all" leaves the heavy ones out. An unknown name is an error
// that lists the others.
func TestSelect(t *testing.T) {
	some, err := Select([]string{"follower-kill", "leader-kill"})
	if err != nil || len(some) != 2 || some[0].Name != "leader-kill" {
		t.Errorf("%v, %v", some, err)
	}
	common, _ := Select([]string{"all"})
	full, _ := Select([]string{"full"})
	if len(full) != len(All()) || len(common) >= len(full) || slices.ContainsFunc(common, func(d *Drill) bool { return d.Tier == Heavy }) {
		t.Errorf("all has %d drills, and full %d of %d", len(common), len(full), len(All()))
	}
	if _, err := Select([]string{"leader-kil"}); err == nil || !strings.Contains(err.Error(), "leader-kill") {
		t.Errorf("%v", err)
	}
}

// A drill names its needs, and the reason for which the target cannot meet them.
func TestFits(t *testing.T) {
	f := &fakeTarget{cannot: map[target.Kind]error{target.Cut: errors.New("it needs root")}}
	if err := findDrill("leader-kill").Fits(Config{Target: f}); err != nil {
		t.Error(err)
	}
	if err := findDrill("bridge").Fits(Config{Target: f}); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("%v", err)
	}
}

// Each drill has a name of its own, a sentence, and steps. `drill all` takes at most ten minutes.
func TestCatalogue(t *testing.T) {
	var takes time.Duration
	seen := map[string]bool{}
	for _, d := range All() {
		if seen[d.Name] || d.Title == "" || !strings.HasSuffix(d.Does, ".") || d.run == nil {
			t.Errorf("%+v", d)
		}
		seen[d.Name] = true
		if d.Tier == Common {
			takes += d.Lasts(DefaultTimeout)
		}
	}
	if takes > 10*time.Minute {
		t.Errorf("all takes %v", takes)
	}
}

// The plan shows the drills that run, and the hooks' variables, before anything breaks.
func TestPlan(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("UNIT", "zookeeper")
	t.Setenv("DEVICE", "") // so that it is restored
	_ = os.Unsetenv("DEVICE")
	j, err := target.OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	cfg, err := target.LoadHooks("ssh", "zk1:2181,zk2:2181,zk3:2181")
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := target.NewHooks(j, cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := os.Getwd()
	var plan strings.Builder
	if err := PrintPlan(&plan, Config{Target: hooks}, All()); err != nil ||
		!strings.Contains(plan.String(), `in "`+dir+`", UNIT="zookeeper", without DEVICE`+"\n") {
		t.Errorf("%v; the plan:\n%s", err, plan.String())
	}
	plan.Reset()
	drills := []*Drill{findDrill("leader-kill"), findDrill("clock-step"), findDrill("follower-kill")}
	target := &fakeTarget{cannot: map[target.Kind]error{target.Clock: errors.New("it has no clock")}}
	if err := PrintPlan(&plan, Config{Target: target, Repeat: 2, Timeout: 4 * time.Second, Seed: 7}, drills); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Ensemble: members 1, 2, 3 at 127.0.0.1:1,127.0.0.1:2,127.0.0.1:3, controlled by fake\nSeed: 7. Sessions: timeout 4s, below /rollcall-drills/run-<drill>",
		"\n  1. leader-kill, 2 times: " + drills[0].Does, "\n  2. clock-step: NOT RUN: it needs \"clock\": it has no clock\n", "\n  3. follower-kill, 2 times: ",
		"\n2 of 3 drills run, for about " + (2 * (drills[0].Lasts(4*time.Second) + drills[2].Lasts(4*time.Second))).Round(time.Second).String() + ". ",
	} {
		if !strings.Contains(plan.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan.String())
		}
	}
}

// Faults are repaired after the time of the drill, the latest first, and their ends are recorded.
func TestFaultsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{}
		s := newStage(t, f)
		if err := killMajority(s); err != nil {
			t.Fatal(err)
		}
		if len(f.did) != 4 || f.did[0] != "break kill 2" || f.did[3] != "repair kill 2" {
			t.Errorf("%q", f.did)
		}
		for _, fault := range s.faults {
			if fault.To-fault.From != result.Since(6*time.Second) {
				t.Errorf("%+v", fault)
			}
		}
	})
}

// The judge knows the time in which a drill stops a majority, so that the pause of that time does not count. Other
// drills have no such time.
func TestMajorityIsStopped(t *testing.T) {
	const timeout = 4 * time.Second
	for name, want := range map[string]time.Duration{
		"majority-kill": 3 * timeout / 2, "all-kill": timeout / 4, "member-wiped-majority-lost": 5 * timeout / 2,
		"leader-kill": 0, "leader-long-pause": 0, "member-wiped": 0, "leader-cut": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, &fakeTarget{})
			if err := findDrill(name).run(s); err != nil {
				t.Fatal(err)
			}
			var took result.Millis
			for _, w := range s.windows {
				if w.Kind != judge.Stopped || w.To != s.faults[len(s.faults)-1].To {
					t.Errorf("%s: %+v, want the time until the last fault is repaired: %+v", name, w, s.faults)
				}
				took += w.To - w.From
			}
			if took != result.Since(want) {
				t.Errorf("%s stops a majority for %v ms, want %v", name, took, want)
			}
		})
	}
}

// The judge knows both sides of a bridge, and no faults of clients alone.
func TestFaultsForJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &fakeTarget{})
		if err := bridgePartition(s); err != nil {
			t.Fatal(err)
		}
		s.clientFault("strangers", "connections of strangers")()
		got := s.forJudge()
		if len(got) != 1 || len(got[0].Members) != 2 || got[0].Members[0] != "2" || got[0].To-got[0].From != result.Since(8*time.Second) {
			t.Errorf("%+v", got)
		}
	})
}

// A run that is interrupted heals everything, with a context of its own.
func TestInterruptHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{}
		s := newStage(t, f)
		ctx, stop := context.WithCancel(t.Context())
		s.ctx = ctx
		time.AfterFunc(time.Second, stop)
		if err := findDrill("leader-kill").run(s); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
		if err := s.healAll(ctx); err != nil {
			t.Fatal(err)
		}
		want := []string{"break kill 2", "repair kill 2", "heal"}
		if !slices.Equal(f.did, want) || s.faults[0].To < 0 {
			t.Errorf("%q, %+v", f.did, s.faults)
		}
	})
}

// restoredTarget is an ensemble without members that notes whether it could be closed.
type restoredTarget struct {
	fakeTarget
	closed bool
}

func (r *restoredTarget) Members() []target.Member { return nil }

func (r *restoredTarget) Close(ctx context.Context) error {
	_, limited := ctx.Deadline()
	r.closed = limited && ctx.Err() == nil
	return ctx.Err()
}

// The ensemble that begins with a backup is ended, and its end has a limit, although the drill is interrupted.
func TestInterruptEndsRestoredEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, restored := newStage(t, &fakeTarget{}), &restoredTarget{}
		ctx, stop := context.WithCancel(t.Context())
		s.ctx = ctx
		s.own = func(context.Context, target.ProcessConfig) (target.Target, error) {
			stop()
			return restored, nil
		}
		if err := restoreBackup(s); err != nil || !restored.closed {
			t.Errorf("%v; closed: %v", err, restored.closed)
		}
	})
}

// What cannot be repaired alone is healed with the rest, and its error is not lost.
func TestRepairFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{fails: map[target.Kind]error{target.Stop: errors.New("no such process")}}
		s := newStage(t, f)
		if err := breaks((*stage).awaitLeader, 1, stops[0], stopText)(s); err == nil || !strings.Contains(err.Error(), "no such process") {
			t.Errorf("%v", err)
		}
		if err := s.healAll(t.Context()); err != nil {
			t.Error(err)
		}
		if f.did[len(f.did)-1] != "heal" || s.faults[0].To < 0 {
			t.Errorf("%q, %+v", f.did, s.faults)
		}
	})
}

// The reason of a failure is one line, as the tables show it.
func TestReasonIsOneLine(t *testing.T) {
	found := new(Runner).failedResult(result.Drill{}, errors.Join(errors.New("no such host"), errors.New("it is not well")))
	if found.Outcome != result.Fail || found.Reason != "no such host; it is not well" {
		t.Errorf("%+v", found)
	}
}

// An ensemble is well only if it is well twice in a row, and the wait for it has an end that names the reason.
func TestAwaitWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := errors.New("member 3 does not answer")
		answers := []error{sick, nil, sick, nil, nil}
		looked := 0
		well := func(context.Context) error { looked++; return answers[looked-1] }
		if err := awaitWell(t.Context(), well, time.Minute); err != nil || looked != len(answers) {
			t.Errorf("%v after %d looks", err, looked)
		}
		err := awaitWell(t.Context(), func(context.Context) error { return sick }, time.Minute)
		if !errors.Is(err, sick) || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("%v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := awaitWell(ctx, func(context.Context) error { return sick }, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// A run waits for sessions that are about to end, such as those of the run before it, and not for others.
func TestAwaitNoOthers(t *testing.T) {
	for _, tt := range []struct {
		ends time.Duration // when the last session ends
		want string        // in the error; "": none
	}{
		{0, ""},
		{8 * time.Second, ""},
		{time.Minute, "has 3 sessions that are not this drill's, and had some for 10s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := awaitNoOthers(t.Context(), func(context.Context) (int, error) {
				if time.Since(began) >= tt.ends {
					return 0, nil
				}
				return 3, nil
			})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("sessions that end after %v: %v, want %q", tt.ends, err, tt.want)
			}
			if took := time.Since(began); took > othersLimit {
				t.Errorf("it took %v", took)
			}
		})
	}
	unknown := errors.New("no reply")
	if err := awaitNoOthers(t.Context(), func(context.Context) (int, error) { return 0, unknown }); !errors.Is(err, unknown) {
		t.Errorf("%v", err)
	}
}

// Each drill and each repeat has a seed of its own.
func TestSeeds(t *testing.T) {
	r := &Runner{cfg: Config{Seed: 7}}
	seen := map[uint64]bool{}
	for _, d := range All() {
		for repeat := 1; repeat <= 3; repeat++ {
			seen[r.seedOf(d, repeat)] = true
		}
	}
	if len(seen) != 3*len(All()) {
		t.Errorf("%d seeds of %d", len(seen), 3*len(All()))
	}
}
