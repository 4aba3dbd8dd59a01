package model

// kind is the kind of a step.
type kind uint8

const (
	begin kind = iota
	stand
	grant
	write
	change
	deliver
	snapshot
	flush
	crash
	wipe
	enter // of an emptied disk that has kept its identity
)

// step is a step from one state to the next one.
type step struct {
	kind kind
	a    int   // the disk that makes the step. For deliver and snapshot: the leader, or -1 if its process has ended
	b    int   // the other disk. For enter: those that gave their word, as a set
	n    uint8 // an index or a term. For change: the voters, as a set
}

// steps calls to with each state that can follow s.
func (m *Model) steps(s *state, to func(*state, step)) {
	for i := range m.Disks {
		switch s.disks[i].role {
		case gone:
			continue
		case asking:
			m.enter(s, i, to)
		case leader:
			m.write(s, i, to)
			m.change(s, i, to)
			m.flush(s, i, to)
			m.crash(s, i, to)
			m.deliverAll(s, s.disks[i].log, s.disks[i].term, i, to)
		case candidate:
			m.grant(s, i, to)
			m.stand(s, i, to)
		case follower, let:
			m.begin(s, i, to)
			m.stand(s, i, to)
			m.restart(s, i, to)
		}
		m.wipe(s, i, to)
	}
	for t, log := range s.sent {
		if log != 0 {
			m.deliverAll(s, log, uint8(t), -1, to)
		}
	}
}

// begin makes a new ensemble of one voter: the disk of the member with the lowest id, if no disk has data.
func (m *Model) begin(s *state, i int, to func(*state, step)) {
	if m.Voters != 0 || !m.mayBegin(s, i) || s.disks[i].log != 0 {
		return
	}
	data, blank := false, set(1<<i)
	for j := range m.Disks {
		data = data || s.disks[j].log != 0
		if j < m.List && s.disks[j].log == 0 && s.disks[j].role != gone {
			blank |= 1 << j
		}
	}
	if data && !(m.BeginsByMajority && 2*blank.size() > m.List) {
		return
	}
	n := *s
	n.disks[i] = disk{log: m.logs.with(0, newEntry(1, 1<<i)), term: 1}
	to(&n, step{kind: begin, a: i})
}

// mayBegin reports whether disk i is that of the member with the lowest id: the first one, or after that was lost, one of
// those that come later.
func (m *Model) mayBegin(s *state, i int) bool {
	return i == 0 || i >= m.List && s.disks[0].role == gone
}

// founded reports whether an ensemble serves clients: most members of the list vote in it.
func (m *Model) founded(log logID) bool {
	return m.Voters != 0 || 2*m.logs.all[log].voters.size() > m.List
}

// crash ends and restarts the process of leader i. The entries that are not on its disk are lost, or all but the first ones of them.
// If no entry is lost, the step also stands for a leader that steps down, which waits for its disk. Other processes have only a
// candidacy to lose, and a candidate that gets no more votes is like one that was restarted.
func (m *Model) crash(s *state, i int, to func(*state, step)) {
	d := &s.disks[i]
	for length := d.durable; length <= m.logs.all[d.log].length; length++ {
		n := *s
		if m.Late {
			n.sent[d.term], n.said[d.term] = d.log, word{1 << i, d.durable}
		}
		n.disks[i] = disk{log: m.logs.prefix(d.log, length), term: d.term, voted: d.voted && !m.ForgetsVotes}
		to(&n, step{kind: crash, a: i, n: length})
	}
}

// restart ends and restarts the process of a follower. That matters only if it forgets its vote.
func (m *Model) restart(s *state, i int, to func(*state, step)) {
	if m.ForgetsVotes && s.disks[i].voted {
		n := *s
		n.disks[i].voted = false
		to(&n, step{kind: crash, a: i, n: m.logs.all[n.disks[i].log].length})
	}
}

// wipe loses disk i. The member continues with one of the disks that have nothing yet, which is a new server.
func (m *Model) wipe(s *state, i int, to func(*state, step)) {
	if s.wipes == m.Wipes || s.disks[i].log == 0 {
		return
	}
	n := *s
	m.leave(&n, i)
	n.disks[i] = disk{role: gone}
	if m.KeepsIdentity {
		n.disks[i].role = asking
	}
	n.wipes++
	if (m.KeepsIdentity || m.Voters == 0) && !m.survives(&n) {
		return
	}
	to(&n, step{kind: wipe, a: i})
}
