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
	onReply   func(session.Reply, error) // the method handleReply, bound once
	finish    func(q *pipelined, body []byte, err error)
	done      any // the caller's function, of a type that finish knows
	c         *Client
	Operation             // or the operation and nothing else
	ops       []Operation // of a multi
}

// pipelinedPool has requests whose replies have come. It is shared by all Clients, so that one that only pings has
// none.
var pipelinedPool sync.Pool

func (p Pipeline) newRequest(op jute.Op, path string, finish func(*pipelined, []byte, error), done any) *pipelined {
	q, _ := pipelinedPool.Get().(*pipelined)
	if q == nil {
		q = &pipelined{}
		q.onReply = q.handleReply
	}
	q.c, q.op, q.path, q.finish, q.done = p.c, op, path, finish, done
	return q
}

// Append implements session.Record.
func (q *pipelined) Append(b []byte) []byte {
	if q.op == jute.OpMulti || q.op == jute.OpMultiRead {
		return appendMulti(b, q.c.chroot, q.ops)
	}
	return q.appendBody(b, q.c.chroot)
}

// sendRequest sends the request.
func (q *pipelined) sendRequest(ctx context.Context) error {
	var rec session.Record = q
	if q.op == jute.OpCloseSession {
		rec = nil // it has no record
	}
	err := q.checkRequest()
	if err == nil {
		err = q.c.session.Go(ctx, q.op, rec, q.onReply)
	}
	if err != nil {
		err = callError(q.op, q.path, err)
		q.returnToPool()
	}
	return err
}

// checkRequest returns the reason for which the request may not be sent.
func (q *pipelined) checkRequest() error {
	switch q.op {
	case jute.OpCloseSession:
		return nil
	case jute.OpMulti, jute.OpMultiRead:
		return checkOperations(q.op, q.ops)
	}
	return q.checkPath()
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

// pathOf returns the path of a node that was created, as the caller knows it.
func (q *pipelined) pathOf(created []byte) string {
	root := q.c.chroot
	if root == "" && string(created) == q.path {
		return q.path
	}
	return root.callerPath(string(created))
}

// returnToPool makes the request's memory free for the next one. It keeps nothing of the caller alive.
func (q *pipelined) returnToPool() {
	q.c, q.path, q.finish, q.done = nil, "", nil, nil
	q.ver, q.watch, q.ops = 0, false, nil
	if q.data != nil {
		q.data = nil
	}
	q.mode = Mode{}
	pipelinedPool.Put(q)
}
