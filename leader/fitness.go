package leader

import (
	"context"
	"log/slog"
	"time"
)

// Ensemble is how the leader learns about the other members from raft, and how it hands leadership
// over. raft's connections are not those of pings and writes.
type Ensemble interface {
	// Reached returns the other voting members that have answered raft within d. It takes no lock
	// that apply holds.
	Reached(d time.Duration) []uint32
	// TransferTarget returns the one of them that is to lead next, or 0 if there is none. It returns no
	// member that has led a short while ago. It takes no lock that apply holds.
	TransferTarget(reached []uint32) uint32
	// HandOver asks raft to hand leadership over to a member. It waits until that has happened, ctx
	// ends or it is clear that it will not happen.
	HandOver(ctx context.Context, to uint32) error
}

// health decides whether this leader can do its work, and hands over if it cannot. raft keeps a leader as long as
// raft's own port works, even if pings, proofs or writes do not arrive.
type health struct {
	cfg        *Config
	log        *slog.Logger
	membership *membership
	proofs     *proofs

	provingRound uint64    // the round that was under way, or would come next, at the last check
	provedAt     time.Time // when no round was under way at a check, or another one was
	decisions    chan transferDecision
}

// checkHealth hands over, in the background, if this leader has been unable to lead for the sync
// limit and another member may be able to. It is unable to lead if most of the members that raft
// reaches, itself included, are deaf to it. It is also unable if no proof round completes while at
// least one of them is deaf. A member is deaf if it does not answer pings, or says that it cannot
// reach the leader. A pause of this process proves nothing: every member gets the full time again.
func (h *health) checkHealth(now time.Time, late bool) {
	limit := time.Duration(h.cfg.SyncLimit) * h.cfg.Tick
	begun, done := h.proofs.newestRounds()
	if late || begun == done || begun != h.provingRound {
		h.provingRound, h.provedAt = begun, now
	}
	if late {
		for _, m := range h.membership.presentLinks() {
			m.restartDeafness(now)
		}
		return
	}
	if h.cfg.Ensemble == nil {
		return
	}
	reached := h.cfg.Ensemble.Reached(h.cfg.Tick)
	links, deaf := h.membership.presentLinks(), 0
	for _, id := range reached {
		if m := links[id]; m != nil && m.deafFor(now) >= limit {
			deaf++
		}
	}
	unproved := now.Sub(h.provedAt) >= limit
	if 2*deaf <= len(reached)+1 && (deaf == 0 || !unproved) {
		return
	}
	heir := h.cfg.Ensemble.TransferTarget(reached)
	if heir == 0 {
		return
	}
	select {
	case h.decisions <- transferDecision{heir, len(reached), deaf, unproved}:
	default: // one is under way
	}
}

// transferDecision is a decision to hand over, with its reasons.
type transferDecision struct {
	target                      uint32
	reachedMembers, deafMembers int
	unproved                    bool
}

// handOverLoop hands over when check decides so. The term ends when raft's leadership does.
// If the heir does not take over, this leader continues.
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
