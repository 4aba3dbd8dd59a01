package member

import (
	"iter"

	"rollcall/operator/view"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// EndFilter selects ends of sessions. The zero value selects all.
type EndFilter struct {
	Session jute.SessionID // 0: of any session
	Address string         // the client's host, or its host and port, as in a view.ClientFilter; "": any
	Before  uint64         // the number of the last end of the previous page; 0: from the newest on
}

// SessionEnds yields the applied ends of sessions that of selects, newest first. All members keep the same
// ones: the last 10,000 of the ensemble. It holds the tree's lock for one part of them at a time.
func (m *Member) SessionEnds(of EndFilter) iter.Seq[znode.SessionEnd] {
	return func(yield func(znode.SessionEnd) bool) {
		part, from := make([]znode.SessionEnd, 0, listedPerLock), view.NewClientFilter(of.Address)
		for before, more := of.Before, true; more; {
			part = appendEnds(m.state, part[:0], before)
			for _, end := range part {
				wanted := (of.Session == 0 || of.Session == end.Session) && from.Matches(end.Address)
				if wanted && !yield(end) {
					return
				}
				before = end.Number
			}
			more = len(part) == listedPerLock
		}
	}
}

func appendEnds(state *znode.State, part []znode.SessionEnd, before uint64) []znode.SessionEnd {
	state.RLock()
	defer state.RUnlock()
	for end := range state.SessionEndsBefore(before) {
		if part = append(part, end); len(part) == listedPerLock {
			break
		}
	}
	return part
}
