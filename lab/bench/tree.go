package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"

	"rollcall/client"
)

const (
	perMulti   = 500     // nodes created or deleted by one transaction
	multiBytes = 1 << 19 // bytes of its data, far below the limit of a request
	maxMultis  = 8       // transactions in flight
)

// tree holds the nodes of one run: a root with a random name, parent nodes below it, and numbered nodes below
// each parent. The names follow from the numbers, so deleting needs no listing.
type tree struct {
	root    string
	parents []*parent
}

// parent is a node below the root with numbered children.
type parent struct {
	path      string
	nodeCount int64 // children 0 to nodeCount-1 may exist
}

func (t *tree) createRoot(ctx context.Context, c *client.Client) error {
	root := "/rollcall-bench-" + rand.Text()[:10]
	if _, _, err := c.Create(ctx, root, nil, client.Persistent); err != nil {
		return err
	}
	t.root = root
	return nil
}

// createParent creates a parent below the root.
func (t *tree) createParent(ctx context.Context, c *client.Client, name string) (*parent, error) {
	p := &parent{path: t.root + "/" + name}
	if _, _, err := c.Create(ctx, p.path, nil, client.Persistent); err != nil {
		return nil, err
	}
	t.parents = append(t.parents, p)
	return p, nil
}

// appendNodePath appends the path of child n.
func (p *parent) appendNodePath(b []byte, n int64) []byte {
	return appendPadded(append(append(b, p.path...), '/'), n)
}

// appendPadded appends a number with the digits of a sequential node.
func appendPadded(b []byte, n int64) []byte {
	const zeros = "0000000000"
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	return append(append(b, zeros[min(len(text), len(zeros)):]...), text...)
}

// createNodes creates the first n children.
func (p *parent) createNodes(ctx context.Context, c *client.Client, n int64, data []byte) error {
	p.nodeCount = n
	per := int64(max(1, min(perMulti, multiBytes/(len(data)+operationOverhead))))
	return p.sendBatches(ctx, c, per, func(i int64) client.Operation {
		return client.CreateOp(string(p.appendNodePath(nil, i)), data, client.Persistent)
	}, nil)
}

// removeNodes deletes everything that the run has created.
func (t *tree) removeNodes(ctx context.Context, c *client.Client) error {
	for _, p := range t.parents {
		if err := p.removeNodes(ctx, c); err != nil {
			return err
		}
	}
	return removeNode(ctx, c, t.root)
}

func (p *parent) removeNodes(ctx context.Context, c *client.Client) error {
	err := p.sendBatches(ctx, c, perMulti, func(i int64) client.Operation {
		return client.DeleteOp(string(p.appendNodePath(nil, i)), client.AnyVersion)
	}, func(first, next int64) error { // some of these may not exist
		return inParallel(ctx, int(next-first), parallelOpens, func(ctx context.Context, i int) error {
			return removeNode(ctx, c, string(p.appendNodePath(nil, first+int64(i))))
		})
	})
	if err == nil {
		err = removeNode(ctx, c, p.path)
	}
	if errors.Is(err, client.ErrNotEmpty) { // ephemeral nodes of sessions that have not expired yet
		err = removeWithChildren(ctx, c, p.path)
	}
	return err
}

// removeWithChildren deletes a node and its children.
func removeWithChildren(ctx context.Context, c *client.Client, path string) error {
	names, _, err := c.Children(ctx, path)
	if err != nil {
		return err
	}
	err = inParallel(ctx, len(names), parallelOpens, func(ctx context.Context, i int) error {
		return removeNode(ctx, c, path+"/"+names[i])
	})
	if err != nil {
		return err
	}
	return removeNode(ctx, c, path)
}

func removeNode(ctx context.Context, c *client.Client, path string) error {
	err := c.Delete(ctx, path, client.AnyVersion)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// sendBatches sends one operation per child, in multis of size per. If a multi fails, it calls instead with
// the numbers of its children. If instead is nil, it returns the error.
func (p *parent) sendBatches(ctx context.Context, c *client.Client, per int64, op func(int64) client.Operation,
	instead func(first, next int64) error,
) error {
	n := int((p.nodeCount + per - 1) / per)
	return inParallel(ctx, n, maxMultis, func(ctx context.Context, i int) error {
		first := int64(i) * per
		next := min(first+per, p.nodeCount)
		ops := make([]client.Operation, 0, next-first)
		for n := first; n < next; n++ {
			ops = append(ops, op(n))
		}
		_, err := c.Multi(ctx, ops...)
		if err != nil && instead != nil && ctx.Err() == nil {
			return instead(first, next)
		}
		return err
	})
}

// sendEach calls send n times, which sends a request each, and waits for all replies. It returns the first error.
func sendEach(n int, send func(i int, done func(error)) error) error {
	var mu sync.Mutex
	var first error
	var wait sync.WaitGroup
	done := func(err error) {
		mu.Lock()
		if first == nil {
			first = err
		}
		mu.Unlock()
		wait.Done()
	}
	for i := range n {
		wait.Add(1)
		if err := send(i, done); err != nil {
			done(err)
			break
		}
	}
	wait.Wait()
	return first
}
