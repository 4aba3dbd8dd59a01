package cluster

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// These are the faults. Each lasts for For; those marked "once" ignore it.
const (
	Kill    Kind = "kill"    // Who crashes and starts again; Seed decides what is left of writes in progress
	Stop    Kind = "stop"    // Who stops gracefully and starts again
	Wipe    Kind = "wipe"    // Who crashes and starts again with an empty disk
	Pause   Kind = "pause"   // Who appears paused; see Ensemble.Pause
	Isolate Kind = "isolate" // Who is cut off from the other members
	Cut     Kind = "cut"     // the link between Who and Far is cut
	Hang    Kind = "hang"    // nothing that Who sends reaches Far
	Slow    Kind = "slow"    // everything between Who and Far takes By longer
	Narrow  Kind = "narrow"  // between Who and Far, N KiB a second arrive
	Reset   Kind = "reset"   // once: the connections between Who and Far are reset
	Orphan  Kind = "orphan"  // once: Who loses its forwarding connections, from which the others still read By later
	Lag     Kind = "lag"     // the log does not reach Who, and what Who forwards is sent again
	Stall   Kind = "stall"   // Who's disk hangs
	Outrun  Kind = "outrun"  // Who and those crash whose disks have an entry that Who's lacks, and Who comes back first; see Ensemble.OutrunCount
	Snap    Kind = "snap"    // once: Who takes a snapshot, and keeps N entries of the log before it. The ensemble needs Options.HTTP
	Fail    Kind = "fail"    // once: the N-th write of Who's disk from now on fails; Who is restarted
	Step    Kind = "step"    // Who's wall clock is set forward or back by By; once, or set right again after For
	Drift   Kind = "drift"   // once: Who's wall clock gains By each second from now on
	Strand  Kind = "strand"  // clients cannot reach Who
	Shut    Kind = "shut"    // Who's gRPC port and those of the others are separated; N: Ways
	ShutLog Kind = "shutlog" // the same for raft's port
	Forget  Kind = "forget"  // once: the network forgets the connections that Who has opened to Far; N: to which ports, a sum of Port

	// Operated adds these to plans.
	Full    Kind = "full"    // Who's disk is full; Who ends, and is restarted until there is space
	Rot     Kind = "rot"     // once: the N-th read of Who's log from now on fails, or of a snapshot if Seed is odd; Who is restarted
	Flip    Kind = "flip"    // once: one bit of the N-th byte that Who sends to Far from now on is another one
	Drain   Kind = "drain"   // Who hands over and closes its clients' connections within By, and is stopped and started again after For
	Forsake Kind = "forsake" // Who is cut off from the other members for so long that it serves readers alone
	Expel   Kind = "expel"   // once: an operator kills a session through Who; the caller of Play does that
	Backup  Kind = "backup"  // once: an operator makes a backup through Who; the caller of Play does that

	// Darkened adds these to plans.
	Blackout Kind = "blackout" // all members crash, and Who and Far come back when the others have a leader; N and By: see planPlayer.playBlackout
	Stray    Kind = "stray"    // Who, a follower, gets a snapshot and then an entry that only it stores, and all crash; see planPlayer.playStray
	Unsaved  Kind = "unsaved"  // the disks of Who and Far hang for By, and members crash with what waits for them; N: Hardship; Seed: who crashes, see planPlayer.playUnsaved

	// These change the list of members; see Ensemble.Insist. By bounds the operator's retries.
	Add     Kind = "add"     // Who comes in; a member that was there before has its old disk, or an empty one if Seed is odd
	Remove  Kind = "remove"  // Who is removed, and is stopped then if Seed is odd
	Replace Kind = "replace" // Far comes in and Who is removed, with one change; Seed as for both
	Demote  Kind = "demote"  // Who becomes an observer
	Promote Kind = "promote" // Who becomes a participant again
	Move    Kind = "move"    // Who is down for For and comes back at another address; the list changes first, or if Seed is odd afterwards
)

// changing lists the kinds that change the list of members.
var changing = []Kind{Add, Remove, Replace, Demote, Promote, Move}

// flipEvery is the number of Operated plans for each one with a flipped bit.
const flipEvery = 6

// operated lists the kinds that Operated adds.
var operated = []Kind{Full, Rot, Drain, Forsake, Expel, Backup}

// Target names a member. "leader", "follower1", "follower2" and so on, in the order of ids, are
// resolved when the fault begins; "m1" is always member 1. "" is no member.
type Target string

// Leader is the member that leads when the fault begins. Observer is the first observer of the list.
const (
	Leader   Target = "leader"
	Observer Target = "observer"
)

// Follower returns the n-th follower, counted from 1.
func Follower(n int) Target { return Target(fmt.Sprintf("follower%d", n)) }

// Fault is one thing done to an ensemble.
type Fault struct {
	At       time.Duration // since the plan's begin
	Kind     Kind
	Who, Far Target
	For, By  time.Duration
	N        int
	Seed     uint64
}

// String returns the fault as one line, which ParsePlan reads.
func (f Fault) String() string {
	text := fmt.Sprintf("%v %s %s", f.At, f.Kind, f.Who)
	add := func(set bool, key string, value any) {
		if set {
			text += fmt.Sprintf(" %s=%v", key, value)
		}
	}
	add(f.Far != "", "far", f.Far)
	add(f.For != 0, "for", f.For)
	add(f.By != 0, "by", f.By)
	add(f.N != 0, "n", f.N)
	add(f.Seed != 0, "seed", f.Seed)
	return text
}

// Plan is a schedule of faults, in any order.
type Plan []Fault

// String returns a line for each fault.
func (p Plan) String() string {
	lines := make([]string, 0, len(p))
	for _, f := range p {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// ParsePlan parses what String returned. It ignores empty lines.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		f, err := parseFault(words)
		if err != nil {
			return nil, fmt.Errorf("cluster: plan: %q: %w", strings.TrimSpace(line), err)
		}
		p = append(p, f)
	}
	return p, nil
}

func parseFault(words []string) (f Fault, err error) {
	if len(words) < 3 {
		return f, fmt.Errorf("want a time, a kind and a member")
	}
	if f.At, err = time.ParseDuration(words[0]); err != nil {
		return f, err
	}
	f.Kind, f.Who = Kind(words[1]), Target(words[2])
	if !slices.Contains(slices.Concat(kinds, operated, changing, []Kind{Narrow, Outrun, Flip, Snap, Blackout, Stray, Unsaved}), f.Kind) {
		return f, fmt.Errorf("no such kind")
	}
	for _, w := range words[3:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "far":
			f.Far = Target(value)
		case "for":
			f.For, err = time.ParseDuration(value)
		case "by":
			f.By, err = time.ParseDuration(value)
		case "n":
			f.N, err = strconv.Atoi(value)
		case "seed":
			f.Seed, err = strconv.ParseUint(value, 10, 64)
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

var kinds = []Kind{Kill, Stop, Wipe, Pause, Isolate, Cut, Hang, Slow, Reset, Orphan, Lag, Stall, Fail, Step, Drift, Strand, Shut, ShutLog, Forget}

// Losing lists the kinds of faults that make a leader lose leadership if they hit it and last.
var Losing = []Kind{Kill, Kill, Kill, Stop, Pause, Isolate, Stall, Fail}

// RandomPlan draws three to five faults of at least two kinds that begin within span. In most plans
// the first one hits the leader. At most one disk is wiped, since an ensemble of three does not
// promise to survive more.
func RandomPlan(rng *rand.Rand, members int, span time.Duration) Plan {
	for {
		var p Plan
		if rng.IntN(8) > 0 {
			f := randomFault(rng, Losing[rng.IntN(len(Losing))], Leader, members, span)
			f.For = max(f.For, 700*time.Millisecond) // long enough for an election
			p = append(p, f)
		}
		for n := 3 + rng.IntN(3); len(p) < n; {
			who := Leader
			if rng.IntN(3) > 0 {
				who = Follower(1 + rng.IntN(members-1))
			}
			p = append(p, randomFault(rng, kinds[rng.IntN(len(kinds))], who, members, span))
		}
		seen := map[Kind]int{}
		for _, f := range p {
			seen[f.Kind]++
		}
		if len(seen) > 1 && seen[Wipe] < 2 {
			if seen[Wipe] > 0 {
				shortenShuts(p)
			}
			p = p.orWith(0, Narrow, members, span)
			p = p.orWith(1000, Outrun, members, span)
			return sortByTime(p)
		}
	}
}

const year = 365 * 24 * time.Hour

// steps are the amounts by which wall clocks are set wrong.
var steps = []time.Duration{time.Hour, -time.Hour, year, -year}

// orWith adds a fault of the leader to every fourth plan.
func (p Plan) orWith(number uint64, kind Kind, members int, span time.Duration) Plan {
	rng := p.moreNumbers(number)
	if rng.IntN(4) > 0 {
		return p
	}
	return append(p, randomFault(rng, kind, Leader, members, span))
}

// moreNumbers returns a source of random numbers for an addition to a plan that has been drawn, so that the other
// faults of a seed stay the same. Each addition has a number of its own.
func (p Plan) moreNumbers(number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(p[0].At), number+uint64(len(p))))
}

// Operated adds a full disk, a failed read, a drained member or the like to a plan. One plan in flipEvery gets a flipped bit instead.
func Operated(p Plan, members int, span time.Duration) Plan {
	rng := p.moreNumbers(2000)
	kind, who := operated[rng.IntN(len(operated))], Leader
	if rng.IntN(2) == 0 {
		who = Follower(1 + rng.IntN(members-1))
	}
	if rng.IntN(flipEvery) == 0 {
		kind = Flip
	}
	return sortByTime(append(p, randomFault(rng, kind, who, members, span)))
}

// Darkened adds a power failure of all members to one plan in every, a stray entry after a snapshot to as many others, a snapshot at
// any moment to half of them, and entries that are lost on their way to disks to a third.
//
// A member that moves needs all others to learn its address, so the power does not fail then. A snapshot never returns
// if a read or write of it fails, and a bubble does not allow that. So disks that fail take no snapshots on demand.
func Darkened(p Plan, every, members int, span time.Duration) Plan {
	if len(p) == 0 {
		return p
	}
	rng := p.moreNumbers(3000)
	members = max(2, members) // one that is alone gets others
	who := Leader
	if rng.IntN(2) == 0 {
		who = Follower(1 + rng.IntN(members-1))
	}
	moves, fails := p.hasKind(Move), p.hasKind(Fail, Full, Rot)
	switch rng.IntN(every) {
	case 0:
		if !moves {
			p = append(p, randomFault(rng, Blackout, who, members, span))
		}
	case 1:
		if !moves && !fails {
			p = append(p, randomFault(rng, Stray, Follower(1), members, span/4))
		}
	}
	if rng.IntN(2) == 0 && !fails {
		p = append(p, randomFault(rng, Snap, who, members, span))
	}
	return sortByTime(p.orUnsaved(moves, members, span))
}

// orUnsaved adds an Unsaved to every third plan in which no member moves: others crash, as in a Blackout.
func (p Plan) orUnsaved(moves bool, members int, span time.Duration) Plan {
	rng := p.moreNumbers(4000)
	if moves || rng.IntN(3) > 0 {
		return p
	}
	who := Leader
	if rng.IntN(2) == 0 {
		who = Follower(1 + rng.IntN(members-1))
	}
	return append(p, randomFault(rng, Unsaved, who, members, span/2)) // so that writes follow
}

func (p Plan) hasKind(kinds ...Kind) bool {
	return slices.ContainsFunc(p, func(f Fault) bool { return slices.Contains(kinds, f.Kind) })
}

// sortByTime sorts a plan by time.
func sortByTime(p Plan) Plan {
	slices.SortStableFunc(p, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// shortenShuts limits the time for which a port stays shut. Of three members, one without data needs
// both others to join, so the ensemble could not serve meanwhile.
func shortenShuts(p Plan) {
	for i, f := range p {
		if f.Kind == Shut || f.Kind == ShutLog {
			p[i].For = min(f.For, 2*time.Second)
		}
	}
}

func randomFault(rng *rand.Rand, kind Kind, who Target, members int, span time.Duration) Fault {
	draw := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(rng.Int64N(int64(most-least)))).Round(10 * time.Microsecond)
	}
	f := Fault{At: draw(0, span), Kind: kind, Who: who}
	far := Follower(1 + rng.IntN(members-1))
	if who != Leader {
		far = Leader
	}
	switch kind {
	case Kill, Wipe:
		f.For, f.Seed = draw(10*time.Millisecond, 3*time.Second), 1+rng.Uint64N(1000)
	case Stop, Pause, Isolate:
		f.For = draw(10*time.Millisecond, 2500*time.Millisecond)
	case Stall:
		f.For = draw(100*time.Millisecond, 6*time.Second)
	case Outrun:
		f.For, f.By, f.Seed = draw(10*time.Millisecond, time.Second), draw(20*time.Millisecond, 300*time.Millisecond), 1+rng.Uint64N(1000)
	case Cut, Hang:
		f.Far, f.For = far, draw(10*time.Millisecond, 2*time.Second)
		if rng.IntN(2) == 0 {
			f.Who, f.Far = far, who
		}
	case Slow:
		f.Far, f.For, f.By = far, draw(100*time.Millisecond, 2*time.Second), draw(time.Millisecond, 60*time.Millisecond)
	case Narrow:
		f.Far, f.For, f.N = far, draw(100*time.Millisecond, 5*time.Second), 16<<rng.IntN(8) // to 2 MiB
	case Reset:
		f.Far = far
	case Orphan:
		f.By = draw(time.Millisecond, 500*time.Millisecond)
	case Lag:
		f.Who, f.For = Follower(1+rng.IntN(members-1)), draw(20*time.Millisecond, 150*time.Millisecond)
	case Fail:
		f.N = 1 + rng.IntN(40)
	case Step:
		f.By = steps[rng.IntN(len(steps))]
		if rng.IntN(2) == 0 {
			f.For = draw(10*time.Millisecond, 2*time.Second)
		}
	case Drift:
		f.By = draw(-200*time.Millisecond, 200*time.Millisecond)
	case Shut, ShutLog:
		f.N, f.For = 1+rng.IntN(3), draw(10*time.Millisecond, 2*time.Second)
		if rng.IntN(2) == 0 {
			f.N |= int(Silent)
		}
		if rng.IntN(2) == 0 {
			f.For = draw(6*time.Second, 12*time.Second) // longer than the sync limit
		}
	case Forget:
		f.Far, f.N = far, 1+rng.IntN(3)
		if rng.IntN(2) == 0 {
			f.Who, f.Far = far, who
		}
	case Strand:
		f.For = draw(10*time.Millisecond, 2*time.Second)
	case Snap:
		f.N = 1 + rng.IntN(4)
	case Blackout:
		f.Far, f.For, f.By, f.N = far, draw(10*time.Millisecond, 2*time.Second), draw(0, 20*time.Millisecond), rng.IntN(4)
		f.Seed = 1 + rng.Uint64N(1000)
	case Stray:
		f.For, f.N, f.Seed = draw(10*time.Millisecond, 2*time.Second), 3, 1+rng.Uint64N(1000)
	case Unsaved:
		f.For, f.By, f.N, f.Seed = draw(10*time.Millisecond, 2*time.Second), draw(50*time.Millisecond, time.Second), rng.IntN(int(hardships)), 1+rng.Uint64N(1000)
		if rng.IntN(2) == 0 {
			f.By = draw(time.Second, 8*time.Second) // most writes are over before the end
		}
		if rng.IntN(4) == 0 {
			f.Far = far // two of three serve nobody
		}
	default:
		operatedFault(&f, rng, far, draw)
	}
	return f
}

// operatedFault draws the values of a fault of those that Operated adds.
func operatedFault(f *Fault, rng *rand.Rand, far Target, draw func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case Full:
		f.For = draw(50*time.Millisecond, time.Second)
	case Rot:
		f.N = 1 + rng.IntN(15)
	case Flip:
		f.Far, f.N = far, 1+rng.IntN(5000)
	case Forsake:
		f.For = draw(4500*time.Millisecond, 6*time.Second)
	case Drain:
		f.By, f.For = draw(0, 300*time.Millisecond), draw(300*time.Millisecond, 2*time.Second)
	}
}

// Changes returns the number of faults that change the list of members.
func (p Plan) Changes() (n int) {
	for _, f := range p {
		if f.Changing() {
			n++
		}
	}
	return n
}

// Changing reports whether a fault changes the list of members.
func (f Fault) Changing() bool { return slices.Contains(changing, f.Kind) }

// insistence bounds the retries of a reconfig. Elections and members that come back take less.
const insistence = 20 * time.Second

// NewIDs returns the ids of the members that may come into an ensemble of so many members.
func NewIDs(members int) []uint32 {
	first := max(4, uint32(members)+1)
	return []uint32{first, first + 1, first + 2}
}

// fewestToMove is the size of the smallest ensemble in which a plan moves a member. Of two, the other one cannot
// learn that member's address.
const fewestToMove = 3

// ChangingPlan draws one to three changes of the list of an ensemble, and one or two other faults, all of which
// begin within span. In every third plan, the leader is lost between two changes, and in every third one a member
// is cut off while they are made. Of the plans in which no member moves, every third one wipes a disk.
func ChangingPlan(rng *rand.Rand, members int, span time.Duration) Plan {
	d := planDrawing{rng: rng, span: span, members: members, voters: members, next: NewIDs(members)[0]}
	d.moves = rng.IntN(4) == 0 && members >= fewestToMove
	p := d.drawChanges(1 + rng.IntN(2))
	switch rng.IntN(3) {
	case 0:
		p = append(p, d.drawChanges(1)...)
		lost := d.drawFault(Losing[rng.IntN(len(Losing))], Leader)
		lost.At = p[0].At + time.Duration(rng.Int64N(int64(span/2)))
		p = append(p, lost)
	case 1:
		apart := []Kind{Isolate, Cut, Pause, Hang, Shut, ShutLog}
		part := d.drawFault(apart[rng.IntN(len(apart))], d.drawRole())
		part.At = max(0, p[0].At-time.Duration(rng.Int64N(int64(span/2))))
		p = append(p, part)
	}
	for range 1 + rng.IntN(2) {
		p = append(p, d.drawFault(ordinaryKinds[rng.IntN(len(ordinaryKinds))], d.drawRole()))
	}
	if !d.moves && rng.IntN(3) == 0 {
		p = append(p, d.drawFault(Wipe, d.drawRole()))
		shortenShuts(p)
		keepDisks(p)
	}
	return sortByTime(p)
}

// JoiningPlan draws one to three wipes and as many other faults, which begin within span, for members that copy a long
// log meanwhile. An ensemble of one gets two more members at once; another one, up to two changes of its list. No
// member moves.
func JoiningPlan(rng *rand.Rand, members int, span time.Duration) Plan {
	d := planDrawing{rng: rng, span: span, members: members, voters: members, next: NewIDs(members)[0]}
	var p Plan
	if members == 1 {
		for range 2 {
			p = append(p, Fault{At: d.drawTime(span / 4), Kind: Add, Who: d.drawNewMember(), By: insistence, Seed: 1 + rng.Uint64N(1000)})
		}
	} else {
		p = d.drawChanges(rng.IntN(3))
	}
	for range 1 + rng.IntN(3) {
		p = append(p, d.drawFault(Wipe, d.drawTarget()))
	}
	for range 1 + rng.IntN(3) {
		p = append(p, d.drawFault(ordinaryKinds[rng.IntN(len(ordinaryKinds))], d.drawRole()))
	}
	shortenShuts(p)
	return sortByTime(p)
}

// FirstPlan draws one or two faults for members that begin together within span. There is no leader yet, so the targets
// are ids.
func FirstPlan(rng *rand.Rand, members int, span time.Duration) (p Plan) {
	d := planDrawing{rng: rng, span: span, members: members}
	for range 1 + rng.IntN(2) {
		kinds := []Kind{Kill, Wipe, Wipe, Pause, Isolate, Stall}
		p = append(p, d.drawFault(kinds[rng.IntN(len(kinds))], Target(fmt.Sprintf("m%d", 1+rng.IntN(members)))))
	}
	return sortByTime(p)
}

// keepDisks gives members that come back their old disks: an ensemble promises to survive the loss of one disk at a
// time, and the plan wipes one.
func keepDisks(p Plan) {
	for i, f := range p {
		if f.Kind == Add || f.Kind == Replace {
			p[i].Seed &^= 1
		}
	}
}

// ordinaryKinds lists the kinds that a plan with changes draws. Those that take long, or are about clocks, are left out.
var ordinaryKinds = []Kind{Kill, Stop, Pause, Isolate, Cut, Hang, Reset, Orphan, Stall, Fail, Forget}

// planDrawing draws changes of the list.
type planDrawing struct {
	rng     *rand.Rand
	span    time.Duration
	members int           // with which the ensemble begins
	voters  int           // after the changes drawn so far, if each of them is made
	next    uint32        // the id of the next new member
	since   time.Duration // when the next change may begin
	// A member that moves is down until the others know its address, and they need a majority to learn it. So it
	// moves alone, in a plan in which no member leaves.
	moves, moved bool
}

// drawRole returns the leader or a follower.
func (d *planDrawing) drawRole() Target {
	if d.rng.IntN(3) == 0 {
		return Leader
	}
	return Follower(1 + d.rng.IntN(d.targetCount()-1))
}

// drawTarget does the same. Half of the time it names one, which may be a member that has come in.
func (d *planDrawing) drawTarget() Target {
	if d.rng.IntN(2) == 0 {
		return d.drawRole()
	}
	names := NewIDs(d.members)[:1]
	for id := range d.members {
		names = append(names, uint32(id)+1)
	}
	return Target(fmt.Sprintf("m%d", names[d.rng.IntN(len(names))]))
}

// drawTime draws a time.
func (d *planDrawing) drawTime(span time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(int64(span))).Round(10 * time.Microsecond)
}

// targetCount returns the number of members that faults are drawn for: one that is alone gets another one.
func (d *planDrawing) targetCount() int { return max(2, d.members) }

func (d *planDrawing) drawFault(kind Kind, who Target) Fault {
	return randomFault(d.rng, kind, who, d.targetCount(), d.span)
}

// drawChanges returns n changes, in the order of their times. A member leaves or stops voting only while there are three voters
// or more, and as many as in the beginning at most.
func (d *planDrawing) drawChanges(n int) (p Plan) {
	for range n {
		f := Fault{At: d.drawChangeTime(), Kind: d.drawChangeKind(), Who: d.drawRole(), By: insistence, Seed: 1 + d.rng.Uint64N(1000)}
		switch f.Kind {
		case Add:
			f.Who = d.drawNewMember()
			d.voters++
		case Replace:
			f.Far = d.drawNewMember()
		case Remove, Demote:
			d.voters--
		case Move:
			d.moved = true
			f.For = time.Duration(1+d.rng.Int64N(1000)) * time.Millisecond
		}
		p = append(p, f)
		if f.Kind == Demote && d.rng.IntN(2) == 0 {
			p = append(p, Fault{At: f.At + d.span/2, Kind: Promote, Who: Observer, By: insistence})
		}
	}
	return sortByTime(p)
}

// drawChangeTime returns when the next change begins. An ensemble of one or two must grow before members can leave, so its changes
// begin in the order in which they are drawn: each in the first half of the time that is left.
func (d *planDrawing) drawChangeTime() time.Duration {
	left := d.span - d.since
	if d.members < 3 {
		left /= 2
	}
	at := d.since + time.Duration(d.rng.Int64N(int64(left))).Round(10*time.Microsecond)
	if d.members < 3 {
		d.since = at
	}
	return at
}

// drawChangeKind returns the kind of the next change.
func (d *planDrawing) drawChangeKind() Kind {
	kinds := []Kind{Add, Replace, Replace}
	switch {
	case d.moves && d.moved:
		kinds = []Kind{Add}
	case d.moves:
		kinds = []Kind{Move}
	case d.voters == 1:
		kinds = []Kind{Add}
	case d.voters >= 3 && d.voters <= max(3, d.members):
		kinds = append(kinds, Remove, Remove, Demote)
	}
	return kinds[d.rng.IntN(len(kinds))]
}

// drawNewMember returns a new member, or at times one that has been there. It returns new ones only in a plan in which a member
// moves, because an operator who adds that one would give it its former address again, and in an ensemble of one or two,
// whose members cannot leave at first.
func (d *planDrawing) drawNewMember() Target {
	id := d.next
	if ids := NewIDs(d.members); d.next < ids[len(ids)-1] {
		d.next++
	}
	if d.rng.IntN(4) == 0 {
		if former := 1 + d.rng.IntN(d.members); !d.moves && d.members >= 3 {
			id = uint32(former)
		}
	}
	return Target("m" + strconv.Itoa(int(id)))
}
