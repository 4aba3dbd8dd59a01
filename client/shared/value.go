// Package shared has a value and a counter that many clients read and set.
//
//	visits := shared.NewCounter(c, "/visits", shared.CounterConfig{})
//	n, err := visits.Add(ctx, 1)
//
// # Guarantees
//
//   - A Value has a sequence of revisions. Each write makes a new one, and is based on the one that its caller has
//     seen (TrySet, Update, Add, CompareAndSet) or on any (Set). Of two writes that are based on the same revision, one
//     fails or is computed again.
//   - A write is carried out at most once. If it returns an error, it was not carried out, unless
//     client.MayHaveHappened is true for the error.
//   - A read can be stale, because servers may lag. A Client never reads an older value than it has read or written
//     before. After Client.Sync, Get is up to date.
//   - A value does not belong to a session. It stays when its writers end.
//
// # Receipts
//
// A node does not show whose write made its present version. So each write is a multi that also sets a receipt: an
// ephemeral node of the session. If the connection breaks before the reply to a write has come, the version of the
// receipt shows whether the write was carried out, as long as the session lives. A Client has one receipt for each
// write that its Values and queues have under way at a time, 64 at most; more writes wait. Receipts stay for later
// writes to the same parent, whichever Value they are of. Above 64, the one that was not used for longest is deleted.
//
// With Config.NoReceipts a write is cheaper, and after a lost reply the package can only read the node again. If it is
// unchanged, the package sends the write again. If the next revision is the present one and differs from what was to be
// written, another client was faster. In all other cases client.MayHaveHappened is true for the error.
//
// Do not delete the node of a value that is in use. Its versions begin again, so a writer that has seen the old node
// can set the new one.
//
// # Writers in each other's way
//
// A write that finds that another one was faster takes its turn from then on, and so do the next ones until nobody else
// waits. The writers of a Value wait for each other in memory, and one of them at a time waits for those of other Values
// and clients, with an ephemeral sequential node that the write deletes. Turns are only a courtesy: they decide nothing,
// and other clients such as Curator's need not know them. A writer whose process is stopped in its turn is passed over
// after a second or two, and several of them one behind the other after a few seconds. If the servers reject the nodes,
// writers pause for random times instead.
//
// # Layout
//
// The value is the data of one persistent node. Receipts are under a parent beside it, and writers that wait are under
// the path of the value, followed by "-writers". Curator's SharedValue and
// SharedCount and its DistributedAtomicLong and DistributedAtomicInteger have the same layout, and so has kazoo's
// Counter: see Encoding. Nodes on the way to it are created as containers, as Curator does. The node is created by the
// first write.
package shared

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"rollcall/client"
	"rollcall/client/internal/receipt"
	"rollcall/client/internal/reconnect"
)

// ErrContended means that other clients have set the value each time before Update or Add could. It was not carried
// out.
var ErrContended = errors.New("other clients set the value each time before")

// maxAttempts limits the number of times that Update and Add compute a new value. With the pauses between them, these
// attempts take a minute or more, in which other clients have set the value at least as often.
const maxAttempts = 1000

// There is no pause after the first attemptsAtOnce attempts. Each later pause is a random time up to maxPause, so many
// writers disturb each other less.
const (
	attemptsAtOnce = 3
	maxPause       = 100 * time.Millisecond
)

// Config has the settings of a Value. The zero value is ready for use.
type Config struct {
	// Initial is the value while there is no node.
	Initial []byte

	// Receipts is the path of the parent of the receipts, which no other recipe may use. If it is "", the path is that of
	// the value, followed by "-receipts".
	Receipts string

	// NoReceipts makes a write one request of one operation. Its outcome is then mostly unknown if its reply is lost.
	NoReceipts bool

	// ACL is that of the node, if the Value creates it; nil: everyone has every permission.
	ACL []client.ACL
}

// Value is a value that clients share: the data of a node. It is safe for concurrent use.
type Value struct {
	c        *client.Client
	path     string
	cfg      Config
	receipts *receipt.Book // nil: writes have no receipts
	line     *line
}

// NewValue returns the Value in the node with this path. It does not use the network.
func NewValue(c *client.Client, path string, cfg Config) *Value {
	v := &Value{c: c, path: path, cfg: cfg, line: newLine(c, path, cfg.ACL)}
	if !cfg.NoReceipts {
		v.receipts = receipt.NewBook(c, cmp.Or(cfg.Receipts, path+"-receipts"))
	}
	return v
}

// Revision is one state of a Value.
type Revision struct {
	Data   []byte
	Exists bool        // false: there is no node yet, and Data are Config.Initial
	Stat   client.Stat // of the node
}

// isSame reports whether r and other are the same revision of the same node.
func (r Revision) isSame(other Revision) bool {
	return r.Exists == other.Exists && r.Stat.Created == other.Stat.Created && r.Stat.Version == other.Stat.Version
}

// Get returns the present revision.
func (v *Value) Get(ctx context.Context) (Revision, error) {
	data, stat, err := reconnect.Read(ctx, v.c, v.path, (*client.Client).Get)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return v.initialRevision(), nil
	case err != nil:
		return Revision{}, v.wrapError("get", err)
	}
	return Revision{Data: data, Exists: true, Stat: stat}, nil
}

func (v *Value) initialRevision() Revision { return Revision{Data: bytes.Clone(v.cfg.Initial)} }

// Set sets the value, whatever it is, and returns the new revision.
func (v *Value) Set(ctx context.Context, data []byte) (Revision, error) {
	return v.Update(ctx, func(Revision) ([]byte, error) { return data, nil })
}

// TrySet sets the value if seen is the present revision. It returns the new revision, or set false and the present
// revision if another client has set the value since.
func (v *Value) TrySet(ctx context.Context, seen Revision, data []byte) (now Revision, set bool, err error) {
	now, err = v.writeRevision(ctx, seen, data, &place{})
	if !errors.Is(err, errChanged) {
		return now, err == nil, v.wrapError("set", err)
	}
	now, err = v.Get(ctx)
	return now, false, err
}

// Update sets the value to what change makes of the present revision, and returns the new one. change is called again
// if another client has set the value meanwhile. If it returns an error, nothing is set, and Update returns that
// error. Update fails with ErrContended after 1,000 attempts.
func (v *Value) Update(ctx context.Context, change func(Revision) ([]byte, error)) (Revision, error) {
	place := &place{line: v.line}
	defer place.leave()
	for attempt := range maxAttempts {
		if err := pauseAfter(ctx, attempt); err != nil {
			return Revision{}, v.wrapError("set", err)
		}
		place.await(ctx, attempt > 0)
		seen, err := v.Get(ctx)
		if err != nil {
			return Revision{}, err
		}
		data, err := change(seen)
		if err != nil {
			return Revision{}, err
		}
		now, err := v.writeRevision(ctx, seen, data, place)
		if !errors.Is(err, errChanged) {
			return now, v.wrapError("set", err)
		}
	}
	return Revision{}, v.wrapError("set", ErrContended)
}

// pauseAfter waits before the next attempt. attempts is the number of failed ones.
func pauseAfter(ctx context.Context, attempts int) error {
	if attempts < attemptsAtOnce {
		return nil
	}
	timer := time.NewTimer(rand.N(maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch returns the present revision, and then each later one, until ctx ends. A reader that is slower than the changes
// misses those in between: it always gets the latest one. When ctx or the session ends, or a read fails, the last pair
// has the error.
func (v *Value) Watch(ctx context.Context) iter.Seq2[Revision, error] {
	return reconnect.Follow(ctx, v.getWatch, Revision.isSame, func(err error) error { return v.wrapError("watch", err) })
}

// getWatch is Get, and watches the node.
func (v *Value) getWatch(ctx context.Context) (r Revision, watch *client.OnceWatch, err error) {
	for {
		data, stat, watch, err := reconnect.Watch(ctx, v.c, v.path, (*client.Client).GetWatch)
		if !errors.Is(err, client.ErrNoNode) {
			return Revision{Data: data, Exists: true, Stat: stat}, watch, err
		}
		_, exists, watch, err := reconnect.Watch(ctx, v.c, v.path, (*client.Client).ExistsWatch)
		if err != nil || !exists {
			return v.initialRevision(), watch, err
		}
		watch.Stop() // the node was created between the two reads
	}
}

// wrapError returns the error of a method, or nil if err is nil.
func (v *Value) wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shared: %s %s: %w", what, v.path, err)
}
