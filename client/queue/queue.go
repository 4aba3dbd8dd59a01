// Package queue has a queue whose elements stay until they are done, even if their takers end.
//
//	q := queue.New(c, "/app/jobs", queue.Config{})
//	_, err := q.Put(ctx, []byte("job"))
//	...
//	job, err := q.Take(ctx)
//	if err == nil && work(job.Data) == nil {
//		_, err = job.Done(ctx)
//	}
//
// # Guarantees
//
//   - Put puts an element once, although a reply is lost. Elements are given in the order of their priority, and within
//     one in the order in which they were put. Takers that work at the same time may finish in another order.
//   - A taken element has a lock: an ephemeral node of the taker. No other taker gets it while the lock is held. Done
//     deletes the element and the lock in one transaction.
//   - If the taker ends before Done, the element is given again: it is given at least once. Element.Attempt counts.
//   - Done carries out operations of the caller in the same transaction. Their effect happens exactly once for each
//     element, however often that was given.
//   - An Element is a client.Right: Held is exact at the moment of the call. Work that leaves effects outside of the
//     ensemble should check it, or pass on Token: an element that is given again has a greater one.
//   - A Put or Done that fails was not carried out, unless client.MayHaveHappened is true for its error: ctx or the
//     session has ended before the outcome was known.
//
// # Large queues
//
// ZooKeeper's servers return the names of all elements or none. So a Queue lists the parent's children, keeps the first
// names (Config.Batch), and takes those before it lists again. It keeps them for 5 s at most. A queue of a million
// elements has lists of 21 MB, and one of them serves 1,000 elements by default. An element of a higher priority, or
// one that is given again, appears only in the next list.
//
// The takers of one process should share a Queue, so that they have one batch. Takers of several Queues try the same
// names, and each name is a request in vain for all but one.
//
// A taker that finds nothing enters a line. Only the first taker in the line watches the elements and the locks, so a
// Put wakes one taker.
//
// # Layout
//
// The layout is that of Curator's DistributedQueue, or DistributedPriorityQueue with Config.Priorities, with a lock
// path. The parent has the persistent elements queue-<number>, or queue-1<priority><number> with eight hexadecimal
// digits, and 0 instead of 1 for a negative priority. Smaller priorities come first. The data are in Curator's form of
// one item; an element of Curator's can have more. The parent of the locks has an ephemeral node for each element that
// is taken, with the same name, and the containers line and receipts, which only this package uses. Takers of Curator
// must have the same lock path. Each take sets an element's data to the same data, so its version counts the attempts.
//
// The servers number at most 2^31 elements under a parent. After that, the order is lost, unless the servers of Rollcall
// are configured to go on (longSequentialNames). Delete the parent before that, when it is empty: the numbers then begin
// at 0 again.
package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/client/internal/receipt"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// DefaultBatch is the number of names that a Queue keeps of a list. They take 50 kB. The list of a million elements of
// 4 kB then adds one part in two hundred to the bytes of the requests that it serves.
const DefaultBatch = 1000

// batchLife is the time after which a batch is not used any more. Until then, elements of a higher priority and
// elements that are given again wait. A taker lists a million elements in about a second.
const batchLife = 5 * time.Second

// Config has the settings of a Queue. The zero value is ready for use.
type Config struct {
	// Locks is the path of the parent of the takers' locks. All takers must use the same. If it is "", the path is that of
	// the queue, followed by "-locks".
	Locks string

	// Priorities makes a queue whose elements have priorities. All clients that put must use the same.
	Priorities bool

	Batch int          // names to keep of a list; 0: DefaultBatch
	ACL   []client.ACL // of the elements; nil: everyone has every permission
}

// Queue is a queue whose elements are children of one parent. It is safe for concurrent use.
type Queue struct {
	c        *client.Client
	parent   string
	locks    string
	cfg      Config
	receipts *receipt.Book

	batch chan batch // holds the one batch, except while a taker uses it
}

// batch has the names of elements that were not taken when they were listed, in order.
type batch struct {
	names  []string
	listed time.Time
}

// New returns the Queue whose elements are children of parent. It does not use the network.
func New(c *client.Client, parent string, cfg Config) *Queue {
	cfg.Batch = cmp.Or(max(cfg.Batch, 0), DefaultBatch)
	q := &Queue{c: c, parent: parent, locks: cmp.Or(cfg.Locks, parent+"-locks"), cfg: cfg, batch: make(chan batch, 1)}
	q.receipts = receipt.NewBook(c, q.locks+"/receipts")
	q.batch <- batch{}
	return q
}

// nextName returns the name of the first element that was not taken at the last list, or "" if there is none.
func (q *Queue) nextName(ctx context.Context) (name string, err error) {
	var b batch
	select {
	case b = <-q.batch:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { q.batch <- b }()
	if len(b.names) == 0 || time.Since(b.listed) > batchLife {
		var names []string
		if names, err = q.listFree(ctx); err != nil {
			return "", err
		}
		b = batch{names, time.Now()}
	}
	if len(b.names) > 0 {
		name, b.names = b.names[0], b.names[1:]
	}
	return name, nil
}

// listFree lists the elements and returns the first names that are not taken, in order.
func (q *Queue) listFree(ctx context.Context) ([]string, error) {
	elements, err := reconnect.Children(ctx, q.c, q.parent)
	if err != nil || len(elements) == 0 {
		return nil, err
	}
	taken, err := reconnect.Children(ctx, q.c, q.locks)
	return q.selectFirst(elements, taken), err
}

// selectFirst returns the first names of the elements that are not taken, in order, at most Config.Batch of them. It
// sorts at most two batches at a time, and returns copies, which do not keep the memory of the whole list.
func (q *Queue) selectFirst(elements, taken []string) []string {
	locked := make(map[string]struct{}, len(taken))
	for _, name := range taken {
		locked[name] = struct{}{}
	}
	selected := make([]string, 0, min(len(elements), 2*q.cfg.Batch))
	for _, name := range elements {
		if _, ok := locked[name]; ok || !strings.HasPrefix(name, namePrefix) {
			continue
		}
		if len(selected) == 2*q.cfg.Batch {
			slices.Sort(selected)
			selected = selected[:q.cfg.Batch]
		}
		selected = append(selected, name)
	}
	slices.Sort(selected)
	kept := make([]string, 0, min(len(selected), q.cfg.Batch))
	for _, name := range selected[:cap(kept)] {
		kept = append(kept, strings.Clone(name))
	}
	return kept
}

func (q *Queue) pathOf(name string) string     { return recipe.PathOf(q.parent, name) }
func (q *Queue) lockPathOf(name string) string { return recipe.PathOf(q.locks, name) }

// wrapError returns the error of a method, or nil if err is nil.
func wrapError(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queue: %s %s: %w", what, path, err)
}
