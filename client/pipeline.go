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
	return p.getNode(ctx, path, false, done)
}

// GetAndWatch is Get, and sets the watch of Client.GetWatch. Config.OnEvent gets its event.
func (p Pipeline) GetAndWatch(ctx context.Context, path string, done func(data []byte, stat Stat, err error)) error {
	return p.getNode(ctx, path, true, done)
}

func (p Pipeline) getNode(ctx context.Context, path string, watch bool, done func([]byte, Stat, error)) error {
	q := p.newRequest(jute.OpGetData, path, finishGet, done)
	q.watch = watch
	return q.sendRequest(ctx)
}

func finishGet(q *pipelined, body []byte, err error) {
	done := q.done.(func([]byte, Stat, error))
	if err == nil {
		d := jute.NewDecoder(body)
		data := d.ReadBytes()
		var stat jute.Stat
		stat.Decode(&d)
		if d.Err() == nil {
			done(data, statOf(stat), nil)
			return
		}
		err = q.malformedReply(&d)
	}
	done(nil, Stat{}, err)
}

// Set is Client.Set.
func (p Pipeline) Set(ctx context.Context, path string, data []byte, version int32, done func(Stat, error)) error {
	q := p.newRequest(jute.OpSetData, path, finishSet, done)
	q.data, q.ver = data, version
	return q.sendRequest(ctx)
}

func finishSet(q *pipelined, body []byte, err error) {
	done := q.done.(func(Stat, error))
	if err == nil {
		d := jute.NewDecoder(body)
		var stat jute.Stat
		stat.Decode(&d)
		if d.Err() == nil {
			done(statOf(stat), nil)
			return
		}
		err = q.malformedReply(&d)
	}
	done(Stat{}, err)
}

// Create is Client.Create.
func (p Pipeline) Create(ctx context.Context, path string, data []byte, mode Mode, done func(string, Stat, error)) error {
	q := p.newRequest(mode.createOp(), path, finishCreate, done)
	q.data, q.mode = data, mode
	return q.sendRequest(ctx)
}

func finishCreate(q *pipelined, body []byte, err error) {
	done := q.done.(func(string, Stat, error))
	if err == nil {
		d := jute.NewDecoder(body)
		path := q.pathOf(d.ReadBytes())
		var stat jute.Stat
		stat.Decode(&d)
		if d.Err() == nil {
			done(path, statOf(stat), nil)
			return
		}
		err = q.malformedReply(&d)
	}
	done("", Stat{}, err)
}

// Delete is Client.Delete.
func (p Pipeline) Delete(ctx context.Context, path string, version int32, done func(error)) error {
	q := p.newRequest(jute.OpDelete, path, finishEmpty, done)
	q.ver = version
	return q.sendRequest(ctx)
}

func finishEmpty(q *pipelined, _ []byte, err error) { q.done.(func(error))(err) }

// Exists is Client.Exists.
func (p Pipeline) Exists(ctx context.Context, path string, done func(Stat, bool, error)) error {
	return p.exists(ctx, path, false, done)
}

// ExistsAndWatch is Exists, and sets the watch of Client.ExistsWatch. Config.OnEvent gets its event.
func (p Pipeline) ExistsAndWatch(ctx context.Context, path string, done func(Stat, bool, error)) error {
	return p.exists(ctx, path, true, done)
}

func (p Pipeline) exists(ctx context.Context, path string, watch bool, done func(Stat, bool, error)) error {
	q := p.newRequest(jute.OpExists, path, finishExists, done)
	q.watch = watch
	return q.sendRequest(ctx)
}

func finishExists(q *pipelined, body []byte, err error) {
	done := q.done.(func(Stat, bool, error))
	if err == nil {
		d := jute.NewDecoder(body)
		var stat jute.Stat
		stat.Decode(&d)
		if d.Err() == nil {
			done(statOf(stat), true, nil)
			return
		}
		err = q.malformedReply(&d)
	} else if errors.Is(err, ErrNoNode) {
		err = nil
	}
	done(Stat{}, false, err)
}

// Children is Client.Children.
func (p Pipeline) Children(ctx context.Context, path string, done func([]string, Stat, error)) error {
	return p.children(ctx, path, false, done)
}

// ChildrenAndWatch is Children, and sets the watch of Client.ChildrenWatch. Config.OnEvent gets its event.
func (p Pipeline) ChildrenAndWatch(ctx context.Context, path string, done func([]string, Stat, error)) error {
	return p.children(ctx, path, true, done)
}

func (p Pipeline) children(ctx context.Context, path string, watch bool, done func([]string, Stat, error)) error {
	q := p.newRequest(jute.OpGetChildren2, path, finishChildren, done)
	q.watch = watch
	return q.sendRequest(ctx)
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
	return p.newRequest(jute.OpGetChildren2, path, finishEachChild, done).sendRequest(ctx)
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
	q := p.newRequest(opOfMulti(ops), "", finishMulti, done)
	q.ops = ops
	return q.sendRequest(ctx)
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
	if err = multiError(q.op, q.ops, reply.results); len(reply.results) != len(q.ops) {
		done(nil, err)
		return
	}
	done(reply.results, err)
}

// EndSession ends the session at the servers, as Client.Close does, without waiting for the reply. Afterwards, whatever
// the reply is, the Client must be abandoned.
func (p Pipeline) EndSession(ctx context.Context, done func(error)) error {
	return p.newRequest(jute.OpCloseSession, "", finishEmpty, done).sendRequest(ctx)
}
