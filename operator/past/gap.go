package past

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ErrGap means that entries are missing after those of a chain, so nothing is known of what came next.
var ErrGap = errors.New("past: entries of the log are missing")

// BeforeGap returns a chain that a later part of the log follows after a gap: its entries end with an error that wraps ErrGap. So a time
// within the gap has no state, and a list of changes does not end as if there were no more.
func BeforeGap(c Chain) Chain { return beforeGap{c} }

type beforeGap struct{ Chain }

// Entries implements Chain.
func (b beforeGap) Entries(ctx context.Context, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range b.Chain.Entries(ctx, after) {
			if !yield(e, err) || err != nil {
				return
			}
			after = e.Index
		}
		yield(Entry{}, fmt.Errorf("%w after entry %d, up to a later snapshot", ErrGap, after))
	}
}
