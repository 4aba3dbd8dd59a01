package stages

import (
	"slices"
	"time"
)

// CauseKind is a kind of events on a member that make requests slow and are no stage of a single entry.
type CauseKind uint8

// The kinds of causes.
const (
	Paused       CauseKind = iota + 1 // the process did not run: it was stopped, or had no processor
	NoLeader                          // the member knew no leader that serves
	Snapshot                          // the member wrote a snapshot
	Backup                            // the member wrote a backup
	SlowSync                          // a sync of the member's log was slow
	PausedBefore                      // of a request: its member did not run until a moment before it read the request
	NumCauseKinds
)

// Cause is an event on a member, from one time to another. To is zero if it has not ended.
type Cause struct {
	Kind     CauseKind
	From, To Time
}

const (
	MaxCauses = 256 // newest ones; they take 6 KiB
	// causeAge is the time for which an ended cause is reported. Requests are joined within a few seconds.
	causeAge = 2 * time.Minute
	// maxSlowSyncs limits the causes of kind SlowSync, so that a very slow disk, or a very low threshold, leaves room for
	// the others.
	maxSlowSyncs = MaxCauses / 4
)

// causeList holds the newest causes, oldest first.
type causeList struct{ causes []Cause }

// beginCause adds a cause without an end.
func (l *causeList) beginCause(kind CauseKind, from Time) {
	if len(l.causes) == MaxCauses {
		l.causes = append(l.causes[:0], l.causes[1:]...)
	}
	l.causes = append(l.causes, Cause{Kind: kind, From: from})
}

// lastOf returns the newest cause of a kind, or nil.
func (l *causeList) lastOf(kind CauseKind) *Cause {
	for i := len(l.causes) - 1; i >= 0; i-- {
		if l.causes[i].Kind == kind {
			return &l.causes[i]
		}
	}
	return nil
}

func (l *causeList) recentCauses(now Time) (recent []Cause) {
	for _, c := range l.causes {
		if c.To == 0 || now-c.To < Time(causeAge) {
			recent = append(recent, c)
		}
	}
	return recent
}

// BeginCause records that a cause begins now. A kind that has not ended does not begin again.
func (r *Recorder) BeginCause(kind CauseKind) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.causes.lastOf(kind); c == nil || c.To != 0 {
		r.causes.beginCause(kind, r.Now())
	}
}

// EndCause records that the newest cause of a kind ends now, if it has not ended.
func (r *Recorder) EndCause(kind CauseKind) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.causes.lastOf(kind); c != nil && c.To == 0 {
		c.To = r.Now()
	}
}

// SlowSync records that a sync of the member's log, which began at begun, is done, and was slow. Only the newest
// maxSlowSyncs are held.
func (r *Recorder) SlowSync(begun time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes.makeRoomForSync()
	r.causes.beginCause(SlowSync, r.At(begun))
	r.causes.causes[len(r.causes.causes)-1].To = r.Now()
}

// makeRoomForSync removes the oldest cause of kind SlowSync if there are maxSlowSyncs.
func (l *causeList) makeRoomForSync() {
	oldest, syncs := -1, 0
	for i, c := range l.causes {
		if c.Kind != SlowSync {
			continue
		}
		if syncs++; oldest < 0 {
			oldest = i
		}
	}
	if syncs == maxSlowSyncs {
		l.causes = slices.Delete(l.causes, oldest, oldest+1)
	}
}

// LeaderLost records that the member knows no leader any more. heard is when it last heard one, and silence is the longest
// time for which a follower hears none before it notices. If heard is longer ago, this member led.
func (r *Recorder) LeaderLost(heard time.Time, silence time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.Now()
	if at := r.At(heard); at != 0 && from-at <= Time(silence) {
		from = at
	}
	if c := r.causes.lastOf(NoLeader); c == nil || c.To != 0 {
		if c != nil {
			from = max(from, c.To)
		}
		r.causes.beginCause(NoLeader, from)
	}
}

// maxTermStart is the longest time between the election of a leader and its TermStart that counts as time without a
// leader.
const maxTermStart = 10 * time.Second

// TermStarted records that a leader serves. The time since its election counts as time without a leader.
func (r *Recorder) TermStarted() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, now := r.causes.lastOf(NoLeader), r.Now(); c != nil && (c.To == 0 || now-c.To < Time(maxTermStart)) {
		c.To = now
	}
}

const (
	// pauseCheck is the time between two checks of whether the process runs. A check costs about a microsecond.
	pauseCheck = 20 * time.Millisecond
	// minPause is the least delay of a check that counts as a pause. Shorter ones are usual on a busy machine.
	minPause = 40 * time.Millisecond
)

// WatchPauses records the times in which the process does not run, until done is closed. after returns a channel that is
// ready after a time. paused is called with the length of each.
func (r *Recorder) WatchPauses(done <-chan struct{}, after func(time.Duration) <-chan time.Time, paused func(time.Duration)) {
	for {
		last := r.Now()
		select {
		case <-done:
			return
		case <-after(pauseCheck):
		}
		if took := r.checkPause(last, r.Now()); took > 0 {
			paused(took)
		}
	}
}

// checkPause records a pause if a check that was due pauseCheck after last came at now, and returns its length, or else 0. The
// pause began at any time between the two checks that should have been, so the middle is taken.
func (r *Recorder) checkPause(last, now Time) time.Duration {
	if now-last < Time(pauseCheck+minPause) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes.beginCause(Paused, last+Time(pauseCheck/2))
	r.causes.causes[len(r.causes.causes)-1].To = now
	return time.Duration(now-last) - pauseCheck/2
}
