package leader

import (
	"context"
	"log/slog"
	"time"
)

// Ensemble is raft's view of the other members. raft has connections of its own, apart from pings and writes.
type Ensemble interface {
	// ReachedVoters returns the other voting members that have replied to raft within d. It takes no lock
	// that apply holds.
	ReachedVoters(d time.Duration) []uint32
	// TransferTarget returns the member among reached that is to lead next, or 0 if there is none. It returns
	// no member that has led recently. It takes no lock that apply holds.
	TransferTarget(reached []uint32) uint32
	// HandOver makes raft hand leadership over to a member. It waits until that has happened or failed, or ctx
	// ends.
	HandOver(ctx context.Context, to uint32) error
}

// health hands over if this leader cannot do its work. raft keeps a leader as long as raft's own port works, even
// if pings, proofs or writes do not arrive.
type health struct {
	cfg        *Config
	log        *slog.Logger
	membership *membership
	proofs     *proofs

	provingRound uint64    // the newest round at the last check
	provedAt     time.Time // the last check at which no round was under way, or another one
	decisions    chan transferDecision
}

// handOverIfUnable hands over, in the background, if this leader has been unable to lead for the sync
// limit and another member may be able to. It is unable to lead if most of the members that raft
// reaches, itself included, are deaf to it. It is also unable if no proof round completes while at
// least one of them is deaf. A member is deaf if it does not reply to pings, or reports that it cannot
// reach the leader. A pause of this process proves nothing: every member gets the full time again.
func (h *health) handOverIfUnable(now time.Time, late bool) {
	limit := time.Duration(h.cfg.SyncLimit) * h.cfg.Tick
	begun, done := h.proofs.newestRounds()
	if late || begun == done || begun != h.provingRound {
		h.provingRound, h.provedAt = begun, now
	}
	if late {
		for _, m := range h.membership.presentLinks() {
			m.restartReachability(now)
		}
		return
	}
	if h.cfg.Ensemble == nil {
		return
	}
	reached := h.cfg.Ensemble.ReachedVoters(h.cfg.Tick)
	links, deaf := h.membership.presentLinks(), 0
	for _, id := range reached {
		if m := links[id]; m != nil && m.sinceReachable(now) >= limit {
			deaf++
		}
	}
	unproved := now.Sub(h.provedAt) >= limit
	if 2*deaf <= len(reached)+1 && (deaf == 0 || !unproved) {
		return
	}
	target := h.cfg.Ensemble.TransferTarget(reached)
	if target == 0 {
		return
	}
	select {
	case h.decisions <- transferDecision{target, len(reached), deaf, unproved}:
	default: // one is under way
	}
}

// transferDecision is a decision to hand over, with its reasons.
type transferDecision struct {
	target                      uint32
	reachedMembers, deafMembers int
	unproved                    bool
}

// handOverLoop hands over when handOverIfUnable decides so. The term ends when raft's leadership does. If the
// target does not take over, this leader continues.
func (h *health) handOverLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-h.decisions:
			h.log.Warn("this leader hands over: the log reaches members that do not answer its pings, or cannot send it writes",
				"to", d.target, "reached", d.reachedMembers, "deaf", d.deafMembers, "unproved", d.unproved)
			if err := h.cfg.Ensemble.HandOver(ctx, d.target); err != nil && ctx.Err() == nil {
				h.log.Warn("leadership not handed over", "to", d.target, "err", err)
			}
		}
	}
}
