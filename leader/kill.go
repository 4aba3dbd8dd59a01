package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// maxKills is how many kills may wait for an entry, and so how many one entry has at most. It is half
// of maxExpires, so that an entry with kills ends silent sessions too. Above it a kill is refused, and
// the member tries again.
const maxKills = maxExpires / 2

// kill is the end of a session that an operator has asked for.
type kill struct {
	id     jute.SessionID
	since  uint64        // the index at which the owner was set that the operator saw
	silent time.Duration // how long the session had not been heard when the kill came
	by     string        // who asked
	done   chan proto.KillReply_Outcome
}

// kills holds the kills that wait for an entry, and the sessions that those of the running entry have
// ended.
type kills struct {
	requests[*kill]

	endedMu sync.Mutex
	ended   []jute.SessionID
}

// sessionEnded records that a kill has ended a session.
func (q *kills) sessionEnded(id jute.SessionID) {
	q.endedMu.Lock()
	defer q.endedMu.Unlock()
	q.ended = append(q.ended, id)
}

// takeEnded removes and returns the sessions that were recorded.
func (q *kills) takeEnded() []jute.SessionID {
	q.endedMu.Lock()
	defer q.endedMu.Unlock()
	ended := q.ended
	q.ended = nil
	return ended
}

// Kill implements proto.LeaderServer. It ends a session for an operator, unless its owner was set at
// another index than the request says. It returns the outcome once this member has applied it. It
// waits for the log, as long as the term and ctx last.
//
// If the code of the error is FailedPrecondition or ResourceExhausted, nothing was done and another
// try may succeed. If it is InvalidArgument, no try will. After any other error the
// session may have ended, or end soon.
func (l *Leader) Kill(ctx context.Context, request *proto.KillRequest) (*proto.KillReply, error) {
	if err := l.refuse(request.Nonce); err != nil {
		return nil, err
	}
	if n := len(request.By); n > znode.MaxBy {
		return nil, status.Errorf(codes.InvalidArgument, "leader: the name of who asked has %d bytes, more than %d", n, znode.MaxBy)
	}
	k := &kill{id: jute.SessionID(request.Session), since: request.Since, by: request.By, done: make(chan proto.KillReply_Outcome, 1)}
	heard, _ := l.cfg.Sessions.Heard(k.id, l.cfg.Monotonic.Now())
	k.silent = heard.Ago
	outcome, err := awaitApplied(ctx, l, &l.kills.requests, k, k.done)
	if err != nil {
		return nil, err
	}
	return &proto.KillReply{Outcome: outcome}, nil
}

// Killed records that a session has ended by a kill. Apply calls it; it does not block.
func (l *Leader) Killed(id jute.SessionID) { l.kills.sessionEnded(id) }

// answerKills answers the kills of an entry that has been applied here. The table has been brought up
// to date by the same entry.
func (l *Leader) answerKills(kills []*kill) {
	ended := l.kills.takeEnded()
	for _, k := range kills {
		outcome := proto.KillReply_GONE
		if i := slices.Index(ended, k.id); i >= 0 {
			ended = slices.Delete(ended, i, i+1) // a second kill of the session found it gone
			outcome = proto.KillReply_CLOSED
		} else if _, lives := l.cfg.Sessions.Heard(k.id, l.cfg.Monotonic.Now()); lives {
			outcome = proto.KillReply_MOVED
		}
		k.done <- outcome
	}
}

// txn returns the transaction that ends the session.
func (k *kill) txn() (*proto.Txn, error) {
	body, err := pb.Marshal(&proto.Kill{Since: k.since, SilentMs: uint64(k.silent.Milliseconds()), By: k.by})
	if err != nil {
		return nil, fmt.Errorf("leader: encode kill of %s: %w", k.id, err)
	}
	return &proto.Txn{Session: int64(k.id), Op: int32(jute.OpKill), Body: body}, nil
}
