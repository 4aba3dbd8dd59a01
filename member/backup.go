package member

import (
	"context"
	"net/http"
	"time"

	"rollcall/operator/admin"
	"rollcall/operator/backup"
)

// confirmTimeout limits the wait for a leader's confirmation that this member is up to date: longer than an election.
const confirmTimeout = 3 * time.Second

// CopyState implements admin.Operations.
func (o operations) CopyState(ctx context.Context) (admin.StateCopy, error) {
	return o.m.backups.copyState(ctx)
}

// copyState returns the state at one index. If a leader confirms it in time, the copy has every write that was
// acknowledged before. The error is an *admin.Failure.
func (b *backups) copyState(ctx context.Context) (admin.StateCopy, error) {
	health := b.memberHealth()
	switch {
	case health.Damage != "" || health.Divergence != "":
		text, _ := health.StatusText()
		return admin.StateCopy{}, &admin.Failure{
			Status: http.StatusServiceUnavailable,
			Text:   text + "; make the backup from another member",
		}
	case health.ReadsData:
		return admin.StateCopy{}, &admin.Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "this member has started and reads its data; make the backup later, or from another member",
		}
	case health.Joining:
		return admin.StateCopy{}, &admin.Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "this member is joining the ensemble, and its state may be far behind; make the backup from another member",
		}
	}
	confirmed := false
	if health.HasLeader {
		within, cancel := context.WithTimeout(ctx, confirmTimeout)
		confirmed = b.follower.AwaitSync(within) == nil
		cancel()
	}
	b.state.RLock()
	own := stateSnapshot{b.state.Snapshot(), func(err error) { b.onDamage(err) }}
	b.state.RUnlock()
	if own.Head().Index == 0 {
		return admin.StateCopy{}, &admin.Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "this member has no state yet; try again when /v1/status shows a leader",
		}
	}
	return admin.StateCopy{Head: b.backupHead(own, confirmed), WriteTo: own.WriteTo}, nil
}

func (b *backups) backupHead(own stateSnapshot, confirmed bool) backup.Head {
	head, tree := own.Head(), own.TreeView()
	return backup.Head{
		Servers: backup.ServersOf(b.serverLists.currentList()),
		Program: b.cfg.Version, Member: b.cfg.ID, Time: b.wallClock.Now().UTC().Truncate(time.Millisecond),
		Confirmed: confirmed,
		AsOf:      time.UnixMilli(head.TimeMs).UTC(), Index: head.Index, Term: head.Term.Term, Zxid: head.Zxid,
		Nodes: tree.NodeCount(), Sessions: int(head.SessionCount), DataBytes: tree.DataSize(),
		Digest: backup.FormatDigest(own.Digest()),
	}
}
