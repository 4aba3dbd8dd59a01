package server

import (
	"sync"
	"time"
)

// refusals limits the lines about failed handshakes, logins, or accepts.
type refusals struct {
	mu      sync.Mutex
	next    time.Time
	skipped int
}

// due reports whether a line is due at now, and how many there were since the last one that were not.
func (r *refusals) due(now time.Time) (skipped int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		r.skipped++
		return 0, false
	}
	skipped, r.skipped, r.next = r.skipped, 0, now.Add(refusalPause)
	return skipped, true
}
