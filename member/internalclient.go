package member

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rollcall/operator/admin"
	"rollcall/operator/subtree"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// internalClient is a client of the super user inside a member. It reads the member's state, and submits writes as the
// member's clients do, in one order. It has no session, and needs no password. Limits of clients do not apply. It
// implements subtree.NodeClient.
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

// requestError is the error of a request of an internalClient.
type requestError struct {
	op   jute.Op
	path string // "": the operation has none
	code jute.Code
}

func (e *requestError) Error() string { return fmt.Sprintf("%v %s: %v", e.op, e.path, e.code) }
func (e *requestError) Unwrap() error { return e.code }

// codeError returns the error of a request, or nil if code is OK.
func codeError(op jute.Op, path string, code jute.Code) error {
	if code == jute.OK {
		return nil
	}
	return &requestError{op, path, code}
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
		return codeError(op, path, code)
	}
	return nil
}

// Stat implements subtree.NodeClient.
func (i *internalClient) Stat(ctx context.Context, path string) (stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpExists, path, func(tree *znode.State, path []byte) (code jute.Code) {
		stat, code = tree.Exists(path, i.identities, nil)
		return code
	})
	return stat, err
}

// Get implements subtree.NodeClient.
func (i *internalClient) Get(ctx context.Context, path string) (data []byte, stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpGetData, path, func(tree *znode.State, path []byte) (code jute.Code) {
		data, stat, code = tree.GetData(path, i.identities, nil)
		return code
	})
	return data, stat, err
}

// ACL implements subtree.NodeClient.
func (i *internalClient) ACL(ctx context.Context, path string) (list []jute.ACL, stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpGetACL, path, func(tree *znode.State, path []byte) (code jute.Code) {
		list, stat, code = tree.GetACL(path, i.identities)
		return code
	})
	return list, stat, err
}

// Children implements subtree.NodeClient.
func (i *internalClient) Children(ctx context.Context, path string) (names []string, stat jute.Stat, err error) {
	err = i.readTree(ctx, jute.OpGetChildren2, path, func(tree *znode.State, path []byte) (code jute.Code) {
		var children znode.ChildNames
		children, stat, code = tree.Children(path, i.identities, nil)
		names = slices.AppendSeq(make([]string, 0, children.Count()), children.All())
		return code
	})
	return names, stat, err
}

// AwaitConnected implements subtree.NodeClient.
func (i *internalClient) AwaitConnected(ctx context.Context) error {
	return i.m.follower.AwaitSync(ctx)
}

// SendDelete implements subtree.NodeClient.
func (i *internalClient) SendDelete(ctx context.Context, path string, done func(error)) error {
	body := jute.DeleteRequest{Path: []byte(path), Version: subtree.AnyVersion}.Append(nil)
	return i.submitWrite(ctx, jute.OpDelete, body, codeCallback(func(code jute.Code) {
		done(codeError(jute.OpDelete, path, code))
	}))
}

// codeCallback is a znode.Waiter that calls a function with the result's code.
type codeCallback func(jute.Code)

// ReceiveResult implements znode.Waiter.
func (c codeCallback) ReceiveResult(r *znode.Result) { c(r.Code) }

func (i *internalClient) submitWrite(ctx context.Context, op jute.Op, body []byte, w znode.Waiter) error {
	if err := i.awaitServing(ctx); err != nil {
		return err
	}
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
func (i *internalClient) writeAndWait(ctx context.Context, op jute.Op, body []byte) (znode.Result, error) {
	applied := make(resultWaiter, 1)
	if err := i.submitWrite(ctx, op, body, applied); err != nil {
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
	body := jute.SetACLRequest{Path: []byte(path), ACL: acl, Version: version}.Append(nil)
	r, err := i.writeAndWait(ctx, jute.OpSetACL, body)
	if err == nil {
		err = codeError(jute.OpSetACL, path, r.Code)
	}
	return r.Stat, err
}

// Write implements subtree.NodeClient.
func (i *internalClient) Write(ctx context.Context, writes []subtree.NodeWrite) error {
	ops := make([]jute.MultiOp, len(writes))
	for at := range writes {
		ops[at] = writes[at].MultiOp()
	}
	r, err := i.writeAndWait(ctx, jute.OpMulti, jute.AppendMulti(nil, ops))
	if err == nil {
		err = codeError(jute.OpMulti, "", r.Code)
	}
	for at := 0; err == nil && at < len(r.Multi); at++ {
		err = codeError(ops[at].Op, writes[at].Path, r.Multi[at].Code)
	}
	return err
}
