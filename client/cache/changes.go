package cache

import (
	"context"
	"iter"
)

// ChangeType is the kind of a Change.
type ChangeType int

// These are all kinds of changes.
const (
	Reset   ChangeType = iota // changes are left out: read what you need from the Cache
	Added                     // a node is new in the copy
	Updated                   // a node has other data, or was deleted and created again
	Removed                   // a node is gone
)

// String returns the type's name.
func (t ChangeType) String() string { return [...]string{"reset", "added", "updated", "removed"}[t] }

// Change is a change of the copy. Node is the node after the change, or for Removed the last copy of it.
type Change struct {
	Type ChangeType
	Path string
	Node Node
}

// MaxChanges limits the changes that wait for the reader of Changes. If there are more, they are dropped, and one Reset
// takes their place. Waiting changes keep old data in memory, so they are few.
const MaxChanges = 1024

// listener is one reader of Changes. The lock of the Cache guards it.
type listener struct {
	waiting []Change
	ready   chan struct{} // has room for one
}

// reportChange queues a change for all listeners. The lock is held.
func (k *Cache) reportChange(c Change) {
	for l := range k.listeners {
		if len(l.waiting) == MaxChanges {
			clear(l.waiting)
			l.waiting = append(l.waiting[:0], Change{Type: Reset, Path: k.root})
			continue
		}
		l.waiting = append(l.waiting, c)
	}
}

// Changes returns each change of the copy until ctx ends, or the Cache stays Stale or is closed. The first change is a
// Reset: read then what you need, every later change is reported. The last pair has the error: ctx's, or that of Err.
func (k *Cache) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		l := &listener{waiting: []Change{{Type: Reset, Path: k.root}}, ready: make(chan struct{}, 1)}
		k.mu.Lock()
		k.listeners[l] = true
		k.mu.Unlock()
		defer func() {
			k.mu.Lock()
			delete(k.listeners, l)
			k.mu.Unlock()
		}()
		for {
			k.mu.Lock()
			changes, err := l.waiting, k.err
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
			case err == nil:
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
