package model

// States that differ only in the names of disks are one state. canonical sorts the disks by what they have, in a way
// that does not depend on their names. It may leave two names for one state if two disks look the same; that costs time,
// and nothing else.

// renaming gives each disk another name.
type renaming struct {
	to   [maxDisks]uint8
	sets [1 << maxDisks]set
	logs []logID // by old log; 0: not known yet
}

// canonical renames the disks of s, and returns how.
func (m *Model) canonical(s *state) *renaming {
	if !m.symmetric() {
		return nil
	}
	var signs [maxDisks]uint64
	m.sign(s, &signs)
	var order [maxDisks]uint8 // the old names in their new order
	for i := range m.Disks {
		j := i
		for ; j > 0 && signs[order[j-1]] > signs[i]; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
	r := m.renaming(&order)
	m.rename(s, r)
	return r
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// sign describes each disk by a number.
func (m *Model) sign(s *state, signs *[maxDisks]uint64) {
	var own [maxDisks]uint64
	shown := m.logs.all[s.shown]
	for i := range m.Disks {
		d := &s.disks[i]
		l := m.logs.all[d.log]
		h := uint64(l.shape)<<24 | uint64(d.term)<<16 | uint64(d.role)<<8 | uint64(d.durable)<<4
		if d.voted {
			h |= 1
		}
		h = mix(h, uint64(l.member[i])<<8|uint64(shown.member[i]))
		for t := 2; m.Late && t <= int(m.Terms); t++ {
			h = mix(h, uint64(m.logs.all[s.sent[t]].member[i])<<1|uint64(s.said[t].leader>>i)&1)
		}
		own[i] = h
	}
	for i := range m.Disks {
		var sum uint64
		for j := range m.Disks {
			d := &s.disks[j]
			relation := uint64(m.logs.all[d.log].member[i])<<8 | uint64(d.ack(i))<<1 | uint64(d.grants>>i)&1
			sum += mix(own[j], relation)
		}
		signs[i] = mix(own[i], sum)>>2 | m.class(i)<<62
	}
}

// class returns a number that is the same for disks that can have each other's name.
func (m *Model) class(i int) uint64 {
	switch {
	case m.Voters != 0 || i == 0:
		return 0
	case i < m.List:
		return 1
	}
	return 2
}

// renaming returns the renaming that gives the disks in order the names 0, 1, and so on.
func (m *Model) renaming(order *[maxDisks]uint8) *renaming {
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
			if set(from).has(i) {
				r.sets[from] |= 1 << r.to[i]
			}
		}
	}
	m.renamings[key] = r
	return r
}

func (m *Model) rename(s *state, r *renaming) {
	old := s.disks
	for i := range m.Disks {
		d := old[i]
		d.log, d.grants = m.renamed(d.log, r), r.sets[d.grants]
		if acks := d.acks; acks != 0 {
			d.acks = 0
			for from := range m.Disks {
				d.setAck(int(r.to[from]), uint8(acks>>(3*from))&7)
			}
		}
		s.disks[r.to[i]] = d
	}
	s.shown = m.renamed(s.shown, r)
	for t := range s.sent {
		s.sent[t], s.said[t].leader = m.renamed(s.sent[t], r), r.sets[s.said[t].leader]
	}
}

// renamed returns a log with other names.
func (m *Model) renamed(id logID, r *renaming) logID {
	if id == 0 {
		return 0
	}
	if int(id) < len(r.logs) && r.logs[id] != 0 {
		return r.logs[id]
	}
	l := m.logs.all[id]
	last := l.entries[l.length-1]
	result := m.logs.with(m.renamed(l.shorter, r), newEntry(last.term(), r.sets[last.voters()]))
	if int(id) >= len(r.logs) {
		r.logs = append(r.logs, make([]logID, len(m.logs.all)-len(r.logs))...)
	}
	r.logs[id] = result
	return result
}
