package client

import (
	"bytes"
	"context"
	"errors"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// OnceWatch is a watch that fires once: with the first change after the read that set it. It lasts over connections.
type OnceWatch struct {
	// Fired gets one event: the change, or SessionEnded.
	Fired <-chan Event

	stop func()
}

// Stop ends a watch that is no longer wanted. Fired then gets nothing more. Stop does not block. If nothing else of the
// Client needs the watch, the Client removes it at the servers in the background. See Client.Watch for servers before
// ZooKeeper 3.9, which can keep it until it fires.
func (w *OnceWatch) Stop() { w.stop() }

// GetWatch is Get, and watches the node's data and its deletion. There is no watch if there is an error.
func (c *Client) GetWatch(ctx context.Context, path string) ([]byte, Stat, *OnceWatch, error) {
	var resp jute.GetDataResponse
	w, err := c.readAndWatch(ctx, jute.OpGetData, path, &resp)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return resp.Data, statOf(resp.Stat), w, nil
}

// ExistsWatch is Exists, and watches the node's creation, its data and its deletion.
func (c *Client) ExistsWatch(ctx context.Context, path string) (Stat, bool, *OnceWatch, error) {
	var resp jute.ExistsResponse
	w, err := c.readAndWatch(ctx, jute.OpExists, path, &resp)
	if err != nil && !errors.Is(err, ErrNoNode) {
		return Stat{}, false, nil, err
	}
	return statOf(resp.Stat), err == nil, w, nil
}

// ChildrenWatch is Children, and watches the names of the children and the node's deletion. There is no watch if
// there is an error.
func (c *Client) ChildrenWatch(ctx context.Context, path string) ([]string, Stat, *OnceWatch, error) {
	resp := childNames{inReply: true}
	w, err := c.readAndWatch(ctx, jute.OpGetChildren2, path, &resp)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return resp.names, statOf(resp.stat), w, nil
}

// readAndWatch sends a read that sets a watch, and waits for the reply. It sends the read again as do does.
func (c *Client) readAndWatch(ctx context.Context, op jute.Op, path string, into session.Readable) (*OnceWatch, error) {
	var observed func(error)
	if c.observer != nil {
		ctx, observed = c.observer.Begin(ctx, op.String(), path)
	}
	var watch *OnceWatch
	invalid := CheckPath(path)
	if invalid == nil {
		invalid = c.callbacks.checkNotInCallback()
	}
	err := invalid
	for invalid == nil {
		watch, err = c.watches.read(ctx, op, c.chroot.serverPath(path), into)
		if c.policy == Fail {
			break
		}
		if errors.Is(err, ErrSuspended) {
			if err = c.AwaitConnected(ctx); err == nil {
				continue
			}
		}
		if !errors.Is(err, ErrConnectionLost) {
			break
		}
	}
	err = callError(op, path, err)
	if observed != nil {
		observed(err)
	}
	return watch, err
}

// kindOf returns the watch that a read has set, by its reply. ok is false if it has set none.
func kindOf(op jute.Op, code error) (kind watchKind, ok bool) {
	switch {
	case op == jute.OpExists && errors.Is(code, jute.NoNode):
		return watchExist, true
	case code != nil:
		return 0, false
	case op == jute.OpGetChildren2:
		return watchChildren, true
	}
	return watchData, true
}

// read sends a read that sets a watch, once. The error is the session's, or the server's code.
func (t *watchTable) read(ctx context.Context, op jute.Op, path string, into session.Readable) (*OnceWatch, error) {
	kind := dataAtServer
	if op == jute.OpGetChildren2 {
		kind = childrenAtServer
	}
	if err := t.beginRead(ctx, path, kind); err != nil {
		return nil, err
	}
	fired := make(chan Event, 1)
	waiter := &onceWaiter{fired: fired, path: path}
	answered := make(chan watchedReply, 1)
	err := t.c.session.Go(ctx, op, jute.WatchedPath{Path: []byte(path), Watch: true}, func(r session.Reply, err error) {
		answered <- t.readAnswered(op, kind, waiter, r, err)
	})
	if err != nil {
		t.abandonRead(path, kind)
		return nil, err
	}
	select {
	case a := <-answered:
		return t.watchOf(a, waiter, into)
	case <-ctx.Done():
		t.giveUp(waiter)
		return nil, &session.UnansweredError{Err: ctx.Err()}
	}
}

// watchedReply is the reply to a read that sets a watch.
type watchedReply struct {
	reply   session.Reply
	watched bool
	err     error
}

// readAnswered handles the reply to a read of kind, on the reader.
func (t *watchTable) readAnswered(op jute.Op, kind serverKind, w *onceWaiter, r session.Reply, err error) watchedReply {
	watched := false
	if err == nil {
		w.kind, watched = kindOf(op, r.Err.Err())
	}
	if watched {
		t.endRead(w)
	} else {
		t.abandonRead(w.path, kind)
	}
	if err != nil {
		return watchedReply{err: &session.UnansweredError{Err: err}}
	}
	r.Body = bytes.Clone(r.Body)
	return watchedReply{reply: r, watched: watched}
}

func (t *watchTable) watchOf(a watchedReply, waiter *onceWaiter, into session.Readable) (*OnceWatch, error) {
	if a.err != nil {
		return nil, a.err
	}
	err := a.reply.Err.Err()
	if err == nil {
		err = a.reply.DecodeBody(into)
	}
	if !a.watched {
		return nil, err
	}
	if errors.Is(err, ErrProtocol) {
		t.giveUp(waiter)
		return nil, err
	}
	return &OnceWatch{Fired: waiter.fired, stop: func() { t.giveUp(waiter) }}, err
}
