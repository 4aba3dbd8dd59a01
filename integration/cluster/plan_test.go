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

// Operated adds one fault, the same for the same plan, which can be printed and parsed.
func TestOperatedPlanReplays(t *testing.T) {
	drawn := map[Kind]int{}
	for seed := range uint64(200) {
		p := RandomPlan(rand.New(rand.NewPCG(seed, 5)), 3, time.Second)
		more := Operated(slices.Clone(p), 3, time.Second)
		if again := Operated(slices.Clone(p), 3, time.Second); len(more) != len(p)+1 || !slices.Equal(again, more) {
			t.Fatalf("%v\nbecame\n%v\nand then\n%v", p, more, again)
		}
		got, err := ParsePlan(more.String())
		if err != nil || !slices.Equal(got, more) {
			t.Fatalf("%v\nbecame\n%v, %v", more, got, err)
		}
		for _, f := range more {
			drawn[f.Kind]++
		}
	}
	for _, kind := range append(operated, Flip) {
		if drawn[kind] < 10 {
			t.Errorf("%d faults of kind %s in 200 plans, want at least 10", drawn[kind], kind)
		}
	}
}

// Darkened leaves the faults of a plan as they are and adds to it, always the same, what can be printed and parsed.
func TestDarkenedPlanReplays(t *testing.T) {
	drawn := map[Kind]int{}
	for seed := range uint64(400) {
		members := sizes[seed%uint64(len(sizes))]
		p := ChangingPlan(rand.New(rand.NewPCG(seed, 5)), members, time.Second)
		more := Darkened(slices.Clone(p), 8, members, time.Second)
		if again := Darkened(slices.Clone(p), 8, members, time.Second); !slices.Equal(again, more) {
			t.Fatalf("%v\nbecame\n%v\nand then\n%v", p, more, again)
		}
		got, err := ParsePlan(more.String())
		if err != nil || !slices.Equal(got, more) {
			t.Fatalf("%v\nbecame\n%v, %v", more, got, err)
		}
		added := slices.DeleteFunc(slices.Clone(more), func(f Fault) bool { return slices.Contains(p, f) })
		if len(p)+len(added) != len(more) {
			t.Errorf("%v\nbecame\n%v", p, more)
		}
		for _, f := range added {
			drawn[f.Kind]++
		}
	}
	if drawn[Blackout] < 25 || drawn[Stray] < 15 || drawn[Snap] < 100 || drawn[Unsaved] < 60 {
		t.Errorf("%v were added to 400 plans, want at least 25 blackouts, 15 strays, 100 snaps and 60 unsaved", drawn)
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for _, text := range []string{"1s kill", "soon kill leader", "1s melt leader", "1s kill leader for=ever", "1s kill leader why=not", "1s fail leader n=some"} {
		if p, err := ParsePlan(text); err == nil {
			t.Errorf("ParsePlan(%q) = %v, want an error", text, p)
		}
	}
}

// sizes are the numbers of members that plans are drawn for.
var sizes = []int{1, 2, 3, 5}

// changingPlans calls check for plans that change the list of ensembles of so many members.
func changingPlans(t *testing.T, n uint64, members int, check func(seed uint64, p Plan)) {
	t.Helper()
	for seed := range n {
		check(seed, ChangingPlan(rand.New(rand.NewPCG(seed, 5)), members, time.Second))
	}
}

// The same holds for a plan that changes the list of members. Each plan changes it at least once, and has other
// faults beside that. Where all kinds of changes are possible, all are drawn.
func TestChangingPlanReplays(t *testing.T) {
	for _, members := range sizes {
		drawn := map[Kind]int{}
		changingPlans(t, 300, members, func(seed uint64, p Plan) {
			got, err := ParsePlan(p.String())
			if err != nil || !slices.Equal(got, p) {
				t.Fatalf("%v\nbecame\n%v, %v", p, got, err)
			}
			if again := ChangingPlan(rand.New(rand.NewPCG(seed, 5)), members, time.Second); !slices.Equal(again, p) {
				t.Fatalf("%d members, seed %d drew\n%v\nand then\n%v", members, seed, p, again)
			}
			for _, f := range p {
				drawn[f.Kind]++
			}
			if p.Changes() == 0 || p.Changes() == len(p) {
				t.Errorf("%d members, seed %d: %d changes of the list among %d faults", members, seed, p.Changes(), len(p))
			}
		})
		for _, kind := range changing {
			if members >= 3 && drawn[kind] < 10 {
				t.Errorf("%d faults of kind %s in 300 plans for %d members, want at least 10", drawn[kind], kind, members)
			}
		}
	}
}

// Where a member moves, no existing member is added. If that was the moving one, the list would get its former address
// again, and no other member would reach it.
func TestMovingMemberIsNotAdded(t *testing.T) {
	moves, adds := 0, 0
	changingPlans(t, 1000, 3, func(seed uint64, p Plan) {
		if !slices.ContainsFunc(p, func(f Fault) bool { return f.Kind == Move }) {
			return
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
	})
	if moves < 100 || adds < 50 {
		t.Errorf("%d plans with a member that moves, with %d that come: too few", moves, adds)
	}
}

// A plan that changes the list loses one disk at most. If it wipes one, no member comes back without its own, and no
// member moves. Of the plans for each size, some wipe a disk.
func TestChangingPlanLosesOneDisk(t *testing.T) {
	for _, members := range sizes {
		wipes := 0
		changingPlans(t, 300, members, func(seed uint64, p Plan) {
			lost := map[Kind]int{}
			for _, f := range p {
				lost[f.Kind]++
				if lost[Wipe] > 0 && f.Kind == Move || (f.Kind == Add || f.Kind == Replace) && f.Seed%2 == 1 {
					lost["with another disk"]++
				}
			}
			if lost[Wipe] > 1 || lost[Wipe] == 1 && lost[Move]+lost["with another disk"] > 0 {
				t.Errorf("%d members, seed %d loses several disks, or one while a member moves:\n%v", members, seed, p)
			}
			wipes += lost[Wipe]
		})
		if wipes < 50 {
			t.Errorf("%d of 300 plans for %d members wipe a disk, want at least 50", wipes, members)
		}
	}
}

// In an ensemble of one or two, no member moves, and none leaves before others have come in. The changes of an ensemble
// that begins alone begin with a member that comes.
func TestSmallEnsembleGrowsFirst(t *testing.T) {
	for _, members := range []int{1, 2} {
		left := 0
		changingPlans(t, 300, members, func(seed uint64, p Plan) {
			voters := members
			for _, f := range p {
				switch f.Kind {
				case Add:
					voters++
				case Remove, Demote:
					voters--
					left++
				case Replace:
					if voters == 1 {
						t.Errorf("seed %d replaces a member that is alone:\n%v", seed, p)
					}
				case Move:
					t.Errorf("%d members, and one moves:\n%v", members, p)
				}
				if voters < 2 && voters < members || f.Changing() && voters < 2 {
					t.Errorf("seed %d leaves %d voters of %d:\n%v", seed, voters, members, p)
				}
			}
		})
		if left < 10 {
			t.Errorf("%d members leave in 300 plans for %d members: too few", left, members)
		}
	}
}
