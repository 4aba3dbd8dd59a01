package kills

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// wipePlan lists the faults of an ensemble that begins with one member. It depends on the seed alone. The outcome does
// not: it also depends on the speed of the processes.
type wipePlan struct {
	snapCount int // entries between two snapshots
	load      int // bytes of log that the first member has before it is joined
	rounds    []wipeRound
}

// wipeRound is one change of the list, or none, and the faults meanwhile. At its end all members run.
type wipeRound struct {
	change change
	leaves int  // which member leaves, counted among those that there are
	empty  bool // a member that returns has an empty directory
	faults []wipeFault
}

// change is a change of the list of servers.
type change string

const (
	noChange change = "no change"
	add      change = "add"
	remove   change = "remove"
	replace  change = "replace" // a new member takes the place of another one
	comeBack change = "return"  // a member that was removed is added again
)

// wipeFault is one fault. Its target is chosen when it is due.
type wipeFault struct {
	after  time.Duration // the fault before
	kind   faultKind
	target target
	index  int           // which member, if the target is any
	pause  time.Duration // between a wipe and the start afterwards
}

// faultKind is the kind of a member's fault.
type faultKind string

const (
	killed   faultKind = "kill"
	wiped    faultKind = "wipe" // killed, emptied and started again; only killed if too many disks would be lost
	paused   faultKind = "pause"
	stopped  faultKind = "stop"   // by SIGTERM
	returned faultKind = "return" // the member that was killed, stopped or paused first runs again
)

// target selects the member that a fault hits.
type target string

const (
	leading target = "leader"
	copier  target = "newest" // the member that was wiped or added last
	anyone  target = "any"
)

// A wiped disk counts as lost until its member votes again. spare is the number of disks that an ensemble of so many
// voters can lose.
func spare(voters int) int { return (voters - 1) / 2 }

// firstChanges lead from one member to three, to five, and to three again. In between the list stays as it is, or one member is
// replaced by another.
var firstChanges = []change{add, add, noChange, replace, noChange, add, comeBack, noChange, noChange, remove, remove, noChange}

// newWipePlan draws a plan. The numbers of snapshots are such that members copy from snapshots, from the first entry of the log on, or,
// as with seed 1, first the latter and then the former.
func newWipePlan(seed uint64) wipePlan {
	rng := rand.New(rand.NewPCG(seed, 13))
	p := wipePlan{snapCount: []int{2_000, 20_000, 1_000_000}[seed%3], load: (24 + rng.IntN(24)) << 20}
	for _, c := range firstChanges {
		round := wipeRound{change: c, leaves: rng.IntN(5), empty: rng.IntN(2) == 0}
		for range 2 + rng.IntN(3) {
			f := drawFault(rng)
			if last := len(round.faults) - 1; last >= 0 && round.faults[last].kind == wiped && rng.IntN(2) == 0 {
				f.kind, f.target, f.after = killed, leading, f.after/2 // while the wiped member copies
			}
			round.faults = append(round.faults, f)
		}
		p.rounds = append(p.rounds, round)
	}
	return p
}

func drawFault(rng *rand.Rand) wipeFault {
	f := wipeFault{
		after: time.Duration(rng.IntN(1200)) * time.Millisecond, pause: time.Duration(rng.IntN(300)) * time.Millisecond, index: rng.IntN(60),
	}
	f.kind = drawn(rng, killed, killed, killed, wiped, wiped, wiped, wiped, paused, stopped, returned, returned)
	f.target = drawn(rng, leading, leading, copier, anyone, anyone)
	return f
}

func drawn[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// String shows a plan as its test prints it.
func (p wipePlan) String() string {
	text := fmt.Sprintf("a snapshot every %d entries, %d MB of log\n", p.snapCount, p.load>>20)
	for i, round := range p.rounds {
		text += fmt.Sprintf("round %d: %s (leaves %d, empty %t):", i, round.change, round.leaves, round.empty)
		for _, f := range round.faults {
			text += fmt.Sprintf(" +%v %s %s/%d/%v;", f.after, f.kind, f.target, f.index, f.pause)
		}
		text += "\n"
	}
	return text
}
