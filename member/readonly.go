package member

import (
	"context"
	"time"
)

const (
	// minWithoutLeader is the minimum time without a leader before read-only mode, as in ZooKeeper. Elections are usually
	// over by then, so clients seldom get a short read-only session.
	minWithoutLeader = 2 * time.Second
	// readOnlyChecksPerTick is the number of checks for a leader in a tick. They also determine how soon the
	// connections of read-only clients are closed when there is a leader again.
	readOnlyChecksPerTick = 20
)

// readOnlyLoop serves in read-only mode while this member knows no leader, if that is configured. A standalone
// server is its own leader.
func (h *health) readOnlyLoop(ctx context.Context) error {
	if !h.cfg.ReadOnlyMode || h.cfg.isStandalone() {
		return nil
	}
	ticker := time.NewTicker(h.cfg.Tick / readOnlyChecksPerTick)
	defer ticker.Stop()
	for since := (time.Time{}); ; {
		now := time.Now()
		switch reads := h.server.ReadOnly(); {
		case !h.mayServeReadOnly():
			since = time.Time{}
			h.server.EndReadOnly()
			if reads {
				h.log.Info("read-only mode has ended: its clients are closed, to open ordinary sessions", "leader",
					h.node.Status().LeaderID())
			}
		case since.IsZero():
			since = now
		case !reads && now.Sub(since) >= max(minWithoutLeader, h.cfg.Tick):
			h.log.Warn("no leader is known: this member serves clients that ask for a read-only server", "applied",
				h.applyProgress.lastIndex.Load())
			h.server.BeginReadOnly()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// mayServeReadOnly reports whether this member knows no leader or has no contact with it, and its state is sound and recent enough for
// clients. It must have applied the announcement of this process. Before that, its state may be much older than
// the clients', because only a leader knows which entries of its log are committed.
func (h *health) mayServeReadOnly() bool {
	return (h.node.Status().LeaderID() == 0 || h.cutOffWatch.isCutOff()) && h.applyProgress.announced.Load() && !h.node.IsJoining() &&
		h.removalWatch.removedVersion() == 0 && !h.server.Draining() &&
		h.hangError() == nil && h.node.Record().DamageReason() == "" && h.disputeReason() == ""
}
