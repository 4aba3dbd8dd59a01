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

// timedTarget writes down each fault, with all that it says and its time. From a call on, everything that the steps of a drill ask for
// fails.
type timedTarget struct {
	fakeTarget
	s         *stage
	calls     int
	failsFrom int      // 0: never
	tries     int      // to break something after that
	late      []string // what it did after an interruption
}

var errStep = errors.New("a step fails")

// call counts a call.
func (f *timedTarget) call() error {
	if f.calls++; f.failsFrom > 0 && f.calls >= f.failsFrom {
		return errStep
	}
	return nil
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
	err := f.note("break", fault)
	if err != nil {
		f.tries++
	}
	return err
}

// newTimed returns a stage on an ensemble whose member 2 leads.
func newTimed(t *testing.T, failsFrom int) *timedTarget {
	f := &timedTarget{failsFrom: failsFrom}
	f.s = newStage(t, &f.fakeTarget)
	f.s.target = f
	f.s.currentLeader = func(context.Context) (string, error) { return "2", f.call() }
	f.s.checkHealth = func(context.Context) error { return f.call() }
	f.s.own = func(context.Context, target.ProcessConfig) (target.Target, error) { return &restoredTarget{}, f.call() }
	return f
}

// doneBy runs the steps of a drill. It returns what they need, break and repair when, the times of their faults, and what the judge is
// told, each in a line.
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

// Whatever fails ends a drill, and its error is not lost. Nothing more is broken then.
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
				if errors.Is(err, errStep) != (from > 0) || f.tries > 1 {
					t.Errorf("%s, whose call %d of %d fails: %v; %d attempts to break more", d.Name, from, calls, err, f.tries)
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
