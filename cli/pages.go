package cli

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/url"

	"rollcall/operator/api"
)

// listRows returns the rows of the list at path below /v1/, of at most limit rows; 0: of all. It holds two pages:
// while the rows of one are used, the next is on its way. Members that do not answer are warned of.
func listRows[T any](ctx context.Context, a *adminCommand, path string, query url.Values, limit int) (iter.Seq2[T, error], error) {
	c, err := a.AdminClient(ctx)
	if err != nil {
		return nil, err
	}
	if limit > 0 && limit < api.PageRows {
		query.Set("limit", fmt.Sprint(limit))
	}
	return func(yield func(T, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		coming := fetchPage[T](ctx, c, path, query)
		defer func() {
			stop()
			<-coming.fetched
		}()
		for n := 0; ; {
			<-coming.fetched
			page, err := coming.page, coming.err
			if err != nil {
				yield(*new(T), WithAdvice(err))
				return
			}
			for _, s := range page.Silent {
				a.warnSilent(s)
			}
			if page.NextCursor != "" && page.NextCursor == query.Get("from") {
				yield(*new(T), fmt.Errorf("%s: the list does not go on after %.100q", c.BaseURL, page.NextCursor))
				return
			}
			if more := limit == 0 || n+len(page.Items) < limit; page.NextCursor != "" && more {
				query.Set("from", page.NextCursor)
				coming = fetchPage[T](ctx, c, path, maps.Clone(query))
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
	}, nil
}

// pendingPage is a page that has been asked for. It is there when over is closed.
type pendingPage[T any] struct {
	fetched chan struct{}
	page    api.List[T]
	err     error
}

func fetchPage[T any](ctx context.Context, c *api.Client, path string, query url.Values) *pendingPage[T] {
	p := &pendingPage[T]{fetched: make(chan struct{})}
	go func() {
		defer close(p.fetched)
		p.page, p.err = api.Get[api.List[T]](ctx, c, path, query)
	}()
	return p
}
