package follower

import "time"

const (
	// longOps is the number of operations above which a write is long. The entry that such a write is in takes every member
	// several milliseconds, in which no other write is applied.
	longOps = 1024
	// longClass is the first class that may hold long writes.
	longClass = 5
	// pauseShare is how many times as long as a long write took the next one of this member waits. The writes of others,
	// on all members, pass meanwhile.
	pauseShare = 4
	// maxPause limits the wait after a single long write, which may have taken as long as an election.
	maxPause = time.Second
)

// longWritePause keeps long writes apart: one of them is under way at a time, and the next one waits for a
// while. The zero value is ready. The outbox's lock guards it.
type longWritePause struct {
	inFlight   int       // long writes that are sent and not applied
	pauseUntil time.Time // none is sent before this time
}

// inProgress reports whether no long write may be sent now.
func (r *longWritePause) inProgress(now time.Time) bool {
	return r.inFlight > 0 || now.Before(r.pauseUntil)
}

// writeApplied begins a rest after a long write that took so long, and calls wake at its end.
func (r *longWritePause) writeApplied(took time.Duration, wake func()) {
	r.inFlight--
	d := min(pauseShare*took, maxPause)
	r.pauseUntil = time.Now().Add(d)
	time.AfterFunc(d, wake)
}
