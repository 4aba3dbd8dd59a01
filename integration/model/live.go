package model

// A majority makes progress if some steps without faults lead to a leader that commits an entry. The search tries steps
// of one kind, which is enough: a disk stands for election in a new term, gets all votes that it can get, and sends its
// log to all. All processes count as just restarted, because in each state the power may have failed everywhere, and
// some disks are back.

// findStuckMajority reports whether some disks should make progress and cannot, and returns them.
func (m *Model) findStuckMajority(s *modelState) (up diskSet, stuck bool) {
	if m.seenBefore(s) {
		return 0, false
	}
	var there diskSet
	for i := range m.Disks {
		if s.disks[i].takesPart() {
			there |= 1 << i
		}
	}
	for up := there; up != 0; up = (up - 1) & there {
		if m.isEnough(s, up) && !m.canServe(s, up) {
			return up, true
		}
	}
	return 0, false
}

// seenBefore reports whether there was such a state already. What happens in a new term depends on the logs alone.
func (m *Model) seenBefore(s *modelState) bool {
	logs := modelState{shown: s.shown}
	for i := range m.Disks {
		d := &s.disks[i]
		logs.disks[i] = diskState{log: d.log, role: follower}
		if !d.takesPart() {
			logs.disks[i].role = gone
		}
	}
	m.canonicalize(&logs)
	key := string(m.encodeState(&logs, nil))
	seen := m.lives[key]
	m.lives[key] = true
	return seen
}

// isEnough reports whether some disks are enough: they have a majority of the committed configuration, and of each configuration
// that may come to be committed, because one of them has it at the end of a log with all that is committed.
func (m *Model) isEnough(s *modelState, up diskSet) bool {
	shown := m.logs.all[s.shown]
	if !shown.voters.hasMajority(up) || m.Fewer {
		return shown.voters.hasMajority(up)
	}
	for i := range m.Disks {
		l := m.logs.all[s.disks[i].log]
		if up.contains(i) && !shown.isLongerThan(l) && l.configurationIndex != 0 && !l.voters.hasMajority(up) {
			return false
		}
	}
	return true
}

// isLongerThan reports whether a log ends after another one, in the order by which votes are given.
func (r *logRecord) isLongerThan(other *logRecord) bool {
	return r.lastTerm() > other.lastTerm() || r.lastTerm() == other.lastTerm() && r.length > other.length
}

// canServe reports whether some disks can elect a leader that commits an entry, without faults, and without the others.
func (m *Model) canServe(s *modelState, up diskSet) bool {
	for i := range m.Disks {
		if up.contains(i) && m.canElect(*s, up, i) {
			return true
		}
	}
	return false
}

// canElect lets disk i stand in a term that is new to all who are up, gives it their votes, and lets it commit a write.
func (m *Model) canElect(s modelState, up diskSet, i int) bool {
	if !m.mayStand(&s, i) {
		return false
	}
	if m.logs.all[s.disks[i].log].length == maxLog {
		panic("model: the log is too long for one more write")
	}
	term := uint8(0)
	for j := range m.Disks {
		if up.contains(j) {
			term = max(term, s.disks[j].term)
		}
	}
	s.sentLogs, s.toldDurable, s.restarted = [maxTerms]logID{}, [maxTerms]durableWord{}, true
	if s.disks[i].term < term { // it hears of that term with the refusal of a vote
		m.leaveTerm(&s, i)
		s.disks[i].term = term
	}
	m.becomeCandidate(&s, i)
	voters := m.logs.all[s.disks[i].log].voters
	for v := range m.Disks {
		if up.contains(v) && voters.contains(v) && s.disks[i].role == candidate {
			m.giveVote(&s, v, v, i, func(n *modelState, _ transition) { s = *n })
		}
	}
	return s.disks[i].role == leader && m.canCommit(&s, up, i)
}

// canCommit lets leader i append a write, send its log to all, and write it to its own disk.
func (m *Model) canCommit(s *modelState, up diskSet, i int) bool {
	d := &s.disks[i]
	d.log = m.logs.appendEntry(d.log, newEntry(d.term, 0))
	length := m.logs.all[d.log].length
	d.queued = 0
	for f := range m.Disks {
		for more := up.contains(f) && f != i; more; {
			more = false
			m.deliverNext(s, d.log, d.term, i, f, f, func(n *modelState, _ transition) { *s, more = *n, true })
		}
	}
	m.showCommitted(s, i)
	return m.logs.all[s.shown].length == length && s.broken == none
}
