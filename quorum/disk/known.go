package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A log that was put back from a copy looks whole. So what lies outside of it says which log it is, and how far that was:
//
//   - raft.db has the log's end in the value of the term, since the last start or change of the term, in the same transaction.
//   - The mark log.durable in the data directory has it since the last start, new segment or stop.
//   - Each snapshot has it since it was stored.
//
// Each is written once what it says is durable, so the log never ends before any of them: a crash may leave them older,
// which does no harm. A start counts itself in the log's own mark first, then in raft.db, and then in log.durable, each
// durably before the next. So the log's mark, raft.db and all others have starts in this order, and a copy of one of them
// from before the last start is of an earlier start than those that follow it. If all are copies of one day, nothing shows.

// newestSnapshotIn returns the highest index of a snapshot in dir, readable or not. It is 0 if there is none.
func newestSnapshotIn(dir string) (newest uint64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, index, ok := parseSnapshotName(e.Name()); ok {
			newest = max(newest, index)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return newest, err
}

// outsideMarkName is the mark of the log in the data directory.
const outsideMarkName = "log.durable"

// knownEnd is what a file outside of a log says of it.
type knownEnd struct {
	logEnd
	source string // the file, for errors
}

// putBackAdvice follows the error for a log that does not fit what is known of it.
const putBackAdvice = "if it was put back from a copy, put back what was there before"

// addKnown adds what a BoltDB says of the log to what other files say, and compares its own start with theirs. whole says that
// the directory was complete.
func (f *boltFile) addKnown(known []knownEnd, whole bool) ([]knownEnd, error) {
	value := f.values[string(keyTerm)]
	if len(value) <= termSize {
		if whole {
			return nil, fmt.Errorf("%w: it does not say which log it belongs to", ErrDamaged)
		}
		return known, nil
	}
	end, err := decodeLogEnd(value[termSize:])
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		switch {
		case k.logID != end.logID:
			return nil, fmt.Errorf("%w: it belongs to another log than %s; %s", ErrDamaged, k.source, putBackAdvice)
		case k.start > end.start:
			return nil, fmt.Errorf("%w: it is an older copy, of start %d of this member, and %s is of start %d; %s", ErrDamaged,
				end.start, k.source, k.start, putBackAdvice)
		}
	}
	return append([]knownEnd{{end, f.path}}, known...), nil
}

// termSize is the size of a term in the stable store, in bytes. In a BoltDB the end of the log follows.
const termSize = 8

// SetUint64 implements raft.StableStore. With the term it stores the end of the log.
func (f *logFiles) SetUint64(k []byte, v uint64) error {
	b := binary.BigEndian.AppendUint64(nil, v)
	if bytes.Equal(k, keyTerm) {
		b = append(b, f.segments.durableEnd().encode()...)
	}
	return f.bolt.Set(k, b)
}

// noteStart stores the end of the log outside of it, once the log's own mark has counted the start.
func (f *logFiles) noteStart() error {
	term, err := f.bolt.GetUint64(keyTerm)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	if err := f.SetUint64(keyTerm, term); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	if err := f.outside.record(f.segments.durableEnd(), true); err != nil {
		return fmt.Errorf("quorum: write the mark of the log: %w", err)
	}
	return nil
}

// knownEnds returns what the snapshots say of the log. A snapshot without metadata says nothing.
func (s *snapshotFiles) knownEnds() (known []knownEnd, err error) {
	all, err := s.listSound()
	for _, m := range all {
		if len(m.Log) == 0 {
			continue
		}
		path := filepath.Join(s.dir, m.ID, metaFile)
		end, derr := decodeLogEnd(m.Log)
		if derr != nil {
			return nil, fmt.Errorf("%s: %w", path, derr)
		}
		known = append(known, knownEnd{end, path})
	}
	return known, err
}

// isTaken reports whether this member has taken a snapshot of its own state. It reports false for stores that are not files.
func (s Stores) isTaken(id string) bool {
	files, ok := s.Snapshots.(*snapshotFiles)
	if !ok || id == "" {
		return false
	}
	m, err := files.readMeta(id)
	return err == nil && m.Taken
}
