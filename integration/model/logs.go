package model

import "math/bits"

const (
	maxDisks = 7 // of a model
	maxLog   = 8 // entries
)

// set is a set of disks, by bit.
type set uint8

func (s set) has(disk int) bool { return s&(1<<disk) != 0 }

func (s set) size() int { return bits.OnesCount8(uint8(s)) }

// majority reports whether the members of s in some are more than half of s.
func (s set) majority(some set) bool { return 2*(s&some).size() > s.size() }

// entry is an entry of the log: its term, and the voters of a configuration. An entry without voters is a write.
// No two leaders of a term make two entries at one place, so two writes of one term and index are the same write.
type entry uint16

func newEntry(term uint8, voters set) entry { return entry(term)<<8 | entry(voters) }

func (e entry) term() uint8 { return uint8(e >> 8) }

func (e entry) voters() set { return set(e) }

// logID is a log by its number in logs. The empty log is 0.
type logID uint32

// record is what logs knows of a log.
type record struct {
	entries  [maxLog]entry
	length   uint8
	changes  uint8           // configurations after the first one
	at       uint8           // the index of the latest configuration; 0: there is none
	voters   set             // of the latest configuration
	former   set             // of the configuration before that
	shape    uint32          // a hash that does not depend on which disk is which
	member   [maxDisks]uint8 // by disk, the configurations in which it votes, as bits
	shorter  logID           // the log without its last entry
	appended map[entry]logID
}

// lastTerm returns the term of the last entry, or 0 if there is none.
func (r *record) lastTerm() uint8 {
	if r.length == 0 {
		return 0
	}
	return r.entries[r.length-1].term()
}

// first returns the index of the first entry of a term, or 0 if there is none.
func (r *record) first(term uint8) uint8 {
	for i := range r.length {
		if r.entries[i].term() == term {
			return i + 1
		}
	}
	return 0
}

// logs stores each log that was seen once.
type logs struct{ all []*record }

func newLogs() *logs { return &logs{[]*record{{appended: map[entry]logID{}}}} }

// with returns a log with one more entry.
func (l *logs) with(id logID, e entry) logID {
	old := l.all[id]
	if longer, ok := old.appended[e]; ok {
		return longer
	}
	r := *old
	r.shorter, r.appended = id, map[entry]logID{}
	r.entries[r.length] = e
	r.length++
	r.shape = (r.shape*31+uint32(e.term()))*31 + uint32(e.voters().size())
	if e.voters() != 0 {
		if r.at != 0 {
			r.changes++
		}
		r.former, r.voters, r.at = r.voters, e.voters(), r.length
		for d := range maxDisks {
			r.member[d] = r.member[d]<<1 | uint8(e.voters()>>d)&1
		}
	}
	l.all = append(l.all, &r)
	longer := logID(len(l.all) - 1)
	old.appended[e] = longer
	return longer
}

// prefix returns the first entries of a log.
func (l *logs) prefix(id logID, length uint8) logID {
	for l.all[id].length > length {
		id = l.all[id].shorter
	}
	return id
}

// common returns how many entries two logs share at their beginning.
func (l *logs) common(a, b logID) uint8 {
	length := min(l.all[a].length, l.all[b].length)
	a, b = l.prefix(a, length), l.prefix(b, length)
	for a != b {
		a, b = l.all[a].shorter, l.all[b].shorter
	}
	return l.all[a].length
}
