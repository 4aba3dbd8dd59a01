package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/operator/stateview"
	"rollcall/operator/view"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// pastSearch looks in the kept log of a member for what removed nodes and how sessions ended. All changes of the log pass it, so it
// finds more than a state remembers.
type pastSearch struct {
	*whyCommand
	isWanted func(*znode.Change) bool
	log      *past.Log // whose changes pass
	ends     []api.End // oldest first, the newest of them
	removals []api.Removal
	searched string // which logs, for users
}

// searchPast looks for the changes that isWanted selects, and says on stderr that it does. It returns an error that says which logs it
// could not read, and the result of those that it could read.
func (a *whyCommand) searchPast(ctx context.Context, isWanted func(*znode.Change) bool) (*pastSearch, error) {
	s := &pastSearch{whyCommand: a, isWanted: isWanted}
	warnf(a.streams, "the members do not remember it; searching the log that they keep")
	first, err := s.searchLog(ctx, past.Moment{})
	if err != nil || len(s.ends)+len(s.removals) > 0 {
		return s, err
	}
	// Another member, or an earlier part of the log, may reach back farther than the one that reaches up to now.
	kept, err := openKeptLog(ctx, a.ensemble, KeptLogPlace{}, past.AtZxid(1), false)
	if err != nil {
		return s, err
	}
	farther := kept.FirstIndex() < first
	if err := kept.Close(); err != nil || !farther {
		return s, err
	}
	_, err = s.searchLog(ctx, past.AtZxid(1))
	return s, err
}

// searchLog searches the log that reaches back to a moment, and returns the index of its first entry.
func (s *pastSearch) searchLog(ctx context.Context, from past.Moment) (first uint64, err error) {
	kept, err := openKeptLog(ctx, s.ensemble, KeptLogPlace{}, from, false)
	if err != nil {
		return 0, err
	}
	progress := NewProgress(s.streams, "entries", 0)
	s.log, err = past.OpenOldest(ctx, progressChain{kept, progress})
	if err == nil {
		s.searched = fmt.Sprintf("the log of %s after %v", kept.Origin, s.log.Point())
		if err = s.log.Advance(past.Moment{}, s.take); errors.Is(err, past.ErrGap) {
			err = nil // the newer part was searched before
		}
		s.log.Close()
		warnOfSkipped(s.streams, kept, s.log)
	}
	progress.Done()
	if err = errors.Join(err, kept.Close()); err != nil {
		return 0, explainMomentError(kept.Origin, err)
	}
	if len(s.ends)+len(s.removals) > 0 {
		warnf(s.streams, "from %s", s.searched)
	}
	return kept.FirstIndex(), nil
}

// take notes a change if it is wanted.
func (s *pastSearch) take(c *znode.Change) error {
	switch {
	case !s.isWanted(c):
	case c.End != nil:
		s.ends = appendNewest(s.ends, stateview.EndRow(*c.End), s.limit)
	case c.Kind == znode.NodeDeleted:
		row := stateview.ChangeRow(c)
		s.removals = appendNewest(s.removals, api.Removal{
			Path: row.Path, RemovedAt: row.At, Zxid: row.Zxid, Cause: row.Cause, SessionID: row.SessionID, Address: row.Address,
			MemberID: row.MemberID, End: s.endOf(c),
		}, s.limit)
	}
	return nil
}

// endOf returns the end of the session that took a node with it, or nil. Mostly it is the newest one.
func (s *pastSearch) endOf(c *znode.Change) *api.End {
	if c.Cause != znode.CauseSessionEnded {
		return nil
	}
	for end := range s.log.State().SessionEndsBefore(0) { // Advance holds the lock
		if end.Session == c.Session {
			row := stateview.EndRow(end)
			return &row
		}
	}
	return nil
}

// appendNewest appends a row, and drops the oldest one above a limit.
func appendNewest[T any](rows []T, row T, limit int) []T {
	if rows = append(rows, row); len(rows) > limit {
		rows = slices.Delete(rows, 0, 1)
	}
	return rows
}

// pastRemovals returns the removals at a path in the kept log, newest first. notFound is the error without any.
func (a *whyCommand) pastRemovals(ctx context.Context, full string, notFound error) ([]api.Removal, error) {
	s, err := a.searchPast(ctx, func(c *znode.Change) bool { return c.Kind == znode.NodeDeleted && c.Path == full })
	rows := a.relativeRemovals(s.removals)
	if len(rows) == 0 {
		return nil, s.notFoundError(notFound, err)
	}
	return rows, nil
}

// relativeRemovals returns the removals that are not older than --since, newest first, with paths relative to the user's root.
func (a *whyCommand) relativeRemovals(oldestFirst []api.Removal) []api.Removal {
	slices.Reverse(oldestFirst)
	rows, _ := newestRows(a, relativeRows(a.adminCommand, RowsOf(oldestFirst), func(r *api.Removal) *string { return &r.Path }), removedAt)
	return rows
}

// pastEnds returns the ends of sessions in the kept log, newest first: of the session or of the address that value is. notFound is the
// error without any.
func (a *whyCommand) pastEnds(ctx context.Context, parameter, value string, notFound error) ([]api.End, error) {
	isWanted := func(c *znode.Change) bool { return c.End != nil && view.NewClientFilter(value).Matches(c.End.Address) }
	if parameter == "session" {
		id, err := jute.ParseSessionID(value)
		if err != nil {
			return nil, WithStatus(UsageError, err)
		}
		isWanted = func(c *znode.Change) bool { return c.End != nil && c.End.Session == id }
	}
	s, err := a.searchPast(ctx, isWanted)
	slices.Reverse(s.ends)
	rows, _ := newestRows(a, RowsOf(s.ends), endedAt)
	if len(rows) == 0 {
		return nil, s.notFoundError(notFound, err)
	}
	return rows, nil
}

// notFoundError returns the error for what is in no log that was searched. failed is why one was not.
func (s *pastSearch) notFoundError(notFound, failed error) error {
	switch {
	case failed != nil && s.searched != "":
		return NotFound.Errorf("%w; nor is it in %s, and no other log was searched: %w", notFound, s.searched, failed)
	case failed != nil:
		return NotFound.Errorf("%w; the log that the members keep was not searched: %w", notFound, failed)
	}
	return NotFound.Errorf("%w; nor is it in %s", notFound, s.searched)
}
