package member

import (
	"time"

	"rollcall/znode"
)

// quotaShares are the shares of the quota of all data, in percent, that are reported when they are reached.
// The first leaves time to act, and the second is close to the first rejected write.
var quotaShares = [...]int64{80, 95}

const (
	// quotaShareStep is the number of percent by which the data must shrink below a share before it is reported again, so
	// that data that keep growing and shrinking are not reported each time.
	quotaShareStep = 5
	// quotaPause is the least time between two EventQuotas: a quota may be overused by every write.
	quotaPause = 10 * time.Second
)

// quotaWarnings reports, on the leader, quotas that are overused or nearly used up. The tree's lock guards it.
type quotaWarnings struct {
	events *eventQueue
	self   uint32

	lastReport    time.Time // of the last EventQuota
	overuses      int       // since then
	sharesReached int       // of quotaShares
}

// recordOveruse reports a write that left a quota overused.
func (w *quotaWarnings) recordOveruse(q znode.ExceededQuota) {
	if w.overuses++; time.Since(w.lastReport) < quotaPause {
		return
	}
	w.events.emit(Event{Kind: EventQuotaOverused, Member: w.self, Quota: q, Overuses: w.overuses})
	w.lastReport, w.overuses = time.Now(), 0
}

// termStarted makes a new leader report the data quota again.
func (w *quotaWarnings) termStarted() { w.sharesReached = 0 }

// checkDataUsed reports that the data have reached a share of their quota. There is no quota if it is not positive.
func (w *quotaWarnings) checkDataUsed(used, quota int64) {
	if quota <= 0 {
		return
	}
	reached := sharesReached(w.sharesReached, used, quota)
	if reached > w.sharesReached {
		w.events.emit(Event{Kind: EventQuotaWarning, Member: w.self, Quota: znode.ExceededQuota{Path: "/", CountLimit: -1, Bytes: used, BytesLimit: quota}})
	}
	w.sharesReached = reached
}

// sharesReached returns the number of quotaShares that so many bytes of a quota reach. before is the last result.
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
