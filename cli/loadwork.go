package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"rollcall/cli/subtree"
	"rollcall/zk/jute"
)

// sameAgain says how a load that can be repeated goes on after it was interrupted.
const sameAgain = "the same command does the rest"

// loadWork is one load, of a dump or of a subtree in a backup.
type loadWork struct {
	World
	*Output
	from   string // what is loaded, such as "the dump"
	again  string // what does the rest after an interruption
	noAuth string // follows the advice about permissions
	how    subtree.Loading
	do     func(context.Context, subtree.Loading) (subtree.Loaded, error)
}

// show prints the changes that the load would make, and then how many they are. It makes none.
func (l *loadWork) show(ctx context.Context) error {
	var would subtree.Loaded
	if err := Print(l.Output, changeColumns, l.changes(ctx, &would)); err != nil {
		return err
	}
	warn(l.World, "%s", wouldText(l.from, would))
	return nil
}

// wouldText says what a load would do.
func wouldText(from string, w subtree.Loaded) string {
	return fmt.Sprintf("of %s in %s, %d would be created, %d get other data and %d another access control list; %d others would be deleted, and %d left as they are",
		plural(w.Nodes+w.Skipped, "node", "nodes"), from, w.Created, w.Set, w.ACLs, w.Deleted, w.Left)
}

// changes yields the changes that the load would make, and then sets would.
func (l *loadWork) changes(ctx context.Context, would *subtree.Loaded) iter.Seq2[changeRow, error] {
	return func(yield func(changeRow, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		how := l.how
		how.DryRun, how.Begin = true, func(subtree.Summary) {}
		how.Each = func(c subtree.Change) {
			if more && c.Action != "same" {
				more = yield(changeRow(c), nil)
			}
			if !more {
				stop()
			}
		}
		done, err := l.do(ctx, how)
		switch {
		case !more:
		case err != nil:
			yield(changeRow{}, l.failure(subtree.Loaded{}, 0, err))
		default:
			*would = done
		}
	}
}

// would returns what the load would do.
func (l *loadWork) would(ctx context.Context) (subtree.Loaded, error) {
	how := l.how
	how.DryRun, how.Begin, how.Each = true, func(subtree.Summary) {}, func(subtree.Change) {}
	done, err := l.do(ctx, how)
	if err != nil {
		err = l.failure(subtree.Loaded{}, 0, err)
	}
	return done, err
}

// carryOut loads, and prints what was done.
func (l *loadWork) carryOut(ctx context.Context) error {
	progress := NewProgress(l.World, "nodes", 0)
	defer progress.Done()
	total, last := 0, ""
	how := l.how
	how.Begin = func(sum subtree.Summary) {
		total = sum.Count
		progress.Expect(sum.Count)
	}
	how.Each = func(c subtree.Change) {
		if c.Path != last { // a node can have two changes
			progress.Add(1)
		}
		last = c.Path
	}
	done, err := l.do(ctx, how)
	progress.Done()
	if err != nil {
		return l.failure(done, total, err)
	}
	return printOne(l.Output, loadedColumns, loadedRow(done))
}

// loadAdvice says what a user can do about an error of a load.
var loadAdvice = []struct {
	reason error
	text   string
}{
	{subtree.ErrExists, "--merge or --replace loads into what exists, and --into loads elsewhere"},
	{subtree.ErrIncomplete, "--merge deletes nothing"},
	{subtree.ErrHidden, "dump again with --auth of an administrator of these nodes, or give all nodes another list with --acl"},
	{subtree.ErrChecksum, "after an edit on purpose, --edited takes it"},
	{jute.NoNode, "rollcall create -p makes what is missing"},
	{jute.NoAuth, "a list that is loaded may keep you from making children: use --auth digest:super:PASSWORD"},
	{jute.Unimplemented, "nodes with a time to live need extendedTypesEnabled=true in the configuration of the servers"},
}

// failure returns the error of a load that has done so much of so many nodes, with what the user can do.
func (l *loadWork) failure(done subtree.Loaded, total int, err error) error {
	for _, a := range loadAdvice {
		if errors.Is(err, a.reason) {
			err = fmt.Errorf("%w; %s", err, a.text)
		}
	}
	if errors.Is(err, jute.NoAuth) {
		err = fmt.Errorf("%w%s", err, l.noAuth)
	}
	if errors.Is(err, subtree.ErrExists) {
		err = With(Conflict, err)
	}
	switch {
	case errors.Is(err, context.Canceled): // not wrapped: it is a failure
		return fmt.Errorf("interrupted after %d of %d nodes; %s", done.Nodes, total, l.again)
	case done == (subtree.Loaded{}):
		return fmt.Errorf("%w; nothing was changed", err)
	}
	return fmt.Errorf("after %d of %d nodes: %w; %s", done.Nodes, total, err, l.again)
}
