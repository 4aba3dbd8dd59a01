package quorum

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

const (
	// retained snapshots: the newest, and one to fall back on while the log still follows it.
	retained = 2
	// cachedEntries of the log's end stay in memory for followers that keep up. An entry
	// may hold 1 MiB.
	cachedEntries = 64
	// boltLockTimeout: the folder is locked already, so nobody should hold the file.
	boltLockTimeout = time.Second
	// bootstrapIndex is the index of the bootstrap entry, the first configuration.
	bootstrapIndex = 1
)

// keyJoining marks, in the stable store, a member that is joining. raft's own keys are
// CurrentTerm, LastVoteTerm and LastVoteCand.
var (
	keyJoining = []byte("RollcallJoining")
	keyTerm    = []byte("CurrentTerm")
)

// Stores are what raft keeps its state in. The zero value means: on disk, in Config.Dir.
type Stores struct {
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
}

// guard stops the member when a store fails. raft would carry on: with a log in its memory
// that is not the stored one, or by a panic. So the goroutine that asked ends right there;
// what raft has deferred answers that nothing was stored.
type guard struct {
	fail    func(error)
	running func() bool // raft's goroutines run; before, errors are simply returned
	ops     *operations // hears what is under way
}

// timed does op, which may hang.
func (g guard) timed(what string, op func() error) error {
	defer g.ops.end(g.ops.begin(what))
	return op()
}

func (g guard) check(op string, err error) error {
	if err == nil || !g.running() {
		return err
	}
	g.fail(fmt.Errorf("quorum: %s: %w", op, err))
	runtime.Goexit()
	return nil
}

// logStore is the log with its guard. It counts what is appended.
type logStore struct {
	raft.LogStore
	guard
	figures *figures
	whole   bool         // deletes at once, whatever is deleted: it removes files
	data    atomic.Bool  // holds, or held, an entry beyond the bootstrap entry
	entries atomic.Int64 // appended by this process
	bytes   atomic.Int64
}

// IsMonotonic implements raft.MonotonicLogStore: raft empties the log when it installs a
// snapshot, instead of leaving a gap behind it or, worse, entries that contradict it.
func (s *logStore) IsMonotonic() bool { return true }

func (s *logStore) FirstIndex() (uint64, error) {
	i, err := s.LogStore.FirstIndex()
	return i, s.check("read log", err)
}

func (s *logStore) LastIndex() (uint64, error) {
	i, err := s.LogStore.LastIndex()
	return i, s.check("read log", err)
}

func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	err := s.timed("reading the log", func() error { return s.LogStore.GetLog(index, l) })
	if errors.Is(err, raft.ErrLogNotFound) {
		first, last := s.bounds()
		if first == 0 || index < first || index > last {
			return raft.ErrLogNotFound // raft compares
		}
		err = fmt.Errorf("the log from %d to %d has a hole at %d", first, last, index)
	}
	return s.check("read log", err)
}

func (s *logStore) bounds() (first, last uint64) {
	first, err := s.FirstIndex()
	if err == nil {
		last, err = s.LastIndex()
	}
	if err != nil {
		return 0, 0
	}
	return first, last
}

func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *logStore) StoreLogs(logs []*raft.Log) error {
	for _, l := range logs {
		if err := checkSize(l); err != nil {
			return s.check("write log", err)
		}
	}
	begun := time.Now()
	err := s.timed("writing the log", func() error { return s.LogStore.StoreLogs(logs) })
	s.figures.wrote(time.Since(begun))
	if err := s.check("write log", err); err != nil {
		return err
	}
	var n int64
	for _, l := range logs {
		n += int64(len(l.Data) + entryOverhead)
		if l.Index > bootstrapIndex {
			s.data.Store(true)
		}
	}
	s.entries.Add(int64(len(logs)))
	s.bytes.Add(n)
	return nil
}

// maxEntry bounds an entry's data, in bytes: four times what a leader seals. raft-wal writes
// longer ones than the 64 MiB that it reads, and a member with such a log starts no more.
const maxEntry = 32 << 20

// ErrTooLong is what Propose answers to an entry that no log would take.
var ErrTooLong = errors.New("quorum: entry is too long")

func checkSize(l *raft.Log) error {
	if size := len(l.Data) + len(l.Extensions); size > maxEntry {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, size, maxEntry)
	}
	return nil
}

// deleteChunk entries at most are deleted in one transaction. BoltDB has one writer, and
// while it deletes a hundred thousand entries raft's main loop could not store any, nor
// answer a heartbeat.
const deleteChunk = 1024

// DeleteRange deletes in steps. A beginning goes from the front, an end from the back: after
// a crash the rest has no hole, and none between it and the snapshot.
func (s *logStore) DeleteRange(first, last uint64) error {
	end, err := s.LastIndex()
	if err != nil {
		return err
	}
	step := uint64(deleteChunk)
	if s.whole && last >= first {
		step = last - first + 1
	}
	for first <= last {
		from, to := first, min(last, first+step-1)
		if last >= end {
			from, to = max(first, last-min(last, step-1)), last
		}
		err := s.timed("shortening the log", func() error { return s.LogStore.DeleteRange(from, to) })
		if err := s.check("shorten log", err); err != nil {
			return err
		}
		if from == first {
			first = to + 1
		} else {
			last, end = from-1, from-1
		}
	}
	return nil
}

// entryOverhead is what an entry takes besides its data, in bytes.
const entryOverhead = 64

// stableStore is the stable store with its guard. A key that is not there is no error: raft
// takes the word "not found" or a zero.
type stableStore struct {
	raft.StableStore
	guard
}

func (s *stableStore) Set(k, v []byte) error {
	return s.check("write vote", s.timed("writing a vote", func() error { return s.StableStore.Set(k, v) }))
}

func (s *stableStore) SetUint64(k []byte, v uint64) error {
	return s.check("write "+string(k), s.timed("writing a term or a vote", func() error { return s.StableStore.SetUint64(k, v) }))
}

func (s *stableStore) Get(k []byte) ([]byte, error) {
	v, err := s.StableStore.Get(k)
	if notFound(err) {
		return nil, err
	}
	return v, s.check("read vote", err)
}

func (s *stableStore) GetUint64(k []byte) (uint64, error) {
	v, err := s.StableStore.GetUint64(k)
	if notFound(err) {
		return 0, nil
	}
	return v, s.check("read "+string(k), err)
}

// notFound goes by the text, as raft does: its stores have no common error.
func notFound(err error) bool {
	return err != nil && (errors.Is(err, raftboltdb.ErrKeyNotFound) || err.Error() == "not found")
}

// snapshotStore is the snapshot store with its guard.
type snapshotStore struct {
	raft.SnapshotStore
	guard
	dir    string // of the snapshots; "" if they are not files
	stored func() // a snapshot has been stored
}

func (s *snapshotStore) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, c, ci, t)
	if s.check("create snapshot", err) != nil {
		return nil, err
	}
	return newSnapshotSink(sink, s), nil
}

func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	l, err := s.SnapshotStore.List()
	return l, s.check("list snapshots", err)
}

func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, r, err := s.SnapshotStore.Open(id)
	if err != nil && s.running() {
		if _, serr := os.Stat(filepath.Join(s.dir, id)); s.dir != "" && errors.Is(serr, os.ErrNotExist) {
			return nil, nil, err // a newer one took its place since List
		}
	}
	return m, r, s.check("open snapshot", err)
}

// openStores opens what a data folder holds. logDir is where the log lies.
func openStores(dir, logDir string, kind LogKind, hl hclog.Logger) (s Stores, closer io.Closer, err error) {
	if err := cleanUp(dir); err != nil {
		return s, nil, fmt.Errorf("quorum: clean data folder: %w", err)
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, retained, hl)
	if err != nil {
		return s, nil, fmt.Errorf("quorum: open snapshots: %w", err)
	}
	log, err := openLog(kind, logDir, hl)
	if err != nil {
		return s, nil, err
	}
	return Stores{Log: log, Stable: log, Snapshots: snaps}, log, nil
}

// cleanUp removes what a crash left half done: received and local snapshots.
func cleanUp(dir string) error {
	received, err := filepath.Glob(filepath.Join(dir, spoolPrefix+"*"+tmpSuffix))
	if err != nil {
		return err
	}
	half, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*"+tmpSuffix))
	if err != nil {
		return err
	}
	for _, path := range append(received, half...) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// newestNamed returns the highest index that a snapshot in dir is named after, readable or
// not. One that is not finished does not count: nothing was promised for it.
func newestNamed(dir string) (newest uint64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if part := strings.Split(e.Name(), "-"); len(part) == 3 && !strings.HasSuffix(e.Name(), tmpSuffix) { // term-index-milliseconds
			if i, perr := strconv.ParseUint(part[1], 10, 64); perr == nil {
				newest = max(newest, i)
			}
		}
	}
	return newest, err
}

// hasData reports whether a member has anything that the others may count on: a snapshot,
// or an entry beyond the bootstrap entry.
func hasData(s Stores) (bool, error) {
	last, err := s.Log.LastIndex()
	if err != nil {
		return false, fmt.Errorf("quorum: read log: %w", err)
	}
	list, err := s.Snapshots.List()
	if err != nil {
		return false, fmt.Errorf("quorum: list snapshots: %w", err)
	}
	return last > bootstrapIndex || len(list) > 0, nil
}

// mend sets right what a crash in the middle of installing a snapshot leaves: a log that
// lies below the snapshot, or contradicts it. All of it goes, as the snapshot has taken its
// place. A gap between the two is damage.
func mend(s Stores) error {
	list, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("quorum: list snapshots: %w", err)
	}
	var snap raft.SnapshotMeta
	if len(list) > 0 {
		snap = *list[0]
	}
	first, err := s.Log.FirstIndex()
	if err != nil {
		return fmt.Errorf("quorum: read log: %w", err)
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("quorum: read log: %w", err)
	}
	drop := false
	switch {
	case first == 0:
		return nil
	case first > snap.Index+1:
		return fmt.Errorf("quorum: data is %w: the log begins at index %d, the newest readable snapshot ends at %d", ErrDamaged, first, snap.Index)
	case last < snap.Index:
		drop = true
	case first <= snap.Index:
		var at raft.Log
		if err := s.Log.GetLog(snap.Index, &at); err != nil {
			return fmt.Errorf("quorum: read log: %w", err)
		}
		drop = at.Term != snap.Term
	}
	if !drop {
		return nil
	}
	if err := s.Log.DeleteRange(first, last); err != nil {
		return fmt.Errorf("quorum: drop log before snapshot: %w", err)
	}
	return nil
}
