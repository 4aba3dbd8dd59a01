package server

import "slices"

// connectionList holds connections by localNumber, so that they can be listed page by page without sorting.
// Adding and finding one are cheap. Removing one leaves a gap, and the gaps are closed when they outnumber
// the connections. The zero value is empty. connectionTable.mu guards it.
type connectionList struct {
	entries []listedConn
	n       int // connections
}

// listedConn is an entry of a connectionList, or a gap.
type listedConn struct {
	number uint64 // conn.localNumber
	conn   *conn  // nil: a gap
}

// minGaps is the number of gaps that are always left open.
const minGaps = 64

// add adds a connection whose number is greater than all before.
func (r *connectionList) add(c *conn) {
	r.entries = append(r.entries, listedConn{c.localNumber, c})
	r.n++
}

// remove removes a connection, and reports whether it was present.
func (r *connectionList) remove(c *conn) bool {
	i := r.searchFrom(c.localNumber)
	if i == len(r.entries) || r.entries[i].conn != c {
		return false
	}
	r.entries[i].conn = nil
	if r.n--; len(r.entries)-r.n > max(minGaps, r.n) {
		r.entries = slices.DeleteFunc(r.entries, func(p listedConn) bool { return p.conn == nil })
	}
	return true
}

// searchFrom returns the index of the first entry with at least number.
func (r *connectionList) searchFrom(number uint64) int {
	i, _ := slices.BinarySearchFunc(r.entries, number, func(p listedConn, number uint64) int {
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

// appendFrom appends to part the connections from number first on, in order, until part is full.
func (r *connectionList) appendFrom(part []*conn, first uint64) []*conn {
	for _, p := range r.entries[r.searchFrom(first):] {
		if len(part) == cap(part) {
			break
		}
		if p.conn != nil {
			part = append(part, p.conn)
		}
	}
	return part
}
