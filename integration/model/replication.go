package model

// appendWrite appends a write to the log of leader i. The disk gets it later, unless it is the first entry of its term.
func (m *Model) appendWrite(s *modelState, i int, to func(*modelState, transition)) {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	writes := uint8(0)
	for _, e := range l.entries[:l.length] {
		if e.entryTerm() == d.term && e.entryVoters() == 0 {
			writes++
		}
	}
	if writes == m.Writes || l.length == m.Log {
		return
	}
	n := *s
	m.storeEntry(&n.disks[i], m.logs.appendEntry(d.log, newEntry(d.term, 0)))
	m.showCommitted(&n, i)
	to(&n, transition{kind: write, disk: i, value: l.length + 1})
}

// appendConfigurations appends a configuration with one voter more or less. Servers without a vote are not part of configurations here. They
// count in no majority, and a leader may send its log to each disk anyway.
func (m *Model) appendConfigurations(s *modelState, i int, to func(*modelState, transition)) {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	if l.changes == m.Changes || l.length == m.Log || !m.mayChange(s, i) {
		return
	}
	for j := range m.Disks {
		voters := l.voters ^ 1<<j
		if j == i && !m.RemovesItself || voters == 0 || s.disks[j].role == gone && voters.contains(j) {
			continue
		}
		n := *s
		m.storeEntry(&n.disks[i], m.logs.appendEntry(d.log, newEntry(d.term, voters)))
		m.showCommitted(&n, i)
		to(&n, transition{kind: change, disk: i, other: j, value: uint8(voters)})
	}
}

// storeEntry gives a disk a log with one more entry. The entry is queued for the disk. The first entry of a term and a
// configuration are not: they and those before them are on the disk when their process continues.
func (m *Model) storeEntry(d *diskState, log logID) {
	l := m.logs.all[log]
	last := l.entries[l.length-1]
	switch isFirst := l.firstOfTerm(last.entryTerm()) == l.length; {
	case isFirst && !m.QueuesFirst, last.entryVoters() != 0 && !m.QueuesConfiguration:
		d.queued = 0
	default:
		d.queued++
	}
	d.log = log
}

// mayChange reports whether leader i knows that its configuration and an entry of its term are committed.
func (m *Model) mayChange(s *modelState, i int) bool {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	if m.ChangesEarly && l.configurationIndex <= m.logs.commonLength(d.log, s.shown) {
		return true
	}
	first := l.firstOfTerm(d.term)
	return first != 0 && m.countedIndex(s, i, l.length, l.voters) >= max(l.configurationIndex, first)
}

// acknowledgeable returns the last index that disk f can acknowledge to a leader with a log: that is on its disk, or was shown as
// committed. f may know of each commit as soon as anybody does.
func (m *Model) acknowledgeable(s *modelState, f *diskState, log logID) uint8 {
	index := m.logs.commonLength(f.log, log)
	if m.AcksUndurable {
		return index
	}
	return min(index, max(m.durable(f), m.logs.commonLength(f.log, s.shown)))
}

// countedIndex returns the last index of which leader i knows as many copies on some disks as a majority of its voters has. Its own
// copies are those up to own. It returns 0 if no entry of the leader's term is among them.
func (m *Model) countedIndex(s *modelState, i int, own uint8, counted diskSet) uint8 {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	first := l.firstOfTerm(d.term)
	if first == 0 {
		return 0
	}
	var has [maxDisks]uint8
	for v := range m.Disks {
		switch f := &s.disks[v]; {
		case !counted.contains(v):
		case v == i:
			has[v] = own
		case f.takesPart() && f.term == d.term:
			has[v] = max(d.acks.of(v), m.acknowledgeable(s, f, d.log))
		default:
			has[v] = d.acks.of(v)
		}
	}
	for index := l.length; index >= first; index-- {
		var some diskSet
		for v := range m.Disks {
			if has[v] >= index {
				some |= 1 << v
			}
		}
		if 2*some.diskCount() > l.voters.diskCount() {
			return index
		}
	}
	return 0
}

// showCommitted marks as shown all that leader i may show as committed, to clients and in its messages. It does so at
// once: an entry that is lost later would also be lost if it had been shown later. It also marks what the disks in the
// leader's term commit by its word.
//
// raft counts the leader's own copies when they are queued. The leader shows of that what is on its own disk, or on those of a
// majority, whichever they are.
func (m *Model) showCommitted(s *modelState, i int) {
	d := &s.disks[i]
	l := m.logs.all[d.log]
	index, durable, counted := m.countedIndex(s, i, l.length, l.voters), m.durable(d), l.voters
	if m.CountsRemoved {
		counted |= l.former
	}
	if !m.ShowsUndurable {
		index = min(index, max(durable, m.countedIndex(s, i, durable, counted)))
	}
	for f := range m.Disks {
		if other := &s.disks[f]; other.takesPart() && other.term == d.term {
			index = max(index, m.committedByWord(s, durableWord{1 << i, durable, d.acks}, d.log, d.term, f, m.committable(other, d.log)))
		}
	}
	m.showUpTo(s, d.log, d.term, index)
}

// showUpTo shows the first entries of the log of a term's leader as committed.
func (m *Model) showUpTo(s *modelState, log logID, term, index uint8) {
	if !m.isFounded(log) {
		return
	}
	old := m.logs.all[s.shown].length
	if m.logs.commonLength(log, s.shown) < min(index, old) {
		s.broken = twoHistories
		return
	}
	if index > old {
		s.shown = m.logs.truncate(log, index)
		for at := old + 1; at <= index; at++ {
			s.shownTerms |= uint32(term) << (3 * (at - 1))
		}
	}
	if !m.laterComplete(s, term) {
		s.broken = lacksShown
	}
}

// laterComplete reports whether the leaders of all terms after one have what was shown as committed before. They were elected
// already when it was shown.
func (m *Model) laterComplete(s *modelState, term uint8) bool {
	for j := range m.Disks {
		if l := &s.disks[j]; l.role == leader && l.term > term && !m.hasAllShownBefore(s, l.log, l.term) {
			return false
		}
	}
	for t, log := range s.sentLogs {
		if log != 0 && t > int(term) && !m.hasAllShownBefore(s, log, uint8(t)) {
			return false
		}
	}
	return true
}

// deliverAll gives each disk the next entry that it lacks of a leader's log. The leader is from, or -1 if its process has ended.
//
// One entry at a time is enough. A request with several entries does what they do one after the other. So does a snapshot, for a disk
// that does not have all of it. A request without entries makes a disk refuse earlier terms and nothing else, and a disk to
// which nothing of earlier terms is delivered does the same.
func (m *Model) deliverAll(s *modelState, log logID, term uint8, from int, to func(*modelState, transition)) {
	for f := range m.Disks {
		if f == from {
			continue
		}
		m.deliverNext(s, log, term, from, f, f, to)
		if m.TakesEntries && from >= 0 && f == m.Disks-2 && from != f+1 {
			m.deliverNext(s, log, term, from, f+1, f, to)
		}
	}
}

// deliverNext gives disk f the next entry of a leader's log. The leader takes the answer for that of disk as.
func (m *Model) deliverNext(s *modelState, log logID, term uint8, from, f, as int, to func(*modelState, transition)) {
	d := &s.disks[f]
	if !d.takesPart() || d.term > term || d.term == term && d.role == leader {
		return
	}
	index := m.logs.commonLength(d.log, log) + 1
	l := m.logs.all[log]
	if d.log != 0 && index == 1 {
		return // of another ensemble
	}
	if m.ReplacesByOlder {
		m.replaceBySnapshot(s, log, term, from, f, to)
	}
	if index > l.length || !m.SendsAhead && !m.maySend(s, log, term, index, from, as) {
		return
	}
	n := *s
	d = &n.disks[f]
	if d.term < term {
		m.leaveTerm(&n, f)
		d.term, d.voted = term, false
	}
	if m.logs.commonLength(d.log, log) < m.logs.all[d.log].length {
		d.queued = 0 // entries are deleted from the end of a log when all of them are on the disk
	}
	m.storeEntry(d, m.logs.truncate(log, index))
	if d.role != admitted {
		d.role, d.grants = follower, 0
	}
	if from >= 0 {
		if as != f && index >= l.firstOfTerm(term) && l.firstOfTerm(term) != 0 {
			n.disks[from].acks.set(as, max(index, n.disks[from].acks.of(as)))
		}
		m.showCommitted(&n, from)
	} else {
		m.showByWord(&n, term)
	}
	to(&n, transition{kind: deliver, disk: from, other: f, value: index})
}

// replaceBySnapshot puts a snapshot that lacks the last committed entry in place of the log of disk f, which has that entry.
func (m *Model) replaceBySnapshot(s *modelState, log logID, term uint8, from, f int, to func(*modelState, transition)) {
	d := &s.disks[f]
	same := m.logs.commonLength(d.log, log)
	if same < 2 || same > m.logs.all[s.shown].length || d.term != term {
		return
	}
	n := *s
	n.disks[f].log, n.disks[f].queued = m.logs.truncate(log, same-1), 0
	to(&n, transition{kind: snapshot, disk: from, other: f, value: same - 1})
}

// maySend reports whether the leader with a log has sent an entry to disk f: when f had a vote in the latest
// configuration of that log, or because the entry is committed. A leader changes the configuration only when the one
// before is committed. So two checks are enough: the first configuration that it had as the leader together with the
// entry, and the last one.
func (m *Model) maySend(s *modelState, log logID, term, index uint8, from, f int) bool {
	l := m.logs.all[log]
	first := l.firstOfTerm(term)
	if first == 0 {
		first = l.length
	}
	votes := !m.isFounded(log) || l.voters.contains(f) || m.logs.all[m.logs.truncate(log, max(index, first))].voters.contains(f)
	if e := l.entries[index-1]; m.WithholdsVoteless && e.entryVoters() != 0 && !e.entryVoters().contains(f) {
		votes = false
	}
	return votes || m.knowsCommitted(s, log, index, from)
}

// knowsCommitted reports whether the leader with a log may know that an entry is committed. After all have been restarted, it knows what it
// has counted itself.
func (m *Model) knowsCommitted(s *modelState, log logID, index uint8, from int) bool {
	if s.restarted {
		return m.countedIndex(s, from, m.logs.all[log].length, m.logs.all[log].voters) >= index
	}
	return m.logs.commonLength(log, s.shown) >= index
}

// flushNext writes the next entry that is queued for disk i.
func (m *Model) flushNext(s *modelState, i int, to func(*modelState, transition)) {
	if s.disks[i].queued == 0 {
		return
	}
	n := *s
	d := &n.disks[i]
	d.queued--
	for j := range m.Disks {
		if l := &n.disks[j]; l.role == leader && l.term == d.term {
			m.showCommitted(&n, j)
		}
	}
	m.showByWord(&n, d.term)
	to(&n, transition{kind: flush, disk: i, value: m.durable(d)})
}

// committable returns the last index that disk f may commit by the word of a leader with a log.
func (m *Model) committable(f *diskState, log logID) uint8 {
	index := m.logs.commonLength(f.log, log)
	if m.CommitsHeld {
		return index
	}
	return min(index, m.durable(f))
}

// showByWord marks what disks commit by the word of the leader of a term, whose process has ended.
func (m *Model) showByWord(s *modelState, term uint8) {
	log := s.sentLogs[term]
	if log == 0 {
		return
	}
	for f := range m.Disks {
		d := &s.disks[f]
		if !d.takesPart() || d.term != term {
			continue
		}
		if committed := m.committedByWord(s, s.toldDurable[term], log, term, f, m.committable(d, log)); committed != 0 {
			m.showUpTo(s, log, term, committed)
		}
	}
}
