package subtree

import (
	"errors"
	"iter"

	"rollcall/zk/jute"
)

// deleteRest deletes the nodes below the top that are not in the dump. Both the dump and the walk are in the
// same order, so each is read once.
func (l *loader) deleteRest(read func(func(*Record) error) error) error {
	var readErr error
	next, stop := iter.Pull(func(yield func(string) bool) {
		readErr = read(func(r *Record) error {
			if r.Owner == "" && !yield(l.target(r.Path)) {
				return errStopped
			}
			return nil
		})
	})
	defer stop()
	wanted, more := next()
	gone := "" // a node that is deleted with all below it
	for n, err := range l.space.Walk(l.ctx, l.into, Walking{Skip: l.space.Own}) {
		if err != nil {
			return l.unlessNew(err)
		}
		for more && comparePaths(wanted, n.Path) < 0 {
			wanted, more = next()
		}
		switch {
		case readErr != nil:
			return readErr
		case more && wanted == n.Path || gone != "" && IsBelow(n.Path, gone):
		default:
			gone = n.Path
			if err := l.delete(n); err != nil {
				return err
			}
		}
	}
	return l.rest.flush()
}

var errStopped = errors.New("stopped")

// unlessNew returns the error of a walk, unless it is that a dry run has not made the top.
func (l *loader) unlessNew(err error) error {
	if l.how.DryRun && l.fresh && errors.Is(err, jute.NoNode) {
		return nil
	}
	return err
}

// delete deletes a node that is not in the dump, with all below it except for ephemeral nodes.
func (l *loader) delete(n *Node) error {
	switch {
	case n.Stat.EphemeralOwner != 0:
		l.rest.left(n.Path)
		return nil
	case n.Err == nil && n.Stat.NumChildren == 0:
		return l.rest.add(n.Path)
	}
	err := l.rest.subtree(n.Path)
	if errors.Is(err, jute.NoNode) {
		return nil // others have deleted it
	}
	return err
}

// removed takes note of a node that was not in the dump.
func (l *loader) removed(path string, deleted bool) {
	if deleted {
		l.done.Deleted++
		l.how.Each(Change{Action: "delete", Path: path})
		return
	}
	l.done.Left++
	l.how.Each(Change{Action: "leave", Path: path})
}
