package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"rollcall/cli/subtree"
	"rollcall/zk/jute"
)

// repeatCompletes says how a load that can be repeated goes on after it was interrupted.
const repeatCompletes = "the same command does the rest"

// loadJob is one load, of a dump or of a subtree in a backup.
type loadJob struct {
	IOStreams
	*Output
	sourceName   string // what is loaded, such as "the dump"
	resumeAdvice string // what does the rest after an interruption
	noAuthAdvice string // follows the advice about permissions
	options      subtree.LoadOptions
	runLoad      func(context.Context, subtree.LoadOptions) (subtree.LoadResult, error)
}

// printChanges prints the changes that the load would make, and then how many they are. It makes none.
func (l *loadJob) printChanges(ctx context.Context) error {
	var would subtree.LoadResult
	if err := PrintRows(l.Output, changeColumns, l.plannedChanges(ctx, &would)); err != nil {
		return err
	}
	warnf(l.IOStreams, "%s", planSummary(l.sourceName, would))
	return nil
}

// planSummary says what a load would do.
func planSummary(from string, w subtree.LoadResult) string {
	return fmt.Sprintf("of %s in %s, %d would be created, %d get other data and %d another access control list; %d others would be deleted, and %d left as they are",
		formatCount(w.Nodes+w.Skipped, "node", "nodes"), from, w.Created, w.Set, w.ACLs, w.Deleted, w.LeftAlone)
}

// plannedChanges yields the changes that the load would make, and then sets would.
func (l *loadJob) plannedChanges(ctx context.Context, would *subtree.LoadResult) iter.Seq2[changeRow, error] {
	return func(yield func(changeRow, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		how := l.options
		how.DryRun, how.OnBegin = true, func(subtree.Summary) {}
		how.OnChange = func(c subtree.Change) {
			if more && c.Action != "same" {
				more = yield(changeRow(c), nil)
			}
			if !more {
				stop()
			}
		}
		done, err := l.runLoad(ctx, how)
		switch {
		case !more:
		case err != nil:
			yield(changeRow{}, l.explainFailure(subtree.LoadResult{}, 0, err))
		default:
			*would = done
		}
	}
}

// planLoad returns what the load would do.
func (l *loadJob) planLoad(ctx context.Context) (subtree.LoadResult, error) {
	how := l.options
	how.DryRun, how.OnBegin, how.OnChange = true, func(subtree.Summary) {}, func(subtree.Change) {}
	done, err := l.runLoad(ctx, how)
	if err != nil {
		err = l.explainFailure(subtree.LoadResult{}, 0, err)
	}
	return done, err
}

// loadAndPrint loads, and prints what was done.
func (l *loadJob) loadAndPrint(ctx context.Context) error {
	progress := NewProgress(l.IOStreams, "nodes", 0)
	defer progress.Done()
	total, last := 0, ""
	how := l.options
	how.OnBegin = func(sum subtree.Summary) {
		total = sum.Count
		progress.SetTotal(sum.Count)
	}
	how.OnChange = func(c subtree.Change) {
		if c.Path != last { // a node can have two changes
			progress.Add(1)
		}
		last = c.Path
	}
	done, err := l.runLoad(ctx, how)
	progress.Done()
	if err != nil {
		return l.explainFailure(done, total, err)
	}
	return printRow(l.Output, loadedColumns, loadedRow(done))
}

// loadAdvice says what a user can do about an error of a load.
var loadAdvice = []struct {
	reason error
	text   string
}{
	{subtree.ErrExists, "--merge or --replace loads into what exists, and --into loads elsewhere"},
	{subtree.ErrIncomplete, "--merge deletes nothing"},
	{subtree.ErrHiddenDigests, "dump again with --auth of an administrator of these nodes, or give all nodes another list with --acl"},
	{subtree.ErrChecksum, "after an edit on purpose, --edited takes it"},
	{jute.NoNode, "rollcall create -p makes what is missing"},
	{jute.NoAuth, "a list that is loaded may keep you from making children: use --auth digest:super:PASSWORD"},
	{jute.Unimplemented, "nodes with a time to live need extendedTypesEnabled=true in the configuration of the servers"},
}

// explainFailure returns the error of a load that has done so much of so many nodes, with what the user can do.
func (l *loadJob) explainFailure(done subtree.LoadResult, total int, err error) error {
	for _, a := range loadAdvice {
		if errors.Is(err, a.reason) {
			err = fmt.Errorf("%w; %s", err, a.text)
		}
	}
	if errors.Is(err, jute.NoAuth) {
		err = fmt.Errorf("%w%s", err, l.noAuthAdvice)
	}
	if errors.Is(err, subtree.ErrExists) {
		err = WithStatus(Conflict, err)
	}
	switch {
	case errors.Is(err, context.Canceled): // not wrapped: it is a failure
		return fmt.Errorf("interrupted after %d of %d nodes; %s", done.Nodes, total, l.resumeAdvice)
	case done == (subtree.LoadResult{}):
		return fmt.Errorf("%w; nothing was changed", err)
	}
	return fmt.Errorf("after %d of %d nodes: %w; %s", done.Nodes, total, err, l.resumeAdvice)
}
