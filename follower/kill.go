package follower

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Killing is what became of a kill.
type Killing struct {
	Outcome proto.KillReply_Outcome
	// Doubtful is set if an earlier try may have ended the session. If Kill has failed, the session may
	// then have ended; if the outcome is that it is gone, the kill may have been the reason.
	Doubtful bool
}

// Kill asks the leader to end a session for an operator, unless its owner was set at another index than
// since. It asks again after an error, and asks the next leader after a change, until it has an answer
// or ctx ends. The session cannot come back with the same since, so several tries end it once at most.
func (f *Follower) Kill(ctx context.Context, id jute.SessionID, since uint64, by string) (k Killing, err error) {
	retry := f.newBackoff()
	for {
		t := f.leadership()
		k.Outcome, err = f.askToKill(ctx, t, &proto.KillRequest{Nonce: t.Nonce, Session: int64(id), Since: since, By: by})
		switch status.Code(err) {
		case codes.OK, codes.InvalidArgument:
			return k, err
		case codes.FailedPrecondition, codes.ResourceExhausted: // nothing was done
		default:
			k.Doubtful = true
		}
		if !retry.wait(ctx, t) {
			return k, err
		}
	}
}

// askToKill asks the leader of t once. It returns at once if it sees that t is over.
func (f *Follower) askToKill(ctx context.Context, t *term, request *proto.KillRequest) (proto.KillReply_Outcome, error) {
	if !f.isCurrent(t) {
		return 0, status.Error(codes.FailedPrecondition, errNoLeader.Error())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	leader, err := f.cfg.Leader(ctx, t.Leader)
	if err != nil {
		return 0, status.Errorf(codes.FailedPrecondition, "follower: reach leader %d: %v", t.Leader, err)
	}
	reply, err := leader.Kill(ctx, request)
	if err != nil {
		return 0, fmt.Errorf("follower: ask leader %d: %w", t.Leader, err)
	}
	return reply.Outcome, nil
}
