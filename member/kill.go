package member

import (
	"context"
	"errors"
	"fmt"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// The errors of KillSession, besides ErrNoLeader and ErrNotConfirmed. Compare them with errors.Is.
var (
	// ErrUnknownSession means that the session never existed or has ended otherwise.
	ErrUnknownSession = errors.New("no such session")
	// ErrSessionMoved means that the client resumed the session during the kill, so the session lives.
	ErrSessionMoved = errors.New("the session was resumed meanwhile, and lives")
)

// KillSession ends a session for an operator, with its ephemeral nodes. by names the operator, in at most
// znode.MaxRequesterBytes bytes, and is kept with the end. The client is notified as after an expiry. KillSession works
// on every member. It returns when this member has applied the end.
//
// The kill concerns the session in the state of all entries committed before the call. If the client resumes
// the session before the kill reaches the log, the session lives. KillSession waits for a leader until ctx
// ends; give ctx a deadline.
func (m *Member) KillSession(ctx context.Context, id jute.SessionID, by string) error {
	if err := m.submitKill(ctx, id, by); err != nil {
		return fmt.Errorf("member: kill session %s: %w", id, err)
	}
	return nil
}

func (m *Member) submitKill(ctx context.Context, id jute.SessionID, by string) error {
	if len(by) > znode.MaxRequesterBytes {
		return fmt.Errorf("the operator's name has %d bytes, more than %d", len(by), znode.MaxRequesterBytes)
	}
	if err := m.checkCanSubmit(); err != nil {
		return err
	}
	if err := m.follower.AwaitSync(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	m.state.RLock()
	session, ok := m.state.Session(id)
	m.state.RUnlock()
	if !ok {
		return ErrUnknownSession
	}
	body, err := pb.Marshal(&proto.Kill{Session: int64(id), OwnerIndex: session.OwnerIndex, Operator: by})
	if err != nil {
		return fmt.Errorf("the kill cannot be encoded: %w", err)
	}
	r, err := submitAndWait(ctx, m.follower, &proto.Txn{Op: int32(jute.OpKill), Body: body})
	switch {
	case err != nil:
		return err
	case r.Code == jute.SessionExpired:
		return ErrUnknownSession
	case r.Code == jute.SessionMoved:
		return ErrSessionMoved
	}
	return r.Code.Err()
}
