package leader

import "time"

const (
	// maxUnderWay and maxUnderWayBytes limit the entries that are under way at a time: another one is proposed only while
	// fewer are. A pipeline to a member carries as many (maxInFlight of quorum/wire).
	maxUnderWay      = 16
	maxUnderWayBytes = 8 << 20

	// overlapShare is the part of the time of a commit for which an entry waits for the one before: as many fit into that time as may
	// be under way. Without this wait, entries would be smaller, and each makes every member write to its disk and exchange a
	// round of messages.
	overlapShare = maxUnderWay
	// minOverlapDelay is the shortest such wait.
	minOverlapDelay = time.Millisecond
	// overlapFrom is the time of a commit from which entries overlap. On links without delay and with fast disks a commit takes less, and
	// one entry at a time is best there.
	overlapFrom = 2 * minOverlapDelay
	// commitTimeRise is the share of its difference from a longer commit by which the time of a commit rises.
	commitTimeRise = 64
)

// underWay are the entries that are proposed and not done, the oldest first. batchLoop alone uses it.
type underWay struct {
	entries []proposedEntry
	bytes   int
	// commitTime is about the shortest time that commits have taken lately: it falls to that of a shorter one at once, and rises slowly.
	// So it follows the delay of the links, which every commit takes, and not a busy processor or a slow write to a disk. It is 0
	// before the first commit.
	commitTime time.Duration
}

// proposedEntry is an entry that is under way.
type proposedEntry struct {
	batch
	Future
	begun         time.Time
	settledBefore uint64 // the last settled index when it was proposed, which was not below the entry before
}

func (u *underWay) add(e proposedEntry) {
	u.entries = append(u.entries, e)
	u.bytes += len(e.data)
}

// removeOldest removes the oldest entry, which is done at now, and returns it.
func (u *underWay) removeOldest(now time.Time) proposedEntry {
	e := u.entries[0]
	u.entries[0] = proposedEntry{}
	u.entries = u.entries[1:]
	u.bytes -= len(e.data)
	if took := now.Sub(e.begun); u.commitTime == 0 || took < u.commitTime {
		u.commitTime = took
	} else {
		u.commitTime += (took - u.commitTime) / commitTimeRise
	}
	return e
}

// oldestDone returns a channel that is closed when the oldest entry is done. If there is no entry, it is nil.
func (u *underWay) oldestDone() <-chan struct{} {
	if len(u.entries) == 0 {
		return nil
	}
	return u.entries[0].Done()
}

// nextAt returns when the next entry may be proposed, or is to be looked at again. ok is false if that has to wait until the oldest one
// is done. settled is the last settled index: while the newest entry is above it, entries do not overlap. This member
// applies none before that, so they would only wait here.
func (u *underWay) nextAt(now time.Time, settled uint64) (at time.Time, ok bool) {
	n := len(u.entries)
	switch {
	case n == 0:
		return time.Time{}, true
	case n >= maxUnderWay, u.bytes >= maxUnderWayBytes, u.commitTime < overlapFrom:
		return time.Time{}, false
	}
	newest := u.entries[n-1]
	at = newest.begun.Add(max(minOverlapDelay, u.commitTime/overlapShare))
	if retry := now.Add(minOverlapDelay); settled <= newest.settledBefore && at.Before(retry) {
		at = retry
	}
	return at, true
}
