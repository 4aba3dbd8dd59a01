package follower

import (
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// The methods below implement znode.Hooks. They are called under the tree's write lock, in the
// order of the log, and never block.

// TermStarted implements znode.Hooks. It drops the link, and the next link sends all that is not
// applied to t's leader. Entries of an earlier term that are not applied by now never will be.
func (f *Follower) TermStarted(t znode.Term, why znode.LeaderCause) {
	f.outbox.leaderChanged()
	f.leadership.startTerm(t, why)
}

// MemberAnnounced implements znode.Hooks.
func (f *Follower) MemberAnnounced(member uint32, boot, _ uint64) {
	if member == f.cfg.Self {
		f.observeBoot(boot)
	}
}

// observeBoot records the member's current boot. If it is ours, the outbox opens. Otherwise the forwarder may have
// to announce us.
func (f *Follower) observeBoot(boot uint64) {
	if f.incarnation.observeBoot(boot) {
		f.outbox.allowNumbering()
	} else {
		f.outbox.wakeLink()
	}
}

// ServerListChanged implements znode.Hooks.
func (f *Follower) ServerListChanged(r znode.ServerList) {
	boot, _ := f.cfg.State.MemberIncarnation(f.cfg.Self)
	_, listed := r.Servers.Find(f.cfg.Self)
	f.observeBoot(boot)
	f.incarnation.endIfAddedAgain(r.Version, listed)
	f.outbox.wakeLink()
}

// SessionOpened implements znode.Hooks. TxnApplied makes the lease, because it knows when the transaction
// was sent.
func (f *Follower) SessionOpened(znode.Session) {}

// SessionAttached implements znode.Hooks. If one of our connections held s, its lease ends.
func (f *Follower) SessionAttached(s znode.Session, old znode.SessionOwner) {
	if old.Member == f.cfg.Self {
		f.leases.endMoved(s.ID, old.Conn)
	}
}

// SessionClosed implements znode.Hooks. The lease of s ends, even if its connection has closed it: only the
// reply to the close may still be sent.
func (f *Follower) SessionClosed(s znode.Session, _ znode.SessionEnd) {
	f.leases.endClosedSession(s.ID)
}

// SessionSwept implements znode.Hooks. It does nothing.
func (f *Follower) SessionSwept(jute.SessionID, bool) {}

// NodesRemoved implements znode.Hooks. It does nothing.
func (f *Follower) NodesRemoved(znode.Removal, []string) {}

// QuotaExceeded implements znode.Hooks. It does nothing.
func (f *Follower) QuotaExceeded(znode.ExceededQuota) {}

// TxnApplied implements znode.Hooks. It passes the result to the waiter. If the transaction has given a session to
// one of our connections, it makes the lease.
func (f *Follower) TxnApplied(txn *proto.Txn, r *znode.Result) {
	if txn.Incarnation != f.cfg.Boot {
		return // written by an earlier process of this member: the log is being replayed
	}
	req, closed, ok := f.outbox.takeApplied(txn.Seq)
	if !ok {
		return
	}
	if isHandshake(req.txn) {
		if closed {
			if r.Code == jute.OK {
				f.leases.recordUnheld(jute.SessionID(txn.Session), req.firstSent)
			}
			return
		}
		if r.Code == jute.OK {
			f.leases.grantLease(jute.SessionID(txn.Session), txn.Conn, r.Session.Timeout, req.firstSent)
		}
	}
	if req.waiter != nil {
		if t, ok := req.waiter.(timedWaiter); ok {
			t.NoteSent(req.roomAt, req.sentAt)
		}
		req.waiter.ReceiveResult(r)
	}
}

// timedWaiter is a waiter that records the times of its write.
type timedWaiter interface {
	// NoteSent is called before ReceiveResult. At room the write had a place among those that wait for the leader, and at
	// sent it was first sent.
	NoteSent(room, sent stages.Time)
}

// Identities returns the identities of the client that sent a transaction, which is about to be passed to
// TxnApplied. They are in the transaction if it has no session or sets those of its session. Otherwise its waiter
// knows them.
func (f *Follower) Identities(txn *proto.Txn) []*proto.Identity {
	if ids := txn.GetIds(); len(ids) > 0 || txn.Incarnation != f.cfg.Boot {
		return ids
	}
	if sender, ok := f.outbox.waiterOf(txn.Seq).(interface{ Identities() []*proto.Identity }); ok {
		return sender.Identities()
	}
	return nil
}

// TxnDropped implements znode.Hooks. A transaction that was applied before has had its result then.
func (f *Follower) TxnDropped(*proto.Txn) {}

// EntryFinished implements znode.Hooks. It must also be called for indices without an entry of ours,
// because the leader may name one of them in an acknowledgement or in the reply to a sync.
func (f *Follower) EntryFinished(index uint64) {
	f.renewer.appliedIndex.Store(index)
	now := f.cfg.Monotonic.Now() // after the index is stored: see leases.stampNewLeases
	f.leases.stampNewLeases(now)
	f.outbox.endStallIfApplied(now)
	f.renewer.acks.signalIfDue(index)
	f.syncs.advanceAppliedIndex(index)
	f.unapplied.entryFinished(index)
}

// SnapshotRestored implements znode.Hooks: a snapshot has replaced the state. Requests that it may
// contain have an unknown outcome, and their waiters are not called.
func (f *Follower) SnapshotRestored() {
	boot, cursor := f.cfg.State.MemberIncarnation(f.cfg.Self)
	f.observeBoot(boot)
	if boot == f.cfg.Boot {
		f.outbox.forgetThrough(cursor)
	}
	f.leases.endAll(errNotHeld)
	f.leases.forgetUnheld()
	f.leadership.startTermIfNewer(f.cfg.State.Term())
	f.EntryFinished(f.cfg.State.Index())
}
