package queue

import (
	"context"
	"crypto/rand"
	"errors"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// ErrEmpty means that every element of a queue is taken.
var ErrEmpty = errors.New("the queue has no element that is not taken")

// Take takes the first element that is not taken. If there is none, it waits for one until ctx or the session ends.
func (q *Queue) Take(ctx context.Context) (*Element, error) {
	for {
		e, err := q.takeNext(ctx)
		if e == nil && err == nil {
			e, err = q.takeInLine(ctx)
		}
		if !errors.Is(err, contender.ErrRemoved) { // which another client must have caused: no limit is needed
			return e, wrapError("take from", q.parent, err)
		}
	}
}

// TryTake is Take, but fails with ErrEmpty instead of waiting.
func (q *Queue) TryTake(ctx context.Context) (*Element, error) {
	e, err := q.takeNext(ctx)
	if e == nil && err == nil {
		err = ErrEmpty
	}
	return e, wrapError("take from", q.parent, err)
}

// takeNext takes the first element that is not taken, or returns nil if there is none.
func (q *Queue) takeNext(ctx context.Context) (*Element, error) {
	for {
		name, err := q.nextName(ctx)
		if err != nil || name == "" {
			return nil, err
		}
		if e, err := q.lockElement(ctx, name); e != nil || err != nil {
			return e, err
		}
	}
}

// errTakenOrDone means that another taker has the element, or that the element is done.
var errTakenOrDone = errors.New("the element is taken or done")

// lockElement takes an element: one transaction creates its lock and sets its data to the same data. The version of the
// element then belongs to this attempt. It returns nil if the element is taken or done.
func (q *Queue) lockElement(ctx context.Context, name string) (*Element, error) {
	id := rand.Text()
	data, stat, err := reconnect.Read(ctx, q.c, q.pathOf(name), (*client.Client).Get)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lock client.Stat
	err = reconnect.RetryWithParent(ctx, q.c, q.locks, func() (err error) {
		lock, err = q.tryLock(ctx, name, id, data, stat.Version)
		return err
	})
	if errors.Is(err, errTakenOrDone) {
		return nil, nil
	}
	if err == nil {
		err = reconnect.Retry(ctx, q.c, func() error { return recipe.Prove(ctx, q.c) })
	}
	if err != nil {
		go func() { _ = q.unlockElement(name, id) }()
		return nil, err
	}
	e := &Element{Right: recipe.NewRight(q.c, q.lockPathOf(name), lock), queue: q, name: name, lockID: id}
	e.version = stat.Version + 1
	e.Attempt, e.Raw = int(e.version), data
	e.Items, e.Malformed = decodeItems(data)
	if len(e.Items) > 0 {
		e.Data = e.Items[0]
	}
	return e, nil
}

// tryLock sends the transaction of lockElement. It returns client.ErrNoNode if the parent of the locks does not exist.
func (q *Queue) tryLock(ctx context.Context, name, id string, data []byte, version int32) (client.Stat, error) {
	results, err := q.c.Multi(ctx, client.CreateOp(q.lockPathOf(name), []byte(id), client.Ephemeral),
		client.SetOp(q.pathOf(name), data, version))
	failed, isMulti := errors.AsType[*client.MultiError](err)
	switch {
	case err == nil:
		return results[0].Stat, nil
	case isMulti && (failed.Index == 1 || errors.Is(err, client.ErrNodeExists)):
		lock, ours, err := q.findOwnLock(ctx, name, id)
		switch {
		case err != nil:
			return client.Stat{}, err
		case ours: // by an earlier try whose reply was lost
			return lock, nil
		}
		return client.Stat{}, errTakenOrDone
	}
	return client.Stat{}, err
}

// findOwnLock returns the Stat of an element's lock, and reports whether that lock has this id. ours is false if there
// is no lock.
func (q *Queue) findOwnLock(ctx context.Context, name, id string) (lock client.Stat, ours bool, err error) {
	data, lock, err := reconnect.Read(ctx, q.c, q.lockPathOf(name), (*client.Client).Get)
	if errors.Is(err, client.ErrNoNode) {
		return client.Stat{}, false, nil
	}
	return lock, err == nil && string(data) == id, err
}

// unlockElement deletes the lock with this id, if there is one. It tries until the lock is deleted or the session has
// ended, which deletes the lock too.
func (q *Queue) unlockElement(name, id string) error {
	ctx := context.Background() // the session's end ends all calls
	for {
		err := q.tryUnlock(ctx, name, id)
		switch {
		case errors.Is(err, client.ErrReadOnly):
			err = recipe.AwaitWritable(ctx, q.c)
		case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNoNode):
			err = nil // the element or the lock was replaced since they were read
		case errors.Is(err, client.ErrConnectionLost), errors.Is(err, client.ErrSuspended):
			err = nil // the next try waits for a connection
		case err == nil, errors.Is(err, client.ErrExpired):
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tryUnlock reads the element and then its lock, and deletes the lock if it has this id. Each taker sets the element
// once more, so the deletion is rejected with client.ErrBadVersion if another one has taken the element since.
func (q *Queue) tryUnlock(ctx context.Context, name, id string) error {
	if err := reconnect.Settle(ctx, q.c); err != nil {
		return err
	}
	element, exists, err := q.c.Exists(ctx, q.pathOf(name))
	if err != nil {
		return err
	}
	if _, ours, err := q.findOwnLock(ctx, name, id); err != nil || !ours {
		return err
	}
	if !exists { // no client can take it
		return q.c.Delete(ctx, q.lockPathOf(name), client.AnyVersion)
	}
	_, err = q.c.Multi(ctx, client.CheckOp(q.pathOf(name), element.Version),
		client.DeleteOp(q.lockPathOf(name), client.AnyVersion))
	return err
}

// takeInLine waits until it is the first in the line, and then for an element that is not taken, which it takes. It
// keeps its place until it has the lock, so that the next taker in the line does not try to take the same element.
func (q *Queue) takeInLine(ctx context.Context) (*Element, error) {
	place, err := contender.Enter(ctx, q.c, contender.Config{Parent: q.locks + "/line", Layout: contender.CuratorLock})
	if err != nil {
		return nil, err
	}
	if err := place.AwaitTurn(ctx); err != nil {
		return nil, err
	}
	defer place.Abandon()
	for {
		elements, changed, err := q.childrenWatch(ctx, q.parent)
		if err != nil {
			return nil, err
		}
		taken, unlocked, err := q.childrenWatch(ctx, q.locks)
		if err != nil {
			changed.Stop()
			return nil, err
		}
		e, err := q.takeOneOf(ctx, q.selectFirst(elements, taken))
		if e != nil || err != nil {
			changed.Stop()
			unlocked.Stop()
			return e, err
		}
		if err := awaitEither(ctx, changed, unlocked); err != nil {
			return nil, err
		}
	}
}

// takeOneOf takes the first of these elements that it can get, or returns nil if it gets none.
func (q *Queue) takeOneOf(ctx context.Context, names []string) (*Element, error) {
	for _, name := range names {
		if e, err := q.lockElement(ctx, name); e != nil || err != nil {
			return e, err
		}
	}
	return nil, nil
}

// childrenWatch returns the names of the children of parent and a watch on them. It creates parent if necessary.
func (q *Queue) childrenWatch(ctx context.Context, parent string) (names []string, watch *client.OnceWatch, err error) {
	err = reconnect.RetryWithParent(ctx, q.c, parent, func() (err error) {
		names, _, watch, err = q.c.ChildrenWatch(ctx, parent)
		return err
	})
	return names, watch, err
}

// awaitEither waits until one of two watches fires, and stops the other one.
func awaitEither(ctx context.Context, a, b *client.OnceWatch) error {
	defer a.Stop()
	defer b.Stop()
	select {
	case event := <-a.Fired:
		return reconnect.EventError(event)
	case event := <-b.Fired:
		return reconnect.EventError(event)
	case <-ctx.Done():
		return ctx.Err()
	}
}
