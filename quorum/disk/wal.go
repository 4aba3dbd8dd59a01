package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	walsegment "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	walfs "github.com/hashicorp/raft-wal/fs"

	"rollcall/internal/durable"
)

const (
	walName     = "wal" // directory of the segments
	walMetaName = metadb.FileName
	// walSegment is the default size of a segment, in bytes. An idle member takes that much disk space, and a
	// start rewrites it. Each time a segment is full, a write waits for a new file.
	walSegment = 16 << 20
)

// walFiles is a log in raft-wal, with term and votes in a BoltDB.
type walFiles struct {
	raft.LogStore
	raft.StableStore
	walLog   *walLog
	boltFile *boltFile
}

func (f *walFiles) Close() error { return errors.Join(f.walLog.Close(), f.boltFile.Close()) }

// openWAL opens the segments in dir, and makes dir if it does not exist. New segments have size bytes.
func openWAL(dir string, size int, hl hclog.Logger) (w *walLog, err error) {
	if err := os.Mkdir(dir, dirMode); err == nil {
		err = durable.SyncDirectory(filepath.Dir(dir))
		if err != nil {
			return nil, fmt.Errorf("quorum: open log: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("quorum: open log: %w", err)
	}
	files := newRemover(walfs.New(), hl)
	err = openCatchingDamage(dir, func() error {
		w, err = openSegments(dir, size, files, hl)
		if errors.Is(err, fs.ErrNotExist) { // a listed segment is missing
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	w.remover = files
	files.startBackground()
	return w, nil
}

// openSegments opens the segments and the mark in dir. New segments have size bytes.
func openSegments(dir string, size int, vfs types.VFS, hl hclog.Logger) (*walLog, error) {
	mark, err := openWALMark(dir)
	if err != nil {
		return nil, err
	}
	files := &walSegments{SegmentFiler: walsegment.NewFiler(dir, walFS{vfs}), mark: mark}
	meta := &walMeta{walSegments: files}
	w, err := wal.Open(dir, wal.WithSegmentSize(size), wal.WithSegmentFiler(files), wal.WithMetaStore(meta),
		wal.WithLogger(hl))
	if err != nil {
		return nil, errors.Join(err, meta.Close(), mark.Close())
	}
	s := &walLog{WAL: w, walDir: dir, walSegments: files}
	if err := readBothEnds(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// walLog is a log in raft-wal.
type walLog struct {
	*wal.WAL
	walDir      string
	walSegments *walSegments
	remover     *remover // nil until the log is open; tests that open segments themselves have none
}

// GetLog implements raft.LogStore. An entry that exists and cannot be read is damaged, unless the system gives
// another reason.
func (s *walLog) GetLog(index uint64, l *raft.Log) error {
	err := s.WAL.GetLog(index, l)
	switch {
	case err == nil, errors.Is(err, raft.ErrLogNotFound), errors.Is(err, wal.ErrClosed):
		return err
	case hasErrno(err):
		return fmt.Errorf("log %s: %w", s.walDir, err)
	}
	return fmt.Errorf("log %s is %w: %w", s.walDir, ErrDamaged, err)
}

func hasErrno(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

func (s *walLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. raft-wal begins a new segment in a goroutine of its own. If that fails, for
// instance because the disk is full, the next write finds only a sealed segment. StoreLogs then adds the reason to
// the error.
func (s *walLog) StoreLogs(logs []*raft.Log) error {
	err := s.WAL.StoreLogs(logs)
	if errors.Is(err, types.ErrSealed) {
		err = withReason(s.walSegments.newestCreateError(), err)
	}
	return err
}

func (s *walLog) Close() error {
	err := errors.Join(s.WAL.Close(), s.walSegments.mark.Close())
	if s.remover != nil {
		s.remover.Close()
	}
	return err
}

// walFS makes files that only their owner can read. A file's size is durable before it is written to. So a file
// with entries that is shorter than its initial size has lost its end.
type walFS struct{ types.VFS }

func (f walFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	file, err := f.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, name), fileMode), file.Sync()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
