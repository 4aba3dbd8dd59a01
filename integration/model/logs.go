package model

import "math/bits"

const (
	maxDisks = 7 // of a model
	maxLog   = 8 // entries
)

// diskSet is a set of disks, by bit.
type diskSet uint8

func (s diskSet) contains(disk int) bool { return s&(1<<disk) != 0 }

func (s diskSet) diskCount() int { return bits.OnesCount8(uint8(s)) }

// hasMajority reports whether the members of s in some are more than half of s.
func (s diskSet) hasMajority(some diskSet) bool { return 2*(s&some).diskCount() > s.diskCount() }

// logEntry is an entry of the log: its term, and the voters of a configuration. An entry without voters is a write.
// No two leaders of a term make two entries at one place, so two writes of one term and index are the same write.
type logEntry uint16

func newEntry(term uint8, voters diskSet) logEntry { return logEntry(term)<<8 | logEntry(voters) }

func (e logEntry) entryTerm() uint8 { return uint8(e >> 8) }

func (e logEntry) entryVoters() diskSet { return diskSet(e) }

// logID is a log by its number in logs. The empty log is 0.
type logID uint32

// logRecord is one log, with values derived from its entries.
type logRecord struct {
	entries            [maxLog]logEntry
	length             uint8
	changes            uint8           // configurations after the first one
	configurationIndex uint8           // the index of the latest configuration; 0: there is none
	voters             diskSet         // of the latest configuration
	former             diskSet         // of the configuration before that
	shape              uint32          // a hash that does not depend on which disk is which
	voteHistory        [maxDisks]uint8 // by disk, the configurations in which it votes, as bits
	shorter            logID           // the log without its last entry
	appended           map[logEntry]logID
}

// lastTerm returns the term of the last entry, or 0 if there is none.
func (r *logRecord) lastTerm() uint8 {
	if r.length == 0 {
		return 0
	}
	return r.entries[r.length-1].entryTerm()
}

// firstOfTerm returns the index of the first entry of a term, or 0 if there is none.
func (r *logRecord) firstOfTerm(term uint8) uint8 {
	for i := range r.length {
		if r.entries[i].entryTerm() == term {
			return i + 1
		}
	}
	return 0
}

// logStore stores each log that the search has met, once.
type logStore struct{ all []*logRecord }

func newLogStore() *logStore { return &logStore{[]*logRecord{{appended: map[logEntry]logID{}}}} }

// appendEntry returns a log with one more entry.
func (l *logStore) appendEntry(id logID, e logEntry) logID {
	old := l.all[id]
	if longer, ok := old.appended[e]; ok {
		return longer
	}
	r := *old
	r.shorter, r.appended = id, map[logEntry]logID{}
	r.entries[r.length] = e
	r.length++
	r.shape = (r.shape*31+uint32(e.entryTerm()))*31 + uint32(e.entryVoters().diskCount())
	if e.entryVoters() != 0 {
		if r.configurationIndex != 0 {
			r.changes++
		}
		r.former, r.voters, r.configurationIndex = r.voters, e.entryVoters(), r.length
		for d := range maxDisks {
			r.voteHistory[d] = r.voteHistory[d]<<1 | uint8(e.entryVoters()>>d)&1
		}
	}
	l.all = append(l.all, &r)
	longer := logID(len(l.all) - 1)
	old.appended[e] = longer
	return longer
}

// truncate returns the first entries of a log.
func (l *logStore) truncate(id logID, length uint8) logID {
	for l.all[id].length > length {
		id = l.all[id].shorter
	}
	return id
}

// commonLength returns the number of entries that two logs share at their beginning.
func (l *logStore) commonLength(a, b logID) uint8 {
	length := min(l.all[a].length, l.all[b].length)
	a, b = l.truncate(a, length), l.truncate(b, length)
	for a != b {
		a, b = l.all[a].shorter, l.all[b].shorter
	}
	return l.all[a].length
}
