package leasemodel

import "fmt"

// step is a step from one world to the next.
type step struct {
	what  string // with %d for the servers
	a, b  int
	index int
}

// String describes the step. Servers have the numbers from 1 on; the last one is the observer.
func (t step) String() string { return fmt.Sprintf(t.what, t.a+1, t.b+1, t.index) }

const majorityOfVoters = voters/2 + 1

// eachStep calls try with each world that a step from w leads to.
func (m *Model) eachStep(w *world, try func(next world, how step)) {
	for i := range m.servers() {
		m.eachOwnStep(w, i, try)
		for j := range m.servers() {
			if w.servers[i].leads {
				m.eachStepOfLeader(w, i, j, try)
			}
		}
	}
	for at := w.waited + 1; at <= w.wins; at++ {
		n := *w
		m.wait(&n, at)
		try(n, step{what: "the length of a lease has passed since election %[3]d", index: int(at)})
	}
}

// servers returns how many servers there are.
func (m *Model) servers() int {
	if m.Observer || m.Changes > 0 {
		return maxServers
	}
	return voters
}

// settle takes the steps that nothing delays: the voters of a leader's term report their durable entries, the leader releases
// entries, servers apply what they may, and what they have applied is shown. To do so late hides no stale read: none of these steps
// prevents another one, less is shown, and a server that has applied less reads later. With Words the reports are steps of their own,
// because a follower shows an entry before the leader knows of its copy.
func (m *Model) settle(w *world) {
	for i := range m.servers() {
		if m.Restarts == 0 {
			w.servers[i].durable = w.servers[i].length
		}
	}
	for i := range m.servers() {
		if w.servers[i].leads {
			m.hear(w, i)
			w.servers[i].applied = max(w.servers[i].applied, m.released(&w.servers[i]))
		}
	}
	for i := range m.servers() {
		if !m.Direct {
			w.servers[i].applyByWord(&m.Rules)
		}
		w.servers[i].forgetApplied(&m.Rules)
		w.servers[i].forgetEarlier(&m.Rules)
	}
	for i := range m.servers() {
		w.show(i)
	}
	m.judge(w)
}

// hear lets a leader hear from the voters of its term.
func (m *Model) hear(w *world, i int) {
	l := &w.servers[i]
	for j := range voters {
		s := &w.servers[j]
		if s.term != l.term {
			continue
		}
		if !m.Words || j == i {
			l.report(j, s)
		}
		for k := range maxServers {
			if l.seen.contains(k) {
				l.heard[k] = l.heard[k].with(j)
			}
		}
	}
	l.holds[i] = l.length
}

// report tells the leader what a voter has on its disk.
func (s *server) report(j int, voter *server) {
	s.copies[j] = max(s.copies[j], min(voter.durable, common(s, voter)))
}

// released returns how many entries a leader releases: those that are committed, and that all of the roster hold.
func (m *Model) released(l *server) uint8 {
	k := l.countCopies()
	if !m.SkipsHolders {
		k = min(k, l.heldBy(l.roster))
	}
	return min(k, m.bound(l))
}

// heldBy returns how many entries all servers of a set hold, as the leader knows.
func (s *server) heldBy(all servers) uint8 {
	k := s.length
	for j := range maxServers {
		if all.contains(j) {
			k = min(k, s.holds[j])
		}
	}
	return k
}

// lacking returns those of some servers that do not hold so many entries, as the leader knows.
func (s *server) lacking(some servers, entries uint8) (all servers) {
	for j := range maxServers {
		if some.contains(j) && s.holds[j] < entries {
			all = all.with(j)
		}
	}
	return all
}

// bound returns how many entries a leader may release at all. One that grants no leases does not release its TermStart while it
// waits for the leases of earlier terms: the next leader, if it has applied that entry, does not wait.
func (m *Model) bound(l *server) uint8 {
	start := l.termStart()
	if l.waits && l.log[start-1]&grantsLeases == 0 && !m.EndsLeasesEarly {
		return start - 1
	}
	return maxLog
}

// applyByWord applies what the leader's word and the server's disk allow: up to an entry of the leader's term, because those of earlier
// terms are not committed by their copies.
func (s *server) applyByWord(r *Rules) {
	k := min(s.word, s.durable)
	if r.WordSkipsDisk {
		k = min(s.word, s.length)
	}
	for k > s.applied && s.log[k-1].term() != s.term && !r.WordOnOldEntries {
		k--
	}
	s.applied = max(s.applied, k)
}

// limitToDirect returns how many of k entries a server may apply by its word, as far as the servers have told it directly that the word
// names.
func (m *Model) limitToDirect(s *server, k uint8) uint8 {
	for j := range maxServers {
		if !s.wordOf.contains(j) || m.DirectSkipsNamed {
			continue
		}
		from := s.mail[j]
		if from.term != s.term && !m.DirectOfOldTerms {
			return 0
		}
		k = min(k, from.index)
	}
	return k
}

// forgetApplied forgets words and messages about entries that the server has applied.
func (s *server) forgetApplied(r *Rules) {
	if s.word <= s.applied {
		s.word, s.wordOf = 0, 0
	}
	for j, from := range s.mail {
		if from.index <= s.applied || from.term < s.term && !r.DirectOfOldTerms {
			s.mail[j] = report{}
		}
	}
}

// applyDirect lets a server apply entries by the leader's word and by the direct messages that have arrived. With Direct it is a step of
// its own, because each message may arrive at any time.
func (m *Model) applyDirect(w *world, i int, try func(world, step)) {
	n := *w
	s := &n.servers[i]
	switch {
	case m.DirectSkipsWord:
		for j := range voters {
			if from := s.mail[j]; from.term == s.term {
				s.word = max(s.word, from.index)
			}
		}
	default:
		s.word = m.limitToDirect(s, s.word)
	}
	if s.applyByWord(&m.Rules); s.applied > w.servers[i].applied {
		s.word = w.servers[i].word
		try(n, step{what: "%[1]d applies %[3]d entries by the leader's word and direct messages", a: i, index: int(s.applied)})
	}
}

// show notes what a server has applied.
func (w *world) show(i int) {
	s := &w.servers[i]
	for k, e := range s.log[:s.applied] {
		if uint8(k) < w.applied && w.shown[k] != e {
			w.fault = forkedLogs
		}
		w.shown[k] = e
	}
	w.applied = max(w.applied, s.applied)
}

// judge notes whether a read that is made now lacks what was shown.
func (m *Model) judge(w *world) {
	for i := range m.servers() {
		s := &w.servers[i]
		hasApplied := s.applied == s.length || m.ReadsHalf
		if !m.Reads && s.mayRead(&m.Rules) && hasApplied && s.applied < w.applied {
			w.fault = staleRead
		}
		isLatest := s.won == w.wins || m.SyncsUnproven // a majority is in a later term, otherwise, and does not prove that it leads
		if s.leads && isLatest && m.syncIndex(s) < w.applied {
			w.fault = staleSync
		}
	}
}

// syncIndex returns the index that a leader tells to a member that asks for a read.
func (m *Model) syncIndex(l *server) uint8 {
	k := l.applied
	if !m.SyncsWithoutWord {
		k = max(k, l.given)
	}
	if !m.SyncsWithoutStart {
		k = max(k, l.termStart()-1)
	}
	return k
}

// wait lets the length of a lease pass since an election.
func (m *Model) wait(w *world, election span) {
	w.waited = election
	for i := range w.servers {
		if !m.DropsEarly {
			w.servers[i].dropLeases(&m.Rules, func(l lease) bool { return l.began < election })
		}
	}
}

// eachOwnStep makes the steps of one server that need no message of another.
func (m *Model) eachOwnStep(w *world, i int, try func(world, step)) {
	s := &w.servers[i]
	if s.durable < s.length && m.Restarts > 0 {
		n := *w
		n.servers[i].durable = s.length
		try(n, step{what: "%[1]d has its log on its disk", a: i})
	}
	if i < voters && w.wins < span(m.Elections)+1 {
		m.eachElection(w, i, try)
	}
	if w.spent.requests < m.Requests && s.request == 0 && !s.stops && (m.Requesters == 0 || m.Requesters.contains(i)) {
		n := *w
		m.request(&n, i)
		try(n, step{what: "%[1]d sends a request for a lease", a: i})
	}
	if s.offer.began != 0 {
		n := *w
		m.takeOffer(&n, i)
		try(n, step{what: "%[1]d has the grant", a: i})
	}
	if w.spent.returns < m.Returns && (s.hasLease() || s.request != 0) {
		n := *w
		n.spent.returns++
		r := &n.servers[i]
		r.lease, r.earlier, r.request, r.requestTerm, r.returns, r.stops = lease{}, [keptLeases]lease{}, 0, 0, true, m.Stops
		if !m.TakesLateGrants {
			r.offer = lease{}
		}
		try(n, step{what: "%[1]d drops its lease and its request, and says so", a: i})
	}
	if w.spent.restarts < m.Restarts {
		least := s.durable
		if i == observer {
			least = 1 // its disk may be lost, too: it has no vote that could be given twice
		}
		for kept := least; kept <= s.length; kept++ {
			n := *w
			n.spent.restarts++
			n.servers[i].restart(kept, m.KeepsLeases)
			try(n, step{what: "%[1]d is restarted, and has %[3]d entries", a: i, index: int(kept)})
		}
	}
	if m.Direct {
		m.applyDirect(w, i, try)
	}
	m.eachStepOfRead(w, i, try)
}

// request sends a request for a lease. The leader has no older one of the server: it is not replied to.
func (m *Model) request(w *world, i int) {
	w.spent.requests++
	for j := range w.servers {
		w.servers[j].seen = w.servers[j].seen.without(i)
	}
	s := &w.servers[i]
	s.request, s.requestTerm = w.wins, s.term
	if !m.TakesLateReturns {
		s.returns = false
	}
	if s.leads {
		m.see(s, i)
	}
}

// see notes the request of a server.
func (m *Model) see(l *server, from int) {
	l.seen, l.heard[from] = l.seen.with(from), 0
	if m.EndsAtArrival {
		l.ends[from] = l.length
	}
}

// takeOffer takes the grant that is on its way to a server.
func (m *Model) takeOffer(w *world, i int) {
	s := &w.servers[i]
	offer := s.offer
	s.offer = lease{}
	hasEnded := !m.DropsEarly && offer.began < w.waited
	if !hasEnded {
		s.take(offer)
		s.request, s.requestTerm = 0, 0
	}
}

// restart begins a new process, which has so many entries.
func (s *server) restart(kept uint8, keepsLease bool) {
	before := *s
	*s = server{log: s.log, length: kept, durable: min(s.durable, kept), applied: 1, term: s.term, returns: s.returns, mail: s.mail}
	clear(s.log[kept:])
	if keepsLease {
		s.lease, s.earlier = before.lease, before.earlier
	}
}

// eachElection lets a server be elected by each majority that has no longer log. The new leader appends an entry of its term, which
// is on its disk before it is sent.
func (m *Model) eachElection(w *world, i int, try func(world, step)) {
	s := &w.servers[i]
	leadsLast := s.leads && s.won == w.wins
	if leadsLast || s.length >= m.Log {
		return
	}
	for j := range voters {
		if j == i || !s.isUpToDate(&w.servers[j]) {
			continue
		}
		n := *w
		n.wins++
		m.enterTerm(&n.servers[j], uint8(n.wins))
		m.enterTerm(&n.servers[i], uint8(n.wins))
		m.lead(&n, i, grantsLeases)
		try(n, step{what: "%[1]d is elected with the vote of %[2]d", a: i, b: j})
		if m.Modes {
			n = *w
			n.wins++
			m.enterTerm(&n.servers[j], uint8(n.wins))
			m.enterTerm(&n.servers[i], uint8(n.wins))
			m.lead(&n, i, 0)
			try(n, step{what: "%[1]d, which grants no leases, is elected with the vote of %[2]d", a: i, b: j})
		}
	}
}

// lead makes a server the leader of its term.
func (m *Model) lead(w *world, i int, mode entry) {
	l := &w.servers[i]
	l.leadership = leadership{leads: true, won: w.wins}
	if l.mayHaveLeases(&m.Rules) && !m.LeadsAtOnce {
		l.waits, l.roster = true, l.members(l.length)
		if m.InheritsVotersOnly {
			l.roster = l.members(0)
		}
	}
	l.append(entry(w.wins) | startsTerm | mode)
	l.durable = l.length
	l.copies[i] = l.durable
}

// enterTerm brings a server to a term of another leader. What a deposed leader has not released it does not apply.
func (m *Model) enterTerm(s *server, term uint8) {
	if term <= s.term {
		return
	}
	if s.leads && m.AppliesWhenDeposed {
		s.applied = max(s.applied, s.countCopies())
	}
	s.term, s.word, s.wordOf = term, 0, 0
	s.stepDown()
}

// isUpToDate reports whether a voter may vote for the server.
func (s *server) isUpToDate(voter *server) bool {
	a, b := s.log[s.length-1].term(), voter.log[voter.length-1].term()
	return a > b || a == b && s.length >= voter.length
}

// append appends an entry to the log of a leader.
func (s *server) append(e entry) {
	s.log[s.length] = e
	s.length++
}

// eachStepOfLeader makes the steps between a leader and another server, or itself.
func (m *Model) eachStepOfLeader(w *world, i, j int, try func(world, step)) {
	l, s := &w.servers[i], &w.servers[j]
	if i == j {
		m.eachOwnStepOfLeader(w, i, try)
	} else if s.term <= l.term {
		n := *w
		m.replicate(&n, i, j)
		if n != *w {
			try(n, step{what: "%[1]d sends to %[2]d, which has %[3]d entries then", a: i, b: j, index: int(n.servers[j].length)})
		}
	}
	if m.Words && i != j && j < voters {
		m.giveWord(w, i, j, try)
		n := *w
		if n.servers[i].report(j, s); s.term == l.term && n != *w {
			try(n, step{what: "%[2]d reports to %[1]d that its disk has %[3]d entries", a: i, b: j, index: int(n.servers[i].copies[j])})
		}
	}
	m.eachStepOfLease(w, i, j, try)
}

// giveWord lets a leader give its word to a follower.
func (m *Model) giveWord(w *world, i, j int, try func(world, step)) {
	l, s := &w.servers[i], &w.servers[j]
	if s.term > l.term {
		return
	}
	word := l.durable
	if m.WordSkipsLeadersDisk {
		word = l.length
	}
	var of servers
	switch others := l.roster.without(i).without(j); {
	case m.WordSkipsHolders:
	case m.Direct:
		of = l.lacking(others, word)
	default:
		word = min(word, l.heldBy(others))
	}
	word = min(word, m.bound(l))
	if m.WordOnOldEntries {
		word = min(word, common(l, s))
	}
	n := *w
	m.enterTerm(&n.servers[j], l.term)
	if c := &n.servers[j]; word > c.applied && (word > c.word || word == c.word && of != c.wordOf) {
		c.word, c.wordOf = word, of
		n.servers[i].given = max(l.given, word)
		try(n, step{what: "%[1]d gives %[2]d its word for %[3]d entries", a: i, b: j, index: int(word)})
	}
}

// replicate sends the next entry that a server lacks, or the index of the last committed one. The server reports the entries that it
// holds.
func (m *Model) replicate(w *world, i, j int) {
	l, s := &w.servers[i], &w.servers[j]
	m.enterTerm(s, l.term)
	n := common(l, s)
	if n < l.length {
		s.log[n] = l.log[n]
		if n < s.length {
			clear(s.log[n+1:])
			s.durable = min(s.durable, n)
		}
		n++
		s.length = n
	}
	told := l.applied
	if m.TellsCommitted {
		told = max(told, l.countCopies())
		l.given = max(l.given, told)
	}
	s.applied = max(s.applied, min(told, n))
	l.holds[j] = max(l.holds[j], n)
	if m.Direct && s.log[n-1].term() == l.term {
		w.tellDirectly(j, report{l.term, n})
	}
}

// tellDirectly sends a server's message that it holds entries to the other voters. It replaces an earlier one.
func (w *world) tellDirectly(from int, r report) {
	for f := range voters {
		if f != from {
			w.servers[f].mail[from] = r
		}
	}
}

// eachOwnStepOfLeader makes the steps of a leader alone.
func (m *Model) eachOwnStepOfLeader(w *world, i int, try func(world, step)) {
	l := &w.servers[i]
	if l.length < m.Log {
		n := *w
		n.servers[i].append(entry(l.term))
		try(n, step{what: "%[1]d appends a write", a: i})
		m.tryChange(w, i, try)
	}
	if l.waits && l.won <= w.waited {
		n := *w
		c := &n.servers[i]
		c.waits = false
		for j := range maxServers {
			if !l.granted.contains(j) {
				c.goWithout(j)
			}
		}
		try(n, step{what: "%[1]d has waited for the leases of earlier terms", a: i})
	}
}

// countCopies returns how many entries are committed: those up to one of the leader's term that a majority has on its disks.
func (s *server) countCopies() uint8 {
	for k := s.length; k > 0 && s.log[k-1].term() == s.term; k-- {
		n := 0
		for _, copies := range s.copies {
			if copies >= k {
				n++
			}
		}
		if n >= majorityOfVoters {
			return k
		}
	}
	return 0
}

// goWithout removes a server from the roster.
func (l *leadership) goWithout(j int) {
	l.roster, l.granted = l.roster.without(j), l.granted.without(j)
}

// tryChange adds or removes the observer. A change waits for the one before and for an entry of the leader's term.
func (m *Model) tryChange(w *world, i int, try func(world, step)) {
	l := &w.servers[i]
	isSettled := l.hasObserver(l.length) == l.hasObserver(l.applied) && l.log[l.applied-1].term() == l.term
	if w.spent.changes == m.Changes || !isSettled {
		return
	}
	change, what := entry(addsObserver), "%[1]d appends that the observer is a member"
	if l.hasObserver(l.length) {
		change, what = removesServer, "%[1]d appends that the observer is removed"
		if l.roster.contains(observer) && !m.RemovesWithLease {
			return
		}
	}
	n := *w
	n.spent.changes++
	c := &n.servers[i]
	c.append(entry(l.term) | change)
	if c.waits && change == addsObserver {
		c.roster = c.roster.with(observer)
	}
	try(n, step{what: what, a: i})
}

// eachStepOfLease makes the steps of a leader for the lease of a server.
func (m *Model) eachStepOfLease(w *world, i, j int, try func(world, step)) {
	l, s := &w.servers[i], &w.servers[j]
	if i != j && s.request != 0 && (s.requestTerm == l.term || m.RequestsInAnyTerm) && !l.seen.contains(j) {
		n := *w
		m.see(&n.servers[i], j)
		try(n, step{what: "%[1]d has the request of %[2]d", a: i, b: j})
	}
	if l.seen.contains(j) && (l.heard[j].isMajority() || m.GrantsUnconfirmed) && m.mayGrant(l, j) {
		n := *w
		m.grant(&n, i, j)
		try(n, step{what: "%[1]d grants a lease to %[2]d", a: i, b: j})
	}
	if l.granted.contains(j) {
		n := *w
		n.servers[i].goWithout(j)
		if !m.DropsEarly {
			n.servers[j].endLease(&m.Rules, l.term)
		}
		try(n, step{what: "%[1]d goes without %[2]d, because its lease is over", a: i, b: j})
	}
	if s.returns && i != j {
		n := *w
		n.servers[i].goWithout(j)
		n.servers[j].returns = false
		try(n, step{what: "%[1]d hears that %[2]d has dropped its lease", a: i, b: j})
	}
}

// mayGrant reports whether a leader grants leases to a server.
func (m *Model) mayGrant(l *server, j int) bool {
	start := l.termStart()
	hasStarted := l.applied >= start || m.GrantsBeforeStart
	isMember := l.members(l.applied).contains(j) || m.GrantsEarly
	return l.log[start-1]&grantsLeases != 0 && hasStarted && isMember && l.members(l.length).contains(j)
}

// grant sends a grant.
func (m *Model) grant(w *world, i, j int) {
	l, s := &w.servers[i], &w.servers[j]
	l.seen, l.heard[j] = l.seen.without(j), 0
	l.roster, l.granted = l.roster.with(j), l.granted.with(j)
	s.offer = lease{began: s.request, need: l.length, term: l.term}
	if m.EndsAtArrival {
		s.offer.need, l.ends[j] = l.ends[j], 0
	}
	s.requestTerm = 0
}

// eachStepOfRead makes the steps of a read that takes time.
func (m *Model) eachStepOfRead(w *world, i int, try func(world, step)) {
	s := &w.servers[i]
	switch {
	case !m.Reads:
	case !s.reads && (s.mayRead(&m.Rules) || m.ChecksAfter):
		n := *w
		r := &n.servers[i]
		r.reads, r.readShown = true, w.applied
		if m.ChecksAfter {
			r.readIndex, r.readTook = s.applied, true
		}
		try(n, step{what: "%[1]d begins a read", a: i})
	case s.reads && !s.readTook:
		n := *w
		r := &n.servers[i]
		r.readIndex, r.readTook = s.length, true
		try(n, step{what: "%[1]d takes the index of the last entry that it holds", a: i})
	case s.readTook && m.ChecksAfter && s.mayRead(&m.Rules):
		n := *w
		n.servers[i].endRead()
		if s.readIndex < s.readShown {
			n.fault = staleRead
		}
		try(n, step{what: "%[1]d replies to the read", a: i})
	case s.readTook && !m.ChecksAfter && s.applied >= s.readIndex:
		n := *w
		n.servers[i].endRead()
		if s.applied < s.readShown {
			n.fault = staleRead
		}
		try(n, step{what: "%[1]d replies to the read", a: i})
	}
}

func (s *server) endRead() { s.reads, s.readTook, s.readIndex, s.readShown = false, false, 0, 0 }
