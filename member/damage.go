package member

import (
	"context"
	"fmt"

	"rollcall/server"
)

// reportDamage reports that this member's state is damaged. It never blocks. Further reasons are dropped.
func (h *health) reportDamage(why string) {
	select {
	case h.damageReports <- why:
	default:
	}
}

// damageLoop stops serving once this member's state is known to be damaged, by this or an earlier run. Another
// member leads, and the clients move there. This member continues to store entries and vote, because its log is
// sound. It serves again only after a start with an empty directory. A standalone server returns an error
// instead: the next start rebuilds the state from its disk.
func (h *health) damageLoop(ctx context.Context) error {
	if why := h.node.Record().DamageReason(); why != "" {
		h.log.Error("this member does not serve: its state was found to be damaged; stop it, empty its data directory and "+
			"start it again", "reason", why)
		h.stopServing()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case why := <-h.damageReports:
			switch {
			case h.node.Record().DamageReason() != "": // reported again
			case h.cfg.isStandalone():
				return fmt.Errorf("member: the state is damaged: %s; start this member again: it reads its state from the disk. "+
					"If that happens again, check the memory of the machine", why)
			default:
				if err := h.retireDamaged(ctx, why); err != nil {
					return err
				}
			}
		}
	}
}

// retireDamaged stops serving. If this member leads, it first tries to hand leadership over.
func (h *health) retireDamaged(ctx context.Context, why string) error {
	over, cancel := context.WithTimeout(ctx, h.cfg.handOverTime())
	defer cancel()
	if err := h.node.Transfer().ToAny(over); err != nil {
		h.log.Warn("leadership not handed over", "err", err)
	}
	h.log.Error("this member stops serving: its state is damaged; stop it, empty its data directory and start it again",
		"reason", why)
	err := h.node.Record().StoreDamage(why)
	h.stopServing()
	return err
}

func (h *health) stopServing() {
	h.terms.abandonTerm()
	h.server.Suspend(server.Damaged)
}
