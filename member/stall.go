package member

import (
	"context"
	"time"
)

const (
	// stallChecksPerLimit is the number of checks for a hanging disk in a stall limit.
	stallChecksPerLimit = 20
	// stallChecksInRow is the number of checks in a row that must find something that hangs. After a pause of this process, the
	// first one finds whatever was under way before, although it may be done at once.
	stallChecksInRow = 2
)

// stallLoop stops leading and serving while writing or applying the log hangs, or a lock of this member is held without
// end. While that takes longer than the limit, it ends the term and closes the clients' connections, so the clients move to other members. raft gives up
// leadership by itself, because its requests are delayed, but reports it only when the operation returns.
func (h *health) stallLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.StoreStallLimit / stallChecksPerLimit)
	defer ticker.Stop()
	found := 0 // by so many checks in a row
	for stalls := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := h.hangError()
		if found++; err == nil {
			found = 0
		}
		switch {
		case err != nil && found < stallChecksInRow:
			continue
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
