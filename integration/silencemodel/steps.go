package silencemodel

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Play plays one random schedule, and returns by how many steps the session ended early; 0 if it did not.
func Play(rules Rules, seed uint64) (early int) {
	w := newWorld(rules, rand.New(rand.NewPCG(seed, 70)))
	for w.now = 1; w.now < 20*timeout && !w.expired; w.now++ {
		for i := range w.all {
			w.all[i].clock += w.all[i].rate
		}
		w.disturb()
		w.client()
		w.readBeats()
		w.lead()
		w.ledSteps = append(w.ledSteps, w.leader >= 0)
	}
	return w.early
}

// one reports whether something happens that happens once in n steps.
func (w *world) one(n int) bool { return w.rng.IntN(n) == 0 }

// disturb loses, pauses, cuts off and starts members, changes the leader, and moves the session.
func (w *world) disturb() {
	i := w.rng.IntN(members)
	p := &w.all[i]
	switch {
	case w.one(120) && p.up:
		*p = process{rate: p.rate, clock: p.clock, run: p.run + 1, linked: true}
		if w.leader == i {
			w.leader = -1
		}
	case w.one(40) && !p.up:
		p.up = true
	case w.one(150) && p.up && w.now >= p.pausedTill:
		p.pausedTill = w.now + w.rng.IntN(timeout)
		p.readsFrom = p.pausedTill + w.rng.IntN(timeout/3-1)
	case w.one(60):
		p.linked = !p.linked
	case w.one(200) && w.leader >= 0:
		w.leader = -1 // it hands over, or is given up
	case w.one(150) && !w.clientDead && p.up && w.pendingMove < 0:
		w.pendingMove = i
	case w.one(300):
		w.clientDead = true
	}
	if w.leader < 0 && w.one(8) {
		w.elect(w.rng.IntN(members))
	}
}

// elect makes a member lead if a majority votes.
func (w *world) elect(i int) {
	votes := 0
	for j := range w.all {
		if w.runs(j) && (j == i || w.all[j].linked) {
			votes++
		}
	}
	if !w.runs(i) || votes <= members/2 {
		return
	}
	for j := range w.all {
		if w.runs(j) && (j == i || w.all[j].linked) {
			w.all[j].raftTerm = w.term + 1
		}
	}
	w.moveIfPending() // what was committed before the term's start
	w.leader, w.term = i, w.term+1
	p := &w.all[i]
	w.deadline, w.unheard, w.begun, w.counted = p.clock+timeout, true, p.clock, false
	w.reports, w.nextPing = map[int]lostReport{}, w.now
	for j := range w.lived {
		w.lived[j], w.through[j] = p.clock, w.lastIndex
	}
	w.apply(i)
}

func (w *world) moveIfPending() {
	if m := w.pendingMove; m >= 0 && w.all[m].up {
		w.setOwner(m)
	}
	w.pendingMove = -1
}

// client lets the client send a request, which its member reads unless it is paused.
func (w *world) client() {
	p := &w.all[w.owner]
	present := p.up && p.run == w.ownerRun && p.holds && p.holdsAt == w.ownerIndex
	if !present {
		return
	}
	if !w.clientDead && w.now >= w.nextRequest {
		w.nextRequest = w.now + timeout/3 - w.rng.IntN(4)
		p.unread = true
	}
	if p.unread && w.now >= p.pausedTill && w.now >= p.readsFrom {
		p.unread = false
		p.heard = p.clock
		w.hearings = append(w.hearings, hearing{w.now, w.owner, p.run, w.ownerIndex, false})
	}
}

// readBeats lets members read the heartbeats that have come. A leader sends one when it has received the reply to the one before, so it led
// when that reply was sent.
func (w *world) readBeats() {
	for i := range w.all {
		p := &w.all[i]
		if !w.runs(i) {
			continue
		}
		for _, term := range p.beats {
			if term < p.raftTerm {
				continue
			}
			p.raftTerm = term
			switch {
			case term == p.pingTerm && !w.rules.LeadProved:
				p.led = p.clock
			case term == p.pingTerm && term == p.repliedTerm:
				p.led = p.replied
			}
			p.repliedTerm, p.replied = term, p.clock
		}
		p.beats = nil
	}
}

// sendBeats sends heartbeats to the members that have replied to the last one. They may be read later, after a pause. The leader itself
// knows that it leads while a majority replies.
func (w *world) sendBeats() {
	for i := range w.all {
		if p := &w.all[i]; i != w.leader && p.up && p.linked && !slices.Contains(p.beats, w.term) {
			p.beats = append(p.beats, w.term)
		}
	}
	if l := &w.all[w.leader]; l.pingTerm == w.term && w.hasMajority() {
		l.led = l.clock
	}
}

// lead is a step of the leader.
func (w *world) lead() {
	if w.leader < 0 || !w.runs(w.leader) {
		return
	}
	if w.hasMajority() {
		w.moveIfPending()
	}
	for i := range w.all {
		if w.reaches(i) && w.one(4) {
			w.apply(i)
		}
	}
	w.sendBeats()
	if w.now >= w.nextPing {
		w.nextPing = w.now + pingGap
		w.pingAll()
	}
	if w.all[w.leader].clock >= w.deadline && w.hasMajority() {
		if w.pingAll(); w.all[w.leader].clock >= w.deadline {
			w.expire()
		}
	}
}

// pingAll pings the members that are reached, and enters what they reply. Touches are acknowledged if a majority replies: then it has
// the report that was written after they came.
func (w *world) pingAll() {
	l := &w.all[w.leader]
	proved := w.hasMajority()
	for i := range w.all {
		if w.reaches(i) {
			w.lived[i], w.through[i] = l.clock, w.lastIndex
		}
	}
	for i := range w.all {
		if w.reaches(i) {
			w.ping(i, proved)
			w.countLost()
		}
	}
}

func (w *world) ping(i int, proved bool) {
	p, l := &w.all[i], &w.all[w.leader]
	if p.pingTerm != w.term {
		w.endTerm(p)
	}
	p.pingTerm, p.raftTerm, p.lastPing = w.term, w.term, p.clock
	if _, ok := w.reports[i]; !ok && p.before.term != 0 {
		w.reports[i] = p.before
	}
	p.report = lostReport{term: w.term}
	for j := range w.lived {
		if silent := l.clock - w.lived[j]; silent > 2*pingGap {
			p.report.silent[j], p.report.through[j] = silent, w.through[j]
		}
	}
	if !p.holds {
		return
	}
	owns := i == w.owner && p.run == w.ownerRun && p.applied >= w.ownerIndex
	if (owns || !w.rules.OwnerAtIndex) && w.unheard {
		w.lower(w.silence(p))
		w.unheard = false
	}
	if i == w.owner && p.heard > p.acked {
		if at := l.clock - (p.clock - p.heard); at+timeout > w.deadline {
			w.deadline = at + timeout
		}
		w.unheard = false
		if proved && w.one(2) { // otherwise the acknowledgement is lost
			p.acked = p.heard
		}
		if proved {
			for k := range w.hearings {
				if h := &w.hearings[k]; h.member == i && h.run == p.run {
					h.acked = true
				}
			}
		}
	}
}

// endTerm records that a process gets its first ping of a term: the time without a leader, and what the leader before has said.
func (w *world) endTerm(p *process) {
	led := p.lastPing
	if p.led > 0 && (p.led-p.lastPing <= 2*pingGap || !w.rules.LeadProved) {
		led = p.led
	}
	p.gaps = append(p.gaps, gap{led, p.clock})
	if !w.rules.ReportsStop {
		led = p.clock
	}
	p.before, p.led = p.report, 0
	for j := range p.before.silent {
		if p.before.silent[j] > 0 {
			p.before.silent[j] += max(0, led-p.lastPing)
		}
	}
}

func (w *world) lower(silent float64) {
	left := timeout - silent
	if w.rules.LeastRest {
		left = max(left, timeout/3)
	}
	w.deadline = w.all[w.leader].clock + left
	w.loweredIn, w.loweredAt = w.term, w.now
}

// countLost counts the silence of lost members once enough have said what they know.
func (w *world) countLost() {
	need := members/2 + 1
	if !w.rules.Majority {
		need = 1
	}
	if w.counted || len(w.reports) < need {
		return
	}
	w.counted = true
	newest := 0
	for _, r := range w.reports {
		newest = max(newest, r.term)
	}
	for j := range w.lived {
		least := math.Inf(1)
		if !w.rules.NewestLeast {
			least = 0
		}
		through := w.through[j]
		for _, r := range w.reports {
			switch {
			case !w.rules.NewestLeast:
				least, through = max(least, r.silent[j]), max(through, r.through[j])
			case r.term == newest:
				least, through = min(least, r.silent[j]), min(through, r.through[j])
			}
		}
		if w.lived[j] == w.begun && least > 0 && j != w.leader {
			w.lived[j], w.through[j] = w.lived[j]-least, through
		}
	}
	silent := w.all[w.leader].clock - w.lived[w.owner]
	if w.rules.ThroughIndex && w.ownerIndex > w.through[w.owner] {
		return
	}
	if w.unheard && w.owner != w.leader && silent > 2*pingGap {
		w.lower(silent)
	}
}

// expire ends the session, and checks whether that is early.
func (w *world) expire() {
	w.expired = true
	o := &w.all[w.owner]
	for _, h := range w.hearings {
		canTell := w.reaches(h.member) && h.member == w.owner && h.run == o.run
		if !h.acked && !canTell {
			continue
		}
		led := 0
		for _, on := range w.ledSteps[min(h.at, len(w.ledSteps)):] {
			if on {
				led++
			}
		}
		w.early = max(w.early, timeout*10/11-slack-led)
	}
	if !w.clientDead && o.unread && w.reaches(w.owner) && o.run == w.ownerRun && w.loweredIn == w.term && w.now-w.loweredAt < timeout/4 {
		w.early = max(w.early, 1) // the member that told its silence was about to read the request of a living client
	}
}
