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

// settle takes the steps of a leader that nothing delays: the voters of its term report their durable entries, the leader counts
// the copies, and entries are acknowledged. To do so late hides no stale read: none of these steps prevents another one, a later
// acknowledgement makes fewer reads stale, and a server that has applied less reads later.
func (m *Model) settle(w *world) {
	for i := range m.servers() {
		if m.Restarts == 0 {
			w.servers[i].durable = w.servers[i].length
		}
	}
	for i := range m.servers() {
		l := &w.servers[i]
		if !l.leads {
			continue
		}
		for j := range voters {
			s := &w.servers[j]
			if s.term != l.term {
				continue
			}
			l.copies[j] = max(l.copies[j], min(s.durable, common(l, s)))
			for k := range maxServers {
				if l.seen.contains(k) {
					l.heard[k] = l.heard[k].with(j)
				}
			}
		}
		l.commit = max(l.commit, l.countCopies())
		for w.acked < l.commit && (l.lacking[w.acked] == 0 || m.SkipsHolders) {
			w.acked++
		}
	}
}

// wait lets the length of a lease pass since an election.
func (m *Model) wait(w *world, election span) {
	w.waited = election
	for i := range w.servers {
		s := &w.servers[i]
		if !m.DropsEarly && s.lease.began != 0 && s.lease.began < election {
			s.lease = lease{}
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
	if w.spent.requests < m.Requests && s.request == 0 && (m.Requesters == 0 || m.Requesters.contains(i)) {
		n := *w
		n.spent.requests++
		r := &n.servers[i]
		r.request, r.requestTerm = w.wins, s.term
		if s.leads {
			r.see(i)
		}
		try(n, step{what: "%[1]d sends a request for a lease", a: i})
	}
	if s.offer.began != 0 {
		n := *w
		m.takeOffer(&n, i)
		try(n, step{what: "%[1]d has the grant", a: i})
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
	m.eachStepOfRead(w, i, try)
}

// see notes the request of a server.
func (l *leadership) see(from int) { l.seen, l.heard[from] = l.seen.with(from), 0 }

// takeOffer takes the grant that is on its way to a server.
func (m *Model) takeOffer(w *world, i int) {
	s := &w.servers[i]
	offer := s.offer
	s.offer = lease{}
	hasEnded := !m.DropsEarly && offer.began < w.waited
	if hasEnded || s.request == 0 && !m.TakesLateGrants {
		return
	}
	s.lease, s.request, s.requestTerm = offer, 0, 0
}

// restart begins a new process, which has so many entries.
func (s *server) restart(kept uint8, keepsLease bool) {
	before := s.lease
	*s = server{log: s.log, length: kept, durable: min(s.durable, kept), commit: 1, term: s.term}
	clear(s.log[kept:])
	if keepsLease {
		s.lease = before
	}
}

// eachElection lets a server be elected by each majority that has no longer log. The new leader appends an entry of its term, which
// is on its disk before it is sent.
func (m *Model) eachElection(w *world, i int, try func(world, step)) {
	s := &w.servers[i]
	if s.leads || s.length >= m.Log {
		return
	}
	for j := range voters {
		if j == i || !s.isUpToDate(&w.servers[j]) {
			continue
		}
		n := *w
		n.wins++
		c, voter := &n.servers[i], &n.servers[j]
		voter.enterTerm(uint8(n.wins))
		c.enterTerm(uint8(n.wins))
		all := c.members(c.length)
		if m.InheritsVotersOnly {
			all = c.members(0)
		}
		if m.LeadsAtOnce {
			all = 0
		}
		c.leadership = leadership{leads: true, won: n.wins, waits: true, roster: all.without(i)}
		for k := range c.length {
			c.lacking[k] = c.roster
		}
		c.append(entry(n.wins))
		c.durable = c.length
		c.copies[i] = c.durable
		try(n, step{what: "%[1]d is elected with the vote of %[2]d", a: i, b: j})
	}
}

// isUpToDate reports whether a voter may vote for the server.
func (s *server) isUpToDate(voter *server) bool {
	a, b := s.log[s.length-1].term(), voter.log[voter.length-1].term()
	return a > b || a == b && s.length >= voter.length
}

// append appends an entry to the log of a leader. Those in its roster do not hold it yet.
func (s *server) append(e entry) {
	s.log[s.length] = e
	s.lacking[s.length] = s.roster
	s.length++
}

// eachStepOfLeader makes the steps between a leader and another server, or itself.
func (m *Model) eachStepOfLeader(w *world, i, j int, try func(world, step)) {
	l, s := &w.servers[i], &w.servers[j]
	if i == j {
		m.eachOwnStepOfLeader(w, i, try)
	} else if s.term <= l.term {
		n := *w
		n.replicate(i, j)
		if n != *w {
			try(n, step{what: "%[1]d sends to %[2]d, which has %[3]d entries then", a: i, b: j, index: int(n.servers[j].length)})
		}
	}
	m.eachStepOfLease(w, i, j, try)
}

// replicate sends the next entry that a server lacks, or the index of the last committed one. The server reports the entries that it
// holds.
func (w *world) replicate(i, j int) {
	l, s := &w.servers[i], &w.servers[j]
	s.enterTerm(l.term)
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
	s.commit = max(s.commit, min(l.commit, n))
	for k := range n {
		l.lacking[k] = l.lacking[k].without(j)
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
	for k := range l.lacking {
		l.lacking[k] = l.lacking[k].without(j)
	}
}

// tryChange adds or removes the observer. A change waits for the one before and for an entry of the leader's term.
func (m *Model) tryChange(w *world, i int, try func(world, step)) {
	l := &w.servers[i]
	isSettled := l.hasObserver(l.length) == l.hasObserver(l.commit) && l.log[l.commit-1].term() == l.term
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
	n.servers[i].append(entry(l.term) | change)
	try(n, step{what: what, a: i})
}

// eachStepOfLease makes the steps of a leader for the lease of a server.
func (m *Model) eachStepOfLease(w *world, i, j int, try func(world, step)) {
	l, s := &w.servers[i], &w.servers[j]
	if i != j && s.request != 0 && (s.requestTerm == l.term || m.RequestsInAnyTerm) && !l.seen.contains(j) {
		n := *w
		n.servers[i].see(j)
		try(n, step{what: "%[1]d has the request of %[2]d", a: i, b: j})
	}
	if l.seen.contains(j) && (l.heard[j].isMajority() || m.GrantsUnconfirmed) && m.mayGrant(l, j) {
		n := *w
		n.grant(i, j)
		try(n, step{what: "%[1]d grants a lease to %[2]d", a: i, b: j})
	}
	if l.granted.contains(j) {
		n := *w
		n.servers[i].goWithout(j)
		if !m.DropsEarly {
			n.servers[j].endLease()
		}
		try(n, step{what: "%[1]d goes without %[2]d, because its lease is over", a: i, b: j})
	}
	if w.spent.returns < m.Returns && s.term == l.term && i != j && s.lease.began != 0 {
		n := *w
		n.spent.returns++
		n.servers[i].goWithout(j)
		r := &n.servers[j]
		r.lease, r.request, r.requestTerm = lease{}, 0, 0
		try(n, step{what: "%[2]d gives its lease back to %[1]d", a: i, b: j})
	}
}

// mayGrant reports whether a leader grants leases to a server.
func (m *Model) mayGrant(l *server, j int) bool {
	isMember := l.members(l.commit).contains(j) || m.GrantsEarly
	return isMember && l.members(l.length).contains(j)
}

// grant sends a grant.
func (w *world) grant(i, j int) {
	l, s := &w.servers[i], &w.servers[j]
	l.seen, l.heard[j] = l.seen.without(j), 0
	l.roster, l.granted = l.roster.with(j), l.granted.with(j)
	s.offer = lease{began: s.request, need: l.length}
	s.requestTerm = 0 // a leader replies to it once
}

// eachStepOfRead makes the steps of a read that takes time.
func (m *Model) eachStepOfRead(w *world, i int, try func(world, step)) {
	s := &w.servers[i]
	switch {
	case !m.Reads:
	case !s.reads && (s.mayRead(&m.Rules) || m.ChecksAfter):
		n := *w
		r := &n.servers[i]
		r.reads, r.readAcked = true, w.acked
		if m.ChecksAfter {
			r.readIndex, r.readTook = s.commit, true
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
		n.stale = s.readIndex < s.readAcked
		try(n, step{what: "%[1]d replies to the read", a: i})
	case s.readTook && !m.ChecksAfter && s.commit >= s.readIndex:
		n := *w
		n.servers[i].endRead()
		n.stale = s.commit < s.readAcked
		try(n, step{what: "%[1]d replies to the read", a: i})
	}
}

func (s *server) endRead() { s.reads, s.readTook, s.readIndex, s.readAcked = false, false, 0, 0 }
