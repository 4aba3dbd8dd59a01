package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// logFiles are the open files of a log, and of the term and the votes.
type logFiles struct {
	raft.LogStore
	raft.StableStore
	segments *segmentLog
	bolt     *boltFile
	outside  logMark // the mark in the data directory: see knownEnd
}

// openLog opens the log in dir, with the term and the votes. New segments have at most size bytes, by default 16 MiB. A
// damaged file gives an error, and so does a log that is not the one of which raft.db, the mark in dataDir, or how.known have
// the end.
func openLog(dir, dataDir string, size int, how logOpening, hl hclog.Logger) (f *logFiles, err error) {
	f = &logFiles{}
	if f.outside, err = openLogMark(filepath.Join(dataDir, outsideMarkName), how.whole); err != nil {
		return nil, fmt.Errorf("quorum: log: %w", err)
	}
	if err = f.open(dir, size, how, hl); err == nil && how.starts {
		err = f.noteStart()
	}
	if err != nil {
		return nil, errors.Join(err, f.closeFiles())
	}
	return f, nil
}

func (f *logFiles) open(dir string, size int, how logOpening, hl hclog.Logger) (err error) {
	path := filepath.Join(dir, logName)
	if f.bolt, err = openOrCreateBolt(path, how.whole); err != nil {
		return err
	}
	f.StableStore = f.bolt
	known := slices.Clone(how.known)
	if how.newest, err = newestSnapshotIn(filepath.Join(filepath.Dir(f.outside.path), snapshotsDir)); err != nil {
		return fmt.Errorf("quorum: list snapshots: %w", err)
	}
	if f.outside.file != nil {
		known = append(known, knownEnd{f.outside.logEnd, f.outside.path})
	}
	if how.known, err = f.bolt.addKnown(known, how.whole); err != nil {
		return fmt.Errorf("quorum: log %s: %w", path, err)
	}
	if f.segments, err = openSegmentLog(filepath.Join(dir, logDirName), int64(cmp.Or(size, maxSegmentBytes)), how, hl); err != nil {
		return err
	}
	f.LogStore = f.segments
	f.segments.onBegin = func(end logEnd) error { return f.outside.record(end, false) }
	return nil
}

// Close records the end of the log in the data directory, and closes the files.
func (f *logFiles) Close() error {
	return errors.Join(f.outside.record(f.segments.durableEnd(), false), f.closeFiles())
}

// closeFiles closes those of the files that are open.
func (f *logFiles) closeFiles() error {
	err := f.outside.Close()
	if f.segments != nil {
		err = errors.Join(err, f.segments.Close())
	}
	if f.bolt != nil {
		err = errors.Join(err, f.bolt.Close())
	}
	return err
}

// LogReader is a read-only log.
type LogReader interface {
	FirstIndex() (uint64, error) // 0: there is none
	LastIndex() (uint64, error)
	GetLog(index uint64, l *raft.Log) error
	Close() error
}

// OpenLogReader opens the log in a data directory that no member uses. Like a start, it removes an incomplete
// write that a crash has left. The log must be in the data directory.
func OpenLogReader(dir string) (LogReader, error) {
	dir, err := MemberDirectory(dir)
	if err != nil {
		return nil, err
	}
	id, err := readIdentity(dir)
	if err != nil {
		return nil, err
	}
	return openLog(dir, dir, 0, logOpening{whole: id.LogCreated}, hclog.NewNullLogger())
}

// boltOptions returns bbolt's options. The list of free pages is not written: opening rebuilds it from the used pages.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: boltLockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true}
}

// openCatchingDamage opens a BoltDB, and returns an error if bbolt panics or reads beyond its mapping because the file is
// damaged.
func openCatchingDamage(path string, open func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("quorum: log %s is %w: %v", path, ErrDamaged, p)
		}
	}()
	err = open()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("quorum: log %s: %w", path, ErrInUse)
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("quorum: log %s: %w", path, err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist), isDiskFull(err):
		return fmt.Errorf("quorum: open log: %w", err)
	}
	return fmt.Errorf("quorum: log %s is %w: %w", path, ErrDamaged, err)
}
