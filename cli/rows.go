package cli

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"rollcall/operator/api"
)

// maxSorted bounds the rows in memory for a sort. With --limit fewer are held.
const maxSorted = 200_000

// RowsOf yields rows that are there.
func RowsOf[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// failedRows yields an error only.
func failedRows[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(*new(T), err) }
}

// MapRows yields the results of change, up to the first error of rows.
func MapRows[T, U any](rows iter.Seq2[T, error], change func(T) U) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for row, err := range rows {
			if err != nil {
				yield(*new(U), err)
				return
			}
			if !yield(change(row), nil) {
				return
			}
		}
	}
}

// relativeRows makes the paths of rows, unless they are "", relative to the user's root.
func relativeRows[T any](a *adminCommand, rows iter.Seq2[T, error], path func(*T) *string) iter.Seq2[T, error] {
	space, err := a.ensemble.rootOnlySpace()
	if err != nil {
		return failedRows[T](err)
	}
	return MapRows(rows, func(row T) T {
		if at := path(&row); *at != "" {
			*at = space.RelativePath(*at)
		}
		return row
	})
}

// collectRows returns an empty slice, not nil, if there are no rows.
func collectRows[T any](rows iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// callbackRows yields the rows that run passes to its callback. It cancels run when no more are wanted.
func callbackRows[T any](ctx context.Context, run func(ctx context.Context, each func(T)) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		err := run(ctx, func(row T) {
			if more {
				more = yield(row, nil)
			}
			if !more {
				stop()
			}
		})
		if more && err != nil {
			yield(*new(T), err)
		}
	}
}

type rowOrder[T any] struct {
	compare func(a, b T) int
	reverse bool
}

// parseOrder parses --sort: a column name, with a minus in front for descending order. Columns that begin with the
// greatest do so without a minus, too: users look for the greatest.
func parseOrder[T any](columns []Column[T], by string) (rowOrder[T], error) {
	name, reverse := strings.CutPrefix(by, "-")
	var names []string
	for _, c := range columns {
		if c.Compare == nil {
			continue
		}
		if c.Name == name {
			return rowOrder[T]{c.Compare, reverse || c.GreatestFirst}, nil
		}
		names = append(names, c.Name)
	}
	return rowOrder[T]{}, UsageError.Errorf("--sort %.100q: must be one of %s", by, strings.Join(names, ", "))
}

// sortRows returns the first limit rows of the order; 0 means all. It holds at most twice the limit, or
// maxSorted rows without one. The sort is stable.
func (o rowOrder[T]) sortRows(rows iter.Seq2[T, error], limit int) ([]T, error) {
	var held []T
	sort := func() {
		slices.SortStableFunc(held, func(a, b T) int {
			if o.reverse {
				a, b = b, a
			}
			return o.compare(a, b)
		})
		if limit > 0 && len(held) > limit {
			clear(held[limit:])
			held = held[:limit]
		}
	}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		held = append(held, row)
		switch {
		case limit > 0 && len(held) >= 2*max(limit, alignRows):
			sort()
		case limit == 0 && len(held) > maxSorted:
			return nil, fmt.Errorf("there are more than %d rows, which is too many to sort; --limit N keeps only the first N "+
				"of the order", maxSorted)
		}
	}
	sort()
	return held, nil
}

// listRows lists a path below /v1/, at most limit rows; 0 means all. It prefetches one page, and warns of
// members that do not reply.
func listRows[T any](ctx context.Context, a *adminCommand, path string, query url.Values, limit int) iter.Seq2[T,
	error] {
	if limit > 0 && limit < api.PageRows {
		query.Set("limit", fmt.Sprint(limit))
	}
	return func(yield func(T, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		var c *api.Client
		var awaitPage func() (api.List[T], error)
		err := a.ensemble.callInEnsemble(ctx, func(admin *api.Client) error {
			c, awaitPage = admin, fetchPage[T](ctx, admin, path, query)
			_, err := awaitPage()
			return WithAdvice(err)
		})
		defer func() {
			if stop(); awaitPage != nil {
				_, _ = awaitPage() // no request stays under way
			}
		}()
		if err != nil {
			yield(*new(T), err)
			return
		}
		for n := 0; ; {
			page, err := awaitPage()
			if err != nil {
				yield(*new(T), WithAdvice(err))
				return
			}
			for _, s := range page.Silent {
				a.warnSilent(s)
			}
			if page.NextCursor != "" && page.NextCursor == query.Get("from") {
				yield(*new(T), fmt.Errorf("%s: the list does not go on after %.100q", c.Name(), page.NextCursor))
				return
			}
			if more := limit == 0 || n+len(page.Items) < limit; page.NextCursor != "" && more {
				query.Set("from", page.NextCursor)
				awaitPage = fetchPage[T](ctx, c, path, maps.Clone(query))
			}
			for _, row := range page.Items {
				if n++; !yield(row, nil) || n == limit {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
		}
	}
}

// fetchPage requests a page, and returns a function that waits for it.
func fetchPage[T any](ctx context.Context, c *api.Client, path string, query url.Values) (await func() (api.List[T], error)) {
	await = sync.OnceValues(func() (api.List[T], error) { return api.Get[api.List[T]](ctx, c, path, query) })
	go func() { _, _ = await() }()
	return await
}
