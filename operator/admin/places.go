package admin

import (
	"context"
	"net/http"
	"time"
)

// longReplyLimiter bound how many long answers are made at once.
type longReplyLimiter struct {
	longReplies        chan struct{} // has room for maxLong: those that are not under /v1/
	pages              chan struct{} // has room for maxPages: those under /v1/
	administratorPages chan struct{} // has room for maxPages: the same for administrators, whom no reader keeps out
}

func newLongReplyLimiter() *longReplyLimiter {
	return &longReplyLimiter{longReplies: make(chan struct{}, maxLongReplies), pages: make(chan struct{}, maxPages), administratorPages: make(chan struct{}, maxPages)}
}

// sleepContext waits for d, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

// acquire takes a place for a long answer, and returns what leaves it. It returns nil if there is none.
func (p *longReplyLimiter) acquire(e *endpoint, r *http.Request) (leave func()) {
	kind, patience := p.longReplies, time.Duration(0)
	if e.replyJSON != nil {
		kind, patience = p.pages, slotTimeout
		if e.access == changeAccess {
			kind = p.administratorPages
		}
	}
	select {
	case kind <- struct{}{}:
		return func() { <-kind }
	default:
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case kind <- struct{}{}:
		return func() { <-kind }
	case <-over.C:
	case <-r.Context().Done():
	}
	return nil
}
