package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// LogKind is the format of a member's log. Terms and votes are in BoltDB in any case. The kind of a directory
// never changes.
type LogKind string

const (
	LogBolt LogKind = "boltdb" // one file, raft.db
	LogWAL  LogKind = "wal"    // files of 16 MiB in the directory wal, next to raft.db

	DefaultLogKind = LogWAL
)

func (k LogKind) IsKnown() bool { return k == LogBolt || k == LogWAL }

// requiredFiles returns the files, relative to the log's directory, without which a log counts as missing.
func (k LogKind) requiredFiles() []string {
	if k == LogWAL {
		return []string{logName, filepath.Join(walName, walMetaName)}
	}
	return []string{logName}
}

// logFiles is an open log, with the term and the votes.
type logFiles interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// openLog opens the log in dir. New segments of raft-wal have size bytes. A damaged file gives an error.
func openLog(kind LogKind, dir string, size int, hl hclog.Logger) (logFiles, error) {
	bolt, err := openOrCreateBolt(filepath.Join(dir, logName), map[LogKind]int{LogBolt: boltMapSize}[kind])
	if err != nil {
		return nil, err
	} else if kind == LogBolt {
		return bolt, nil
	}
	w, err := openWAL(filepath.Join(dir, walName), size, hl)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return &walFiles{LogStore: w, StableStore: bolt, walLog: w, boltFile: bolt}, nil
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
	return openLog(id.LogKind, dir, walSegment, hclog.NewNullLogger())
}

// boltMapSize is the initial mapping of a BoltDB, in bytes: more than the log takes between snapshots. To map the
// file again, a write has to wait for all reads.
const boltMapSize = 1 << 30

// boltOptions returns bbolt's options. The list of free pages is a map and is not written. After the log has been
// shortened the list is long, and every write would include all of it. Opening rebuilds it from the used pages.
func boltOptions(mapped int) *bbolt.Options {
	return &bbolt.Options{
		Timeout: boltLockTimeout, InitialMmapSize: mapped,
		FreelistType: bbolt.FreelistMapType, NoFreelistSync: true,
	}
}

// openCatchingDamage opens a log, and returns an error if bbolt panics or reads beyond its mapping because the file is
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

// readBothEnds reads the first and the last entry of the log, as raft will.
func readBothEnds(s raft.LogStore) error {
	for _, end := range []func() (uint64, error){s.FirstIndex, s.LastIndex} {
		i, err := end()
		if err == nil && i > 0 {
			err = s.GetLog(i, new(raft.Log))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
