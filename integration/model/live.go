package model

// A majority gets on if some steps without faults lead to a leader that commits an entry. It is enough to look for steps of one kind:
// a disk stands in a new term, gets all votes that it can get, and sends its log to all. It does so as if all processes had just been
// restarted: in each state, the power may have failed everywhere, and some disks are back.

// stuck reports whether some disks are enough to get on, but cannot, and returns them.
func (m *Model) stuck(s *state) (up set, stuck bool) {
	if m.seen(s) {
		return 0, false
	}
	var there set
	for i := range m.Disks {
		if s.disks[i].live() {
			there |= 1 << i
		}
	}
	for up := there; up != 0; up = (up - 1) & there {
		if m.quorate(s, up) && !m.serves(s, up) {
			return up, true
		}
	}
	return 0, false
}

// seen reports whether there was such a state already. What happens in a new term depends on the logs alone.
func (m *Model) seen(s *state) bool {
	logs := state{shown: s.shown}
	for i := range m.Disks {
		d := &s.disks[i]
		logs.disks[i] = disk{log: d.log, role: follower}
		if !d.live() {
			logs.disks[i].role = gone
		}
	}
	m.canonical(&logs)
	key := string(m.encode(&logs, nil))
	seen := m.lives[key]
	m.lives[key] = true
	return seen
}

// quorate reports whether some disks are enough: they have a majority of the committed configuration, and of each configuration
// that may come to be committed, because one of them has it at the end of a log with all that is committed.
func (m *Model) quorate(s *state, up set) bool {
	shown := m.logs.all[s.shown]
	if !shown.voters.majority(up) || m.Fewer {
		return shown.voters.majority(up)
	}
	for i := range m.Disks {
		l := m.logs.all[s.disks[i].log]
		if up.has(i) && !shown.after(l) && l.at != 0 && !l.voters.majority(up) {
			return false
		}
	}
	return true
}

// after reports whether a log ends after another one, in the order by which votes are given.
func (r *record) after(other *record) bool {
	return r.lastTerm() > other.lastTerm() || r.lastTerm() == other.lastTerm() && r.length > other.length
}

// serves reports whether some disks can elect a leader that commits an entry, without faults, and without the others.
func (m *Model) serves(s *state, up set) bool {
	for i := range m.Disks {
		if up.has(i) && m.elects(*s, up, i) {
			return true
		}
	}
	return false
}

// elects lets disk i stand in a term that is new to all who are up, gives it their votes, and lets it commit a write.
func (m *Model) elects(s state, up set, i int) bool {
	if !m.mayStand(&s, i) {
		return false
	}
	if m.logs.all[s.disks[i].log].length == maxLog {
		panic("model: the log is too long for one more write")
	}
	term := uint8(0)
	for j := range m.Disks {
		if up.has(j) {
			term = max(term, s.disks[j].term)
		}
	}
	s.sent, s.said, s.restarted = [maxTerms]logID{}, [maxTerms]word{}, true
	if s.disks[i].term < term { // it hears of that term with the refusal of a vote
		m.leave(&s, i)
		s.disks[i].term = term
	}
	m.candidacy(&s, i)
	voters := m.logs.all[s.disks[i].log].voters
	for v := range m.Disks {
		if up.has(v) && voters.has(v) && s.disks[i].role == candidate {
			m.vote(&s, v, v, i, func(n *state, _ step) { s = *n })
		}
	}
	return s.disks[i].role == leader && m.commits(&s, up, i)
}

// commits lets leader i append a write, send its log to all, and write it to its own disk.
func (m *Model) commits(s *state, up set, i int) bool {
	d := &s.disks[i]
	d.log = m.logs.with(d.log, newEntry(d.term, 0))
	length := m.logs.all[d.log].length
	d.durable = length
	for f := range m.Disks {
		for more := up.has(f) && f != i; more; {
			more = false
			m.deliver(s, d.log, d.term, i, f, f, func(n *state, _ step) { *s, more = *n, true })
		}
	}
	m.show(s, i)
	return m.logs.all[s.shown].length == length && s.broken == none
}
