package leader

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

var (
	errStreamReplaced = status.Error(codes.Aborted, "leader: the member has opened a newer stream")
	errMemberSilent   = status.Error(codes.Unavailable, "leader: the member was silent for too long")
)

// forwarding is one member's stream of writes.
type forwarding struct {
	cancel   context.CancelCauseFunc
	member   uint32 // 0 before the first message
	boot     uint64
	hasEnded bool // guarded by the intake's lock
}

// receiver puts the members' writes into the intake.
type receiver struct {
	tenure     *tenure
	membership *membership
	intake     *intake
}

// Forward serves the call of a member that writes. It takes one member's writes, in order, until the member
// has a newer stream or the term is over. The reply to a write is its entry in the log: the end of a
// stream means nothing for the writes sent on it.
func (l *Leader) Forward(stream proto.Leader_ForwardServer) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	f := &forwarding{cancel: end}
	read := make(chan error, 1)
	go func() { read <- l.receiver.readStream(stream, f) }() // ends with the stream, which ends when we return
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.tenure.over:
		return l.tenure.errOver()
	}
}

// readStream queues the stream's messages. It does not read while the queue is full.
func (r *receiver) readStream(stream proto.Leader_ForwardServer, f *forwarding) error {
	defer r.intake.streamEnded(f)
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return stream.SendAndClose(&proto.ForwardEnd{})
		case err != nil:
			return err
		}
		if err := r.acceptMessage(f, message); err != nil {
			return err
		}
	}
}

// acceptMessage queues a message's transactions, once there is room for them. The first message names the stream's
// member.
func (r *receiver) acceptMessage(f *forwarding, message *proto.Forwarded) error {
	if f.member == 0 {
		r.intake.setSender(f, message)
		if err := r.checkMessage(f, message); err != nil {
			return err
		}
		r.intake.replaceStream(f)
	} else if err := r.checkMessage(f, message); err != nil {
		return err
	}
	if !r.intake.enqueueForwardedWhenRoom(f, message.Txns) {
		return cmp.Or(r.tenure.checkNonce(message.Nonce), errStreamReplaced)
	}
	return nil
}

// checkMessage returns an error for a message that is meant for another term, or that names another member
// than the stream's, or one that is not in the ensemble.
func (r *receiver) checkMessage(f *forwarding, message *proto.Forwarded) error {
	if err := r.tenure.checkNonce(message.Nonce); err != nil {
		return err
	}
	if !r.membership.isMember(message.Member) {
		return status.Errorf(codes.InvalidArgument, "leader: writes of %d, which is not a member", message.Member)
	}
	if message.Member != f.member || message.Incarnation != f.boot {
		return status.Errorf(codes.InvalidArgument, "leader: writes of member %d on the stream of %d", message.Member,
			f.member)
	}
	for _, txn := range message.Txns {
		if txn.Member != f.member || txn.Incarnation != f.boot {
			return status.Errorf(codes.InvalidArgument, "leader: a transaction of member %d on the stream of %d", txn.Member,
				f.member)
		}
	}
	return nil
}
