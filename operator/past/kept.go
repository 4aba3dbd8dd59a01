package past

import (
	"context"
	"io"
	"iter"

	"github.com/hashicorp/raft"

	"rollcall/quorum/history"
)

// Kept is a Chain of what a member keeps.
type Kept struct {
	span   history.Span
	reader *history.Chain
	later  LaterEntries
}

// LaterEntries yields the committed entries after an index, in order and without a gap, and waits for more until ctx ends. An error is
// the last that it yields.
type LaterEntries func(ctx context.Context, after uint64) iter.Seq2[*raft.Log, error]

// NewKept returns a Chain of a span, whose files source has. With later, which may be nil, its entries go on after the end of the
// span.
func NewKept(s history.Span, source history.Source, later LaterEntries) *Kept {
	return &Kept{s, history.NewChain(s, source), later}
}

// Snapshots implements Chain.
func (k *Kept) Snapshots() (all []Snapshot) {
	for _, s := range k.span.Snapshots {
		all = append(all, Snapshot{Name: s.Name, Index: s.Index, Term: s.Term, Bytes: s.Bytes})
	}
	return all
}

// OpenSnapshot implements Chain.
func (k *Kept) OpenSnapshot(ctx context.Context, s Snapshot) (io.ReadCloser, error) {
	return k.reader.OpenSnapshot(ctx, history.Snapshot{Name: s.Name, Index: s.Index, Term: s.Term, Bytes: s.Bytes})
}

// FirstIndex implements Chain.
func (k *Kept) FirstIndex() uint64 { return k.span.First }

// Entries implements Chain.
func (k *Kept) Entries(ctx context.Context, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range k.reader.Entries(ctx, after) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if after = e.Index; !yield(EntryOf(e), nil) {
				return
			}
		}
		if k.later == nil {
			return
		}
		for e, err := range k.later(ctx, after) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(EntryOf(e), nil) {
				return
			}
		}
	}
}

// EntryOf returns an entry of raft in the form that a Chain yields.
func EntryOf(e *raft.Log) Entry {
	made := Entry{Index: e.Index, Term: e.Term}
	if e.Type == raft.LogCommand && len(e.Data) > 0 {
		made.Data = e.Data
	}
	return made
}
