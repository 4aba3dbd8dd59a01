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
	if errors.Is(err, ErrNoNode) {
		return Stat{}, false, w, nil
	}
	return statOf(resp.Stat), err == nil, w, err
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

// readAndWatch sends a read that sets a watch, and waits for the reply. It sends the read again as sendAndWait does.
func (c *Client) readAndWatch(ctx context.Context, op jute.Op, path string, into session.Readable) (
	watch *OnceWatch, err error,
) {
	err = observeCall(ctx, c, op, path, CheckPath(path), func(ctx context.Context) (tries, error) {
		var t tries
		for {
			watch, t.last, err = c.watches.read(ctx, op, c.chroot.serverPath(path), into)
			t.countSent()
			switch {
			case c.policy != Fail && errors.Is(err, ErrSuspended):
				if err = c.AwaitConnected(ctx); err != nil {
					return t, err
				}
			case c.policy == Fail || !errors.Is(err, ErrConnectionLost):
				return t, err
			}
		}
	})
	return watch, err
}

// setsWatch reports whether a read with this error has set its watch.
func setsWatch(op jute.Op, err error) bool {
	return err == nil || op == jute.OpExists && errors.Is(err, jute.NoNode)
}

// read sends a read that sets a watch, once. The error is the session's, or the server's code.
func (t *watchTable) read(ctx context.Context, op jute.Op, path string, into session.Readable) (_ *OnceWatch, sent session.Numbers, err error) {
	w := &onceWaiter{fired: make(chan Event, 1), path: path, kind: dataWatch}
	if op == jute.OpGetChildren2 {
		w.kind = childrenWatch
	}
	if err := t.beginRead(ctx, path, w.kind); err != nil {
		return nil, sent, err
	}
	type answer struct {
		reply session.Reply
		err   error
	}
	answered := make(chan answer, 1)
	sent.Xid, err = t.c.session.GoNumbered(ctx, op, jute.WatchedPath{Path: []byte(path), Watch: true}, func(r session.Reply, err error) {
		r.Body = bytes.Clone(r.Body)
		answered <- answer{r, t.readAnswered(op, w, r.Err, err)}
	})
	if err != nil {
		t.abandonRead(path, w.kind)
		return nil, sent, err
	}
	select {
	case a := <-answered:
		sent.Zxid = a.reply.Zxid
		err := a.err
		if !setsWatch(op, err) {
			return nil, sent, err
		}
		if err == nil {
			err = a.reply.DecodeBody(into)
		}
		if errors.Is(err, ErrProtocol) {
			t.giveUp(w)
			return nil, sent, err
		}
		return &OnceWatch{Fired: w.fired, stop: func() { t.giveUp(w) }}, sent, err
	case <-ctx.Done():
		t.giveUp(w)
		return nil, sent, &session.UnansweredError{Err: ctx.Err()}
	}
}

// readAnswered handles the reply to a read, on the reader. It returns the error of the read.
func (t *watchTable) readAnswered(op jute.Op, w *onceWaiter, code jute.Code, err error) error {
	if err != nil {
		err = &session.UnansweredError{Err: err}
	} else {
		err = code.Err()
	}
	if setsWatch(op, err) {
		t.endRead(w)
	} else {
		t.abandonRead(w.path, w.kind)
	}
	return err
}
