package served

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/operator/past"
	"rollcall/quorum/history"
)

// entriesPart is the number of bytes of entries that are read at a time.
const entriesPart = 1 << 20

// Files are the directories of a member, as a quorum.Past has them. It is safe for concurrent use.
type Files interface {
	// List lists what is kept, up to the last entry that was applied and is on the disk, and Source has the files, up to that entry.
	List() (history.Listing, error)
	Source() (history.Source, error)
	// ReadEntries reads such entries after an index, of mostBytes bytes or a little more. It returns none if there is none yet.
	ReadEntries(after uint64, mostBytes int) ([]*raft.Log, error)
	LastIndex() (uint64, error)
}

// KeptLog is the Log in the directories of a member.
type KeptLog struct{ Files }

// Chains implements Log.
func (k KeptLog) Chains(follow bool) (all []past.Chain, err error) {
	list, err := k.List()
	if err != nil {
		return nil, err
	}
	source, err := k.Source()
	if err != nil {
		return nil, err
	}
	var later past.LaterEntries // of the newest part alone: entries are missing after the others
	if follow {
		later = k.laterEntries
	}
	for i, span := range slices.Backward(list.Spans) {
		chain := past.Chain(past.NewKept(span, source, later))
		if later = nil; i < len(list.Spans)-1 {
			chain = past.BeforeGap(chain)
		}
		all = append(all, chain)
	}
	return all, nil
}

// laterEntries is a past.LaterEntries.
func (k KeptLog) laterEntries(ctx context.Context, after uint64) iter.Seq2[*raft.Log, error] {
	return func(yield func(*raft.Log, error) bool) {
		looks := time.NewTicker(pollInterval)
		defer looks.Stop()
		for {
			entries, err := k.ReadEntries(after, entriesPart)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range entries {
				if after = e.Index; !yield(e, nil) {
					return
				}
			}
			if len(entries) > 0 {
				continue
			}
			select {
			case <-looks.C:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}
