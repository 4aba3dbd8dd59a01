// Package history keeps what a member's log and snapshots no longer need for a start, and reads it.
//
//   - Keeper: keeps the files within limits, in a member that runs.
//   - List: what a member's directories have of the past.
//   - Chain: one continuous part of it, with its snapshots and every entry after the oldest of them.
//
// # What is kept
//
// A member moves a segment of its log to the directory history beside the log once no start needs it, and a snapshot to the
// directory history beside the snapshots (see disk.Retirement). Nothing else is recorded. The state at any moment is a
// snapshot and the entries after it, applied as members apply them.
//
//	history/0000000003-00000000000000000150.log       a segment as the log wrote it
//	history/0000000003-00000000000000000150.log.zst   the same, compressed: see compressedMagic
//	history/2-151-1764000000000/                      a snapshot; once compressed, its state is state.bin.zst
//
// # Why a chain has only committed entries
//
// A segment counts up to the entry that the header of the next one follows, by index and checksum, so what a deletion of the
// log's end replaced is not in a chain. The newest part ends at the entry that the member has applied. An earlier part, before a
// snapshot that was received, ends at the newest snapshot that the member took of its own state.
//
// # Crashes
//
// A file has its name in one directory, or in both, whole. It is compressed only once its move is durable. The compressed file has its
// name only once it is durable, and only then the other one goes. Files that are half made end in .tmp, and the next Keeper
// removes them.
package history

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rollcall/quorum/disk"
)

const (
	segmentSuffix    = ".log"
	compressedSuffix = ".zst"
	tmpSuffix        = ".tmp"
	fileMode         = 0o600
)

// Directories are the member's own directories: those that have the snapshots and the log. They may be the same.
type Directories struct {
	Data, Log string
}

// Snapshot is a snapshot of the past.
type Snapshot struct {
	Name        string
	Index, Term uint64 // of the last entry in it
	At          time.Time
	Bytes       int64 // of its state, not compressed
	Taken       bool  // of the member's own state
	Kept        bool  // no start needs it
}

// Segment is a part of a log.
type Segment struct {
	Name        string // of its file, not compressed
	Number      uint64 // in the log
	First, Last uint64 // the entries of it that count; Last is First-1 if there are none
	Bytes       int64  // of the records, not compressed; of the whole file if it is not compressed yet
	FileBytes   int64
	Kept        bool // no start needs it
	Compressed  bool
}

// Span is a part of the past without a gap. Its snapshots and segments are sorted, the oldest first.
type Span struct {
	Snapshots   []Snapshot
	Segments    []Segment
	First, Last uint64 // the entries that count
}

// Begins returns the index of the first state that can be built from the span: that of its oldest snapshot, or 0, the state
// before the first entry, if the span goes back to the beginning of the log. It returns false if none can.
func (s Span) Begins() (index uint64, ok bool) {
	switch {
	case s.First == 1:
		return 0, true
	case len(s.Snapshots) == 0:
		return 0, false
	}
	return s.Snapshots[0].Index, true
}

// addSnapshots adds those of all, which is sorted, that the span continues.
func (s *Span) addSnapshots(all []Snapshot) {
	for _, snapshot := range all {
		if snapshot.Index+1 >= s.First && snapshot.Index <= s.Last {
			s.Snapshots = append(s.Snapshots, snapshot)
		}
	}
}

// lastTaken returns the index of the newest snapshot that the member took itself, or 0.
func (s Span) lastTaken() uint64 {
	for _, snapshot := range slices.Backward(s.Snapshots) {
		if snapshot.Taken {
			return snapshot.Index
		}
	}
	return 0
}

// endAt ends the span with the entry of an index, and returns the segments after that.
func (s *Span) endAt(index uint64) (beyond []Segment) {
	s.Last = min(s.Last, index)
	count := len(s.Segments)
	for count > 0 && s.Segments[count-1].First > s.Last {
		count--
	}
	s.Segments, beyond = s.Segments[:count], s.Segments[count:]
	if count > 0 {
		s.Segments[count-1].Last = s.Last
	}
	s.Snapshots = slices.DeleteFunc(s.Snapshots, func(n Snapshot) bool { return n.Index > s.Last })
	return beyond
}

// path returns the file of a segment that is kept. logDir is that of Directories.
func (g Segment) path(logDir string) string {
	path := filepath.Join(logDir, disk.KeptDirName, g.Name)
	if g.Compressed {
		path += compressedSuffix
	}
	return path
}

func sortSnapshots(all []Snapshot) {
	slices.SortFunc(all, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Term, b.Term), strings.Compare(a.Name, b.Name))
	})
}

// segmentName returns the name of a segment whose file has a name, and reports whether it is compressed.
func segmentName(file string) (name string, compressed, ok bool) {
	name, compressed = strings.CutSuffix(file, compressedSuffix)
	return name, compressed, strings.HasSuffix(name, segmentSuffix)
}
