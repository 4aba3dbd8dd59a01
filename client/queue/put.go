package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/zk/jute"
)

// ErrNoPriorities means that an element has a priority, but the Queue has none: see Config.Priorities.
var ErrNoPriorities = errors.New("the queue has no priorities")

// Put puts an element with the priority 0, and returns its path. The path is "" if the reply was lost and the element
// has been taken and done since.
func (q *Queue) Put(ctx context.Context, data []byte) (path string, err error) {
	return q.PutWithPriority(ctx, data, 0)
}

// PutWithPriority is Put with a priority. Elements with a smaller priority are given first.
func (q *Queue) PutWithPriority(ctx context.Context, data []byte, priority int32) (path string, err error) {
	if priority != 0 && !q.cfg.Priorities {
		return "", wrapError("put into", q.parent, fmt.Errorf("%w: %d", ErrNoPriorities, priority))
	}
	if err := client.CheckPath(q.parent); err != nil { // the first request is about the receipts
		return "", wrapError("put into", q.parent, err)
	}
	mode := client.PersistentSequential.WithACL(q.cfg.ACL...)
	prefix := namePrefixOf(priority, q.cfg.Priorities)
	create := client.CreateOp(q.pathOf(prefix), encodeItem(data), mode)
	err = reconnect.RetryWithParent(ctx, q.c, q.parent, func() error {
		outcome, err := q.receipts.Do(ctx, create)
		switch {
		case err != nil:
			return err
		case outcome.Results != nil:
			path = outcome.Results[0].Path
			return nil
		}
		path, _ = q.findCreated(ctx, prefix, outcome.Zxid) // the element is put, whether it is found or not
		return nil
	})
	return path, wrapError("put into", q.parent, err)
}

// numberedName is the name of an element and its sequence number.
type numberedName struct {
	name   string
	number int64
}

// findCreated returns the path of the element that was created at zxid, or "" if it does not exist any more. prefix is its
// name without the number. The numbers grow with the zxid, so findCreated reads about 20 of a million elements.
func (q *Queue) findCreated(ctx context.Context, prefix string, zxid client.Zxid) (path string, err error) {
	names, err := reconnect.Children(ctx, q.c, q.parent)
	if err != nil {
		return "", err
	}
	elements := make([]numberedName, 0, len(names))
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if number, ok := jute.ParseSequence(digits); ok {
			elements = append(elements, numberedName{name, number})
		}
	}
	slices.SortFunc(elements, func(a, b numberedName) int { return cmp.Compare(a.number, b.number) })
	for len(elements) > 0 {
		middle := len(elements) / 2
		path := q.pathOf(elements[middle].name)
		stat, exists, err := reconnect.Read(ctx, q.c, path, (*client.Client).Exists)
		switch {
		case err != nil:
			return "", err
		case !exists:
			elements = slices.Delete(elements, middle, middle+1)
		case stat.Created == zxid:
			return path, nil
		case stat.Created < zxid:
			elements = elements[middle+1:]
		default:
			elements = elements[:middle]
		}
	}
	return "", nil
}
