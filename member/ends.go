package member

import (
	"iter"

	"rollcall/operator/stateview"
	"rollcall/znode"
)

// SessionEnds yields the applied ends of sessions that of selects, newest first. All members keep the same
// ones: the last 10,000 of the ensemble. It holds the tree's lock for one part of them at a time.
func (m *Member) SessionEnds(of stateview.EndFilter) iter.Seq[znode.SessionEnd] {
	return stateview.Viewer{State: m.state}.SessionEnds(of)
}
