package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	walfs "github.com/hashicorp/raft-wal/fs"
)

const (
	walName     = "wal" // folder of the segments
	walMetaName = metadb.FileName
	// walSegment is the size of a segment, in bytes: the disk that an idle member takes, and
	// what is written anew at its start. With the next one a write waits for a new file.
	walSegment = 16 << 20
)

// walFiles is a log in raft-wal, with term and votes in a BoltDB.
type walFiles struct {
	raft.LogStore
	raft.StableStore
	wal  *wal.WAL
	bolt *raftboltdb.BoltStore
}

func (f *walFiles) Close() error { return errors.Join(f.wal.Close(), f.bolt.Close()) }

// openWAL opens the segments in dir, which it makes if need be.
func openWAL(dir string, hl hclog.Logger) (w *wal.WAL, err error) {
	if err := os.Mkdir(dir, 0o750); err == nil {
		err = syncDir(filepath.Dir(dir))
		if err != nil {
			return nil, fmt.Errorf("quorum: open log: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("quorum: open log: %w", err)
	}
	err = careful(dir, func() error {
		files := &walSegments{segment.NewFiler(dir, walfs.New())}
		meta := &walMeta{files: files}
		w, err = wal.Open(dir, wal.WithSegmentSize(walSegment), wal.WithSegmentFiler(files), wal.WithMetaStore(meta), wal.WithLogger(hl))
		if err == nil {
			if err = probe(w); err == nil {
				return nil
			}
			err = errors.Join(err, w.Close())
		} else {
			err = errors.Join(err, meta.Close())
		}
		if errors.Is(err, os.ErrNotExist) { // a segment that is listed
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// walMeta is raft-wal's list of its segments. Before raft-wal sees it, the last segment,
// which a crash may have left half written, is written anew into a file of its own.
//
// raft-wal 0.4.2 goes on behind the last whole batch in the file, and leaves what lies behind
// as it is: with a shorter batch in front of it, the next start takes those bytes for
// entries. And a segment that is full, but not yet listed so, or that was torn while its
// index was written, takes no entry ever again.
type walMeta struct {
	metadb.BoltMetaDB
	files types.SegmentFiler
}

// Load implements types.MetaStore. raft-wal calls it once, when it opens.
func (m *walMeta) Load(dir string) (types.PersistentState, error) {
	state, err := m.BoltMetaDB.Load(dir)
	if err != nil || len(state.Segments) == 0 {
		return state, err
	}
	tail := &state.Segments[len(state.Segments)-1]
	if !tail.SealTime.IsZero() {
		return state, fmt.Errorf("%w: no segment is open", types.ErrCorrupt)
	}
	old, err := m.files.RecoverTail(*tail)
	if errors.Is(err, os.ErrNotExist) {
		return state, nil // listed, and not made before a crash: raft-wal makes it
	} else if err != nil {
		return state, err
	}
	entries, err := readSegment(filepath.Join(dir, segment.FileName(*tail)), *tail, old.LastIndex())
	if err == nil {
		err = m.rewrite(&state, entries)
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return state, fmt.Errorf("the last segment: %w", err)
	}
	return state, m.CommitState(state)
}

// rewrite puts entries, which are those of the last segment, into a new one, which takes its
// place in state. A file that is not listed goes when raft-wal opens.
func (m *walMeta) rewrite(state *types.PersistentState, entries []types.LogEntry) error {
	tail := &state.Segments[len(state.Segments)-1]
	tail.ID, tail.BaseIndex = m.next(state), tail.MinIndex
	if err := m.files.Delete(tail.BaseIndex, tail.ID); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // of a start that was killed right here
	}
	fresh, err := m.files.Create(*tail)
	if err != nil {
		return err
	}
	full, index := false, uint64(0)
	err = fresh.Append(entries)
	if err == nil {
		full, index, err = fresh.Sealed()
	}
	if err := errors.Join(err, fresh.Close()); err != nil || !full {
		return err
	}
	last := entries[len(entries)-1].Index
	tail.SealTime, tail.IndexStart, tail.MaxIndex = time.Now(), index, last
	state.Segments = append(state.Segments, types.SegmentInfo{
		ID: m.next(state), BaseIndex: last + 1, MinIndex: last + 1,
		SizeLimit: tail.SizeLimit, Codec: tail.Codec, CreateTime: time.Now(),
	})
	return nil
}

// next takes the number of the next segment.
func (m *walMeta) next(state *types.PersistentState) uint64 {
	state.NextSegmentID++
	return state.NextSegmentID - 1
}
