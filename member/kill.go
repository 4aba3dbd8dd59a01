package member

import (
	"context"
	"errors"
	"fmt"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// These are the reasons for which KillSession fails. Compare them with errors.Is.
var (
	// ErrUnknownSession means that there is no such session: it never was, or it ended otherwise.
	ErrUnknownSession = errors.New("no such session")
	// ErrSessionMoved means that the session's client came back while the kill was under way, so the
	// session lives.
	ErrSessionMoved = errors.New("the session was resumed meanwhile, and lives")
	// ErrNoLeader means that no leader answered in time, and that nothing was done.
	ErrNoLeader = errors.New("no leader has answered")
	// ErrKillUnknown means that the leader was lost while the kill was under way, so the session may have
	// ended or may end soon.
	ErrKillUnknown = errors.New("the leader was lost meanwhile, so the session may or may not end")
)

// KillSession ends a session for an operator, with its ephemeral nodes; by says who asked, in at most
// znode.MaxBy bytes, and is kept with the end. Its client is told as after an expiry. KillSession
// works on every member. It returns when this member has applied the end too, if it does so before ctx
// ends.
//
// The kill concerns the session as this member sees it when it is asked, after everything committed
// before. If the client resumes the session before the kill reaches the log, it lives. KillSession
// waits for a leader, and goes on with the next one, as long as ctx lasts; give ctx a deadline.
func (m *Member) KillSession(ctx context.Context, id jute.SessionID, by string) error {
	if err := m.killSession(ctx, id, by); err != nil {
		return fmt.Errorf("member: kill session %s: %w", id, err)
	}
	return nil
}

func (m *Member) killSession(ctx context.Context, id jute.SessionID, by string) error {
	if len(by) > znode.MaxBy {
		return fmt.Errorf("the name of who asked has %d bytes, more than %d", len(by), znode.MaxBy)
	}
	if err := m.follower.AwaitSync(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	since, err := m.killable(id)
	if err != nil {
		return err
	}
	k, err := m.follower.Kill(ctx, id, since, by)
	switch {
	case err != nil && k.Doubtful:
		return fmt.Errorf("%w: %w", ErrKillUnknown, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	case k.Outcome == proto.KillReply_MOVED:
		return ErrSessionMoved
	}
	synced := m.follower.AwaitSync(ctx)
	switch {
	case k.Outcome == proto.KillReply_CLOSED: // it has ended, whether or not this member has applied that
		return nil
	case k.Doubtful && synced != nil:
		return fmt.Errorf("%w: %w", ErrKillUnknown, synced)
	case k.Doubtful && m.killed(id, by):
		return nil
	}
	return ErrUnknownSession
}

// killable returns the index at which the session's owner was set, if the session can be killed.
func (m *Member) killable(id jute.SessionID) (since uint64, err error) {
	m.state.RLock()
	defer m.state.RUnlock()
	session, ok := m.state.Session(id)
	if !ok {
		return 0, ErrUnknownSession
	}
	return session.Since, nil
}

// killed reports whether the session ended by a kill that by asked for.
func (m *Member) killed(id jute.SessionID, by string) bool {
	for end := range m.Ends(EndsOf{Session: id}) {
		return end.Reason == znode.Killed && end.By == by
	}
	return false
}
