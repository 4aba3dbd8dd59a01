package member

import (
	"context"
	"time"
)

const (
	// minWithoutLeader is the least time without a known leader before this member serves in read-only mode: as in
	// ZooKeeper. An election is over by then, so that clients seldom get a read-only session for a moment.
	minWithoutLeader = 2 * time.Second
	// readOnlyChecksPerTick is the number of times in a tick that a member checks for a leader. The connections of read-only clients are closed
	// as soon after the leader has come back.
	readOnlyChecksPerTick = 20
)

// readOnlyLoop serves in read-only mode while this member knows no leader, if the configuration says so. A member
// that runs alone is its own leader.
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
				h.log.Info("read-only mode has ended: its clients are closed, to open ordinary sessions", "leader", h.node.Status().LeaderID())
			}
		case since.IsZero():
			since = now
		case !reads && now.Sub(since) >= max(minWithoutLeader, h.cfg.Tick):
			h.log.Warn("no leader is known: this member serves clients that ask for a read-only server", "applied", h.applyProgress.lastIndex.Load())
			h.server.ServeReadOnly()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// mayServeReadOnly reports whether this member knows no leader, and what it last heard of one may be shown to clients. It
// must have applied the announcement of this process: before that its state may be much older than what clients
// have seen, because a member learns from a leader how much of its own log is committed.
func (h *health) mayServeReadOnly() bool {
	return h.node.Status().LeaderID() == 0 && h.applyProgress.announced.Load() && !h.node.IsJoining() && h.removalWatch.removedVersion() == 0 && !h.server.Draining() &&
		h.node.StallError() == nil && h.node.Record().DamageReason() == "" && h.disputed() == ""
}
