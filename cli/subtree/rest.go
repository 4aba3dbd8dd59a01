package subtree

import (
	"errors"
	"iter"

	"rollcall/zk/jute"
)

// deleteExtras deletes the nodes below the top that are not in the dump. Both the dump and the walk are in the
// same order, so each is read once.
func (l *loader) deleteExtras(read func(func(*Record) error) error) error {
	var readErr error
	next, stop := iter.Pull(func(yield func(string) bool) {
		readErr = read(func(r *Record) error {
			if r.Owner == "" && !yield(l.targetPath(r.Path)) {
				return errStopped
			}
			return nil
		})
	})
	defer stop()
	wanted, more := next()
	gone := "" // a node that is deleted with all below it
	for n, err := range l.space.Walk(l.ctx, l.into, WalkOptions{Skip: l.space.IsServersOwn}) {
		if err != nil {
			return l.ignoreMissingTop(err)
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
			if err := l.deleteExtra(n); err != nil {
				return err
			}
		}
	}
	return l.extraRemover.flushDeletes()
}

var errStopped = errors.New("stopped")

// ignoreMissingTop returns the error of a walk, unless it is that a dry run has not made the top.
func (l *loader) ignoreMissingTop(err error) error {
	if l.options.DryRun && l.isNewTop && errors.Is(err, jute.NoNode) {
		return nil
	}
	return err
}

// deleteExtra deletes a node that is not in the dump, with all below it except for ephemeral nodes.
func (l *loader) deleteExtra(n *Node) error {
	switch {
	case n.Stat.EphemeralOwner != 0:
		l.extraRemover.noteLeft(n.Path)
		return nil
	case n.Err == nil && n.Stat.NumChildren == 0:
		return l.extraRemover.addPath(n.Path)
	}
	err := l.extraRemover.addSubtree(n.Path)
	if errors.Is(err, jute.NoNode) {
		return nil // others have deleted it
	}
	return err
}

// countRemoved takes note of a node that was not in the dump.
func (l *loader) countRemoved(path string, deleted bool) {
	if deleted {
		l.result.Deleted++
		l.options.OnChange(Change{Action: "delete", Path: path})
		return
	}
	l.result.LeftAlone++
	l.options.OnChange(Change{Action: "leave", Path: path})
}
