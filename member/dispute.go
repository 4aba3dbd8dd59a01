package member

import (
	"context"
	"time"
)

// A dispute is a verdict of the leader that no majority confirms or refutes: of two members one differs,
// or the third is away. No member knows which state is right. The leader and the members that agree with it
// continue to serve, because one side must. This member does not serve meanwhile, so that clients do not read two
// different states. It keeps its state, and stays a voter and a candidate: its state may be the right one.

// disputeTicks is the number of ticks for which a dispute lasts after the last verdict. While it lasts, a verdict is
// judged at least every two ticks.
const disputeTicks = 3

// dispute is the reason why this member does not serve, and the time until which it holds.
type dispute struct {
	reason  string
	expires time.Time
}

// reportDispute implements follower.Config.Disputed. It never blocks.
func (h *health) reportDispute(why string) {
	before := h.disputed()
	h.currentDispute.Store(&dispute{"its state differs from the leader's, and no majority says who is right: " + why, time.Now().Add(disputeTicks * h.cfg.Tick)})
	h.server.Suspend()
	if before == "" {
		h.log.Error("this member does not serve for now: its state differs from the leader's, and no majority says who is right; start the members that are away, or empty the data directory of the member that is wrong", "reason", why)
	}
}

// disputed returns the reason why this member does not serve, or "" if there is no dispute. A leader keeps serving, because
// one side must.
func (h *health) disputed() string {
	d := h.currentDispute.Load()
	if d == nil || time.Now().After(d.expires) || h.terms.currentLeader.Load() != nil {
		return ""
	}
	return d.reason
}

// disputeLoop serves again once a dispute is over.
func (h *health) disputeLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.Tick / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if d := h.currentDispute.Load(); d != nil && h.disputed() == "" && h.currentDispute.CompareAndSwap(d, nil) {
			h.log.Info("the leader says no more that this member's state is wrong")
			h.server.Resume()
			if h.disputed() != "" { // it has just said so again
				h.server.Suspend()
			}
		}
	}
}
