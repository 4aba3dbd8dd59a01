// Package past builds the replicated state of an ensemble as it was at a moment, from a kept log, and reports the changes from
// one moment to another. It applies the log with the code that members run (package znode).
//
//   - Chain: one member's kept log, or a copy of it.
//   - Moment: a zxid, a time, or the newest state of a chain.
//   - Log: the state built from a chain, which can move on to a later moment and report the changes on the way.
//   - NodeClient: the nodes of a state, for package subtree.
//
// # Moments
//
// A zxid is exact: the state after the transaction that took it. Entries carry the clock of the leader that made them, and
// clocks can step back. The state at a time T is therefore defined as that before the first entry whose stamp is after T. The
// order of the log is that of the zxids; a time only finds a place in it.
//
// # Damage
//
// Snapshots and files have checksums of their own. Besides, a Log checks that the indexes of the entries have no gap, and
// where it passes a later snapshot of the chain, that it has the digest of its own state.
//
// A snapshot that is damaged, or that was removed after the chain was listed, is left out: an older one and the entries after it give
// the same states. Log.NewlySkipped names it. An entry that is damaged or gone is an error.
package past

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"rollcall/znode"
)

// Chain is one member's kept log: snapshots, and every entry after the oldest of them.
type Chain interface {
	// Snapshots returns the kept snapshots, oldest first.
	Snapshots() []Snapshot
	// OpenSnapshot returns the bytes that znode.State.RestoreSnapshot reads. The caller closes it, also before its end.
	OpenSnapshot(ctx context.Context, s Snapshot) (io.ReadCloser, error)
	// Entries yields the committed entries with an index above after, in order and without a gap. An error is the last that
	// it yields. It ends at the newest committed entry that the chain has, unless the chain follows a running ensemble: then
	// it waits for more entries until ctx ends, and its last error is that of ctx.
	Entries(ctx context.Context, after uint64) iter.Seq2[Entry, error]
	// FirstIndex returns the index of the first kept entry. If it is 1, the chain reaches back to the beginning of the
	// ensemble, and no snapshot is needed before it.
	FirstIndex() uint64
}

// Snapshot is a snapshot of a chain. Name is the chain's own.
type Snapshot struct {
	Name        string
	Index, Term uint64 // of the last entry of the log before the snapshot
	Bytes       int64  // 0 if unknown
}

// Entry is a committed entry of the log.
type Entry struct {
	Index, Term uint64
	Data        []byte // an encoded proto.Entry; nil for an entry of raft's own
}

// Point is a place in the log, after an entry or after a transaction within it.
type Point struct {
	Zxid  int64     // of the last transaction that took one; 0 if none has
	Index uint64    // of the last entry
	Time  time.Time // its stamp, by its leader's clock; zero if no entry has one
}

func pointOf(zxid int64, index uint64, ms int64) Point {
	p := Point{Zxid: zxid, Index: index}
	if ms != 0 {
		p.Time = time.UnixMilli(ms).UTC()
	}
	return p
}

func pointOfHead(h znode.ImageHead) Point { return pointOf(h.Zxid, h.Index, h.TimeMs) }

// String returns the zxid, the time and the index.
func (p Point) String() string {
	at := "before the first entry with a time"
	if !p.Time.IsZero() {
		at = p.Time.Format(timeFormat)
	}
	return fmt.Sprintf("zxid 0x%x (%s, index %d)", uint64(p.Zxid), at, p.Index)
}

// timeFormat is RFC 3339 with the milliseconds that stamps have.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"
