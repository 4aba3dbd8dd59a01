package judge

import "rollcall/lab/result"

// epochShift is the place of a leader's epoch in a zxid. Each leader of Rollcall and of ZooKeeper has an epoch of its own.
const epochShift = 32

// leaderChanges returns the times in each of which another leader began, in order: from the last reply without its epoch to the
// first one with it. known is false if the replies do not show that: their zxids have no epochs, as those of ClickHouse
// Keeper, or not all were kept.
func (e *Evidence) leaderChanges() (changes []result.Interval, known bool) {
	var newest int64
	var last result.Millis
	for i := range e.Reads {
		r := &e.Reads[i]
		epoch := r.Zxid >> epochShift
		if newest > 0 && epoch > newest {
			changes = append(changes, result.Interval{From: last, To: r.At})
		}
		newest, last = max(newest, epoch), r.At
	}
	return changes, newest > 0 && e.Dropped[KindReads] == 0
}
