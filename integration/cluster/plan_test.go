package cluster

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A plan that is printed and parsed again is the same plan.
func TestPlanReplays(t *testing.T) {
	for seed := range uint64(200) {
		p := RandomPlan(rand.New(rand.NewPCG(seed, 5)), 3+2*int(seed%2), time.Second)
		got, err := ParsePlan(p.String() + "\n\n")
		if err != nil {
			t.Fatalf("%v\nof\n%v", err, p)
		}
		if !slices.Equal(got, p) {
			t.Fatalf("%v\nbecame\n%v", p, got)
		}
		again := RandomPlan(rand.New(rand.NewPCG(seed, 5)), 3+2*int(seed%2), time.Second)
		if !slices.Equal(again, p) {
			t.Fatalf("seed %d drew\n%v\nand then\n%v", seed, p, again)
		}
		kinds := map[Kind]bool{}
		for _, f := range p {
			kinds[f.Kind] = true
		}
		if len(p) < 3 || len(kinds) < 2 {
			t.Errorf("seed %d: %d faults of %d kinds, want 3 of 2", seed, len(p), len(kinds))
		}
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for _, text := range []string{"1s kill", "soon kill leader", "1s melt leader", "1s kill leader for=ever", "1s kill leader why=not", "1s fail leader n=some"} {
		if p, err := ParsePlan(text); err == nil {
			t.Errorf("ParsePlan(%q) = %v, want an error", text, p)
		}
	}
}

// The same holds for a plan that changes the list of members. Each plan changes it at least once, and has other
// faults beside that.
func TestChangingPlanReplays(t *testing.T) {
	drawn := map[Kind]int{}
	for seed := range uint64(300) {
		draw := func() Plan { return ChangingPlan(rand.New(rand.NewPCG(seed, 5)), time.Second) }
		p := draw()
		got, err := ParsePlan(p.String())
		if err != nil || !slices.Equal(got, p) {
			t.Fatalf("%v\nbecame\n%v, %v", p, got, err)
		}
		if again := draw(); !slices.Equal(again, p) {
			t.Fatalf("seed %d drew\n%v\nand then\n%v", seed, p, again)
		}
		for _, f := range p {
			drawn[f.Kind]++
		}
		if p.Changes() == 0 || p.Changes() == len(p) {
			t.Errorf("seed %d: %d changes of the list among %d faults", seed, p.Changes(), len(p))
		}
	}
	for _, kind := range changing {
		if drawn[kind] < 10 {
			t.Errorf("%d faults of kind %s in 300 plans, want at least 10", drawn[kind], kind)
		}
	}
}

// Where a member moves, nobody adds one that is there. If that was the moving one, the list would get its former
// address again, and nobody would reach it.
func TestMovingMemberIsNotAdded(t *testing.T) {
	moves, adds := 0, 0
	for seed := range uint64(1000) {
		p := ChangingPlan(rand.New(rand.NewPCG(seed, 5)), time.Second)
		if !slices.ContainsFunc(p, func(f Fault) bool { return f.Kind == Move }) {
			continue
		}
		moves++
		for _, f := range p {
			if f.Kind != Add {
				continue
			}
			if adds++; slices.Contains([]Target{"m1", "m2", "m3"}, f.Who) {
				t.Errorf("seed %d: a member moves, and %s is added:\n%v", seed, f.Who, p)
			}
		}
	}
	if moves < 100 || adds < 50 {
		t.Errorf("%d plans with a member that moves, with %d that come: too few", moves, adds)
	}
}
