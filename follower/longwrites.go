package follower

import "time"

const (
	// longOps is the number of operations above which a write is long. The entry that such a write is in takes every member
	// several milliseconds, in which no other write is applied.
	longOps = 1024
	// longClass is the first class that may hold long writes.
	longClass = 5
	// restShare is how many times as long as a long write took the next one of this member waits. The writes of others,
	// on all members, pass meanwhile.
	restShare = 4
	// maxRest limits the wait after a single long write, which may have taken as long as an election.
	maxRest = time.Second
)

// rest keeps long writes apart: one of them is under way at a time, and the next one waits for a
// while. The zero value is ready. The outbox's lock guards it.
type rest struct {
	sent  int       // long writes that are sent and not applied
	until time.Time // none is sent before this time
}

// needed reports whether no long write may be sent now.
func (r *rest) needed(now time.Time) bool { return r.sent > 0 || now.Before(r.until) }

// applied begins a rest after a long write that took so long, and calls wake at its end.
func (r *rest) applied(took time.Duration, wake func()) {
	r.sent--
	d := min(restShare*took, maxRest)
	r.until = time.Now().Add(d)
	time.AfterFunc(d, wake)
}
