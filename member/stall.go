package member

import (
	"context"
	"time"
)

// stallChecksPerLimit is the number of times within the stall limit that a member checks whether its disk hangs.
const stallChecksPerLimit = 20

// stallLoop stops this member from leading and serving while it does not write or apply the log.
// While an operation takes longer than the limit, its term is ended and its clients' connections
// are closed, so that they go elsewhere. raft gives up leadership on its own, because its requests
// are held back; but it would report this only when the operation returns.
func (h *health) stallLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.StoreStallLimit / stallChecksPerLimit)
	defer ticker.Stop()
	for stalls := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := h.node.StallError()
		switch {
		case err != nil:
			if !stalls {
				h.log.Warn("this member gives up leading and closes its clients' connections", "err", err)
			}
			h.terms.abandonTerm()
			h.server.DropAll() // includes connections opened since the last call
		case stalls:
			h.log.Info("the disk or the state machine responds again")
		}
		stalls = err != nil
	}
}
