package model

// leaveTerm makes a disk leave its term, for a later one or for ever. The acknowledgements that it gave in the old term may still be
// on their way, so the leaders of that term keep them.
func (m *Model) leaveTerm(s *modelState, i int) {
	d := &s.disks[i]
	if d.role == leader && m.Late {
		s.sentLogs[d.term], s.toldDurable[d.term] = d.log, durableWord{1 << i, m.durable(d), d.acks}
	}
	if d.log != 0 {
		m.keepForLeaders(s, d, i)
	}
	if m.CountsFormerTerms {
		m.keepAcknowledgements(s, i)
	} else {
		d.acks = 0
	}
	d.queued = 0 // the process waits for its disk before it enters a term
	if d.role != admitted {
		d.grants = 0
	}
	if d.role == leader || d.role == candidate {
		d.role = follower
	}
}

// keepForLeaders makes the leader of the term of disk i, which is d, and those to which disk i has acknowledged entries directly, remember
// what it can acknowledge.
func (m *Model) keepForLeaders(s *modelState, d *diskState, i int) {
	for j := range m.Disks {
		if l := &s.disks[j]; j != i && l.role == leader && l.term == d.term {
			m.keepAcknowledgement(s, &l.acks, l.log, d, i)
		}
	}
	if log := s.sentLogs[d.term]; log != 0 && d.role != leader && d.takesPart() {
		m.keepAcknowledgement(s, &s.toldDurable[d.term].acks, log, d, i)
	}
}

// keepAcknowledgements makes disk i remember what others can acknowledge to it, if it leads.
func (m *Model) keepAcknowledgements(s *modelState, i int) {
	d := &s.disks[i]
	for j := range m.Disks {
		if f := &s.disks[j]; j != i && d.role == leader && f.takesPart() && f.term == d.term {
			m.keepAcknowledgement(s, &d.acks, d.log, f, j)
		}
	}
}

// keepAcknowledgement adds what disk i, which is f, can acknowledge to those that are kept of the leader of its term, with a log.
func (m *Model) keepAcknowledgement(s *modelState, acks *acknowledgements, log logID, f *diskState, i int) {
	first := m.logs.all[log].firstOfTerm(f.term)
	if index := m.acknowledgeable(s, f, log); first != 0 && index >= first && index > acks.of(i) {
		acks.set(i, index)
	}
}

// standForElection makes a disk a candidate of the next term. It may do so at any time: a timeout, a hand-over and evidence that the leader
// died are all the same here, and a vote before the vote can only prevent an election. A leader steps down before it stands: see
// crash.
func (m *Model) standForElection(s *modelState, i int, to func(*modelState, transition)) {
	if s.disks[i].term == m.Terms || !m.mayStand(s, i) {
		return
	}
	n := *s
	m.becomeCandidate(&n, i)
	to(&n, transition{kind: stand, disk: i, value: n.disks[i].term})
}

// mayStand reports whether disk i may be a candidate: it has a vote in its own latest configuration.
func (m *Model) mayStand(s *modelState, i int) bool {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	if d.role == admitted {
		return m.ElectsItself && l.voters == 1<<i
	}
	return l.voters.contains(i)
}

// becomeCandidate makes disk i a candidate, which votes for itself.
func (m *Model) becomeCandidate(s *modelState, i int) {
	m.leaveTerm(s, i)
	d := &s.disks[i]
	d.term, d.voted, d.role = d.term+1, true, candidate
	d.grants = m.logs.all[d.log].voters & (1 << i)
	m.electIfMajority(s, i)
}

// grantVotes stores a vote of each disk that may vote for candidate i, and sends it.
func (m *Model) grantVotes(s *modelState, i int, to func(*modelState, transition)) {
	voters := m.logs.all[s.disks[i].log].voters
	for v := range m.Disks {
		if voters.contains(v) && v != i {
			m.giveVote(s, v, v, i, to)
			if m.TakesVotes && v == m.Disks-2 {
				m.giveVote(s, v+1, v, i, to)
			}
		}
	}
}

// giveVote gives the vote of disk v to candidate i. The candidate takes it for the vote of disk as.
func (m *Model) giveVote(s *modelState, v, as, i int, to func(*modelState, transition)) {
	if !m.mayVoteFor(s, v, i) {
		return
	}
	n := *s
	if n.disks[v].term < n.disks[i].term {
		m.leaveTerm(&n, v)
	}
	d := &n.disks[v]
	d.term, d.voted = n.disks[i].term, true
	if d.role != admitted {
		d.role = follower
	}
	n.disks[i].grants |= 1 << as
	m.electIfMajority(&n, i)
	to(&n, transition{kind: grant, disk: v, other: i, value: n.disks[i].term})
}

// mayVoteFor reports whether disk v votes for candidate i: it has not voted in that term, and the candidate's log is not older than its
// own. A disk votes whether its own configuration has a vote for it, or for the candidate, or not.
func (m *Model) mayVoteFor(s *modelState, v, i int) bool {
	d, c := &s.disks[v], &s.disks[i]
	if !d.takesPart() || d.term > c.term || d.term == c.term && (d.voted || d.role == leader) {
		return false
	}
	own, log := m.logs.all[d.log], m.logs.all[c.log]
	if own.lastTerm() > log.lastTerm() || own.lastTerm() == log.lastTerm() && own.length > log.length {
		return false
	}
	if m.ChecksCandidate && own.configurationIndex != 0 && !own.voters.contains(i) {
		return false
	}
	return d.role != admitted || !m.NeverVotes && (d.grants.contains(i) || m.caughtUp(s, d))
}

// electIfMajority makes a candidate the leader if a majority of the voters in its latest configuration votes for it.
func (m *Model) electIfMajority(s *modelState, i int) {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	if !l.voters.hasMajority(d.grants) {
		return
	}
	d.role, d.grants = leader, 0
	if !m.CountsFormerTerms {
		d.acks = 0
	}
	if m.isFounded(d.log) {
		if s.termsLed&(1<<d.term) != 0 {
			s.broken = twoLeaders
		}
		s.termsLed |= 1 << d.term
		if !m.hasAllShownBefore(s, d.log, d.term) {
			s.broken = lacksShown
		}
	}
}

// hasAllShownBefore reports whether the leader of a term has each entry that was shown as committed in an earlier one.
func (m *Model) hasAllShownBefore(s *modelState, log logID, term uint8) bool {
	length := m.logs.all[s.shown].length
	for length > 0 && s.shownInTerm(length) >= term {
		length--
	}
	return m.logs.commonLength(log, s.shown) >= length
}
