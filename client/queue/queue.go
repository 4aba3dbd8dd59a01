package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/client/internal/receipt"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// DefaultBatch is the number of names that a Queue keeps of a list. They are 50 kB, and a list of a million elements is
// then a two-hundredth of the bytes of the requests that it serves if each element has 4 kB.
const DefaultBatch = 1000

// batchLife is the time after which the kept names are not used any more. In it, elements of higher priority and those
// that are given again wait. A taker lists a million elements in about a second.
const batchLife = 5 * time.Second

// Config has the settings of a Queue. The zero value is ready for use.
type Config struct {
	// Locks is the path of the parent with the locks of the takers. All takers must use the same. "": the path of the
	// queue, and "-locks" after it.
	Locks string

	// Priorities makes a queue whose elements have priorities. All clients that put must use the same.
	Priorities bool

	Batch int          // names to keep of a list; 0: DefaultBatch
	ACL   []client.ACL // of the elements; nil: everyone has every permission
}

// Queue is a queue under a parent. It is safe for concurrent use.
type Queue struct {
	c      *client.Client
	parent string
	locks  string
	cfg    Config
	book   *receipt.Book

	batch chan batch // with the one batch while nobody changes it
}

// batch has the names of elements that were not taken when they were listed, in order.
type batch struct {
	names  []string
	listed time.Time
}

// New returns the Queue under a parent. It does not use the network.
func New(c *client.Client, parent string, cfg Config) *Queue {
	cfg.Batch = cmp.Or(max(cfg.Batch, 0), DefaultBatch)
	q := &Queue{c: c, parent: parent, locks: cmp.Or(cfg.Locks, parent+"-locks"), cfg: cfg, batch: make(chan batch, 1)}
	q.book = receipt.NewBook(c, q.locks+"/receipts")
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
		if names, err = q.list(ctx); err != nil {
			return "", err
		}
		b = batch{names, time.Now()}
	}
	if len(b.names) > 0 {
		name, b.names = b.names[0], b.names[1:]
	}
	return name, nil
}

// list returns the first names of elements that are not taken, in order.
func (q *Queue) list(ctx context.Context) ([]string, error) {
	elements, err := q.childrenOf(ctx, q.parent)
	if err != nil || len(elements) == 0 {
		return nil, err
	}
	taken, err := q.childrenOf(ctx, q.locks)
	return q.first(elements, taken), err
}

// childrenOf returns the names under a parent. There are none if there is no parent.
func (q *Queue) childrenOf(ctx context.Context, parent string) (names []string, err error) {
	err = reconnect.Retry(ctx, q.c, func() (err error) {
		names, _, err = q.c.Children(ctx, parent)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// first returns the first names of the elements that are not taken, in order: as many as a batch has. It sorts no more
// than two batches at a time, and returns copies, which do not keep the memory of the whole list.
func (q *Queue) first(elements, taken []string) []string {
	locked := make(map[string]struct{}, len(taken))
	for _, name := range taken {
		locked[name] = struct{}{}
	}
	first := make([]string, 0, min(len(elements), 2*q.cfg.Batch))
	for _, name := range elements {
		if _, ok := locked[name]; ok || !strings.HasPrefix(name, namePrefix) {
			continue
		}
		if len(first) == 2*q.cfg.Batch {
			slices.Sort(first)
			first = first[:q.cfg.Batch]
		}
		first = append(first, name)
	}
	slices.Sort(first)
	kept := make([]string, 0, min(len(first), q.cfg.Batch))
	for _, name := range first[:cap(kept)] {
		kept = append(kept, strings.Clone(name))
	}
	return kept
}

func (q *Queue) pathOf(name string) string { return recipe.PathOf(q.parent, name) }
func (q *Queue) lockOf(name string) string { return recipe.PathOf(q.locks, name) }

// failed returns the error of a method, or nil if err is.
func failed(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queue: %s %s: %w", what, path, err)
}
