package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"rollcall/operator/past"
	"rollcall/quorum/disk"
)

// Chain is a past.Chain of a span. Where several objects have an entry, it reads another one if the first is damaged or gone. It belongs
// to one goroutine.
type Chain struct {
	store Store
	log   *Log
	span  Span

	noteWhole func(name string) // called for each object that was read to its end and is sound; nil: no one wants it
}

// NewChain returns a Chain of a span of a log.
func NewChain(store Store, l *Log, s Span) *Chain { return &Chain{store: store, log: l, span: s} }

// Snapshots implements past.Chain. The names are those of the directories, and the bytes those of the objects, which are compressed.
func (c *Chain) Snapshots() (all []past.Snapshot) {
	for _, s := range c.span.states {
		all = append(all, past.Snapshot{Name: s.dir(), Index: s.index, Term: s.term, Bytes: s.bytes})
	}
	return all
}

// OpenSnapshot implements past.Chain.
func (c *Chain) OpenSnapshot(ctx context.Context, s past.Snapshot) (io.ReadCloser, error) {
	for _, candidate := range c.span.states {
		if candidate.dir() == s.Name {
			return openState(ctx, c.store, candidate)
		}
	}
	return nil, fmt.Errorf("archive: there is no snapshot %s", s.Name)
}

// FirstIndex implements past.Chain.
func (c *Chain) FirstIndex() uint64 { return c.span.First }

// Entries implements past.Chain.
func (c *Chain) Entries(ctx context.Context, after uint64) iter.Seq2[past.Entry, error] {
	return func(yield func(past.Entry, error) bool) {
		place, unusable, failed := c.placeOf(after), map[string]bool{}, error(nil)
		for place.Index < c.span.Last {
			r, found := c.log.nextRun(place, unusable)
			if !found && failed == nil {
				failed = fmt.Errorf("archive: %w: no object has entry %d", past.ErrDamaged, place.Index+1)
			}
			if !found {
				yield(past.Entry{}, failed)
				return
			}
			last, more, err := c.yieldRun(ctx, r, place, yield)
			switch place = last; {
			case !more:
				return
			case err != nil && !errors.Is(err, disk.ErrDamaged) && !errors.Is(err, fs.ErrNotExist):
				yield(past.Entry{}, err)
				return
			case err != nil:
				failed, unusable[r.name()] = err, true // another object may have the entries
			}
		}
	}
}

// yieldRun yields the entries of a run after a place. It returns the place of the last one that was yielded. more is false if the
// caller wants no more.
func (c *Chain) yieldRun(ctx context.Context, r run, place EntryID, yield func(past.Entry, error) bool) (last EntryID, more bool, err error) {
	for e, err := range readRun(ctx, c.store, r) {
		switch {
		case err != nil:
			return place, true, err
		case e.Index == place.Index && !IDOf(e).matches(place):
			return place, true, r.errorIn(c.store, fmt.Errorf("%w: its entry %d of term %d is not that of the objects before it, "+
				"of term %d", disk.ErrDamaged, e.Index, e.Term, place.Term))
		case e.Index <= place.Index:
			continue
		}
		if !yield(past.EntryOf(e), nil) {
			return place, false, nil
		}
		place = EntryID{Index: e.Index, Term: e.Term}
	}
	if c.noteWhole != nil {
		c.noteWhole(r.name())
	}
	return r.last, true, nil
}

// placeOf returns the place of an index.
func (c *Chain) placeOf(index uint64) EntryID {
	if index == 0 {
		return EntryID{}
	}
	for _, s := range c.span.states {
		if s.index == index {
			return EntryID{Index: index, Term: s.term}
		}
	}
	return EntryID{Index: index, Term: anyTerm}
}
