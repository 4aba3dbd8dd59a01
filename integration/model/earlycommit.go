package model

// maxEarlyCommitVoters is the number of voters of which the leader and one other are a majority.
const maxEarlyCommitVoters = 3

// durableWord is a leader's report to the others on its own disk.
type durableWord struct {
	leader  diskSet          // the leader alone
	durable uint8            // the entries that are on its disk
	acks    acknowledgements // of disks that have left the term since
}

// committedByWord returns the last index that disk f commits by the word of a term's leader, whose log is given. The word comes in a
// request that f accepts only if it has the leader's entries up to has, and all of f's entries are on its disk. Together with the copies
// that other disks have acknowledged directly to f, the two are a majority, and the leader need not have heard of any of them. The result
// is 0 if f commits nothing by that.
func (m *Model) committedByWord(s *modelState, w durableWord, log logID, term uint8, f int, has uint8) uint8 {
	first := m.logs.all[log].firstOfTerm(term)
	if w.leader.contains(f) || first == 0 {
		return 0
	}
	if m.SaysOlder {
		first = 1
	}
	if !m.SaysUndurable {
		has = min(has, w.durable)
	}
	for index := has; index >= first; index-- {
		copies := w.leader | 1<<f | m.acknowledgedDirectly(s, w, log, term, index)
		if m.isMajorityByWord(w, log, index, f, copies) {
			return index
		}
	}
	return 0
}

// acknowledgedDirectly returns the disks that have acknowledged an entry in a leader's term, to all that the leader has named. It may
// be as long ago as it likes: a message may come late.
func (m *Model) acknowledgedDirectly(s *modelState, w durableWord, log logID, term, index uint8) (copies diskSet) {
	for v := range m.Disks {
		d, has := &s.disks[v], w.acks.of(v)
		switch {
		case !d.takesPart(): // what it has sent may still arrive
		case d.term == term && m.DirectUndurable:
			has = m.logs.commonLength(d.log, log)
		case d.term == term:
			has = max(has, m.acknowledgeable(s, d, log))
		case d.term < term && m.DirectOfFormerTerms:
			has = m.durable(d)
		}
		if has >= index {
			copies |= 1 << v
		}
	}
	return copies
}

// isMajorityByWord reports whether disk f commits an entry of which it knows some copies. The leader names the voters of its configuration
// when it sends the request, which may arrive after further entries were appended: any configuration since that of the
// entry.
func (m *Model) isMajorityByWord(w durableWord, log logID, index uint8, f int, copies diskSet) bool {
	for length := m.logs.all[log].length; length >= index; length-- {
		voters := m.logs.all[m.logs.truncate(log, length)].voters
		if !voters.contains(f) && !m.SaysToOthers || voters&w.leader == 0 && !m.SaysLeaving {
			continue
		}
		counted := copies & voters
		switch {
		case m.DirectOfOthers:
			counted = copies
		case m.SaysToOthers || m.SaysLeaving:
			counted |= w.leader | 1<<f
		}
		if m.SaysAmongMany || 2*counted.diskCount() > voters.diskCount() {
			return true
		}
	}
	return false
}
