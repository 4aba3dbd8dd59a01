// Package receipt carries out writes once, although replies are lost. Each write becomes a multi that also sets a node
// of the session. The version of that node tells afterwards whether the multi was carried out.
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

// maxSlips limits the nodes that a Client has for its Books, and so the writes that they have under way at a time. More
// writers wait. A session's end deletes all its nodes in one transaction, which should stay small.
const maxSlips = 64

// maxTries limits the slips that are tried for one write. A second one is needed only if an operator has deleted the first.
const maxTries = 3

// Book makes receipts for writes of a Client. It holds nothing of its own: all Books of a Client with the same parent have
// the same nodes. It is safe for concurrent use.
type Book struct {
	c      *client.Client
	parent string
	desk   *desk
}

// desk has the slips of all Books of a Client.
type desk struct {
	places chan struct{} // one for each write under way

	mu      sync.Mutex
	free    []*slip             // nodes that no write uses; that of the latest write is the last one
	held    int                 // free slips, and those of writes under way: at most maxSlips
	cleared map[string]struct{} // parents whose inherited slips somebody removes; only if the session was handed over
}

// deskKey is the key of a desk in recipe.Shared.
type deskKey struct{}

func newDesk() *desk {
	return &desk{places: make(chan struct{}, maxSlips), cleared: map[string]struct{}{}}
}

// slipPrefix begins the names of slips. The parent may have other nodes of the session.
const slipPrefix = "receipt-"

// slip is an ephemeral node whose version counts the writes that were carried out with it.
type slip struct {
	parent  string
	path    string
	version int32
	unsure  bool // the outcome of a write with it is unknown, so the version is too
}

// NewBook returns a Book that has its nodes under parent. The parent is created as a container when it is needed. The
// nodes are ephemeral and stay for later writes. If the Client has maxSlips of them, a write under a parent without a free one
// deletes that which was not used for longest. If the session was handed over, the first write under a parent also begins to
// delete the nodes that the predecessor has left there.
func NewBook(c *client.Client, parent string) *Book {
	return &Book{c: c, parent: parent, desk: recipe.Shared(c, deskKey{}, newDesk)}
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
	case b.desk.places <- struct{}{}:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	defer func() { <-b.desk.places }()
	for tries := 1; ; tries++ {
		s, err := b.take(ctx)
		if err != nil {
			return Outcome{}, err
		}
		outcome, err := b.try(ctx, s, ops)
		if !errors.Is(err, errNoSlip) {
			b.desk.put(s)
			return outcome, err
		}
		b.desk.forget()
		if client.MayHaveHappened(err) || tries == maxTries {
			return Outcome{}, err
		}
	}
}

// errNoSlip says that another client has deleted a slip.
var errNoSlip = errors.New("another client has deleted the node with the receipt")

// take returns a slip that no write uses.
func (b *Book) take(ctx context.Context) (*slip, error) {
	s, surplus := b.desk.take(b.parent)
	if surplus != nil {
		reconnect.DeleteInBackground(b.c, surplus.path)
	}
	if s != nil {
		return s, nil
	}
	s, err := b.create(ctx)
	if err != nil {
		b.desk.forget()
	}
	return s, err
}

// take returns a free slip of a parent. If there is none, s is nil, and the desk counts the one that the caller creates;
// surplus is then the slip to delete for it, or nil. The caller has a place.
func (d *desk) take(parent string) (s, surplus *slip) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, free := range slices.Backward(d.free) {
		if free.parent == parent {
			d.free = slices.Delete(d.free, i, i+1)
			return free, nil
		}
	}
	if d.held == maxSlips { // fewer are in use, because the caller has a place
		surplus = d.free[0]
		d.free = slices.Delete(d.free, 0, 1)
		return nil, surplus
	}
	d.held++
	return nil, nil
}

// put makes a slip free.
func (d *desk) put(s *slip) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, s)
}

// forget forgets a slip in use: there is no node.
func (d *desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held--
}

// isFirst reports whether the inherited slips of a parent are the caller's to remove.
func (d *desk) isFirst(parent string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, cleared := d.cleared[parent]
	d.cleared[parent] = struct{}{}
	return !cleared
}

func (b *Book) create(ctx context.Context) (*slip, error) {
	if recipe.IsSuccessor(b.c) && b.desk.isFirst(b.parent) {
		go b.removeInherited()
	}
	name := slipPrefix + rand.Text()
	if _, err := reconnect.CreateOwn(ctx, b.c, b.parent, name, nil, client.Ephemeral); err != nil {
		return nil, fmt.Errorf("receipt in %s: %w", b.parent, err)
	}
	return &slip{parent: b.parent, path: recipe.PathOf(b.parent, name)}, nil
}

// removeInherited deletes the slips that a predecessor has left in the session: it does not use them any more, and each
// hand-over would leave more. Servers that do not know getEphemerals keep them until the session ends.
func (b *Book) removeInherited() {
	ctx := context.Background() // the session's end ends all calls
	var own []string
	_ = reconnect.Retry(ctx, b.c, func() (err error) {
		own, err = b.c.Ephemerals(ctx, b.parent)
		return err
	})
	for _, path := range own {
		if !strings.HasPrefix(path, b.parent+"/"+slipPrefix) {
			continue
		}
		var stat client.Stat
		var exists bool
		err := reconnect.Retry(ctx, b.c, func() (err error) {
			stat, exists, err = b.c.Exists(ctx, path)
			return err
		})
		if err == nil && exists && recipe.Inherited(b.c, stat) {
			_ = reconnect.Delete(ctx, b.c, path)
		}
	}
}

// try sends the multi until its outcome is known.
func (b *Book) try(ctx context.Context, s *slip, ops []client.Operation) (Outcome, error) {
	if s.unsure {
		if _, err := b.look(ctx, s); err != nil {
			return Outcome{}, err
		}
	}
	multi := append(ops[:len(ops):len(ops)], client.SetOp(s.path, nil, s.version))
	for {
		results, err := b.c.Multi(ctx, multi...)
		switch {
		case err == nil:
			s.version++
			last := len(results) - 1
			return Outcome{Results: results[:last], Zxid: results[last].Stat.Changed}, nil
		case errors.Is(err, client.ErrSuspended):
			if err := b.c.AwaitConnected(ctx); err != nil {
				return Outcome{}, err
			}
		case client.MayHaveHappened(err):
			zxid, lookErr := b.look(ctx, s)
			if lookErr != nil {
				s.unsure = true
				return Outcome{}, unknown(err, lookErr)
			}
			if zxid != 0 {
				return Outcome{Zxid: zxid}, nil
			}
		default:
			return Outcome{}, b.own(err, len(ops))
		}
	}
}

// unknown returns the error of a write without a reply, err, of which nothing more can be learned because of why. It does
// not say that the connection was lost: callers would try again.
func unknown(err, why error) error {
	failed, _ := errors.AsType[*client.Error](err) // err has one: client.MayHaveHappened is true
	return &client.Error{Op: failed.Op, Path: failed.Path, Err: why, Unanswered: true}
}

// own returns the error of a multi, and errNoSlip if the operation on the slip failed, which is that with index last.
func (b *Book) own(err error, last int) error {
	if failed, ok := errors.AsType[*client.MultiError](err); ok && failed.Index == last {
		return fmt.Errorf("receipt in %s: %w: %w", b.parent, errNoSlip, err)
	}
	return err
}

// look returns the zxid of a write without a reply, or 0 if it was not carried out and never will be.
func (b *Book) look(ctx context.Context, s *slip) (client.Zxid, error) {
	if err := reconnect.Settle(ctx, b.c); err != nil {
		return 0, err
	}
	var stat client.Stat
	var exists bool
	err := reconnect.Retry(ctx, b.c, func() (err error) {
		stat, exists, err = b.c.Exists(ctx, s.path)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case !exists:
		return 0, errNoSlip
	}
	s.unsure = false
	if stat.Version == s.version {
		return 0, nil
	}
	s.version = stat.Version
	return stat.Changed, nil
}
