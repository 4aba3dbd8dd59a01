package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scriptedSides is a comparison with fake runs and fake hooks. It records their order.
type scriptedSides struct {
	comparer
	did   []string
	fails string // the step that fails
}

func newScriptedSides(t *testing.T, cases ...string) *scriptedSides {
	t.Helper()
	s := &scriptedSides{}
	s.cfg = CompareConfig{Rounds: 3, Sides: [2]Side{{Target: Target{Name: "old"}}, {Target: Target{Name: "new", PIDs: []int{7}}}}}
	for _, text := range cases {
		p, err := ParseCase(text, Defaults())
		if err != nil {
			t.Fatal(err)
		}
		s.cfg.Cases = append(s.cfg.Cases, p)
	}
	s.runCase = func(_ context.Context, cfg Config) (Result, error) {
		n := float64(len(s.did))
		r := Result{Case: cfg.Params.String(), Op: "request", PerSecond: 100 + n, Latency: Summary{P50: 1000 * n, P99: 5000, Max: 9000}}
		if cfg.Target.Name == "new" {
			r.PerSecond *= 3
			r.ServerCPU, r.Void = 2, n < 3
			r.Errors = map[string]int64{"lost": 2}
		}
		if cfg.Params.Case == "sessions" {
			r.Extra = []Figure{faultFigure("expired", int64(len(cfg.Target.PIDs))), millisFigure("tool late", 5e6).withoutDirection()}
		}
		return r, s.step(fmt.Sprint(cfg.Target.Name, " ", cfg.Params.Case, cfg.Target.PIDs))
	}
	s.runCommand = func(ctx context.Context, command string) (string, error) {
		if ctx.Err() != nil {
			t.Errorf("%s runs with a context that has ended", command)
		}
		return "11 12\n13,", s.step(command)
	}
	return s
}

var errStaged = errors.New("staged")

func (s *scriptedSides) step(name string) error {
	s.did = append(s.did, name)
	if name == s.fails {
		return errStaged
	}
	return nil
}

func someComparison(t *testing.T) *Comparison {
	t.Helper()
	s := newScriptedSides(t, "get", "sessions")
	c, err := s.compareSides(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Sides that run all the time take turns with each case. The side that goes first in one round goes
// second in the next.
func TestCompareTurns(t *testing.T) {
	s := newScriptedSides(t, "get", "sessions")
	if _, err := s.compareSides(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"old get[]", "new get[7]", "old sessions[]", "new sessions[7]",
		"new get[7]", "old get[]", "new sessions[7]", "old sessions[]",
		"old get[]", "new get[7]", "old sessions[]", "new sessions[7]",
	}
	if !slices.Equal(s.did, want) {
		t.Errorf("%q", s.did)
	}
}

// A side with a start command runs all cases between its start and its stop. Its processes are
// those that the start command printed. It is also stopped when a case fails.
func TestCompareHooks(t *testing.T) {
	s := newScriptedSides(t, "get", "sessions")
	s.cfg.Sides[0].Start, s.cfg.Sides[0].Stop = "up", "down"
	if _, err := s.compareSides(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := []string{"up", "old get[11 12 13]", "old sessions[11 12 13]", "down"}
	fresh := []string{"new get[7]", "new sessions[7]"}
	if !slices.Equal(s.did, slices.Concat(old, fresh, fresh, old, old, fresh)) {
		t.Errorf("%q", s.did)
	}
	for fails, want := range map[string][]string{
		"up":                {"up", "down"},
		"old get[11 12 13]": {"up", "old get[11 12 13]", "down"},
		"down":              old,
	} {
		s := newScriptedSides(t, "get", "sessions")
		s.cfg.Sides[0].Start, s.cfg.Sides[0].Stop, s.fails = "up", "down", fails
		if _, err := s.compareSides(t.Context()); !errors.Is(err, errStaged) || !slices.Equal(s.did, want) {
			t.Errorf("%s fails: %v, %q", fails, err, s.did)
		}
	}
	s = newScriptedSides(t, "get")
	s.cfg.Sides[1].Start = "up"
	if _, err := s.compareSides(t.Context()); err == nil || !strings.Contains(err.Error(), "new needs both") {
		t.Errorf("%v", err)
	}
	s = newScriptedSides(t, "get")
	s.cfg.Rounds = 2
	if _, err := s.compareSides(t.Context()); err == nil || !strings.Contains(err.Error(), "2 rounds; must be 3 to 100") {
		t.Errorf("%v", err)
	}
}

// B is behind A if it does less, takes longer or uses more.
func TestBehind(t *testing.T) {
	ratio := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		pair   FigurePair
		behind bool
	}{
		{FigurePair{Better: "more", Ratio: ratio(0.99)}, true},
		{FigurePair{Better: "more", Ratio: ratio(1)}, false},
		{FigurePair{Better: "less", Ratio: ratio(1.01)}, true},
		{FigurePair{Better: "less", Ratio: ratio(0.5)}, false},
		{FigurePair{Better: "", Ratio: ratio(9)}, false},
		{FigurePair{Better: "less", B: Spread{Median: 1}}, true},
		{FigurePair{Better: "less", Unit: unitMillis, B: Spread{Median: 1}}, false}, // nothing was measured for A
		{FigurePair{Better: "more", B: Spread{Median: 1}}, false},
	} {
		if c.pair.IsWorse() != c.behind {
			t.Errorf("%+v", c.pair)
		}
	}
	if s := spreadOf([]float64{9, 1, 4}); s != (Spread{4, 1, 9}) {
		t.Errorf("%+v", s)
	}
	if s := spreadOf([]float64{9, 1, 4, 5}); s != (Spread{4.5, 1, 9}) {
		t.Errorf("%+v", s)
	}
}

// runHook runs a shell command and returns its output. If the command fails, the error has the reason. A
// process that the command leaves running does not delay runHook.
func TestRunHook(t *testing.T) {
	out, err := runHook(t.Context(), "sleep 5 & echo 12; echo 13")
	if err != nil || out != "12\n13\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = runHook(t.Context(), "echo no such disk >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no such disk") {
		t.Errorf("%v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err = runHook(ctx, "sleep 60"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestParsePIDs(t *testing.T) {
	if pids, err := ParsePIDs(" 1,22\n333,"); err != nil || !slices.Equal(pids, []int{1, 22, 333}) {
		t.Errorf("%v, %v", pids, err)
	}
	for _, text := range []string{"0", "-5", "x", "1.5", strings.Repeat("1 ", 1001)} {
		if _, err := ParsePIDs(text); err == nil {
			t.Errorf("%.20q was accepted", text)
		}
	}
}
