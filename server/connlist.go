package server

import "slices"

// connectionList holds the connections of a server in the order of their numbers, so that they can be listed
// page by page without being sorted. Adding one at the end and finding one are cheap. Removing one
// leaves a gap, and the gaps are closed when they are more than the connections. The zero value is
// empty. connectionTable.mu guards it.
type connectionList struct {
	places []place
	n      int // connections
}

// place is the place of a connection, which may have left it.
type place struct {
	number uint64 // conn.ordinal
	conn   *conn  // nil: it has left
}

// minGaps is the number of gaps that a connectionList leaves open, however few connections it holds.
const minGaps = 64

// add adds a connection whose number is greater than that of all before.
func (r *connectionList) add(c *conn) {
	r.places = append(r.places, place{c.ordinal, c})
	r.n++
}

// remove removes a connection, and reports whether it was there.
func (r *connectionList) remove(c *conn) bool {
	i := r.search(c.ordinal)
	if i == len(r.places) || r.places[i].conn != c {
		return false
	}
	r.places[i].conn = nil
	if r.n--; len(r.places)-r.n > max(minGaps, r.n) {
		r.places = slices.DeleteFunc(r.places, func(p place) bool { return p.conn == nil })
	}
	return true
}

// search returns the first place whose number is at least number.
func (r *connectionList) search(number uint64) int {
	i, _ := slices.BinarySearchFunc(r.places, number, func(p place, number uint64) int {
		switch {
		case p.number < number:
			return -1
		case p.number > number:
			return 1
		}
		return 0
	})
	return i
}

// from appends to part the connections from number first on, in order, until part is full.
func (r *connectionList) from(part []*conn, first uint64) []*conn {
	for _, p := range r.places[r.search(first):] {
		if len(part) == cap(part) {
			break
		}
		if p.conn != nil {
			part = append(part, p.conn)
		}
	}
	return part
}
