package follower

import (
	"time"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/znode"
)

// The methods below implement znode.Observer. They run under the tree's write lock, in
// the order of the log, and block nowhere.

// TermStarted implements znode.Observer: the link is dropped, and what is not applied is
// sent again to t's leader. Nothing of an earlier term that is not applied by now will be.
func (f *Follower) TermStarted(t znode.Term) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start(t)
}

func (f *Follower) start(t znode.Term) {
	f.retired = 0
	if f.term.Term.Term == t.Term {
		f.retired = f.term.Nonce
	}
	f.term.end()
	f.term = newTerm(t)
}

// Announced implements znode.Observer.
func (f *Follower) Announced(member uint32, boot, _ uint64) {
	if member == f.cfg.Self {
		f.setBoot(boot)
	}
}

// setBoot notes the member's current boot. Ours opens the outbox; another one makes the
// link announce us as its successor or, if ours came before it, ends Run.
func (f *Follower) setBoot(boot uint64) {
	f.mu.Lock()
	was, wasOurs := f.boot, f.wasOurs
	f.boot, f.wasOurs = boot, wasOurs || boot == f.cfg.Boot
	f.mu.Unlock()
	switch {
	case boot == was:
	case boot == f.cfg.Boot && !wasOurs:
		highest := f.cfg.State.HighestSession(f.cfg.Self)
		f.ids = sessiontracker.NewIDGenerator(f.cfg.Self, f.cfg.Wall().UnixMilli(), highest)
		close(f.announced)
		f.out.open()
		f.log.Info("announced", "replaces", was)
	case was == f.cfg.Boot:
		f.giveUp.Do(func() { close(f.replaced) })
	default:
		f.out.wake()
	}
}

// Opened implements znode.Observer. The lease is made by Applied, which knows when the
// transaction was sent.
func (f *Follower) Opened(znode.Session) {}

// Attached implements znode.Observer: a connection of ours that held s holds it no more.
func (f *Follower) Attached(s znode.Session, old znode.Owner) {
	if old.Member == f.cfg.Self {
		f.leases.end(s.ID, old.Conn)
	}
}

// Closed implements znode.Observer: nobody is vouched for any more who held s, not even
// the connection that closed it, which may be told nothing but that.
func (f *Follower) Closed(s znode.Session, _ znode.Ending) { f.leases.close(s.ID) }

// Swept: of no concern here.
func (f *Follower) Swept(jute.SessionID, bool) {}

// Overused: of no concern here.
func (f *Follower) Overused(znode.Quota) {}

// Applied implements znode.Observer: the result completes the request that waits for it,
// and a session that a connection of ours has got is leased to it.
func (f *Follower) Applied(txn *proto.Txn, r *znode.Result) {
	if txn.Boot != f.cfg.Boot {
		return // an earlier process of this member, in a log that is replayed
	}
	req, closed, ok := f.out.applied(txn.Seq)
	if !ok {
		return
	}
	if isHandshake(req.txn) {
		if closed {
			return
		}
		if r.Code == jute.OK {
			f.leases.take(jute.SessionID(txn.Session), txn.Conn, r.Session.Timeout, req.sent)
		}
	}
	if req.waiter != nil {
		req.waiter.Applied(r)
	}
}

// Dropped implements znode.Observer. What was seen before has been answered.
func (f *Follower) Dropped(*proto.Txn) {}

// EntryEnd implements znode.Observer. It must also be told of indices without an entry:
// the leader may name one in an acknowledgement or to a sync.
func (f *Follower) EntryEnd(index uint64) {
	f.applied.Store(index)
	f.leases.settle(time.Now())
	f.mu.Lock()
	acks := len(f.acks) > 0 && f.acks[0].commit <= index
	f.mu.Unlock()
	if acks {
		wake(f.acked)
	}
	if f.syncs.due(index) {
		wake(f.synced)
	}
}

// Restored implements znode.Observer: a snapshot has replaced the state. Requests that
// it may contain have an unknown outcome, and nobody hears of them.
func (f *Follower) Restored() {
	boot, cursor := f.cfg.State.Boot(f.cfg.Self)
	f.setBoot(boot)
	if boot == f.cfg.Boot {
		f.out.forget(cursor)
	}
	f.leases.clear()
	f.mu.Lock()
	if t := f.cfg.State.Term(); t.Index > f.term.Index {
		f.start(t)
	}
	f.mu.Unlock()
	f.EntryEnd(f.cfg.State.Index())
}
