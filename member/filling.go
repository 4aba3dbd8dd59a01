package member

import "rollcall/znode"

// fillings are the shares of the quota of all data, in percent, that are reported when they are reached.
// The first leaves time to act, and the second is close to the first refusal.
var fillings = [...]int64{80, 95}

// fillingStep is how many percent the data must shrink below a share before it is reported again, so that
// data that keep growing and shrinking are not reported each time.
const fillingStep = 5

// nextFilling returns how many of the fillings are reached with so many bytes of a quota, if before were.
// A quota of 0 is none.
func nextFilling(before int, used, quota int64) int {
	if quota == 0 {
		return 0
	}
	n := 0
	for i, percent := range fillings {
		if i < before {
			percent -= fillingStep
		}
		if float64(used) >= float64(quota)/100*float64(percent) {
			n = i + 1
		}
	}
	return n
}

// reportFilling reports on the leader that the data have reached a share of their quota. A new leader
// reports it again. The caller holds the tree's lock.
func (m *Member) reportFilling() {
	quota := int64(m.state.Term().DataQuota)
	if quota <= 0 || m.terms.table == nil {
		return
	}
	used := m.state.DataUsed()
	n := nextFilling(m.filling, used, quota)
	if n > m.filling {
		m.emit(Event{Kind: EventFilling, Member: m.cfg.ID, Quota: znode.Quota{Path: "/", CountLimit: -1, Bytes: used, BytesLimit: quota}})
	}
	m.filling = n
}
