package model

import "math/bits"

// Before a disk was a server, an emptied one kept the identity of the lost one, and came in by the word of others. These are
// those rules in a simple form, so that the losses that they had are found.

// enter lets an emptied disk in that has kept its identity, on the word of some others, as Word says. It takes over the highest
// term of which they know.
func (m *Model) enter(s *state, i int, to func(*state, step)) {
	for some := set(1); some < 1<<m.Disks; some++ {
		latest, term := m.heard(s, some)
		if latest == nil {
			continue
		}
		for _, before := range m.recorded(latest) {
			if other, ok := m.suffices(s, latest, before, some, i); ok {
				n := *s
				n.disks[i] = disk{role: let, term: term, voted: true, grants: other}
				to(&n, step{kind: enter, a: i, b: int(some), n: term})
			}
		}
	}
}

// heard returns the latest configuration, and the latest term, of which some disks tell. It returns no configuration if
// one of them has nothing to tell.
func (m *Model) heard(s *state, some set) (latest *record, term uint8) {
	for j := range m.Disks {
		if !some.has(j) {
			continue
		}
		d := &s.disks[j]
		l := m.logs.all[d.log]
		if !d.live() || d.role == let || l.at == 0 {
			return nil, 0
		}
		if term = max(term, d.term); latest == nil || l.newer(latest) {
			latest = l
		}
	}
	return latest, term
}

// newer reports whether the latest configuration of r is newer than that of other.
func (r *record) newer(other *record) bool {
	a, b := r.entries[r.at-1].term(), other.entries[other.at-1].term()
	return a > b || a == b && r.at > other.at
}

// recorded returns the configurations that the record of a server may name as the one before its latest.
func (m *Model) recorded(latest *record) (former []set) {
	switch {
	case m.Word == WordOfLatest || latest.former == 0:
		return []set{latest.voters}
	case m.Word == WordOfRecord:
		for _, e := range latest.entries[:latest.at-1] {
			if e.voters() != 0 {
				former = append(former, e.voters())
			}
		}
		return former
	}
	return []set{latest.former}
}

// suffices reports whether the word of some disks lets disk i in. If it is one of two voters, it may vote for the other one at
// once, unless one that voted before has a longer log.
func (m *Model) suffices(s *state, latest *record, before, some set, i int) (other set, ok bool) {
	voters := latest.voters
	if all := (voters | before) &^ (1 << i); m.Word == WordOfAll && some&all != all {
		return 0, false
	}
	if !voters.has(i) || voters.size() != 2 {
		return 0, (some & voters).size() >= voters.size()/2+1
	}
	other = voters &^ (1 << i)
	former := before &^ voters
	if must := other | former | m.without(s, latest); some&must != must {
		return 0, false
	}
	candidate := m.logs.all[s.disks[bits.TrailingZeros8(uint8(other))].log]
	for j := range m.Disks {
		if former.has(j) && m.logs.all[s.disks[j].log].after(candidate) {
			return 0, true
		}
	}
	return other, true
}

// without returns the disks that have data, and never had a vote according to a log.
func (m *Model) without(s *state, latest *record) (others set) {
	for j := range m.Disks {
		if s.disks[j].log != 0 && latest.member[j] == 0 {
			others |= 1 << j
		}
	}
	return others
}

// caughtUp reports whether nobody has a longer log than a disk that was let in.
func (m *Model) caughtUp(s *state, d *disk) bool {
	for i := range m.Disks {
		if m.logs.all[s.disks[i].log].after(m.logs.all[d.log]) {
			return false
		}
	}
	return true
}

// survives reports whether a voter's disk still has all that was shown as committed. Without one, no rule helps.
func (m *Model) survives(s *state) bool {
	shown := m.logs.all[s.shown]
	for i := range m.Disks {
		if d := &s.disks[i]; shown.voters.has(i) && d.live() && m.logs.common(d.log, s.shown) == shown.length {
			return true
		}
	}
	return false
}
