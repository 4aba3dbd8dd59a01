package leader

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// maxReconfigures is how many changes of the list of servers may wait for an entry, of which each
	// takes one. They come from operators, one after the other. Above it a change is refused, and the
	// member tries again.
	maxReconfigures = 16

	// maxReconfigureBytes is how large such a change may be. A list has at most 255 servers, so it is
	// enough for lines of 1 KiB.
	maxReconfigureBytes = 256 << 10
)

// reconfigure is a change of the list of servers that an operator has asked for.
type reconfigure struct {
	body []byte // the request
	done chan *proto.ReconfigureReply
}

// reconfigures holds the changes that wait for an entry, and the outcome of the one in the running
// entry.
type reconfigures struct {
	requests[*reconfigure]

	outcomeMu sync.Mutex
	outcome   *proto.ReconfigureReply // nil: it has not run
}

func (r *reconfigures) setOutcome(outcome *proto.ReconfigureReply) {
	r.outcomeMu.Lock()
	defer r.outcomeMu.Unlock()
	r.outcome = outcome
}

// takeOutcome removes and returns the outcome.
func (r *reconfigures) takeOutcome() *proto.ReconfigureReply {
	r.outcomeMu.Lock()
	defer r.outcomeMu.Unlock()
	outcome := r.outcome
	r.outcome = nil
	return outcome
}

// Reconfigure implements proto.LeaderServer. It changes the list of servers for an operator, whatever
// clients may do. It returns the outcome once this member has applied it. It waits for the log, as long
// as the term and ctx last.
//
// If the code of the error is FailedPrecondition or ResourceExhausted, nothing was done and another
// try may succeed. If it is InvalidArgument, no try will. After any other error the
// list may have changed, or change soon.
func (l *Leader) Reconfigure(ctx context.Context, request *proto.ReconfigureRequest) (*proto.ReconfigureReply, error) {
	if err := l.refuse(request.GetNonce()); err != nil {
		return nil, err
	}
	body, err := encodeReconfigure(request)
	if err != nil {
		return nil, err
	}
	r := &reconfigure{body: body, done: make(chan *proto.ReconfigureReply, 1)}
	return awaitApplied(ctx, l, &l.reconfigures.requests, r, r.done)
}

// encodeReconfigure returns the body of a change's transaction, or why there can be none.
func encodeReconfigure(request *proto.ReconfigureRequest) ([]byte, error) {
	if n := len(request.GetBy()); n > znode.MaxBy {
		return nil, status.Errorf(codes.InvalidArgument, "leader: the name of who asked has %d bytes, more than %d", n, znode.MaxBy)
	}
	body, err := pb.Marshal(request)
	switch {
	case err != nil:
		return nil, status.Errorf(codes.InvalidArgument, "leader: the change of the list of servers cannot be encoded: %v", err)
	case len(body) > maxReconfigureBytes:
		return nil, status.Errorf(codes.InvalidArgument, "leader: the change of the list of servers has %d bytes, more than %d", len(body), maxReconfigureBytes)
	}
	return body, nil
}

// Reconfigured records the outcome of a change, and the version that the list has since. Apply calls it;
// it does not block.
func (l *Leader) Reconfigured(r *znode.Result, version int64) {
	reply := &proto.ReconfigureReply{Code: int32(r.Code), Text: string(r.Data), Version: version}
	if r.Code != jute.OK {
		reply.Text = r.Why
	}
	l.reconfigures.setOutcome(reply)
}

// answerReconfigures answers the change of an entry that has been applied here, if it had one.
func (l *Leader) answerReconfigures(changes []*reconfigure) {
	for _, r := range changes {
		r.done <- l.reconfigures.takeOutcome()
	}
}

// txn returns the transaction that makes the change.
func (r *reconfigure) txn() *proto.Txn { return &proto.Txn{Op: int32(jute.OpReconfig), Body: r.body} }

// setReached writes into each change of the list of servers which of them are there, because apply cannot
// know it. What a member may have written there is replaced. The changed transaction is a copy: the
// member that leads may still be sending the original.
func (l *Leader) setReached(txns []*proto.Txn) {
	for i, txn := range txns {
		if txn.GetOp() != int32(jute.OpReconfig) {
			continue
		}
		txns[i] = pb.CloneOf(txn)
		txns[i].Reached = l.cfg.Present(txn)
	}
}
