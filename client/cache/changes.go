package cache

import (
	"context"
	"iter"
	"slices"
)

// ChangeType is the kind of a Change.
type ChangeType int

// These are all kinds of changes.
const (
	Reset   ChangeType = iota // changes are left out: read what you need from the Cache
	Added                     // a node is new in the copy
	Updated                   // a node has other data, or was deleted and created again
	Removed                   // a node is gone

	// Paused means that the copy stays as it is until Attach: the session has ended, or the tree is too large. Change.Err
	// is the reason.
	Paused
	// Resumed means that Attach continues with another Client. The changes after it are those that its session shows, also
	// those that were made since the last session had ended.
	Resumed
)

// String returns the type's name.
func (t ChangeType) String() string {
	return [...]string{"reset", "added", "updated", "removed", "paused", "resumed"}[t]
}

// Change is a change of the copy. Node is the node after the change, or for Removed the last copy of it. For Reset,
// Paused and Resumed there is no node, and Path is that of the whole copy.
type Change struct {
	Type ChangeType
	Path string
	Node Node
	Err  error // of Paused
}

// isOfNode reports whether the change is of one node.
func (c Change) isOfNode() bool { return c.Type == Added || c.Type == Updated || c.Type == Removed }

// MaxChanges limits the changes that wait for the reader of Changes. If there are more, they are dropped, and one Reset
// takes their place, with the last Paused or Resumed after it if that was dropped. Waiting changes keep old data in memory, so they are few.
const MaxChanges = 1024

// listener is one reader of Changes. The lock of the Cache guards it.
type listener struct {
	waiting []Change
	ready   chan struct{} // has room for one
}

// reportChange queues a change for all listeners. The lock is held.
func (k *Cache) reportChange(c Change) {
	for l := range k.listeners {
		l.add(c, k.root)
	}
}

// add queues a change. The lock is held.
func (l *listener) add(c Change, root string) {
	if len(l.waiting) < MaxChanges {
		l.waiting = append(l.waiting, c)
		return
	}
	marks := slices.DeleteFunc(append(l.waiting, c), func(c Change) bool { return c.isOfNode() || c.Type == Reset })
	l.waiting = []Change{{Type: Reset, Path: root}}
	if len(marks) > 0 {
		l.waiting = append(l.waiting, marks[len(marks)-1])
	}
}

// newListener returns a listener whose first change is a Reset, with a Paused after it if the copy is paused. The lock
// is held.
func (k *Cache) newListener() *listener {
	l := &listener{waiting: []Change{{Type: Reset, Path: k.root}}, ready: make(chan struct{}, 1)}
	if k.err != nil && !k.closed {
		l.waiting = append(l.waiting, Change{Type: Paused, Path: k.root, Err: k.err})
	}
	return l
}

// Changes returns each change of the copy until ctx ends or the Cache is closed: also over sessions, if Attach gives
// the Cache another Client when one has ended. The first change is a Reset: read then what you need, every later change
// is reported. The last pair has the error: ctx's, or ErrClosed.
func (k *Cache) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		k.mu.Lock()
		l := k.newListener()
		k.listeners[l] = true
		k.mu.Unlock()
		defer func() {
			k.mu.Lock()
			delete(k.listeners, l)
			k.mu.Unlock()
		}()
		for {
			k.mu.Lock()
			changes, closed, err := l.waiting, k.closed, k.err
			l.waiting = nil
			k.mu.Unlock()
			for _, c := range changes {
				if ctx.Err() == nil && !yield(c, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case len(changes) > 0:
				continue
			case !closed:
				select {
				case <-l.ready:
				case <-ctx.Done():
				}
				continue
			}
			yield(Change{}, err)
			return
		}
	}
}
