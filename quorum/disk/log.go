package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

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
}

func (f *logFiles) Close() error { return errors.Join(f.segments.Close(), f.bolt.Close()) }

// openLog opens the log in dir, with the term and the votes. New segments have at most size bytes, by default 16 MiB. A
// damaged file gives an error.
func openLog(dir string, size int, hl hclog.Logger) (*logFiles, error) {
	bolt, err := openOrCreateBolt(filepath.Join(dir, logName))
	if err != nil {
		return nil, err
	}
	l, err := openSegmentLog(filepath.Join(dir, logDirName), int64(cmp.Or(size, maxSegmentBytes)), hl)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return &logFiles{LogStore: l, StableStore: bolt, segments: l, bolt: bolt}, nil
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
	if _, err := readIdentity(dir); err != nil {
		return nil, err
	}
	return openLog(dir, 0, hclog.NewNullLogger())
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
