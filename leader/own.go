package leader

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"rollcall/proto"
)

// own is the stream of writes of the leader's own member: Send queues them by itself,
// without a connection and a reader between. To who sends it is as a stream over gRPC.
// A message is not kept, but its transactions are: nobody changes them afterwards.
type own struct {
	grpc.ClientStream // nil: nothing else of it is called
	l                 *Leader
	ctx               context.Context // ends with the stream; its cause says why
	f                 *forwarding
}

// Own opens the stream of the member that leads, which lives until ctx ends, the member
// has a newer stream or the term is over. It is Forward without a network: refused is
// the same, and what is queued counts as sent. Send blocks while the queue is full. The
// caller ends ctx when it is done with the stream, however that ended.
func (l *Leader) Own(ctx context.Context) proto.Leader_ForwardClient {
	ctx, end := context.WithCancelCause(ctx)
	f := &forwarding{end: end}
	context.AfterFunc(ctx, func() { l.intake.forget(f) }) // also a Send that waits for room ends then
	return &own{l: l, ctx: ctx, f: f}
}

// Send queues a message. io.EOF: the stream has ended, and RecvMsg says why. One
// goroutine calls it.
func (o *own) Send(message *proto.Forwarded) error {
	if o.ctx.Err() != nil {
		return io.EOF
	}
	if err := o.l.accept(o.f, message); err != nil {
		o.f.end(err) // unless it has ended: then that was the error
		return io.EOF
	}
	return nil
}

// RecvMsg waits for the end of the stream, and returns why it ended: nothing else comes.
func (o *own) RecvMsg(any) error {
	select {
	case <-o.ctx.Done():
	case <-o.l.over:
		o.f.end(o.l.errOver())
	}
	return context.Cause(o.ctx)
}

// CloseAndRecv implements proto.Leader_ForwardClient: what was sent is queued, so the
// stream ends.
func (o *own) CloseAndRecv() (*proto.ForwardEnd, error) {
	o.f.end(io.EOF)
	return &proto.ForwardEnd{}, nil
}
