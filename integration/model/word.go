package model

// maxWordVoters is the number of voters of which the leader and one other are a majority.
const maxWordVoters = 3

// durableWord is a leader's report to the others on its own disk.
type durableWord struct {
	leader  diskSet // the leader alone
	durable uint8   // the entries that are on its disk
}

// committedByWord returns the last index that disk f commits by the word of a term's leader, whose log is given. The
// word comes in a request that f accepts only if it has the leader's entries up to has, and all of f's entries are on
// its disk. Together the two copies are a majority, and the leader need not have heard of the one of f. The result is 0
// if f commits nothing by that.
func (m *Model) committedByWord(w durableWord, log logID, term uint8, f int, has uint8) uint8 {
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
		if m.mayGiveWord(w, log, index, f) {
			return index
		}
	}
	return 0
}

// mayGiveWord reports whether a leader may have given disk f its word on an entry. The leader uses its configuration
// when it sends the request, which may arrive after further entries were appended: any configuration since that of the
// entry.
func (m *Model) mayGiveWord(w durableWord, log logID, index uint8, f int) bool {
	for length := m.logs.all[log].length; length >= index; length-- {
		voters := m.logs.all[m.logs.truncate(log, length)].voters
		few := voters.diskCount() <= maxWordVoters || m.SaysAmongMany
		if few && (voters.contains(f) || m.SaysToOthers) && (voters&w.leader != 0 || m.SaysLeaving) {
			return true
		}
	}
	return false
}
