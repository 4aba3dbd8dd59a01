package member

import (
	"cmp"
	"slices"

	"rollcall/internal/lockwatch"
)

// locks returns the locks that a health check notices if they are held without end. It takes none of them. Locks of one
// connection, stream or query are left out, and so are locks that are held while a disk works: see disk.Data.Locks.
func (m *Member) locks() []lockwatch.Lock {
	all := slices.Concat(m.viewer.slow.recorder.Locks(), m.state.Locks(), m.follower.Locks(), m.node.Locks(), m.server.Locks(),
		m.wallClock.Locks(), m.credentialLimiter.Locks(), m.auditLog.Locks(), m.cfg.Log.Locks(), m.ports.hello.Locks(),
		[]lockwatch.Lock{
			{Name: "member.terms.mu", Locker: &m.terms.mu},
			{Name: "member.peerConns.mu", Locker: &m.peerConns.mu},
			{Name: "member.serverLists.mu", Locker: &m.serverLists.mu},
			{Name: "member.serverLists.addressMu", Locker: &m.serverLists.addressMu},
			{Name: "member.helloClient.mu", Locker: &m.helloClient.mu},
			{Name: "member.digestWarnings.mu", Locker: &m.helloClient.digestWarnings.mu},
			{Name: "member.reportedAddresses.mu", Locker: &m.viewer.reportedAddresses.mu},
			{Name: "member.joinChecks.mu", Locker: &m.terms.joinRequests.checks.mu},
			{Name: "member.lastWords.mu", Locker: &m.helloClient.lastWords.mu},
			{Name: "member.transferTargets.mu", Locker: &m.terms.transferTargets.mu},
		})
	all = append(all, m.ports.raftStream.Locks()...)
	if l := m.ports.grpcListener; l != nil {
		all = append(all, l.Locks()...)
	}
	if l := m.terms.currentLeader.Load(); l != nil {
		all = append(all, l.Locks()...)
	}
	return all
}

// hangError returns an error while the disk, the state machine or a lock of this member hangs. It takes no lock that is watched.
func (m *Member) hangError() error { return cmp.Or(m.health.lockWatch.Err(), m.node.StallError()) }
