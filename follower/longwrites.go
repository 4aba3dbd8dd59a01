package follower

import "time"

const (
	// longOps is the number of operations above which a write is long. Its entry takes every member several
	// milliseconds, in which no other write is applied.
	longOps = 1024
	// longClass is the first class that may hold long writes.
	longClass = 5
	// pauseShare is the pause after a long write, in times of its duration. Other writes pass meanwhile, on all members.
	pauseShare = 4
	// maxPause limits the pause after a single long write, which may have taken as long as an election.
	maxPause = time.Second
)

// longWritePause keeps long writes apart: one of them is in flight at a time, and a pause follows. The zero value is
// ready. The outbox's lock guards it.
type longWritePause struct {
	inFlight   int // long writes
	pauseUntil time.Time
}

// inProgress reports whether no long write may be sent at now.
func (r *longWritePause) inProgress(now time.Time) bool {
	return r.inFlight > 0 || now.Before(r.pauseUntil)
}

// startPause begins the pause after a long write, and calls wake at its end.
func (r *longWritePause) startPause(took time.Duration, wake func()) {
	r.inFlight--
	d := min(pauseShare*took, maxPause)
	r.pauseUntil = time.Now().Add(d)
	time.AfterFunc(d, wake)
}
