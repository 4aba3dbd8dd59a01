package model

import "math/bits"

// Before a disk was a server, an emptied one kept the identity of the lost one, and came in by the word of others. These are
// those rules in a simple form, so that the losses that they had are found.

// admitEmptiedDisk lets an emptied disk in that has kept its identity, on the word of some others, as Word says. It takes over the highest
// term of which they know.
func (m *Model) admitEmptiedDisk(s *modelState, i int, to func(*modelState, transition)) {
	for some := diskSet(1); some < 1<<m.Disks; some++ {
		latest, term := m.collectWord(s, some)
		if latest == nil {
			continue
		}
		for _, before := range m.possibleFormerVoters(latest) {
			if other, ok := m.wordSuffices(s, latest, before, some, i); ok {
				n := *s
				n.disks[i] = diskState{role: admitted, term: term, voted: true, grants: other}
				to(&n, transition{kind: enter, disk: i, other: int(some), value: term})
			}
		}
	}
}

// collectWord returns the latest configuration and the latest term that some disks know. It returns no configuration if
// one of them knows none.
func (m *Model) collectWord(s *modelState, some diskSet) (latest *logRecord, term uint8) {
	for j := range m.Disks {
		if !some.contains(j) {
			continue
		}
		d := &s.disks[j]
		l := m.logs.all[d.log]
		if !d.takesPart() || d.role == admitted || l.configurationIndex == 0 {
			return nil, 0
		}
		if term = max(term, d.term); latest == nil || l.hasNewerConfiguration(latest) {
			latest = l
		}
	}
	return latest, term
}

// hasNewerConfiguration reports whether the latest configuration of r is newer than that of other.
func (r *logRecord) hasNewerConfiguration(other *logRecord) bool {
	a, b := r.entries[r.configurationIndex-1].entryTerm(), other.entries[other.configurationIndex-1].entryTerm()
	return a > b || a == b && r.configurationIndex > other.configurationIndex
}

// possibleFormerVoters returns the configurations that the record of a server may name as the one before its latest.
func (m *Model) possibleFormerVoters(latest *logRecord) (former []diskSet) {
	switch {
	case m.Word == WordOfLatest || latest.former == 0:
		return []diskSet{latest.voters}
	case m.Word == WordOfRecord:
		for _, e := range latest.entries[:latest.configurationIndex-1] {
			if e.entryVoters() != 0 {
				former = append(former, e.entryVoters())
			}
		}
		return former
	}
	return []diskSet{latest.former}
}

// wordSuffices reports whether the word of some disks admits disk i. If i is one of two voters, it may vote for the
// other one at once, unless a former voter has a longer log.
func (m *Model) wordSuffices(s *modelState, latest *logRecord, before, some diskSet, i int) (other diskSet, ok bool) {
	voters := latest.voters
	if all := (voters | before) &^ (1 << i); m.Word == WordOfAll && some&all != all {
		return 0, false
	}
	if !voters.contains(i) || voters.diskCount() != 2 {
		return 0, (some & voters).diskCount() >= voters.diskCount()/2+1
	}
	other = voters &^ (1 << i)
	former := before &^ voters
	if must := other | former | m.disksWithoutVote(s, latest); some&must != must {
		return 0, false
	}
	candidate := m.logs.all[s.disks[bits.TrailingZeros8(uint8(other))].log]
	for j := range m.Disks {
		if former.contains(j) && m.logs.all[s.disks[j].log].isLongerThan(candidate) {
			return 0, true
		}
	}
	return other, true
}

// disksWithoutVote returns the disks that have data, and never had a vote according to a log.
func (m *Model) disksWithoutVote(s *modelState, latest *logRecord) (others diskSet) {
	for j := range m.Disks {
		if s.disks[j].log != 0 && latest.voteHistory[j] == 0 {
			others |= 1 << j
		}
	}
	return others
}

// caughtUp reports whether no disk has a longer log than d, which was admitted.
func (m *Model) caughtUp(s *modelState, d *diskState) bool {
	for i := range m.Disks {
		if m.logs.all[s.disks[i].log].isLongerThan(m.logs.all[d.log]) {
			return false
		}
	}
	return true
}

// shownSurvives reports whether a voter's disk still has all that was shown as committed. Without one, no rule helps.
func (m *Model) shownSurvives(s *modelState) bool {
	shown := m.logs.all[s.shown]
	for i := range m.Disks {
		if d := &s.disks[i]; shown.voters.contains(i) && d.takesPart() && m.logs.commonLength(d.log, s.shown) == shown.length {
			return true
		}
	}
	return false
}
