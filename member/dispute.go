package member

import (
	"context"
	"time"
)

// A dispute is a divergence from the leader's state without a majority for either side: one of two members
// differs, or the third is down. No member knows the right state. The leader and the members that agree with it
// keep serving, because one side must. This member stops serving, so clients do not read two different states.
// It keeps its state, and remains a voter and a candidate, because its state may be the right one.

// disputeTicks is the duration of a dispute after the last report, in ticks. While it lasts, there is a report at least
// every two ticks.
const disputeTicks = 3

type dispute struct {
	reason  string
	expires time.Time
}

// suspendForDispute implements follower.Config.OnDivergence. It suspends the server, and never blocks.
func (h *health) suspendForDispute(why string) {
	before := h.disputeReason()
	h.currentDispute.Store(&dispute{
		"its state differs from the leader's, and no majority says who is right: " + why,
		time.Now().Add(disputeTicks * h.cfg.Tick),
	})
	h.server.Suspend()
	if before == "" {
		h.log.Error("this member does not serve for now: its state differs from the leader's, and no majority says who is "+
			"right; start the members that are away, or empty the data directory of the member that is wrong", "reason", why)
	}
}

// disputeReason returns the reason of the dispute, or "" if there is none. A leader keeps serving, because one
// side must.
func (h *health) disputeReason() string {
	d := h.currentDispute.Load()
	if d == nil || time.Now().After(d.expires) || h.terms.currentLeader.Load() != nil {
		return ""
	}
	return d.reason
}

// resumeLoop resumes serving when a dispute is over.
func (h *health) resumeLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.Tick / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if d := h.currentDispute.Load(); d != nil && h.disputeReason() == "" && h.currentDispute.CompareAndSwap(d, nil) {
			h.log.Info("the leader no longer reports that this member's state differs")
			h.server.Resume()
			if h.disputeReason() != "" { // reported again meanwhile
				h.server.Suspend()
			}
		}
	}
}
