package model

// maxWordVoters is the number of voters of which the leader and one other are a majority.
const maxWordVoters = 3

// word is what a leader tells the others of its disk.
type word struct {
	leader  set   // the leader alone
	durable uint8 // the entries that are on its disk
}

// committedByWord returns how far disk f commits by the word of a term's leader, whose log is given. The word comes in a request
// that f accepts only if it has the leader's entries up to has, and all of f's entries are on its disk. Together the two copies are a
// majority, and the leader need not have heard of the one of f. The result is 0 if f commits nothing by that.
func (m *Model) committedByWord(w word, log logID, term uint8, f int, has uint8) uint8 {
	first := m.logs.all[log].first(term)
	if w.leader.has(f) || first == 0 {
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

// mayGiveWord reports whether a leader may have told disk f of an entry in this way. The leader goes by its configuration when it
// sends the request, which may arrive after further entries were appended: any configuration since that of the entry.
func (m *Model) mayGiveWord(w word, log logID, index uint8, f int) bool {
	for length := m.logs.all[log].length; length >= index; length-- {
		voters := m.logs.all[m.logs.prefix(log, length)].voters
		few := voters.size() <= maxWordVoters || m.SaysAmongMany
		if few && (voters.has(f) || m.SaysToOthers) && (voters&w.leader != 0 || m.SaysLeaving) {
			return true
		}
	}
	return false
}
