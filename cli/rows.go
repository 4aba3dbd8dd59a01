package cli

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxSorted is how many rows a command holds in memory to sort them. With --limit it holds fewer.
const maxSorted = 200_000

// rowsOf yields the rows of a slice.
func rowsOf[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// rowOrder is a column by which rows are sorted.
type rowOrder[T any] struct {
	compare func(a, b T) int
	reverse bool
}

// parseOrder returns the order that --sort names: the name of a column, and a minus in front for the greatest
// first.
func parseOrder[T any](columns []Column[T], by string) (rowOrder[T], error) {
	name, reverse := strings.CutPrefix(by, "-")
	var names []string
	for _, c := range columns {
		if c.Compare == nil {
			continue
		}
		if c.Name == name {
			return rowOrder[T]{c.Compare, reverse}, nil
		}
		names = append(names, c.Name)
	}
	return rowOrder[T]{}, WithStatus(UsageError, fmt.Errorf("--sort %.100q: there are %s", by, strings.Join(names, ", ")))
}

// sortRows returns the first limit rows in this order; 0: all. It holds at most twice the limit in memory, and
// without a limit at most maxSorted rows. Rows that are equal stay as they came.
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
			return nil, fmt.Errorf("there are more than %d rows, which is too many to sort; --limit N keeps only the first N of the order", maxSorted)
		}
	}
	sort()
	return held, nil
}
