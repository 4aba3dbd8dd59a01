package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	walsegment "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// walList is the stored list of segments, in JSON: raft-wal's own list, with two more fields.
type walList struct {
	types.PersistentState
	// Durable is the last index that the last segment held when the list was written. It is 0 if
	// this process had not rewritten that segment. See walMark for later indexes.
	Durable uint64
	// Sum is the checksum of all other fields.
	Sum uint32
}

// checksum returns the checksum of the fields other than Sum.
func (l walList) checksum() (uint32, error) {
	l.Sum = 0
	text, err := json.Marshal(l)
	return crc32.Checksum(text, castagnoliTable), err
}

// walMeta is raft-wal's list of its segments, in the file in which raft-wal keeps it. Before
// raft-wal gets the list, walMeta compares the segments with it. It also rewrites the last segment,
// which a crash may have left incomplete, into a new file.
//
// This avoids three problems of raft-wal 0.4.2:
//
//   - It continues after the last whole batch in the file, and leaves later bytes as they are. If it
//     then writes a shorter batch, the next start reads those bytes as entries.
//   - It never adds another entry to a segment that is full but not yet listed as full, or to one whose
//     index was being written during the crash.
//   - It creates a listed file that is missing, as an empty one, and deletes every file that is not listed.
type walMeta struct {
	metadb.BoltMetaDB  // makes the file; not opened otherwise
	db                 *bbolt.DB
	walSegments        *walSegments
	rewrittenSegment   uint64 // number of the segment that this process has rewritten
	rewrittenLastIndex uint64 // the last index of that segment then; 0: none was rewritten
}

// Load implements types.MetaStore. raft-wal calls it once, when it opens.
func (m *walMeta) Load(dir string) (types.PersistentState, error) {
	list, err := m.openOrCreateList(dir)
	if err != nil {
		return list.PersistentState, fmt.Errorf("%s: %w", walMetaName, err)
	}
	state := list.PersistentState
	if err := m.checkListNotOutdated(dir, state); err != nil || len(state.Segments) == 0 {
		return state, err
	}
	tail := &state.Segments[len(state.Segments)-1]
	entries, err := m.readTail(dir, *tail, max(list.Durable, m.walSegments.mark.durableIndex(tail.ID)))
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil // listed, but a crash came before it was made: raft-wal makes it
	} else if err != nil {
		return state, fmt.Errorf("the last segment, %s: %w", walsegment.FileName(*tail), err)
	}
	if err := m.rewriteTail(&state, entries); err != nil {
		return state, fmt.Errorf("write the last segment anew: %w", err)
	}
	return state, m.CommitState(state)
}

// openOrCreateList opens the list's file in dir, or creates it, and returns the list.
func (m *walMeta) openOrCreateList(dir string) (list walList, err error) {
	path := filepath.Join(dir, walMetaName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := m.BoltMetaDB.Load(dir); err != nil {
			return list, err
		}
		if err := errors.Join(m.BoltMetaDB.Close(), os.Chmod(path, fileMode)); err != nil {
			return list, err
		}
	} else if err != nil {
		return list, err
	}
	if err := checkThenViewBolt(path, func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	}); err != nil {
		return list, err
	}
	if m.db, err = bbolt.Open(path, 0, boltOptions(0)); err != nil {
		return list, err
	}
	var text []byte
	err = m.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(metadb.MetaBucket))
		if b == nil {
			return fmt.Errorf("%w: it has no list of segments", ErrDamaged)
		}
		text = append(text, b.Get([]byte(metadb.MetaKey))...)
		return nil
	})
	if err != nil || len(text) == 0 {
		return list, err
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return list, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if sum, err := list.checksum(); err != nil || sum != list.Sum {
		return list, errors.Join(fmt.Errorf("%w: the checksum of the list of segments is wrong", ErrDamaged), err)
	}
	return list, nil
}

// checkListNotOutdated returns an error if the list is older than the files and the mark, because raft-wal would
// delete the files that it does not name.
func (m *walMeta) checkListNotOutdated(dir string, state types.PersistentState) error {
	found, err := m.walSegments.List()
	if err != nil {
		return err
	}
	var known error
	for id, base := range found {
		if id > state.NextSegmentID || len(state.Segments) == 0 {
			known = fmt.Errorf("%w: %s does not know of %s", ErrDamaged, filepath.Join(dir, walMetaName),
				walsegment.FileName(types.SegmentInfo{ID: id, BaseIndex: base}))
		}
	}
	if known == nil && !m.walSegments.mark.isBelow(state.NextSegmentID) {
		known = fmt.Errorf("%w: %s does not know of a segment that %s names", ErrDamaged, filepath.Join(dir, walMetaName),
			walMarkName)
	}
	return known
}

// readTail returns the entries of the last segment. If the file ends before durable, the last durable index that
// is known, it is damaged.
func (m *walMeta) readTail(dir string, info types.SegmentInfo, durable uint64) ([]types.LogEntry, error) {
	if !info.SealTime.IsZero() {
		return nil, fmt.Errorf("%w: no segment is open", types.ErrCorrupt)
	}
	old, err := m.walSegments.RecoverTail(info)
	if errors.Is(err, fs.ErrNotExist) && durable > 0 {
		return nil, fmt.Errorf("%w: the file is gone; it held entries up to %d", ErrDamaged, durable)
	} else if err != nil {
		return nil, err
	}
	last := old.LastIndex()
	entries, err := readSegment(filepath.Join(dir, walsegment.FileName(info)), info, last, durable > 0)
	if err == nil && last < durable {
		err = fmt.Errorf("%w: it ends with entry %d, and was durable up to entry %d", ErrDamaged, last, durable)
	}
	return entries, errors.Join(err, old.Close())
}

// rewriteTail writes the entries of the last segment into a new segment, which replaces it in state. raft-wal
// deletes the old file when it opens, because it is not listed.
func (m *walMeta) rewriteTail(state *types.PersistentState, entries []types.LogEntry) error {
	tail := &state.Segments[len(state.Segments)-1]
	tail.ID, tail.BaseIndex = allocateSegmentID(state), tail.MinIndex
	if err := m.walSegments.Delete(tail.BaseIndex, tail.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by a start that was killed right here
	}
	fresh, err := m.walSegments.SegmentFiler.Create(*tail) // not recorded in the mark, because it is not listed yet
	if err != nil {
		return err
	}
	full, index, err := fillSegment(fresh, entries)
	if err := errors.Join(err, fresh.Close()); err != nil || len(entries) == 0 {
		return err
	}
	last := entries[len(entries)-1].Index
	m.rewrittenSegment, m.rewrittenLastIndex = tail.ID, last
	if !full {
		return nil
	}
	tail.SealTime, tail.IndexStart, tail.MaxIndex = time.Now(), index, last
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: allocateSegmentID(state), BaseIndex: last + 1, MinIndex: last + 1,
		SizeLimit: tail.SizeLimit, Codec: tail.Codec, CreateTime: time.Now(),
	})
	return nil
}

// fillSegment appends entries to an empty segment. It reports whether the segment is then full, and the position
// of its index in that case.
func fillSegment(w types.SegmentWriter, entries []types.LogEntry) (full bool, index uint64, err error) {
	if err := w.Append(withChecksums(entries)); err != nil {
		return false, 0, err
	}
	return w.Sealed()
}

// allocateSegmentID allocates the number of the next segment.
func allocateSegmentID(state *types.PersistentState) uint64 {
	state.NextSegmentID++
	return state.NextSegmentID - 1
}

func (m *walMeta) CommitState(state types.PersistentState) error {
	list := walList{PersistentState: state}
	if n := len(state.Segments); m.rewrittenLastIndex > 0 && n > 0 && state.Segments[n-1].ID == m.rewrittenSegment {
		list.Durable = m.rewrittenLastIndex
	}
	var err error
	if list.Sum, err = list.checksum(); err != nil {
		return err
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	err = m.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(metadb.MetaBucket)).Put([]byte(metadb.MetaKey), text)
	})
	return m.walSegments.noteCreateError(err)
}

func (m *walMeta) Close() error {
	if m.db == nil {
		return nil
	}
	db := m.db
	m.db = nil
	return db.Close()
}
