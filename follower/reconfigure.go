package follower

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

// Reconfigure asks the leader to change the list of servers for an operator. It sets the nonce of the request. It
// asks again after an error, and asks the next leader after a change, until it has an answer or ctx ends. A change
// that is made twice does no harm: it leads to the same list. If doubtful is set, an earlier try may have made
// the change, or may make it soon. An error about the version may then be due to that.
func (f *Follower) Reconfigure(ctx context.Context, request *proto.ReconfigureRequest) (reply *proto.ReconfigureReply, doubtful bool, err error) {
	retry := f.newBackoff()
	for {
		t := f.leadership()
		reply, err = f.askToReconfigure(ctx, t, request)
		switch status.Code(err) {
		case codes.OK, codes.InvalidArgument:
			return reply, doubtful, err
		case codes.FailedPrecondition, codes.ResourceExhausted: // nothing was done
		default:
			doubtful = true
		}
		if !retry.wait(ctx, t) {
			return nil, doubtful, err
		}
	}
}

// askToReconfigure asks the leader of t once. It returns at once if it sees that t is over.
func (f *Follower) askToReconfigure(ctx context.Context, t *term, request *proto.ReconfigureRequest) (*proto.ReconfigureReply, error) {
	if !f.isCurrent(t) {
		return nil, status.Error(codes.FailedPrecondition, errNoLeader.Error())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	leader, err := f.cfg.Leader(ctx, t.Leader)
	if err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "follower: reach leader %d: %v", t.Leader, err)
	}
	request.Nonce = t.Nonce
	reply, err := leader.Reconfigure(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("follower: ask leader %d: %w", t.Leader, err)
	}
	return reply, nil
}
