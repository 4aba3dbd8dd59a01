// Package roster follows the children of a node and their data. Group membership and service registries use it.
//
// It keeps one watch on the parent, and one on each child. When the list of children changes, it reads only the new
// children. When the data of a child change, it reads only that child.
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

// ErrTooMany means that a parent has more than MaxChildren children.
var ErrTooMany = fmt.Errorf("the parent has more than %d nodes", MaxChildren)

// ErrTooMuchData means that the data of a child were left out because of MaxBytes.
var ErrTooMuchData = fmt.Errorf("the data of the parent's nodes have more than %d bytes together, so those of this "+
	"one were left out", MaxBytes)

// Child is a child of the parent, as it was read.
type Child struct {
	Name    string
	Data    []byte
	Omitted bool // the data of the other children have used up MaxBytes, so Data is nil
	Stat    client.Stat
}

// byteBudget is the number of further bytes of data that may be kept.
type byteBudget int

// keepData charges a child's data to the budget. If the budget is too small, it drops the data.
func (r *byteBudget) keepData(child *Child) {
	if byteBudget(len(child.Data)) > *r {
		child.Data, child.Omitted = nil, true
	}
	*r -= byteBudget(len(child.Data))
}

// releaseData gives the bytes of a child back to the budget.
func (r *byteBudget) releaseData(child Child) { *r += byteBudget(len(child.Data)) }

// newChild returns a child. A name of a list shares memory with all others, so the child has a copy.
func newChild(name string, data []byte, stat client.Stat) *Child {
	return &Child{Name: strings.Clone(name), Data: data, Stat: stat}
}

// Read returns the children of parent, sorted by name. A parent that does not exist has none. Each child is read by
// itself, so the children need not have existed at the same time. If their data have more than MaxBytes, some data are
// left out, in no order.
func Read(ctx context.Context, c *client.Client, parent string) ([]Child, error) {
	return readChildren(ctx, c, parent, MaxBytes)
}

func readChildren(ctx context.Context, c *client.Client, parent string, space byteBudget) ([]Child, error) {
	names, err := reconnect.Children(ctx, c, parent)
	if err == nil && len(names) > MaxChildren {
		err = fmt.Errorf("read %s: %w", parent, ErrTooMany)
	}
	if err != nil {
		return nil, err
	}
	children := make(map[string]Child, len(names))
	err = readEach(names, func(name string) (*Child, error) {
		data, stat, err := reconnect.Read(ctx, c, recipe.PathOf(parent, name), (*client.Client).Get)
		return newChild(name, data, stat), err
	}, func(child *Child) {
		space.keepData(child)
		children[child.Name] = *child
	})
	if err != nil {
		return nil, err
	}
	return sortChildren(children), nil
}

func sortChildren(children map[string]Child) []Child {
	return slices.SortedFunc(maps.Values(children), func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
}

// readEach calls read for all names, up to readsInFlight at a time, and keep with each result, one at a time. It leaves
// out nodes that are gone. The error is that of any failed read.
func readEach[T any](names []string, read func(name string) (T, error), keep func(T)) error {
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
