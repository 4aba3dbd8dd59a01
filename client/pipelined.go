package client

import (
	"context"
	"fmt"
	"sync"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// pipelined is a request of a Pipeline. It is used for the next request when its reply has come, so that a request
// needs no memory of its own. Many are in flight, so it is small, and what the reply needs comes first.
type pipelined struct {
	onReply func(session.Reply, error) // the method handleReply, bound once
	finish  func(q *pipelined, body []byte, err error)
	done    any // the caller's function, of a type that finish knows
	c       *Client
	Operation
}

// pipelinedPool has requests whose replies have come. It is shared by all Clients, so that one that only pings has
// none.
var pipelinedPool sync.Pool

// Append implements session.Record.
func (q *pipelined) Append(b []byte) []byte { return q.appendBody(b, q.c.chroot) }

// send sends an operation. When the reply has come, finish calls done with it.
func (p Pipeline) send(ctx context.Context, o Operation, finish func(*pipelined, []byte, error), done any) error {
	q, _ := pipelinedPool.Get().(*pipelined)
	if q == nil {
		q = &pipelined{}
		q.onReply = q.handleReply
	}
	q.c, q.Operation, q.finish, q.done = p.c, o, finish, done
	var rec session.Record = q
	if q.op == jute.OpCloseSession {
		rec = nil // it has no record
	}
	err := q.check()
	if err == nil {
		err = q.c.session.Go(ctx, q.op, rec, q.onReply)
	}
	if err != nil {
		err = callError(q.op, q.path, err)
		q.returnToPool()
	}
	return err
}

func (q *pipelined) handleReply(r session.Reply, err error) {
	switch {
	case err != nil:
		err = callError(q.op, q.path, &session.UnansweredError{Err: err})
	case r.Err != jute.OK:
		err = callError(q.op, q.path, r.Err)
	}
	q.finish(q, r.Body, err)
	q.returnToPool()
}

// malformedReply returns the error of a reply that makes no sense.
func (q *pipelined) malformedReply(d *jute.Decoder) error {
	return callError(q.op, q.path, fmt.Errorf("%w: %w", ErrProtocol, d.Err()))
}

// result returns what a reply says, or err, or the reason for which the reply makes no sense.
func (q *pipelined) result(body []byte, err error) (r Result, _ error) {
	if err != nil {
		return Result{}, err
	}
	d := jute.NewDecoder(body)
	if r.decode(&d, q.op, q.c.chroot, q.path); d.Err() != nil {
		return Result{}, q.malformedReply(&d)
	}
	return r, nil
}

// returnToPool makes the request's memory free for the next one. It keeps nothing of the caller alive.
func (q *pipelined) returnToPool() {
	q.c, q.Operation, q.finish, q.done = nil, Operation{}, nil, nil
	pipelinedPool.Put(q)
}
