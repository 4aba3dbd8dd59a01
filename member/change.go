package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"rollcall/follower"
	"rollcall/operator/admin"
	"rollcall/proto"
	"rollcall/znode"
)

var (
	// ErrNoLeader means that no leader replied in time and the change was not made.
	ErrNoLeader = errors.New("no leader has replied")
	// ErrNotConfirmed means that a change was sent, cannot be withdrawn, and was not applied here in time.
	ErrNotConfirmed = errors.New("not confirmed in time: the change was sent, and may still be made")
	// ErrNotListed means that this member is not in the list of servers: apply drops what such a member submits.
	ErrNotListed = errors.New("this member is not in the list of servers; ask a member that is")
	// ErrNotSound means that this member's state may differ from the others', so it cannot report the result of a change.
	ErrNotSound = errors.New("the state of this member may differ from that of the others; ask another member")
)

// checkCanSubmit returns an error if this member must not make changes for operators, because it could not know their
// results.
func (m *Member) checkCanSubmit() error {
	switch {
	case m.removalWatch.unlistedVersion() != 0:
		return ErrNotListed
	case m.node.Record().DamageReason() != "" || m.health.disputeReason() != "":
		return ErrNotSound
	}
	return nil
}

func (m *Member) appliedTerm() uint64 {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.state.Term().Term
}

// submitAndWait submits a transaction for an operator, and returns its result when this member has applied it.
// The transaction belongs to no session. It is submitted like a client's write, so it is applied once despite
// changes of the leader. If ctx ends first, the error is ErrNoLeader if the transaction was withdrawn, and
// ErrNotConfirmed otherwise.
func submitAndWait(ctx context.Context, f *follower.Follower, txn *proto.Txn) (znode.Result, error) {
	txn.Conn = randomUint64() // a connection of its own, so that operators do not wait for each other
	applied := make(resultWaiter, 1)
	if err := f.Submit(ctx, txn, applied); err != nil {
		return znode.Result{}, fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	select {
	case r := <-applied:
		return r, nil
	case <-ctx.Done():
	}
	if f.WithdrawUnsent(txn.Conn) {
		return znode.Result{}, fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
	}
	select {
	case r := <-applied: // meanwhile
		return r, nil
	default:
		return znode.Result{}, ErrNotConfirmed
	}
}

// resultWaiter is a znode.Waiter with room for the result of its transaction.
type resultWaiter chan znode.Result

// ReceiveResult implements znode.Waiter.
func (o resultWaiter) ReceiveResult(r *znode.Result) { o <- *r }

// submitFailure converts an error of submitAndWait for an operator. check advises how to find out whether the
// change was made.
func submitFailure(err error, check string) error {
	if errors.Is(err, ErrNotConfirmed) {
		return &admin.Failure{Status: http.StatusGatewayTimeout, Text: fmt.Sprintf("%v; %s", err, check)}
	}
	return noLeaderFailure(err)
}

// noLeaderFailure returns the reply to a change that was not made because there is no leader.
func noLeaderFailure(err error) error {
	if !errors.Is(err, ErrNoLeader) {
		err = fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	return &admin.Failure{
		Status: http.StatusServiceUnavailable,
		Text:   fmt.Sprintf("%v; nothing was done: try again when /v1/status shows a leader", err),
	}
}
