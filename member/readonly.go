package member

import (
	"context"
	"slices"
	"time"

	"rollcall/operator/api"
)

const (
	// minForsaken is how long this member knows no leader, at least, before it serves in read-only mode: as in
	// ZooKeeper. An election is over by then, so that clients seldom get a read-only session for a moment.
	minForsaken = 2 * time.Second
	// readOnlyChecks is how often in a tick a member looks whether there is a leader. Read-only clients are closed
	// as soon after the leader has come back.
	readOnlyChecks = 20
)

// readOnlyLoop serves in read-only mode while this member knows no leader, if the configuration says so. A member
// that runs alone is its own leader.
func (m *Member) readOnlyLoop(ctx context.Context) error {
	if !m.cfg.ReadOnlyMode || m.cfg.alone() {
		return nil
	}
	ticker := time.NewTicker(m.cfg.Tick / readOnlyChecks)
	defer ticker.Stop()
	for since := (time.Time{}); ; {
		now := time.Now()
		switch reads := m.server.ReadOnly(); {
		case !m.forsaken():
			since = time.Time{}
			m.server.EndReadOnly()
			if reads {
				m.log.Info("read-only mode has ended: its clients are closed, to open ordinary sessions", "leader", m.node.Status().LeaderID())
			}
		case since.IsZero():
			since = now
		case !reads && now.Sub(since) >= max(minForsaken, m.cfg.Tick):
			m.log.Warn("no leader is known: this member serves clients that ask for a read-only server", "applied", m.applied.index.Load())
			m.server.ServeReadOnly()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// forsaken reports whether this member knows no leader, and what it last heard of one may be shown to clients. It
// must have applied the announcement of this process: before that its state may be much older than what clients
// have seen, because a member learns from a leader how much of its own log is committed.
func (m *Member) forsaken() bool {
	return m.node.Status().LeaderID() == 0 && m.applied.announced.Load() && !m.node.Joining() && m.removal.version() == 0 && !m.server.Draining() &&
		m.node.Stalled() == nil && m.node.Record().Damage() == "" && m.disputed() == ""
}

// whitelist returns the four-letter words that are answered. In read-only mode clients ask with isro whether
// another member has a leader, so that it is always answered then, as in ZooKeeper.
func (m *Member) whitelist() []string {
	if !m.cfg.ReadOnlyMode {
		return m.cfg.Whitelist
	}
	return append(slices.Clone(m.cfg.Whitelist), "isro")
}

// servesAll reports whether this member serves all clients. What a member knows in read-only mode may be old.
func (m *Member) servesAll() bool {
	role := m.Role()
	return role != "" && role != api.ReadOnly
}
