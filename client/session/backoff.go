package session

import (
	"math/rand/v2"
	"time"
)

// After a connection on which requests passed for minLinkLife, the first attempt begins at once, and at another server
// if there is one. A failed attempt is followed by a pause: at first a 256th to a 128th of the session's timeout, and
// after each further failure twice that, backoffSteps times, so at last a 16th to an 8th. There are therefore several
// attempts within the timeout.
const backoffSteps = 4

// A connection counts as a success after minLinkLife. A server that accepts clients only to drop them is not
// tried again at once.
const minLinkLife = 100 * time.Millisecond

// retryPause returns the pause after so many failed attempts in a row. Half of it is random, so that
// many clients that lost the same server do not come back at once.
func retryPause(timeout time.Duration, failed int) time.Duration {
	d := timeout / 128 << min(failed-1, backoffSteps)
	return d/2 + rand.N(d/2+1)
}

// waitToRetry waits before the next attempt; the wait grows with the number of failures. It does not wait
// after a connection on which requests passed for a while.
func (r *reader) waitToRetry(passed bool, err error) {
	if passed && r.c.monotonicNow()-r.attemptBegun > minLinkLife {
		r.failures = 0
		return
	}
	r.failures++
	r.c.mu.Lock()
	r.c.lastFailure = err
	timeout, id, allFailed := r.c.timeout, r.c.session.ID, r.failures == max(len(r.c.servers.all), 1)
	r.c.mu.Unlock()
	if allFailed {
		r.c.log.Warn("cannot connect to any server", "session", id, "err", err)
	}
	select {
	case <-time.After(min(retryPause(timeout, r.failures), r.timeToGiveUp())):
	case <-r.c.ctx.Done():
	}
}
