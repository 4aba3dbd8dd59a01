package member

import (
	"sync/atomic"

	"rollcall/internal/metrics"
	"rollcall/znode"
)

// applyProgress records the progress of apply. Only apply writes it. Fields without another rule are read
// without a lock.
type applyProgress struct {
	lastIndex       atomic.Uint64     // of the last entry applied
	applyDurations  metrics.Durations // of applying an entry
	announced       atomic.Bool       // this process is the member's current run
	minFormat       atomic.Uint32     // State.MinFormat
	droppedTxns     atomic.Uint64     // transactions of this member that were dropped as duplicates
	sessionCounters sessionCounters

	clientReconfig clientReconfig
	quotaWarnings  quotaWarnings // the tree's lock guards it
}

// updateFromAnnouncements updates p from the announcements in the state. self is this member, and boot its process.
func (p *applyProgress) updateFromAnnouncements(state *znode.State, self uint32, boot uint64) {
	current, _ := state.MemberIncarnation(self)
	p.announced.Store(current == boot)
	p.minFormat.Store(state.MinFormat())
}

// sessionCounters counts events of sessions while this member leads. So each event is counted on one member,
// and not again when a member replays its log.
type sessionCounters struct {
	opened, resumed atomic.Uint64
	ended           [znode.ReasonKilled + 1]atomic.Uint64 // by reason
}
