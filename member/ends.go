package member

import (
	"iter"
	"net"

	"rollcall/jute"
	"rollcall/znode"
)

// EndsOf selects ends of sessions. The zero value selects all that are kept.
type EndsOf struct {
	Session jute.SessionID // 0: of any session
	Address string         // the client's host, or its host and port; "": any
	Before  uint64         // only those with a lower number, to go on after a page; 0: from the newest on
}

// Ends yields the ends of sessions that this member has applied and that of selects, newest first.
// All members keep the same ones: the last 10,000 of the ensemble. It holds the tree's lock for one
// part of them at a time.
func (m *Member) Ends(of EndsOf) iter.Seq[znode.End] {
	return func(yield func(znode.End) bool) {
		part := make([]znode.End, 0, listedPerLock)
		for before, more := of.Before, true; more; {
			part = m.ends(part[:0], before)
			for _, end := range part {
				if of.has(end) && !yield(end) {
					return
				}
				before = end.Number
			}
			more = len(part) == listedPerLock
		}
	}
}

func (m *Member) ends(part []znode.End, before uint64) []znode.End {
	m.state.RLock()
	defer m.state.RUnlock()
	for end := range m.state.EndsBefore(before) {
		if part = append(part, end); len(part) == listedPerLock {
			break
		}
	}
	return part
}

// has reports whether end is selected, apart from its number.
func (of EndsOf) has(end znode.End) bool {
	if of.Session != 0 && of.Session != end.Session {
		return false
	}
	if of.Address == "" || of.Address == end.Address {
		return true
	}
	host, _, err := net.SplitHostPort(end.Address)
	return err == nil && of.Address == host
}
