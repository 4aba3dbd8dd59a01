package silencemodel

import "math/rand/v2"

// Times are in steps.
const (
	members = 3
	pingGap = 10 // half a tick
	timeout = 60
	slack   = 3 // steps in which things happen one after the other here, and at once in reality
)

// Rules are the conditions under which a deadline is lowered.
type Rules struct {
	OwnerAtIndex bool // a member's silence counts only for a session that it owned at the index it had applied
	AllHeard     bool // it is since all that the member has heard, acknowledged or not
	GapsExcluded bool // without the time in which there was no leader
	LeadProved   bool // which begins at a time at which the leader led, soon after its ping, and not when a heartbeat was read
	LeastRest    bool // at least a third of the timeout is left
	Majority     bool // what is known of lost members comes from a majority
	NewestLeast  bool // and is what the newest term says, and the least
	ThroughIndex bool // for sessions that the member owned when it was last heard
	ReportsStop  bool // and lasts until the leader that said it is last known to have led
}

// All are the rules of the protocol.
var All = Rules{true, true, true, true, true, true, true, true, true}

// process is a member. Its times are of its own clock.
type process struct {
	rate       float64
	clock      float64
	up         bool
	run        int // counts its starts
	pausedTill int // steps of real time
	readsFrom  int // real time from which on requests that came in a pause are read
	unread     bool
	linked     bool // with the leader
	applied    int  // index

	heard, acked   float64 // when it heard the session, and the newest that was acknowledged; of the connection it owns
	holds          bool    // it has a record of the session, from index holdsAt on
	holdsAt        int
	gaps           []gap
	lastPing       float64
	pingTerm       int
	raftTerm       int     // the latest that it knows
	beats          []int   // terms of the heartbeats that it has not read
	repliedTerm    int     // of the last heartbeat that it has replied to
	replied        float64 // when
	led            float64 // the last time at which the leader of the last ping is known to have led; 0: unknown
	report, before lostReport
}

type gap struct{ from, to float64 }

// lostReport is for how long a leader has not heard each member.
type lostReport struct {
	term    int
	silent  [members]float64
	through [members]int
}

// hearing is one moment at which a member heard the client.
type hearing struct {
	at          int // real time
	member, run int
	index       int // of the owner that heard it
	acked       bool
}

// world is an ensemble, one session, and what really happened.
type world struct {
	rules Rules
	rng   *rand.Rand
	now   int
	all   [members]process

	owner, ownerRun, ownerIndex int // by the log
	lastIndex                   int
	pendingMove                 int // a member at which the client shows its session; -1: none
	clientDead                  bool
	nextRequest                 int

	leader, term int // leader is -1 if there is none
	ledSteps     []bool
	deadline     float64 // of the leader's clock
	unheard      bool
	lived        [members]float64 // of the leader's clock
	through      [members]int     // the index that was applied then
	begun        float64
	reports      map[int]lostReport
	counted      bool
	nextPing     int
	loweredIn    int // the term in which a silence was counted last
	loweredAt    int

	hearings []hearing
	expired  bool
	early    int // steps by which the session ended early; 0: it did not
}

func newWorld(rules Rules, rng *rand.Rand) *world {
	w := &world{rules: rules, rng: rng, leader: -1, pendingMove: -1}
	for i := range w.all {
		w.all[i] = process{rate: []float64{0.9, 1, 1.1}[rng.IntN(3)], up: true, linked: true}
	}
	w.lastIndex = 1
	w.setOwner(rng.IntN(members))
	return w
}

// setOwner is an entry that gives the session to a member.
func (w *world) setOwner(m int) {
	w.lastIndex++
	w.owner, w.ownerRun, w.ownerIndex = m, w.all[m].run, w.lastIndex
	if w.leader >= 0 {
		w.deadline, w.unheard = w.all[w.leader].clock+timeout, false
	}
	w.hearings = append(w.hearings, hearing{w.now, m, w.all[m].run, w.ownerIndex, true})
}

// apply lets a member apply the log.
func (w *world) apply(i int) {
	p := &w.all[i]
	if p.applied = w.lastIndex; w.owner == i && w.ownerRun == p.run {
		if !p.holds || p.holdsAt != w.ownerIndex {
			p.holds, p.holdsAt, p.heard, p.acked = true, w.ownerIndex, p.clock, p.clock
		}
	} else {
		p.holds = false
	}
}

func (w *world) runs(i int) bool { return w.all[i].up && w.now >= w.all[i].pausedTill }

func (w *world) reaches(i int) bool {
	return w.leader >= 0 && w.runs(w.leader) && w.runs(i) && (i == w.leader || w.all[i].linked)
}

func (w *world) hasMajority() bool {
	n := 0
	for i := range w.all {
		if w.reaches(i) {
			n++
		}
	}
	return n > members/2
}

// silence returns for how long a process has not heard the session, by its own clock.
func (w *world) silence(p *process) float64 {
	heard := p.heard
	if !w.rules.AllHeard {
		heard = p.acked
	}
	silent := p.clock - heard
	if w.rules.GapsExcluded {
		for _, g := range p.gaps {
			silent -= max(0, g.to-max(g.from, heard))
		}
	}
	return max(0, silent)
}
