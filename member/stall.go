package member

import (
	"context"
	"time"
)

// stallChecksPerLimit is the number of checks for a hanging disk in a stall limit.
const stallChecksPerLimit = 20

// stallLoop stops leading and serving while writing or applying the log hangs, or a lock of this member is held without
// end. While that takes longer than the limit, it ends the term and closes the clients' connections, so the clients move to other members. raft gives up
// leadership by itself, because its requests are delayed, but reports it only when the operation returns.
func (h *health) stallLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.StoreStallLimit / stallChecksPerLimit)
	defer ticker.Stop()
	for stalls := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := h.hangError()
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
