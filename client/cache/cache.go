// Package cache keeps a copy of a node and of all nodes below it in memory.
//
// # What holds
//
//   - The copy of a node never goes back: Get returns no older data of a node than it has returned before, and no node
//     that it has returned as missing unless the node was created again. That holds over lost connections and sessions.
//   - The copy follows the ensemble as fast as events come. AsOf returns the transaction up to which it has all
//     changes, and whether it is complete now. Await waits for a transaction, such as that of a write: so a program
//     reads its own writes, and those of others of which it knows.
//   - Different nodes can be as of different transactions while changes come in. When AsOf reports complete, all nodes
//     are as of its transaction.
//   - Changes reports each change of the copy, in the order in which the copy changed. Several changes of a node can
//     become one: the copy skips what it does not see. One loop lasts as long as the Cache, over sessions, and has marks
//     where a session has ended and where another one begins.
//
// # When it ends
//
// While there is no connection, reads are served from memory, AsOf does not grow, and the State is Stale. After a
// reconnect the Cache reads the nodes that have changed, if the server has sent all events that were missed, as Rollcall's
// does if it still has them. Otherwise it reads the Stats of all nodes again, and the data of those that changed. When the
// session ends, the Cache stays Stale, and Attach continues with another Client. Content and Restore keep a copy over a
// restart of the program. When the Cache continues in any of these ways, it drops the nodes that the Client may no longer read,
// because an ACL was changed. When there are more bytes than Config.MaxBytes, the
// Cache stays Stale as well, and Err returns the reason.
//
// A Cache is for trees of which a program needs most nodes. It costs one recursive watch at the servers, for which they
// must be ZooKeeper 3.6 or newer.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// These are the defaults of Config.
const (
	// DefaultMaxBytes holds 200,000 nodes with 1 KiB each.
	DefaultMaxBytes = 256 << 20
	// DefaultMaxInFlight keeps a server busy without filling the Client's window, which others share.
	DefaultMaxInFlight = 128
)

// Config limits a Cache. The zero value has the defaults.
type Config struct {
	// MaxBytes limits the memory of the copy: for each node the length of its data and its name, and nodeBytes for the
	// rest. 0: DefaultMaxBytes.
	MaxBytes int

	// MaxInFlight limits the reads without a reply. 0: DefaultMaxInFlight.
	MaxInFlight int
}

// These are reasons for which a Cache is Stale, or a call fails.
var (
	ErrTooLarge = errors.New("the tree is larger than Config.MaxBytes: raise it, or cache a smaller tree")
	ErrClosed   = errors.New("the cache has been closed")
)

// State is the state of a Cache.
type State int

// These are all states.
const (
	Loading State = iota // it has never been complete
	Live                 // it follows the ensemble
	Stale                // it has a copy, and does not have all changes: it reads the nodes again, or Err is not nil
	Closed               // by Close
)

// String returns the state's name.
func (s State) String() string { return [...]string{"loading", "live", "stale", "closed"}[s] }

// Node is the copy of a node.
type Node struct {
	Data []byte // not to be changed; nil if they are null

	// Stat is the node's. NumChildren is that of the copy. ChildrenChanged and ChildrenVersion are as of the last read of
	// the node, and do not follow its children.
	Stat client.Stat
}

// Cache is a copy of a node and of all nodes below it. Open makes one. It is safe for concurrent use. Calls that read
// the copy do not wait for the ensemble.
type Cache struct {
	root        string
	maxBytes    int
	maxInFlight int

	mu        sync.Mutex
	tree      tree
	follower  *follower // nil after Close
	listeners map[*listener]bool
	changed   chan struct{}   // closed when anything below changes
	asOf      client.Zxid     // the last transaction at which the copy was complete
	position  client.Position // the copy has all changes up to it; without an Ensemble if that is not known
	readable  client.Zxid     // all nodes of the copy were readable at it or later; 0: not known
	from      string          // the root as the servers know it; "": no Client was attached yet
	complete  bool            // it has been complete
	err       error           // the reason for which it stays Stale
	closed    bool
}

// Open makes a copy of root and of all nodes below it, and returns when it is complete. root need not exist. Close must
// be called.
//
// If ctx ends first, the error is ctx's. It is ErrTooLarge if the copy needs more than Config.MaxBytes,
// client.ErrNoAuth if the Client may not read root, and client.ErrUnimplemented if the servers are older than ZooKeeper
// 3.6. Nodes that the Client may not read are missing in the copy, with all nodes below them.
func Open(ctx context.Context, c *client.Client, root string, cfg Config) (*Cache, error) {
	k, err := newCache(root, cfg)
	if err != nil {
		return nil, err
	}
	if err := k.Attach(ctx, c); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// newCache returns an empty Cache without a Client.
func newCache(root string, cfg Config) (*Cache, error) {
	cfg.MaxBytes, cfg.MaxInFlight = cmp.Or(cfg.MaxBytes, DefaultMaxBytes), cmp.Or(cfg.MaxInFlight, DefaultMaxInFlight)
	if cfg.MaxBytes < 0 || cfg.MaxInFlight < 0 {
		return nil, fmt.Errorf("cache: MaxBytes %d and MaxInFlight %d must not be negative", cfg.MaxBytes, cfg.MaxInFlight)
	}
	if err := client.CheckPath(root); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Cache{
		root: root, maxBytes: cfg.MaxBytes, maxInFlight: cfg.MaxInFlight,
		listeners: map[*listener]bool{}, changed: make(chan struct{}),
	}, nil
}

// Attach continues with another Client, after the session of the last one has ended, and returns when the copy is
// complete again. The copy never goes back, so Attach waits until c's server has applied all transactions of the copy.
// If there is an error, the Cache stays Stale, and Attach can be called again. Close must not be called meanwhile.
//
// If c's server keeps all changes that the copy lacks, as Rollcall's does for a while, Attach reads only the nodes that have
// changed. Otherwise, or if an ACL was changed since that was last done, it reads the Stats of all nodes. If c's ensemble is another one than that of the copy, such as one that
// was restored from a backup, it begins with an empty copy, and Changes has a Reset.
func (k *Cache) Attach(ctx context.Context, c *client.Client) error { return k.attach(ctx, c, false) }

// Resume is Attach, but if the server does not keep all changes that the copy lacks, it returns a *client.ResumeError, and
// the copy stays as it is. Attach then reads all nodes again.
func (k *Cache) Resume(ctx context.Context, c *client.Client) error { return k.attach(ctx, c, true) }

func (k *Cache) attach(ctx context.Context, c *client.Client, mustResume bool) error {
	k.stopFollowing()
	err := k.awaitServer(ctx, c)
	var f *follower
	if err == nil {
		f, err = newFollower(k, c, mustResume)
	}
	k.mu.Lock()
	if err != nil {
		k.stayStale(err)
		k.mu.Unlock()
		return fmt.Errorf("cache: attach %s: %w", k.root, err)
	}
	if k.closed {
		k.mu.Unlock()
		f.watcher.Close()
		return fmt.Errorf("cache: attach %s: %w", k.root, ErrClosed)
	}
	k.err, k.follower = nil, f
	k.reportChange(Change{Type: Resumed, Path: k.root}) // Open has no listeners
	k.mu.Unlock()
	go f.followEnsemble()
	err = k.awaitLocked(ctx, func() bool { _, complete := k.asOfNow(); return complete })
	if err != nil {
		return fmt.Errorf("cache: load %s: %w", k.root, err)
	}
	return nil
}

// awaitServer waits until c's server has applied all transactions of the copy.
func (k *Cache) awaitServer(ctx context.Context, c *client.Client) error {
	if err := reconnect.Retry(ctx, c, func() error { return c.Sync(ctx) }); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	newest, from := k.tree.newest, cmp.Or(strings.TrimSuffix(c.Chroot()+k.root, "/"), "/")
	if k.from != "" && k.from != from {
		return fmt.Errorf("the copy is of %s, and %s of this Client is %s: use the same chroot", k.from, k.root, from)
	}
	k.from = from
	if c.LastZxid() < newest {
		return fmt.Errorf("the servers have applied transaction %d, and the copy is of %d: it is another ensemble",
			c.LastZxid(), newest)
	}
	return nil
}

// stopFollowing ends the follower and waits for it.
func (k *Cache) stopFollowing() {
	k.mu.Lock()
	f := k.follower
	k.follower = nil
	k.mu.Unlock()
	if f != nil {
		f.stop()
		<-f.done
	}
}

// Close ends the Cache. The copy can still be read. No goroutine is left when it returns.
func (k *Cache) Close() {
	k.mu.Lock()
	k.closed = true
	k.err = ErrClosed
	k.notifyWaiters()
	k.mu.Unlock()
	k.stopFollowing()
}

// notifyWaiters wakes all goroutines that wait for a change. The lock is held.
func (k *Cache) notifyWaiters() {
	close(k.changed)
	k.changed = make(chan struct{})
	for l := range k.listeners {
		wake(l.ready)
	}
}

// stayStale makes the Cache Stale until Attach. The lock is held.
func (k *Cache) stayStale(err error) {
	if k.err == nil {
		k.err = err
		k.reportChange(Change{Type: Paused, Path: k.root, Err: err})
	}
	k.notifyWaiters()
}

// State returns the state, and Err the reason for which the Cache stays Stale or Closed, or nil.
func (k *Cache) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = k.asOfNow()
	switch {
	case k.closed:
		return Closed
	case !k.complete:
		return Loading
	case k.reasonOfStale() != nil || k.follower == nil || k.follower.isBehind():
		return Stale
	}
	return Live
}

// Err returns the reason for which the Cache stays Stale: the end of the session, that Attach has failed, ErrTooLarge or
// ErrClosed. It is nil as long as the Cache follows the ensemble, or tries to.
func (k *Cache) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reasonOfStale()
}

// reasonOfStale returns err, or the end of the session that the follower does not know of yet. The lock is held.
func (k *Cache) reasonOfStale() error {
	if k.err != nil || k.follower == nil {
		return k.err
	}
	if last := k.follower.c.State(); last.State.IsFinal() {
		return cmp.Or(last.Err, client.ErrClosed)
	}
	return nil
}

// AsOf returns a transaction: the copy has all changes up to it. complete reports whether it has all changes of which
// the Client has heard by now, and zxid is then the last transaction that the Client has heard of. It is false while
// changes are being read, and while the State is not Live; zxid is then that of the last time at which it was complete.
func (k *Cache) AsOf() (zxid client.Zxid, complete bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asOfNow()
}

// asOfNow is AsOf with the lock held.
func (k *Cache) asOfNow() (zxid client.Zxid, complete bool) {
	if k.err == nil && k.follower != nil {
		k.follower.checkReadable()
	}
	if k.err != nil || k.follower == nil || k.follower.pendingReads() > 0 {
		return k.asOf, false
	}
	zxid, complete = k.follower.watcher.AsOf()
	if complete {
		k.asOf, k.complete = max(k.asOf, zxid), true
		if position, ok := k.follower.watcher.Position(); ok {
			k.position = position
		} else {
			k.position = client.Position{}
		}
	}
	return k.asOf, complete
}

// Await waits until the copy has all changes up to a transaction that the ensemble has carried out, such as
// Stat.Changed after a write. It sends no request if the copy has them. Otherwise it uses Client.Sync. The error is
// ctx's, or that of Err.
func (k *Cache) Await(ctx context.Context, zxid client.Zxid) error {
	reached := func() bool { asOf, _ := k.asOfNow(); return asOf >= zxid }
	k.mu.Lock()
	isReached, f := reached(), k.follower
	k.mu.Unlock()
	if isReached {
		return nil
	}
	if f != nil {
		if err := reconnect.Retry(ctx, f.c, func() error { return f.c.Sync(ctx) }); err != nil {
			return fmt.Errorf("cache: await transaction %d: %w", zxid, err)
		}
	}
	return k.awaitLocked(ctx, reached)
}

// AwaitCondition waits until condition returns true. It calls it at once and after changes of the copy, one at a time;
// condition may call Get, Children and Range. The error is ctx's, or that of Err.
func (k *Cache) AwaitCondition(ctx context.Context, condition func() bool) error {
	for {
		k.mu.Lock()
		changed, err := k.changed, k.err
		k.mu.Unlock()
		if condition() {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitLocked waits until condition, which is called with the lock, returns true.
func (k *Cache) awaitLocked(ctx context.Context, condition func() bool) error {
	return k.AwaitCondition(ctx, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return condition()
	})
}
