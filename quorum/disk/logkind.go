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

// LogKind says what a member keeps its log in. Terms and votes lie in BoltDB in any case. A
// folder keeps its kind for life.
type LogKind string

const (
	LogBolt LogKind = "boltdb" // one file, raft.db
	LogWAL  LogKind = "wal"    // files of 16 MiB in the folder wal, beside raft.db

	// DefaultLogKind is that of a new folder.
	DefaultLogKind = LogWAL
)

// Known reports whether there is such a kind.
func (k LogKind) Known() bool { return k == LogBolt || k == LogWAL }

// files are those without which a log of this kind is gone, below its folder.
func (k LogKind) files() []string {
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

// openLog opens the log in dir. That the files are damaged is an error, whatever they hold.
func openLog(kind LogKind, dir string, hl hclog.Logger) (logFiles, error) {
	bolt, err := openBolt(filepath.Join(dir, logName), map[LogKind]int{LogBolt: boltMap}[kind])
	if err != nil {
		return nil, err
	} else if kind == LogBolt {
		return bolt, nil
	}
	w, err := openWAL(filepath.Join(dir, walName), hl)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return &walFiles{LogStore: w, StableStore: bolt, wal: w, bolt: bolt}, nil
}

// LogReader is a log that is only read.
type LogReader interface {
	FirstIndex() (uint64, error) // 0: there is none
	LastIndex() (uint64, error)
	GetLog(index uint64, l *raft.Log) error
	Close() error
}

// ReadLog opens the log in a data folder that no member uses, as a start would: the end of a write
// that a crash tore is removed. The log must not lie apart from the data.
func ReadLog(dir string) (LogReader, error) {
	dir, err := OwnFolder(dir)
	if err != nil {
		return nil, err
	}
	id, err := readIdentity(dir)
	if err != nil {
		return nil, err
	}
	return openLog(id.Store, dir, hclog.NewNullLogger())
}

// boltMap is how much address space a BoltDB takes at once, in bytes: more than the log has
// between snapshots. To map the file anew, a write waits for all reads.
const boltMap = 1 << 30

// boltOptions: the list of free pages is kept as a map, and not written: after the log has been
// shortened it is long, and every write would bring all of it along. Opening finds the free
// pages by a walk through the used ones.
func boltOptions(mapped int) *bbolt.Options {
	return &bbolt.Options{
		Timeout: boltLockTimeout, InitialMmapSize: mapped,
		FreelistType: bbolt.FreelistMapType, NoFreelistSync: true,
	}
}

// careful opens a log. bbolt panics, or reads beyond the end of its mapping, when the file is
// damaged in certain ways: both become errors here.
func careful(path string, open func() error) (err error) {
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
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist), full(err):
		return fmt.Errorf("quorum: open log: %w", err)
	}
	return fmt.Errorf("quorum: log %s is %w: %w", path, ErrDamaged, err)
}

// probe reads the ends of the log, as raft will.
func probe(s raft.LogStore) error {
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
