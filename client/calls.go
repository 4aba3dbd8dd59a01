package client

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client/internal/nodepath"
	"rollcall/client/session"
	"rollcall/zk/jute"
)

// callPath sends a request about a path and waits for the reply.
func (c *Client) callPath(ctx context.Context, op jute.Op, path string, rec session.Record, into session.Readable) error {
	return sendAndWait(ctx, c, op, path, CheckPath(path), rec, into)
}

// sendAndWait sends a request and waits for the reply. If invalid is not nil, it sends nothing and returns invalid. A
// read is sent again if its connection breaks, unless calls must fail while the session is suspended.
func sendAndWait(ctx context.Context, c *Client, op jute.Op, path string, invalid error, rec session.Record,
	into session.Readable,
) error {
	return observeCall(ctx, c, op, path, invalid, func(ctx context.Context) (tries, error) {
		var t tries
		for {
			var err error
			if op.Class() == jute.ClassRead && hasFreshReads(ctx) {
				t.last, err = c.session.DoSynced(ctx, op, rec, into)
			} else {
				t.last, err = c.session.DoNumbered(ctx, op, rec, into)
			}
			t.countSent()
			if !errors.Is(err, ErrConnectionLost) || op.IsWrite() || c.policy == Fail {
				return t, err
			}
		}
	})
}

// tries are the requests of a call.
type tries struct {
	last session.Numbers
	sent int
}

// countSent counts the last request, if it was sent.
func (t *tries) countSent() {
	if t.last.Xid != 0 {
		t.sent++
	}
}

// observeCall shows a call to the Observer, and returns its error. If invalid is not nil, or the caller is OnEvent or
// OnPong, the call fails without a request.
func observeCall(ctx context.Context, c *Client, op jute.Op, path string, invalid error,
	call func(context.Context) (tries, error),
) error {
	var observed func(Outcome)
	var requests tries
	if c.observer != nil {
		ctx, observed = c.observer.Begin(ctx, op.String(), path)
	}
	err := invalid
	if err == nil {
		err = c.callbacks.checkNotInCallback()
	}
	if err == nil {
		requests, err = call(ctx)
	}
	err = callError(op, path, err)
	if observed != nil {
		id, _ := c.Session()
		observed(Outcome{
			Err: err, Session: id, Server: c.Server(), Xid: requests.last.Xid, Zxid: Zxid(requests.last.Zxid), Requests: requests.sent,
		})
	}
	return err
}

// carryOut sends an operation as a request, and waits for the reply.
func (c *Client) carryOut(ctx context.Context, o Operation, into session.Readable) error {
	return sendAndWait(ctx, c, o.op, o.path, o.check(), &request{Operation: o, root: c.chroot}, into)
}

// Create creates a node and returns its path and its Stat. The path is the one given, and for a sequential mode a
// number after it. The parent must exist. If the parent has no number left, the error is ErrNumbersUsedUp and
// ErrNodeExists. A second request finds that out; if it fails, the error is ErrNodeExists alone.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode Mode) (string, Stat, error) {
	var resp jute.Create2Response
	err := c.carryOut(ctx, CreateOp(path, data, mode), &resp)
	if mode.IsSequential() && errors.Is(err, ErrNodeExists) {
		err = explainTaken(ctx, c, path, err)
	}
	if err != nil {
		return "", Stat{}, err
	}
	return c.chroot.callerPath(string(resp.Path)), statOf(resp.Stat), nil
}

// maxContainerTries limits the times that CreateAll creates the parent of a node. The servers delete an empty container
// at most once in a check of all containers, so a second try nearly always succeeds.
const maxContainerTries = 10

// CreateAll creates the nodes on the way to path that do not exist, and then the node itself, without data and all with
// the same mode: Persistent, or Container for nodes that the servers delete some time after their last child. Both may
// have an ACL or, if Persistent, a TTL; the error of another mode is ErrBadArguments. A node that exists is no error,
// and stays as it is.
func (c *Client) CreateAll(ctx context.Context, path string, mode Mode) error {
	if mode.IsEphemeral() || mode.IsSequential() {
		return callError(mode.createOp(), path, fmt.Errorf("%w: nodes on the way must be persistent or containers", ErrBadArguments))
	}
	_, _, err := c.Create(ctx, path, nil, mode)
	for tries := 0; errors.Is(err, ErrNoNode) && tries < maxContainerTries; tries++ {
		parent := nodepath.Parent(path)
		if parent == "/" {
			return err // the chroot does not exist
		}
		if err := c.CreateAll(ctx, parent, mode); err != nil {
			return err
		}
		_, _, err = c.Create(ctx, path, nil, mode)
	}
	if errors.Is(err, ErrNodeExists) {
		return nil
	}
	return err
}

// Get returns a node's data and its Stat. The data are nil if they are null.
func (c *Client) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	var resp jute.GetDataResponse
	if err := c.carryOut(ctx, GetOp(path), &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.Data, statOf(resp.Stat), nil
}

// Set sets a node's data. version must be that of the node, or AnyVersion.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	var resp jute.SetDataResponse
	err := c.carryOut(ctx, SetOp(path, data, version), &resp)
	return statOf(resp.Stat), err
}

// Delete deletes a node without children. version must be that of the node, or AnyVersion.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	return c.carryOut(ctx, DeleteOp(path, version), nil)
}

// Exists reports whether there is a node, and returns its Stat.
func (c *Client) Exists(ctx context.Context, path string) (Stat, bool, error) {
	var resp jute.ExistsResponse
	err := c.carryOut(ctx, existsOp(path), &resp)
	if errors.Is(err, ErrNoNode) {
		return Stat{}, false, nil
	}
	return statOf(resp.Stat), err == nil, err
}

// Children returns the names of a node's children, in no order, and the node's Stat. The names share memory: one that
// is kept keeps all.
func (c *Client) Children(ctx context.Context, path string) ([]string, Stat, error) {
	resp := childNames{inReply: true}
	if err := c.carryOut(ctx, namesOp(path), &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.names, statOf(resp.stat), nil
}

// Sync waits until the server that the Client is connected to has applied everything that was written anywhere
// before the call. A read after it sees all that.
func (c *Client) Sync(ctx context.Context) error {
	return sendAndWait(ctx, c, jute.OpSync, "", nil, jute.SyncRequest{Path: []byte(c.chroot.serverPath("/"))}, nil)
}

// GetACL returns a node's access control list and its Stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	var resp aclReply
	rec := jute.GetACLRequest{Path: []byte(c.chroot.serverPath(path))}
	if err := c.callPath(ctx, jute.OpGetACL, path, rec, &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.acl, statOf(resp.stat), nil
}

// SetACL sets a node's access control list. version must be that of the list (Stat.ACLVersion), or AnyVersion.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	var resp jute.SetACLResponse
	rec := jute.SetACLRequest{Path: []byte(c.chroot.serverPath(path)), ACL: aclRecords(acl), Version: version}
	err := c.callPath(ctx, jute.OpSetACL, path, rec, &resp)
	return statOf(resp.Stat), err
}

// Ephemerals returns the paths of the session's ephemeral nodes at prefix and below it, in no order.
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	var resp ephemeralPaths
	rec := jute.GetEphemeralsRequest{Path: []byte(c.chroot.serverPath(prefix))}
	if err := c.callPath(ctx, jute.OpGetEphemerals, prefix, rec, &resp); err != nil {
		return nil, err
	}
	paths := resp.names[:0]
	for _, path := range resp.names { // servers list those whose paths begin with the text of prefix
		if local, ok := c.chroot.localBelow(path, prefix); ok {
			paths = append(paths, local)
		}
	}
	return paths, nil
}

// CountBelow returns the number of nodes below a node, at any depth.
func (c *Client) CountBelow(ctx context.Context, path string) (int, error) {
	var resp jute.GetAllChildrenNumberResponse
	rec := jute.GetAllChildrenNumberRequest{Path: []byte(c.chroot.serverPath(path))}
	err := c.callPath(ctx, jute.OpGetAllChildrenNumber, path, rec, &resp)
	return int(resp.TotalNumber), err
}

// AddAuth proves an identity, from now on and on every later connection, and waits for the reply. If the server
// rejects it, the error is ErrAuthFailed, and the Client ends. A session has at most session.MaxIdentities: above that
// the error is ErrTooManyIdentities, and the Client continues.
func (c *Client) AddAuth(ctx context.Context, a Auth) error {
	err := c.callbacks.checkNotInCallback()
	if err == nil {
		err = c.session.AddAuth(ctx, a.forSession())
	}
	return callError(jute.OpAuth, "", err)
}

// WhoAmI returns the identities of the connection, as the server knows them. The IDs of the scheme digest are users
// without their hash.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	var resp identitiesReply
	if err := sendAndWait(ctx, c, jute.OpWhoAmI, "", nil, nil, &resp); err != nil {
		return nil, err
	}
	return resp.identities, nil
}

// AwaitConnected waits until requests can be sent, or until ctx ends. If requests can never be sent again, it
// returns the reason.
func (c *Client) AwaitConnected(ctx context.Context) error {
	if err := c.callbacks.checkNotInCallback(); err != nil {
		return err
	}
	return c.session.AwaitReady(ctx)
}

// AddWatch sets a watch that lasts until it is removed or the session ends, on a node that need not exist. If recursive
// is set, it is a watch on all nodes below it too, and there are no events of ChildrenChanged. Only Config.OnEvent gets
// the events. Events of changes that happened while there was no connection are missing: Client.Watch finds these
// changes. Do not use both on one path, because the end of a Watch removes the watch at the servers.
//
// ZooKeeper has such watches since 3.6; older servers reply ErrUnimplemented.
func (c *Client) AddWatch(ctx context.Context, path string, recursive bool) error {
	rec := jute.AddWatchRequest{Path: []byte(c.chroot.serverPath(path))}
	if recursive {
		rec.Mode = jute.AddWatchPersistentRecursive
	}
	return c.callPath(ctx, jute.OpAddWatch, path, rec, nil)
}

// WatchType selects watches of a session on one node.
type WatchType int

// These are the types of watches that RemoveWatches removes.
const (
	ChildrenWatches WatchType = WatchType(jute.WatcherChildren) // of ChildrenWatch
	DataWatches     WatchType = WatchType(jute.WatcherData)     // of GetWatch and ExistsWatch
	AllWatches      WatchType = WatchType(jute.WatcherAny)      // and those of AddWatch
)

// RemoveWatches removes the session's watches of a type on a node at the servers. The error is ErrNoWatch if there
// are none. A OnceWatch or a Watch on the node then gets no events any more: they have ends of their own.
func (c *Client) RemoveWatches(ctx context.Context, path string, which WatchType) error {
	rec := jute.RemoveWatchesRequest{Path: []byte(c.chroot.serverPath(path)), Type: jute.WatcherType(which)}
	return c.callPath(ctx, jute.OpRemoveWatches, path, rec, nil)
}

// Observer sees the calls of a Client, for metrics and traces. It is safe for concurrent use.
type Observer interface {
	// Begin is called at the beginning of each call, with ZooKeeper's name of the operation and the path. The call
	// uses the context that Begin returns. end is called once, with the call's outcome. end may be nil. Begin and end run on
	// the caller's goroutine, and must not block.
	Begin(ctx context.Context, op, path string) (callCtx context.Context, end func(Outcome))
}

// Outcome is the outcome of a call.
type Outcome struct {
	Err      error // of the call
	Session  SessionID
	Server   string // that the Client is connected to at the end of the call; "": none
	Xid      int32  // the number of the last request, by which a server knows it in the session; 0: none was sent
	Zxid     Zxid   // of the reply; 0: none has come
	Requests int    // that were sent: more than one if a connection broke during a read
}

// ErrNumbersUsedUp says that a parent has given all numbers of its sequential names. They end at 2147483647, unless the
// servers of Rollcall are configured to go on (longSequentialNames), and begin at 0 in another parent. Under another
// prefix, the servers may give 2147483647 again, and no error.
var ErrNumbersUsedUp = errors.New("all numbers of sequential names below the parent are used up")

// lastNumber ends the last sequential name below a parent.
const lastNumber = "2147483647"

// explainTaken returns the error of a sequential create that failed with ErrNodeExists. The next number may be taken for
// two reasons: it is the last one, or a client has created a node of that name without the mode. If a node of the last name
// is there, the error is ErrNumbersUsedUp, although numbers may be left: a client may have created that node without the
// mode, or the node may be older than the servers' longSequentialNames.
func explainTaken(ctx context.Context, c *Client, path string, taken error) error {
	_, exists, err := c.Exists(ctx, path+lastNumber)
	if failed, ok := errors.AsType[*Error](taken); ok && (exists || errors.Is(err, ErrNoAuth)) {
		return &Error{Op: failed.Op, Path: failed.Path, Err: fmt.Errorf("%w: %w", ErrNumbersUsedUp, failed.Err)}
	}
	return taken
}
