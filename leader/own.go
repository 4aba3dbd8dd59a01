package leader

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"rollcall/proto"
)

// ownStream is the stream of writes of the leader's own member. Send puts them into the queue
// directly, without a connection and a reader in between. To the sender it behaves like a gRPC
// stream. A message is not kept, but its transactions are: they must not be changed afterwards.
type ownStream struct {
	grpc.ClientStream // nil: no other method is called
	receiver          *receiver
	ctx               context.Context // ends with the stream, with a cause
	f                 *forwarding
}

// OpenOwnStream opens the stream of the member that leads. It lives until ctx ends, the member has a
// newer stream or the term is over. It is Forward without a network: it rejects the same messages,
// and a message counts as sent when it is queued. Send blocks while the queue is full. The caller
// must end ctx when it is done with the stream, however the stream ended.
func (l *Leader) OpenOwnStream(ctx context.Context) proto.Leader_ForwardClient {
	ctx, end := context.WithCancelCause(ctx)
	f := &forwarding{cancel: end}
	context.AfterFunc(ctx, func() { l.intake.streamEnded(f) }) // this also ends a Send that waits for room
	return &ownStream{receiver: l.receiver, ctx: ctx, f: f}
}

// Send queues a message. It returns io.EOF if the stream has ended; RecvMsg then returns the
// reason. Only one goroutine may call it.
func (o *ownStream) Send(message *proto.Forwarded) error {
	if o.ctx.Err() != nil {
		return io.EOF
	}
	if err := o.receiver.acceptMessage(o.f, message); err != nil {
		o.f.cancel(err) // has no effect if the stream has ended: then it ended for this reason
		return io.EOF
	}
	return nil
}

// RecvMsg waits for the end of the stream, and returns its error. It never returns a message.
func (o *ownStream) RecvMsg(any) error {
	select {
	case <-o.ctx.Done():
	case <-o.receiver.tenure.over:
		o.f.cancel(o.receiver.tenure.errOver())
	}
	return context.Cause(o.ctx)
}

// CloseAndRecv implements proto.Leader_ForwardClient. It ends the stream: everything sent is
// queued.
func (o *ownStream) CloseAndRecv() (*proto.ForwardEnd, error) {
	o.f.cancel(io.EOF)
	return &proto.ForwardEnd{}, nil
}
