// Package receipt carries out writes once, although replies are lost. Each write becomes a multi that also sets a
// receipt node of the session. Afterwards, the version of that node shows whether the multi was carried out.
package receipt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// maxNodes limits the receipt nodes of a Client, and so the writes that its Books have under way at a time. More
// writers wait. A session's end deletes all its nodes in one transaction, which should stay small.
const maxNodes = 64

// maxTries limits the receipt nodes that are tried for one write. A second one is needed only if an operator has
// deleted the first.
const maxTries = 3

// Book carries out writes of a Client with receipts. All Books of a Client with the same parent share their receipt
// nodes. It is safe for concurrent use.
type Book struct {
	c      *client.Client
	parent string
	pool   *nodePool
}

// nodePool has the receipt nodes of all Books of a Client.
type nodePool struct {
	places chan struct{} // one for each write under way

	cleared sync.Map // parents whose inherited nodes are being deleted; only if the session was handed over

	mu    sync.Mutex
	free  []*receiptNode // nodes that no write uses; the last one was used most recently
	count int            // nodes that are free or in use: at most maxNodes
}

// poolKey is the key of a Client's nodePool in recipe.Shared.
type poolKey struct{}

func newPool() *nodePool { return &nodePool{places: make(chan struct{}, maxNodes)} }

// nodePrefix begins the names of receipt nodes. The parent may have other nodes of the session.
const nodePrefix = "receipt-"

// receiptNode is an ephemeral node. Its version is the number of writes that were carried out with it.
type receiptNode struct {
	parent         string
	path           string
	version        int32
	outcomeUnknown bool // the outcome of a write with it is unknown, so the version is too
}

// NewBook returns a Book whose receipt nodes are children of parent. The parent is created as a container when it is
// needed. The nodes are ephemeral and stay for later writes. If the Client has maxNodes of them, and none under parent
// is free, a write deletes the node that has been unused for longest. If the session was handed over, the first write
// under a parent also starts to delete the nodes that the predecessor has left there.
func NewBook(c *client.Client, parent string) *Book {
	return &Book{c: c, parent: parent, pool: recipe.Shared(c, poolKey{}, newPool)}
}

// Outcome is the outcome of a write that was carried out.
type Outcome struct {
	Results []client.Result // of the operations; nil if the reply was lost
	Zxid    client.Zxid     // of the transaction
}

// Do carries out ops in one transaction, once. It waits for a connection if there is none, and sends ops again only if
// they were not carried out. It fails as Client.Multi does. If client.MayHaveHappened is true for the error, then ctx
// or the session has ended before the outcome was known.
func (b *Book) Do(ctx context.Context, ops ...client.Operation) (Outcome, error) {
	select {
	case b.pool.places <- struct{}{}:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	defer func() { <-b.pool.places }()
	for tries := 1; ; tries++ {
		node, err := b.takeNode(ctx)
		if err != nil {
			return Outcome{}, err
		}
		outcome, err := b.tryWrite(ctx, node, ops)
		if !errors.Is(err, errNodeDeleted) {
			b.pool.returnNode(node)
			return outcome, err
		}
		b.pool.forgetNode()
		if client.MayHaveHappened(err) || tries == maxTries {
			return Outcome{}, err
		}
	}
}

// errNodeDeleted means that another client has deleted a receipt node.
var errNodeDeleted = errors.New("another client has deleted the node with the receipt")

// takeNode returns a receipt node that no other write uses.
func (b *Book) takeNode(ctx context.Context) (*receiptNode, error) {
	node, surplus := b.pool.takeFree(b.parent)
	if surplus != nil {
		reconnect.DeleteInBackground(b.c, surplus.path)
	}
	if node != nil {
		return node, nil
	}
	node, err := b.createNode(ctx)
	if err != nil {
		b.pool.forgetNode()
	}
	return node, err
}

// takeFree returns a free node under parent. If there is none, node is nil, and the pool counts the node that the
// caller creates. surplus is then the node to delete for it, or nil. The caller must have a place.
func (d *nodePool) takeFree(parent string) (node, surplus *receiptNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, free := range slices.Backward(d.free) {
		if free.parent == parent {
			d.free = slices.Delete(d.free, i, i+1)
			return free, nil
		}
	}
	if d.count == maxNodes { // fewer are in use, because the caller has a place
		surplus = d.free[0]
		d.free = slices.Delete(d.free, 0, 1)
		return nil, surplus
	}
	d.count++
	return nil, nil
}

// returnNode makes a node free.
func (d *nodePool) returnNode(node *receiptNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, node)
}

// forgetNode removes a node in use from the count, because the node does not exist.
func (d *nodePool) forgetNode() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count--
}

func (b *Book) createNode(ctx context.Context) (*receiptNode, error) {
	if recipe.IsSuccessor(b.c) {
		if _, cleared := b.pool.cleared.LoadOrStore(b.parent, true); !cleared {
			go b.removeInherited()
		}
	}
	name := nodePrefix + rand.Text()
	if _, err := reconnect.CreateOwn(ctx, b.c, b.parent, name, nil, client.Ephemeral); err != nil {
		return nil, fmt.Errorf("receipt in %s: %w", b.parent, err)
	}
	return &receiptNode{parent: b.parent, path: recipe.PathOf(b.parent, name)}, nil
}

// removeInherited deletes the receipt nodes that a predecessor has left in the session. Otherwise each hand-over would
// leave more of them. On servers without getEphemerals, they stay until the session ends.
func (b *Book) removeInherited() {
	ctx := context.Background() // the session's end ends all calls
	var ephemerals []string
	_ = reconnect.Retry(ctx, b.c, func() (err error) {
		ephemerals, err = b.c.Ephemerals(ctx, b.parent)
		return err
	})
	for _, path := range ephemerals {
		if !strings.HasPrefix(path, b.parent+"/"+nodePrefix) {
			continue
		}
		stat, exists, err := reconnect.Read(ctx, b.c, path, (*client.Client).Exists)
		if err == nil && exists && recipe.Inherited(b.c, stat) {
			_ = reconnect.Delete(ctx, b.c, path)
		}
	}
}

// tryWrite sends the multi until its outcome is known.
func (b *Book) tryWrite(ctx context.Context, node *receiptNode, ops []client.Operation) (Outcome, error) {
	if node.outcomeUnknown {
		if _, err := b.readOutcome(ctx, node); err != nil {
			return Outcome{}, err
		}
	}
	multi := append(ops[:len(ops):len(ops)], client.SetOp(node.path, nil, node.version))
	for {
		results, err := b.c.Multi(ctx, multi...)
		switch {
		case err == nil:
			node.version++
			last := len(results) - 1
			return Outcome{Results: results[:last], Zxid: results[last].Stat.Changed}, nil
		case errors.Is(err, client.ErrSuspended):
			if err := b.c.AwaitConnected(ctx); err != nil {
				return Outcome{}, err
			}
		case client.MayHaveHappened(err):
			zxid, lookErr := b.readOutcome(ctx, node)
			if lookErr != nil {
				node.outcomeUnknown = true
				return Outcome{}, unknownOutcome(err, lookErr)
			}
			if zxid != 0 {
				return Outcome{Zxid: zxid}, nil
			}
		default:
			return Outcome{}, b.wrapNodeError(err, len(ops))
		}
	}
}

// unknownOutcome returns the error for a write whose outcome cannot be found out. err is the write's error, and why the
// reason. The result is not client.ErrConnectionLost, because callers would try again.
func unknownOutcome(err, why error) error {
	failed, _ := errors.AsType[*client.Error](err) // err has one: client.MayHaveHappened is true
	return &client.Error{Op: failed.Op, Path: failed.Path, Err: why, Unanswered: true}
}

// wrapNodeError wraps the error of a multi with errNodeDeleted if the operation on the receipt node failed, which has
// the index last.
func (b *Book) wrapNodeError(err error, last int) error {
	if failed, ok := errors.AsType[*client.MultiError](err); ok && failed.Index == last {
		return fmt.Errorf("receipt in %s: %w: %w", b.parent, errNodeDeleted, err)
	}
	return err
}

// readOutcome returns the zxid of a write without a reply, or 0 if the write was not carried out and never will be.
func (b *Book) readOutcome(ctx context.Context, node *receiptNode) (client.Zxid, error) {
	if err := reconnect.Settle(ctx, b.c); err != nil {
		return 0, err
	}
	stat, exists, err := reconnect.Read(ctx, b.c, node.path, (*client.Client).Exists)
	switch {
	case err != nil:
		return 0, err
	case !exists:
		return 0, errNodeDeleted
	}
	node.outcomeUnknown = false
	if stat.Version == node.version {
		return 0, nil
	}
	node.version = stat.Version
	return stat.Changed, nil
}
