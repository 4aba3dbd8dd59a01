package model

// States that differ only in the names of disks are one state. canonicalize sorts the disks by their content, in a way
// that does not depend on their names. It may leave two names for one state if two disks have equal signatures, which
// costs time and nothing else.

// renaming gives each disk another name.
type renaming struct {
	to   [maxDisks]uint8
	sets [1 << maxDisks]diskSet
	logs []logID // by old log; 0: not known yet
}

// canonicalize renames the disks of s, and returns the renaming.
func (m *Model) canonicalize(s *modelState) *renaming {
	if !m.symmetric() {
		return nil
	}
	var signs [maxDisks]uint64
	m.computeSignatures(s, &signs)
	var order [maxDisks]uint8 // the old names in their new order
	for i := range m.Disks {
		j := i
		for ; j > 0 && signs[order[j-1]] > signs[i]; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
	r := m.renamingFor(&order)
	m.renameDisks(s, r)
	return r
}

func mixHash(h, v uint64) uint64 {
	h = (h ^ v) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// computeSignatures describes each disk by a number.
func (m *Model) computeSignatures(s *modelState, signs *[maxDisks]uint64) {
	var own [maxDisks]uint64
	shown := m.logs.all[s.shown]
	for i := range m.Disks {
		d := &s.disks[i]
		l := m.logs.all[d.log]
		h := uint64(l.shape)<<24 | uint64(d.term)<<16 | uint64(d.role)<<8 | uint64(d.queued)<<4
		if d.voted {
			h |= 1
		}
		h = mixHash(h, uint64(l.voteHistory[i])<<8|uint64(shown.voteHistory[i]))
		for t := 2; m.Late && t <= int(m.Terms); t++ {
			told := &s.toldDurable[t]
			h = mixHash(h, uint64(m.logs.all[s.sentLogs[t]].voteHistory[i])<<1|uint64(told.leader>>i)&1|uint64(told.acks.of(i))<<32)
		}
		own[i] = h
	}
	for i := range m.Disks {
		var sum uint64
		for j := range m.Disks {
			d := &s.disks[j]
			relation := uint64(m.logs.all[d.log].voteHistory[i])<<8 | uint64(d.acks.of(i))<<1 | uint64(d.grants>>i)&1
			sum += mixHash(own[j], relation)
		}
		signs[i] = mixHash(own[i], sum)>>2 | m.symmetryClass(i)<<62
	}
}

// symmetryClass returns a number that is the same for disks that can have each other's name.
func (m *Model) symmetryClass(i int) uint64 {
	switch {
	case m.Voters != 0 || i == 0:
		return 0
	case i < m.List:
		return 1
	}
	return 2
}

// renamingFor returns the renaming that gives the disks in order the names 0, 1, and so on.
func (m *Model) renamingFor(order *[maxDisks]uint8) *renaming {
	key := uint32(0)
	for i := range m.Disks {
		key = key<<3 | uint32(order[i])
	}
	if r, ok := m.renamings[key]; ok {
		return r
	}
	r := new(renaming)
	for i := range m.Disks {
		r.to[order[i]] = uint8(i)
	}
	for from := range r.sets {
		for i := range m.Disks {
			if diskSet(from).contains(i) {
				r.sets[from] |= 1 << r.to[i]
			}
		}
	}
	m.renamings[key] = r
	return r
}

func (m *Model) renameDisks(s *modelState, r *renaming) {
	old := s.disks
	for i := range m.Disks {
		d := old[i]
		d.log, d.grants = m.renameLog(d.log, r), r.sets[d.grants]
		d.acks = m.renameAcknowledgements(d.acks, r)
		s.disks[r.to[i]] = d
	}
	s.shown = m.renameLog(s.shown, r)
	for t := range s.sentLogs {
		s.sentLogs[t], s.toldDurable[t].leader = m.renameLog(s.sentLogs[t], r), r.sets[s.toldDurable[t].leader]
		s.toldDurable[t].acks = m.renameAcknowledgements(s.toldDurable[t].acks, r)
	}
}

func (m *Model) renameAcknowledgements(acks acknowledgements, r *renaming) (renamed acknowledgements) {
	for from := range m.Disks {
		if index := acks.of(from); index != 0 {
			renamed.set(int(r.to[from]), index)
		}
	}
	return renamed
}

// renameLog returns a log with other names.
func (m *Model) renameLog(id logID, r *renaming) logID {
	if id == 0 {
		return 0
	}
	if int(id) < len(r.logs) && r.logs[id] != 0 {
		return r.logs[id]
	}
	l := m.logs.all[id]
	last := l.entries[l.length-1]
	result := m.logs.appendEntry(m.renameLog(l.shorter, r), newEntry(last.entryTerm(), r.sets[last.entryVoters()]))
	if int(id) >= len(r.logs) {
		r.logs = append(r.logs, make([]logID, len(m.logs.all)-len(r.logs))...)
	}
	r.logs[id] = result
	return result
}
