package member

import (
	"time"

	"rollcall/znode"
)

// quotaShares are the shares of the data quota, in percent, at which warnings are reported. The first leaves
// time to act, and the second is close to the first rejected write.
var quotaShares = [...]int64{80, 95}

const (
	// quotaShareStep is the hysteresis, in percent: the data must shrink that far below a share before it is
	// reported again.
	quotaShareStep = 5
	// quotaPause is the minimum time between two EventQuotaOverused: every write may overuse a quota.
	quotaPause = 10 * time.Second
)

// quotaWarnings reports, on the leader, quotas and sequential names that are overused or nearly used up. The tree's lock guards it.
type quotaWarnings struct {
	events *eventQueue
	self   uint32

	lastReport    time.Time // of the last EventQuotaOverused
	overuses      int       // since then
	sharesReached int       // of quotaShares
	namesReached  int       // of quotaShares, of the numbers in sequential names
	namesEnded    bool      // was reported
}

// reportOveruse reports a write that left a quota overused.
func (w *quotaWarnings) reportOveruse(q znode.ExceededQuota) {
	if w.overuses++; time.Since(w.lastReport) < quotaPause {
		return
	}
	w.events.enqueueOrDrop(Event{Kind: EventQuotaOverused, Member: w.self, Quota: q, Overuses: w.overuses})
	w.lastReport, w.overuses = time.Now(), 0
}

// resetReported makes a new leader report the data quota and the names again.
func (w *quotaWarnings) resetReported() { w.sharesReached, w.namesReached, w.namesEnded = 0, 0, false }

// reportNames reports that a parent has used up a share of the numbers of its sequential names, and when it has used up
// all. With longNames, the numbers go on, and nothing is reported.
func (w *quotaWarnings) reportNames(parent znode.ChildCount, longNames bool) {
	if longNames {
		return
	}
	ended := parent.Created == znode.MaxCreated
	reached := sharesReached(w.namesReached, parent.Created, znode.MaxCreated)
	switch {
	case ended && !w.namesEnded:
		w.events.enqueueOrDrop(Event{Kind: EventNamesEnded, Member: w.self, Names: parent})
	case !ended && reached > w.namesReached:
		w.events.enqueueOrDrop(Event{Kind: EventNamesWarning, Member: w.self, Names: parent})
	}
	w.namesReached, w.namesEnded = reached, ended
}

// reportQuotaShare reports that the data have reached a share of their quota. There is no quota if it is not positive.
func (w *quotaWarnings) reportQuotaShare(used, quota int64) {
	if quota <= 0 {
		return
	}
	reached := sharesReached(w.sharesReached, used, quota)
	if reached > w.sharesReached {
		w.events.enqueueOrDrop(Event{
			Kind: EventQuotaWarning, Member: w.self,
			Quota: znode.ExceededQuota{Path: "/", CountLimit: -1, Bytes: used, BytesLimit: quota},
		})
	}
	w.sharesReached = reached
}

// sharesReached returns the number of quotaShares that used reaches. before is the last result.
func sharesReached(before int, used, quota int64) int {
	n := 0
	for i, percent := range quotaShares {
		if i < before {
			percent -= quotaShareStep
		}
		if float64(used) >= float64(quota)/100*float64(percent) {
			n = i + 1
		}
	}
	return n
}
