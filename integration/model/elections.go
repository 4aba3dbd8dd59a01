package model

// leave makes a disk leave its term, for a later one or for ever. The acknowledgements that it gave in the old term may still be
// on their way, so the leaders of that term keep them.
func (m *Model) leave(s *state, i int) {
	d := &s.disks[i]
	if d.role == leader && m.Late {
		s.sent[d.term], s.said[d.term] = d.log, word{1 << i, d.durable}
	}
	if d.log != 0 {
		for j := range m.Disks {
			l := &s.disks[j]
			if j == i || l.role != leader || l.term != d.term {
				continue
			}
			first := m.logs.all[l.log].first(l.term)
			if index := m.logs.common(d.log, l.log); first != 0 && index >= first && index > l.ack(i) {
				l.setAck(i, index)
			}
		}
	}
	d.acks, d.durable = 0, 0
	if d.role != let {
		d.grants = 0
	}
	if d.role == leader || d.role == candidate {
		d.role = follower
	}
}

// stand makes a disk a candidate of the next term. It may do so at any time: a timeout, a hand-over and evidence that the leader
// died are all the same here, and a vote before the vote can only prevent an election. A leader steps down before it stands: see
// crash.
func (m *Model) stand(s *state, i int, to func(*state, step)) {
	if s.disks[i].term == m.Terms || !m.mayStand(s, i) {
		return
	}
	n := *s
	m.candidacy(&n, i)
	to(&n, step{kind: stand, a: i, n: n.disks[i].term})
}

// mayStand reports whether disk i may be a candidate: it has a vote in its own latest configuration.
func (m *Model) mayStand(s *state, i int) bool {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	if d.role == let {
		return m.ElectsItself && l.voters == 1<<i
	}
	return l.voters.has(i)
}

// candidacy makes disk i a candidate, which votes for itself.
func (m *Model) candidacy(s *state, i int) {
	m.leave(s, i)
	d := &s.disks[i]
	d.term, d.voted, d.role = d.term+1, true, candidate
	d.grants = m.logs.all[d.log].voters & (1 << i)
	m.elect(s, i)
}

// grant stores a vote of each disk that may vote for candidate i, and sends it.
func (m *Model) grant(s *state, i int, to func(*state, step)) {
	voters := m.logs.all[s.disks[i].log].voters
	for v := range m.Disks {
		if voters.has(v) && v != i {
			m.vote(s, v, v, i, to)
			if m.TakesVotes && v == m.Disks-2 {
				m.vote(s, v+1, v, i, to)
			}
		}
	}
}

// vote gives the vote of disk v to candidate i. The candidate takes it for the vote of disk as.
func (m *Model) vote(s *state, v, as, i int, to func(*state, step)) {
	if !m.votes(s, v, i) {
		return
	}
	n := *s
	if n.disks[v].term < n.disks[i].term {
		m.leave(&n, v)
	}
	d := &n.disks[v]
	d.term, d.voted = n.disks[i].term, true
	if d.role != let {
		d.role = follower
	}
	n.disks[i].grants |= 1 << as
	m.elect(&n, i)
	to(&n, step{kind: grant, a: v, b: i, n: n.disks[i].term})
}

// votes reports whether disk v votes for candidate i: it has not voted in that term, and the candidate's log is not older than its
// own. A disk votes whether its own configuration has a vote for it, or for the candidate, or not.
func (m *Model) votes(s *state, v, i int) bool {
	d, c := &s.disks[v], &s.disks[i]
	if !d.live() || d.term > c.term || d.term == c.term && (d.voted || d.role == leader) {
		return false
	}
	own, log := m.logs.all[d.log], m.logs.all[c.log]
	if own.lastTerm() > log.lastTerm() || own.lastTerm() == log.lastTerm() && own.length > log.length {
		return false
	}
	if m.ChecksCandidate && own.at != 0 && !own.voters.has(i) {
		return false
	}
	return d.role != let || !m.NeverVotes && (d.grants.has(i) || m.caughtUp(s, d))
}

// elect makes a candidate the leader if a majority of the voters in its latest configuration votes for it.
func (m *Model) elect(s *state, i int) {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	if !l.voters.majority(d.grants) {
		return
	}
	d.role, d.durable, d.grants, d.acks = leader, l.length, 0, 0
	if m.founded(d.log) {
		if s.led&(1<<d.term) != 0 {
			s.broken = twoLeaders
		}
		s.led |= 1 << d.term
		if !m.complete(s, d.log, d.term) {
			s.broken = lacksShown
		}
	}
}

// complete reports whether the leader of a term has each entry that was shown as committed in an earlier one.
func (m *Model) complete(s *state, log logID, term uint8) bool {
	length := m.logs.all[s.shown].length
	for length > 0 && s.shownIn(length) >= term {
		length--
	}
	return m.logs.common(log, s.shown) >= length
}
