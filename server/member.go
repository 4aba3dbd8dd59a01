package server

import (
	"context"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Member is the part of its member that a connection uses. It hides which member leads, and whether one does:
// touches are remembered and writes wait.
type Member interface {
	// AwaitNewSessionID draws the id of a new session. It blocks until this member may draw one, and fails only if
	// ctx ends.
	AwaitNewSessionID(ctx context.Context) (jute.SessionID, error)

	// TryNewSessionID is NewSession without blocking. It returns false if NewSession might block.
	TryNewSessionID() (id jute.SessionID, ok bool)

	// Touch renews a session by timeout, which was granted to its present connection. It never blocks: it
	// runs for every request.
	Touch(id jute.SessionID, timeout time.Duration)

	// IsVouched reports at once whether the session's lease is valid, so that its client may be sent
	// something.
	IsVouched(id jute.SessionID) bool

	// Vouch reports the session's touches to the leader at once, and waits until the session's lease is
	// valid. If it returns an error (rejected, half a tick has passed, or ctx ended), nothing may be sent.
	Vouch(ctx context.Context, id jute.SessionID) error

	// Submit hands over a transaction for good. The member sets Member, Boot and Seq. Transactions
	// of one connection reach the log in the order of the calls, and each of them once. w gets the
	// result under the tree's write lock, before the FlushApplied after its entry. Submit blocks
	// while the member's limit is reached, if the transaction is long or the connection has
	// something unapplied. It fails only if ctx ends.
	Submit(ctx context.Context, txn *proto.Txn, w znode.Waiter) error

	// TrySubmit is Submit without blocking. It returns false, and does nothing, if Submit might block or
	// fail.
	TrySubmit(txn *proto.Txn, w znode.Waiter) bool

	// Sync gives w the code OK when all that was committed before the call is applied here, and the leader has heard of
	// session since the call, unless that is 0. If the leader is closing the session, the code is SessionExpired. It
	// does so under the tree's lock; the read lock is enough. Sync never blocks.
	Sync(conn uint64, session jute.SessionID, w znode.Waiter)

	// IndexToRead returns the index up to which the log must be applied here before a read of path, so that it is not stale, or 0 if it is.
	// Each entry counts for a read without a path (nil). ok is false if the read needs a Sync. It never blocks.
	IndexToRead(path []byte) (index uint64, ok bool)

	// SyncRead calls w once the log is applied here up to index, which IndexToRead has returned, as Sync does for a sync.
	SyncRead(conn uint64, index uint64, w znode.Waiter)

	// IndexToAwait returns the index of an entry for which a read of path should wait with AwaitIndex, so that it is not
	// stale, or 0. It never blocks.
	IndexToAwait(path []byte) (index uint64)

	// AwaitIndex waits until the log is applied here up to index. It waits for a short time only, and while ctx lasts.
	AwaitIndex(ctx context.Context, index uint64)

	// Detach reports that the connection is gone: its creates and attaches that are not
	// applied are no longer wanted, its syncs are forgotten, and nothing touches its session any more.
	// A connection without a session detaches session 0.
	Detach(id jute.SessionID, conn uint64)
}
