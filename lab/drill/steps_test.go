package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/lab/result"
	"rollcall/lab/target"
)

// timedTarget records each fault, with all of its fields and its time. From a given call on, every request of a drill's
// steps fails, each with an error of its own.
type timedTarget struct {
	fakeTarget
	s         *stage
	calls     int
	failsFrom int      // 0: never
	failed    error    // the error that the steps must return, once there is one
	lastTry   waitTry  // empty if another call came after it
	breaks    int      // calls of Break after failed
	late      []string // what it did after an interruption
}

// waitTry is one try of a wait: the steps repeat a call until it succeeds or their patience ends.
type waitTry struct {
	name string
	ctx  context.Context
	at   result.Millis
	err  error
}

// call counts a call that is not repeated. The steps must return its error.
func (f *timedTarget) call() error {
	err := f.nextError()
	f.lastTry = waitTry{}
	if f.failed == nil {
		f.failed = err
	}
	return err
}

func (f *timedTarget) nextError() error {
	if f.calls++; f.failsFrom > 0 && f.calls >= f.failsFrom {
		return fmt.Errorf("call %d fails", f.calls)
	}
	return nil
}

// try counts one try of a wait. All tries of a wait return the error of the first one. The steps must return that error
// if they have tried again: a step that reads the leader once, for the text of a fault, may continue without it. A try
// belongs to the same wait as the last one if it has the same context and comes later. The next wait begins at the time
// of the last try.
func (f *timedTarget) try(ctx context.Context, name string) error {
	t := waitTry{name, ctx, f.s.sinceStart(), f.nextError()}
	if last := f.lastTry; last.err != nil && t.err != nil && t.name == last.name && t.ctx == last.ctx && t.at > last.at {
		if t.err = last.err; f.failed == nil {
			f.failed = t.err
		}
	}
	f.lastTry = t
	return t.err
}

func (f *timedTarget) note(what string, fault target.Fault) error {
	fault.File = "" // it has a random name
	f.did = append(f.did, fmt.Sprintf("%.0f %s %v", f.s.sinceStart(), what, fault))
	if f.s.ctx.Err() != nil {
		f.late = append(f.late, f.did[len(f.did)-1])
	}
	return f.call()
}

func (f *timedTarget) Can(fault target.Fault) error { return f.note("needs", fault) }

func (f *timedTarget) Repair(_ context.Context, fault target.Fault) error {
	return f.note("repair", fault)
}

func (f *timedTarget) Break(_ context.Context, fault target.Fault) error {
	if f.failed != nil {
		f.breaks++
	}
	return f.note("break", fault)
}

// newTimed returns a stage on an ensemble whose member 2 leads.
func newTimed(t *testing.T, failsFrom int) *timedTarget {
	f := &timedTarget{failsFrom: failsFrom}
	f.s = newStage(t, &f.fakeTarget)
	f.s.target = f
	f.s.currentLeader = func(ctx context.Context) (string, error) { return "2", f.try(ctx, "leader") }
	f.s.checkHealth = func(ctx context.Context) error { return f.try(ctx, "health") }
	f.s.own = func(context.Context, target.ProcessConfig) (target.Target, error) { return &restoredTarget{}, f.call() }
	return f
}

// doneBy runs the steps of a drill. It returns one line for each of their needs, for each break and repair with its
// time, for the times of their faults, and for each report to the judge.
func doneBy(t *testing.T, d *Drill) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		f := newTimed(t, 0)
		s := f.s
		if d.own == nil {
			if err := d.Fits(Config{Target: f, Own: s.own}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.run(s); err != nil {
			t.Fatal(err)
		}
		steps := d.Lasts(s.timeout) - 2*settleTime
		if ends := s.sinceStart(); ends > result.Since(steps) || ends < result.Since(steps-d.extra)/2 && d.lasts > 1 {
			t.Errorf("%s takes %v ms, and says %v", d.Name, ends, steps)
		}
		for _, fault := range s.faults {
			f.did = append(f.did, fmt.Sprintf("%.0f to %.0f %s", fault.From, fault.To, fault.Text))
		}
		for _, w := range s.windows {
			f.did = append(f.did, fmt.Sprintf("%.0f to %.0f %s: %s", w.From, w.To, w.Kind, w.Text))
		}
		lines = append(f.did, fmt.Sprintf("%.0f", s.sinceStart()))
	})
	return lines
}

// ofClients are the drills whose steps have clients.
var ofClients = []string{"silent-clients", "hostile-clients", "mass-expiry", "reconnect-storm", "many-ephemerals"}

// What fails first ends a drill, which returns that error. Nothing more is broken then.
func TestStepsFail(t *testing.T) {
	for _, d := range All() {
		if slices.Contains(ofClients, d.Name) {
			continue
		}
		calls := 1
		for from := 0; from <= calls; from++ {
			synctest.Test(t, func(t *testing.T) {
				f := newTimed(t, from)
				err := d.run(f.s)
				if from == 0 {
					calls = f.calls
				}
				if (f.failed != nil) != (from > 0) || !errors.Is(err, f.failed) || f.breaks > 0 {
					t.Errorf("%s, whose calls from %d of %d fail: %v, want %v; %d more faults", d.Name, from, calls, err, f.failed, f.breaks)
				}
			})
		}
	}
}

// A drill that is interrupted ends at once, and breaks nothing more.
func TestStepsAreInterrupted(t *testing.T) {
	const step = 100 * time.Millisecond
	for _, d := range All() {
		if slices.Contains(ofClients, d.Name) || d.Name == "backup-restored" { // which waits for nothing
			continue
		}
		interrupted := 0
		for at, ended := step/2, false; !ended; at += step {
			synctest.Test(t, func(t *testing.T) {
				f := newTimed(t, 0)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				f.s.ctx = ctx
				time.AfterFunc(at, stop)
				err := d.run(f.s)
				if ended = ctx.Err() == nil; ended {
					return
				}
				if interrupted++; !errors.Is(err, context.Canceled) || f.s.sinceStart() != result.Since(at) || len(f.late) > 0 {
					t.Errorf("%s after %v: %v after %v ms, and %q", d.Name, at, err, f.s.sinceStart(), f.late)
				}
			})
		}
		if interrupted == 0 {
			t.Errorf("%s is never interrupted", d.Name)
		}
	}
}

// Each drill does what testdata/steps.txt says of it. Those with clients of their own are not in the file.
func TestSteps(t *testing.T) {
	text, err := os.ReadFile("testdata/steps.txt")
	if err != nil {
		t.Fatal(err)
	}
	drills := strings.Split("\n"+string(text), "\n\n")
	for _, block := range drills {
		name, want, _ := strings.Cut(strings.Trim(block, "\n"), ":\n")
		d := findDrill(name)
		if d == nil {
			t.Errorf("there is no drill %q", name)
			continue
		}
		if got := strings.Join(doneBy(t, d), "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if len(drills) != len(All())-len(ofClients) {
		t.Errorf("%d drills are in the file, of %d", len(drills), len(All()))
	}
}
