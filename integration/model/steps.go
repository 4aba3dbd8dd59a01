package model

// transitionKind is the kind of a step.
type transitionKind uint8

const (
	begin transitionKind = iota
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

// transition is a step from one state to the next one.
type transition struct {
	kind  transitionKind
	disk  int   // the disk that makes the step. For deliver and snapshot: the leader, or -1 if its process has ended
	other int   // the other disk. For enter: those that gave their word, as a set
	value uint8 // an index or a term. For change: the voters, as a set
}

// forEachStep calls to with each state that can follow s.
func (m *Model) forEachStep(s *modelState, to func(*modelState, transition)) {
	for i := range m.Disks {
		switch s.disks[i].role {
		case gone:
			continue
		case awaitingAdmission:
			m.admitEmptiedDisk(s, i, to)
		case leader:
			m.appendWrite(s, i, to)
			m.appendConfigurations(s, i, to)
			m.flushNext(s, i, to)
			m.crashLeader(s, i, to)
			m.deliverAll(s, s.disks[i].log, s.disks[i].term, i, to)
		case candidate:
			m.grantVotes(s, i, to)
			m.standForElection(s, i, to)
		case follower, admitted:
			m.beginEnsemble(s, i, to)
			m.standForElection(s, i, to)
			m.flushNext(s, i, to)
			m.restartFollower(s, i, to)
		}
		m.wipeDisk(s, i, to)
	}
	for t, log := range s.sentLogs {
		if log != 0 {
			m.deliverAll(s, log, uint8(t), -1, to)
		}
	}
}

// beginEnsemble makes a new ensemble of one voter: the disk of the member with the lowest id, if no disk has data.
func (m *Model) beginEnsemble(s *modelState, i int, to func(*modelState, transition)) {
	if m.Voters != 0 || !m.mayBegin(s, i) || s.disks[i].log != 0 {
		return
	}
	data, blank := false, diskSet(1<<i)
	for j := range m.Disks {
		data = data || s.disks[j].log != 0
		if j < m.List && s.disks[j].log == 0 && s.disks[j].role != gone {
			blank |= 1 << j
		}
	}
	if data && !(m.BeginsByMajority && 2*blank.diskCount() > m.List) {
		return
	}
	n := *s
	n.disks[i] = diskState{log: m.logs.appendEntry(0, newEntry(1, 1<<i)), term: 1}
	to(&n, transition{kind: begin, disk: i})
}

// mayBegin reports whether disk i is that of the member with the lowest id: the first one, or after that was lost, one of
// those that come later.
func (m *Model) mayBegin(s *modelState, i int) bool {
	return i == 0 || i >= m.List && s.disks[0].role == gone
}

// isFounded reports whether an ensemble serves clients: most members of the list vote in it.
func (m *Model) isFounded(log logID) bool {
	return m.Voters != 0 || 2*m.logs.all[log].voters.diskCount() > m.List
}

// crashLeader ends and restarts the process of leader i. The entries that are not on its disk are lost, or all but the first ones of them.
// If no entry is lost, the step also stands for a leader that steps down, which waits for its disk. Other processes have only a
// candidacy to lose, and a candidate that gets no more votes is like one that was restarted.
func (m *Model) crashLeader(s *modelState, i int, to func(*modelState, transition)) {
	d := &s.disks[i]
	for length := m.durable(d); length <= m.logs.all[d.log].length; length++ {
		n := *s
		if m.Late {
			n.sentLogs[d.term], n.toldDurable[d.term] = d.log, durableWord{1 << i, m.durable(d), d.acks}
		}
		n.disks[i] = diskState{log: m.logs.truncate(d.log, length), term: d.term, voted: d.voted && !m.ForgetsVotes}
		if m.CountsFormerTerms && length == m.logs.all[d.log].length { // it steps down, and remembers
			n = *s
			m.leaveTerm(&n, i)
		}
		to(&n, transition{kind: crash, disk: i, value: length})
	}
}

// restartFollower ends and restarts the process of a follower. That matters only if it loses entries that are not on its disk, or
// forgets its vote. What it has acknowledged may still be on its way.
func (m *Model) restartFollower(s *modelState, i int, to func(*modelState, transition)) {
	d := &s.disks[i]
	for length := m.durable(d); length < m.logs.all[d.log].length; length++ {
		n := *s
		m.keepForLeaders(&n, d, i)
		n.disks[i].log, n.disks[i].queued = m.logs.truncate(d.log, length), 0
		to(&n, transition{kind: crash, disk: i, value: length})
	}
	if m.ForgetsVotes && d.voted {
		n := *s
		n.disks[i].voted, n.disks[i].queued = false, 0
		to(&n, transition{kind: crash, disk: i, value: m.logs.all[d.log].length})
	}
}

// wipeDisk loses disk i. The member continues with one of the disks that have nothing yet, which is a new server.
func (m *Model) wipeDisk(s *modelState, i int, to func(*modelState, transition)) {
	if s.wipeCount == m.Wipes || s.disks[i].log == 0 {
		return
	}
	n := *s
	m.leaveTerm(&n, i)
	n.disks[i] = diskState{role: gone}
	if m.KeepsIdentity {
		n.disks[i].role = awaitingAdmission
	}
	n.wipeCount++
	if (m.KeepsIdentity || m.Voters == 0) && !m.shownSurvives(&n) {
		return
	}
	to(&n, transition{kind: wipe, disk: i})
}
