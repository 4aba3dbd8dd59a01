package archive

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
)

// stampedBytes is the length of the entries after the archive's end in which a stamp is looked for. Those without one are raft's own, at
// the beginning of a term, and have a few bytes.
const stampedBytes = 16 << 10

// noteOldestWaiting notes the stamp of the first entry that is not in the archive: a new leader continues to count its age where the former
// one ended.
func (s *Sender) noteOldestWaiting(ctx context.Context) error {
	entries, err := s.readAfter(ctx, s.position.Index, stampedBytes)
	if err != nil {
		return err
	}
	if at := firstStamp(slices.All(entries)); at != 0 && at < s.stats.completeAsOf.Load() {
		s.stats.completeAsOf.Store(at)
	}
	return nil
}

// firstStamp returns the stamp of the first entry that has one, in ns since 1970, or 0.
func firstStamp(entries iter.Seq2[int, *raft.Log]) int64 {
	for _, e := range entries {
		if e.Type != raft.LogCommand {
			continue
		}
		if content, err := proto.UnmarshalEntry(e.Data); err == nil && content.GetTimeMs() != 0 {
			return time.UnixMilli(content.GetTimeMs()).UnixNano()
		}
	}
	return 0
}
