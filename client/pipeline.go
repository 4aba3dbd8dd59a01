package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// Pipeline sends requests without waiting for their replies. The servers carry out the requests of a session in the
// order in which they were sent, and each done function is called in that order, once, when its reply has come.
//
// done runs on the Client's own goroutine: it must not block and must not call the Client, but it may send more
// requests through the Pipeline. Data, names and results that it gets are valid until it returns.
//
// A method waits for room while Config.MaxInFlight requests have no reply, until ctx ends. It does not wait for a
// connection: without one it returns ErrSuspended. If it returns an error, nothing was sent and done is not called.
// Requests are never sent again.
type Pipeline struct{ c *Client }

// Pipeline returns the Client's Pipeline. There is no cost to it.
func (c *Client) Pipeline() Pipeline { return Pipeline{c} }

// Get is Client.Get.
func (p Pipeline) Get(ctx context.Context, path string, done func(data []byte, stat Stat, err error)) error {
	return p.send(ctx, GetOp(path), finishGet, done)
}

// GetAndWatch is Get, and sets the watch of Client.GetWatch. Config.OnEvent gets its event.
func (p Pipeline) GetAndWatch(ctx context.Context, path string, done func(data []byte, stat Stat, err error)) error {
	return p.send(ctx, GetOp(path).withWatch(), finishGet, done)
}

func finishGet(q *pipelined, body []byte, err error) {
	r, err := q.result(body, err)
	q.done.(func([]byte, Stat, error))(r.Data, r.Stat, err)
}

// Set is Client.Set.
func (p Pipeline) Set(ctx context.Context, path string, data []byte, version int32, done func(Stat, error)) error {
	return p.send(ctx, SetOp(path, data, version), finishSet, done)
}

func finishSet(q *pipelined, body []byte, err error) {
	r, err := q.result(body, err)
	q.done.(func(Stat, error))(r.Stat, err)
}

// Create is Client.Create.
func (p Pipeline) Create(ctx context.Context, path string, data []byte, mode Mode, done func(string, Stat, error)) error {
	return p.send(ctx, CreateOp(path, data, mode), finishCreate, done)
}

func finishCreate(q *pipelined, body []byte, err error) {
	r, err := q.result(body, err)
	q.done.(func(string, Stat, error))(r.Path, r.Stat, err)
}

// Delete is Client.Delete.
func (p Pipeline) Delete(ctx context.Context, path string, version int32, done func(error)) error {
	return p.send(ctx, DeleteOp(path, version), finishEmpty, done)
}

func finishEmpty(q *pipelined, _ []byte, err error) { q.done.(func(error))(err) }

// Exists is Client.Exists.
func (p Pipeline) Exists(ctx context.Context, path string, done func(Stat, bool, error)) error {
	return p.send(ctx, existsOp(path), finishExists, done)
}

// ExistsAndWatch is Exists, and sets the watch of Client.ExistsWatch. Config.OnEvent gets its event.
func (p Pipeline) ExistsAndWatch(ctx context.Context, path string, done func(Stat, bool, error)) error {
	return p.send(ctx, existsOp(path).withWatch(), finishExists, done)
}

func finishExists(q *pipelined, body []byte, err error) {
	r, err := q.result(body, err)
	exists := err == nil
	if errors.Is(err, ErrNoNode) {
		err = nil
	}
	q.done.(func(Stat, bool, error))(r.Stat, exists, err)
}

// Children is Client.Children.
func (p Pipeline) Children(ctx context.Context, path string, done func([]string, Stat, error)) error {
	return p.send(ctx, namesOp(path), finishChildren, done)
}

// ChildrenAndWatch is Children, and sets the watch of Client.ChildrenWatch. Config.OnEvent gets its event.
func (p Pipeline) ChildrenAndWatch(ctx context.Context, path string, done func([]string, Stat, error)) error {
	return p.send(ctx, namesOp(path).withWatch(), finishChildren, done)
}

func finishChildren(q *pipelined, body []byte, err error) {
	done := q.done.(func([]string, Stat, error))
	if err == nil {
		list := childNamesPool.Get().(*childNames)
		defer list.release()
		d := jute.NewDecoder(body)
		list.Decode(&d)
		if d.Err() == nil {
			done(list.names, statOf(list.stat), nil)
			return
		}
		err = q.malformedReply(&d)
	}
	done(nil, Stat{}, err)
}

// EachChild is Client.Children without memory for the names. names yields them, in no order, as bytes of the reply; if
// the reply makes no sense, it yields an ErrProtocol at the end. done must not keep names.
func (p Pipeline) EachChild(ctx context.Context, path string,
	done func(names iter.Seq2[[]byte, error], stat Stat, err error),
) error {
	return p.send(ctx, namesOp(path), finishEachChild, done)
}

func finishEachChild(q *pipelined, body []byte, err error) {
	done := q.done.(func(iter.Seq2[[]byte, error], Stat, error))
	list := encodedNamesPool.Get().(*encodedNames)
	defer list.release()
	var stat Stat
	if err == nil {
		d := jute.NewDecoder(body)
		if stat = list.readFrom(&d); d.Err() != nil {
			stat, err = Stat{}, q.malformedReply(&d)
		}
	}
	done(list.each, stat, err)
}

// Multi is Client.Multi. ops must not be empty, and must not change until done is called.
func (p Pipeline) Multi(ctx context.Context, ops []Operation, done func([]Result, error)) error {
	return p.send(ctx, multiOp("", ops), finishMulti, done)
}

func finishMulti(q *pipelined, body []byte, err error) {
	done := q.done.(func([]Result, error))
	if err != nil {
		done(nil, err)
		return
	}
	reply := multiReplyPool.Get().(*multiReply)
	defer reply.release()
	reply.root, reply.most = q.c.chroot, len(q.ops)+1
	d := jute.NewDecoder(body)
	if reply.Decode(&d); d.Err() != nil {
		done(nil, q.malformedReply(&d))
		return
	}
	done(q.multiResults(reply.results))
}

// EndSession ends the session at the servers, as Client.Close does, without waiting for the reply. Afterwards, whatever
// the reply is, the Client must be abandoned.
func (p Pipeline) EndSession(ctx context.Context, done func(error)) error {
	return p.send(ctx, Operation{op: jute.OpCloseSession}, finishEmpty, done)
}

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

// These pools have the memory of replies whose functions have returned.
var (
	childNamesPool   = sync.Pool{New: func() any { return new(childNames) }}
	encodedNamesPool = sync.Pool{New: func() any { return newEncodedNames() }}
	multiReplyPool   = sync.Pool{New: func() any { return new(multiReply) }}
)

// These limit the memory that a reply leaves for the next one. Larger ones are left to the garbage collector.
const (
	maxKeptChildren = 1 << 10 // names, each of 16 bytes beside its text
	maxKeptResults  = 64      // of a multi, each of about 200 bytes
)

func (c *childNames) release() {
	clear(c.names)
	if c.names = c.names[:0]; cap(c.names) <= maxKeptChildren {
		childNamesPool.Put(c)
	}
}

func (e *encodedNames) release() {
	e.names, e.count = nil, 0
	encodedNamesPool.Put(e)
}

func (m *multiReply) release() {
	clear(m.results)
	if m.results = m.results[:0]; cap(m.results) <= maxKeptResults {
		multiReplyPool.Put(m)
	}
}
