// Package roster follows the children of a node and their data. Group membership and service registries are made of it.
//
// A roster keeps one watch on the parent, and one on each child. When the list changes, it reads the new children
// alone, and when the data of a child change, that child.
package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// MaxChildren limits the children of a parent. Each costs a watch and a goroutine while it is followed, some 5 KiB.
const MaxChildren = 10_000

// MaxBytes limits the data of all children that one Read or Follow keeps. It leaves 6 KiB for each of MaxChildren,
// which is several times the entry of a service. Up to readsInFlight replies come on top of that.
const MaxBytes = 64 << 20

// readsInFlight limits the reads without a reply while a parent is read: enough to hide the time of a round trip, and
// a small part of the requests that a Client may have in flight.
const readsInFlight = 64

// ErrTooMany says that a parent has more than MaxChildren children.
var ErrTooMany = fmt.Errorf("the parent has more than %d nodes", MaxChildren)

// ErrTooMuchData says that the data of a child were left out because of MaxBytes.
var ErrTooMuchData = fmt.Errorf("the data of the parent's nodes have more than %d bytes together, so those of this "+
	"one were left out", MaxBytes)

// Child is a child of the parent, as one read has shown it.
type Child struct {
	Name    string
	Data    []byte
	Omitted bool // the data of the other children have used up MaxBytes, so Data is nil
	Stat    client.Stat
}

// room is the number of bytes of data that can still be kept.
type room int

// take lets a child use room for its data. If there is too little, it leaves the data out.
func (r *room) take(child *Child) {
	if room(len(child.Data)) > *r {
		child.Data, child.Omitted = nil, true
	}
	*r -= room(len(child.Data))
}

// giveBack makes the room of a child free.
func (r *room) giveBack(child Child) { *r += room(len(child.Data)) }

// newChild returns a child without its data. A name of a list shares memory with all others, so the child has a copy.
func newChild(name string) Child { return Child{Name: strings.Clone(name)} }

// Read returns the children of a parent, sorted by name. A parent that does not exist has none. Each child is read by
// itself, so the children need not all have been there at one time. If their data have more than MaxBytes, some are
// left out, in no order.
func Read(ctx context.Context, c *client.Client, parent string) ([]Child, error) {
	return read(ctx, c, parent, MaxBytes)
}

func read(ctx context.Context, c *client.Client, parent string, space room) ([]Child, error) {
	var names []string
	err := reconnect.Retry(ctx, c, func() (err error) {
		names, _, err = c.Children(ctx, parent)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err == nil && len(names) > MaxChildren {
		err = fmt.Errorf("read %s: %w", parent, ErrTooMany)
	}
	if err != nil {
		return nil, err
	}
	children := make(map[string]Child, len(names))
	err = each(names, func(name string) (*Child, error) {
		child := newChild(name)
		err := reconnect.Retry(ctx, c, func() (err error) {
			child.Data, child.Stat, err = c.Get(ctx, PathOf(parent, name))
			return err
		})
		return &child, err
	}, func(child *Child) {
		space.take(child)
		children[child.Name] = *child
	})
	if err != nil {
		return nil, err
	}
	return sorted(children), nil
}

// PathOf returns the path of a child.
func PathOf(parent, name string) string { return recipe.PathOf(parent, name) }

func sorted(children map[string]Child) []Child {
	return slices.SortedFunc(maps.Values(children), func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
}

// each calls read for all names, some at the same time, and keep with each result, one at a time. A node that is gone
// is left out. The error is that of any read that failed.
func each[T any](names []string, read func(name string) (T, error), keep func(T)) error {
	var mu sync.Mutex
	var failed error
	var reads sync.WaitGroup
	next := make(chan string)
	for range min(len(names), readsInFlight) {
		reads.Go(func() {
			for name := range next {
				result, err := read(name)
				mu.Lock()
				switch {
				case err == nil:
					keep(result)
				case !errors.Is(err, client.ErrNoNode):
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	reads.Wait()
	return failed
}
