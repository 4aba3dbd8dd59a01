package member

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"rollcall/cli/subtree"
	client "rollcall/client/before"
	"rollcall/operator/admin"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// internalClient is a client of the super user inside a member. It reads the member's state, and submits writes as the
// member's clients do, in one order. It has no session, and needs no password. Limits of clients do not apply. It
// implements subtree.NodeClient without watches.
type internalClient struct {
	m          *Member
	connID     uint64 // a number that no connection has
	identities []*proto.Identity
}

var _ subtree.NodeClient = (*internalClient)(nil)

// newInternalClient returns a client for an administrator at host.
func newInternalClient(m *Member, host string) *internalClient {
	return &internalClient{
		m: m, connID: randomUint64(),
		identities: callerIdentities(admin.Caller{Host: host, IsAdministrator: true}),
	}
}

// awaitServing waits until this member serves all clients. It may serve none during an election.
func (i *internalClient) awaitServing(ctx context.Context) error {
	for !i.m.servesAllClients() {
		select {
		case <-ctx.Done():
			return errNotServing
		case <-time.After(i.m.cfg.Tick):
		}
	}
	return nil
}

// readTree reads the state under the tree's lock.
func (i *internalClient) readTree(ctx context.Context, op jute.Op, path string,
	read func(tree *znode.State, path []byte) jute.Code,
) error {
	if err := i.awaitServing(ctx); err != nil {
		return err
	}
	tree := i.m.state
	tree.RLock()
	defer tree.RUnlock()
	if code := read(tree, []byte(path)); code != jute.OK {
		return &client.Error{Op: op, Path: path, Err: code}
	}
	return nil
}

// Exists implements subtree.NodeClient.
func (i *internalClient) Exists(ctx context.Context, path string, _ bool) (stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpExists, path, func(tree *znode.State, path []byte) (code jute.Code) {
		stat, code = tree.Exists(path, i.identities, nil)
		return code
	})
	return stat, err
}

// Get implements subtree.NodeClient.
func (i *internalClient) Get(ctx context.Context, path string, _ bool) (data []byte, stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpGetData, path, func(tree *znode.State, path []byte) (code jute.Code) {
		data, stat, code = tree.GetData(path, i.identities, nil)
		return code
	})
	return data, stat, err
}

// GetACL implements subtree.NodeClient.
func (i *internalClient) GetACL(ctx context.Context, path string) (list []jute.ACL, stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpGetACL, path, func(tree *znode.State, path []byte) (code jute.Code) {
		list, stat, code = tree.GetACL(path, i.identities)
		return code
	})
	return list, stat, err
}

// Children implements subtree.NodeClient.
func (i *internalClient) Children(ctx context.Context, path string, _ bool) (names []string, stat jute.Stat,
	err error,
) {
	err = i.readTree(ctx, jute.OpGetChildren2, path, func(tree *znode.State, path []byte) (code jute.Code) {
		names, stat, code = tree.Children(path, i.identities, nil)
		return code
	})
	return names, stat, err
}

// AwaitReady implements subtree.NodeClient.
func (i *internalClient) AwaitReady(ctx context.Context) error { return i.m.follower.AwaitSync(ctx) }

// Go implements subtree.NodeClient. It is for writes.
func (i *internalClient) Go(ctx context.Context, op jute.Op, rec client.Record, done func(client.Reply, error)) error {
	return i.submitWrite(ctx, op, rec, replyCallback(done))
}

// replyCallback is a znode.Waiter that calls a function with a client's reply, without its body.
type replyCallback func(client.Reply, error)

// ReceiveResult implements znode.Waiter.
func (a replyCallback) ReceiveResult(r *znode.Result) {
	a(client.Reply{ReplyHeader: jute.ReplyHeader{Zxid: r.Zxid, Err: r.Code}}, nil)
}

func (i *internalClient) submitWrite(ctx context.Context, op jute.Op, rec client.Record, w znode.Waiter) error {
	if err := i.awaitServing(ctx); err != nil {
		return err
	}
	body := rec.Append(nil)
	// A transaction of many small nodes must pass, however low jute.maxbuffer is.
	switch most := max(i.m.server.Limits().MaxBuffer, jute.DefaultMaxBuffer); {
	case i.m.server.WriteLimits().RejectForMemory(op, body, i.identities):
		return errNoMemory
	case len(body) > most:
		return &admin.Failure{
			Status: http.StatusRequestEntityTooLarge,
			Text: fmt.Sprintf("a node is too large: writing it takes a request of %d bytes, and jute.maxbuffer limits "+
				"requests to %d", len(body), most),
		}
	}
	return i.m.follower.Submit(ctx, &proto.Txn{Conn: i.connID, Op: int32(op), Body: body, Ids: i.identities}, w)
}

// writeAndWait makes a change, and returns its result when this member has applied it.
func (i *internalClient) writeAndWait(ctx context.Context, op jute.Op, rec client.Record) (znode.Result, error) {
	applied := make(resultWaiter, 1)
	if err := i.submitWrite(ctx, op, rec, applied); err != nil {
		return znode.Result{}, err
	}
	select {
	case r := <-applied:
		return r, nil
	case <-ctx.Done():
		return znode.Result{}, ctx.Err()
	}
}

// SetACL implements subtree.NodeClient.
func (i *internalClient) SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (jute.Stat, error) {
	r, err := i.writeAndWait(ctx, jute.OpSetACL, jute.SetACLRequest{Path: []byte(path), ACL: acl, Version: version})
	if err == nil && r.Code != jute.OK {
		err = &client.Error{Op: jute.OpSetACL, Path: path, Err: r.Code}
	}
	return r.Stat, err
}

// Multi implements subtree.NodeClient. It is for writes. If it succeeds, it returns no results.
func (i *internalClient) Multi(ctx context.Context, ops []jute.MultiOp) ([]client.MultiResult, error) {
	r, err := i.writeAndWait(ctx, jute.OpMulti, client.MultiRequest(ops))
	switch {
	case err != nil:
		return nil, err
	case r.Code != jute.OK:
		return nil, &client.Error{Op: jute.OpMulti, Err: r.Code}
	}
	for at := range r.Multi {
		if code := r.Multi[at].Code; code != jute.OK {
			return nil, &client.Error{Op: ops[at].Op, Path: string(ops[at].Path()), Err: code}
		}
	}
	return nil, nil
}
