package client

import (
	"context"
	"errors"
	"iter"

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
