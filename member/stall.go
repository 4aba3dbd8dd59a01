package member

import (
	"context"
	"time"
)

// stallLook is how often a member looks whether its disk hangs, as a part of the limit.
const stallLook = 20

// stallLoop keeps this member from speaking for an ensemble whose log it does not write or
// apply: while an operation takes longer than the limit, its term ends and its clients are
// sent elsewhere. raft leaves the lead by itself, since its requests are withheld; but it
// would tell only when the operation returns.
func (m *Member) stallLoop(ctx context.Context) error {
	ticker := time.NewTicker(m.cfg.StoreStallLimit / stallLook)
	defer ticker.Stop()
	for stalls := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := m.node.Stalled()
		switch {
		case err != nil:
			if !stalls {
				m.log.Warn("this member gives up leading and closes its clients' connections", "err", err)
			}
			m.terms.stall()
			m.server.CutAll() // also those that came since the last time
		case stalls:
			m.log.Info("the disk or the state machine goes on")
		}
		stalls = err != nil
	}
}
