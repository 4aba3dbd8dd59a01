package disk

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/admission"
	"rollcall/internal/stages"
)

const (
	// retainedSnapshots is the number of snapshots to keep: the newest, and one to fall back on while the log
	// still continues it.
	retainedSnapshots = 2
	// boltLockTimeout is short because the directory is locked already, so no process should hold the file.
	boltLockTimeout = time.Second
	// BootstrapIndex is the index of the first entry of a log, the first configuration.
	BootstrapIndex = 1
	// MaxAppendEntries limits the entries that raft appends or reads for one AppendEntries at a time, because
	// they may be long: package wire adds more if they are short.
	MaxAppendEntries = 8
)

// Stores are the stores of raft's state, without the guards of a Data.
type Stores struct {
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
}

// logRange returns the first and the last index of the log, or zeros if it is empty.
func (s Stores) logRange() (first, last uint64, err error) {
	if first, err = s.Log.FirstIndex(); err == nil {
		last, err = s.Log.LastIndex()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("quorum: read log: %w", err)
	}
	return first, last, nil
}

// readEntry reads an entry of the log.
func (s Stores) readEntry(index uint64) (l raft.Log, err error) {
	if err = s.Log.GetLog(index, &l); err != nil {
		err = fmt.Errorf("quorum: read log: %w", err)
	}
	return l, err
}

// newestSnapshot returns the newest snapshot with sound metadata, or nil.
func (s Stores) newestSnapshot() (*raft.SnapshotMeta, error) {
	list, err := s.Snapshots.List()
	if err != nil {
		return nil, fmt.Errorf("quorum: list snapshots: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list[0], nil
}

// storeGuard ends the member when a store fails. raft would continue with a log in memory that differs from the
// stored one, or panic. So the goroutine that called the store ends right there; raft's deferred functions then
// report that nothing was stored.
type storeGuard struct {
	endMember   func(error)
	raftRunning func() bool       // reports whether raft's goroutines run; before that, errors are simply returned
	operations  *operations       // keeps the operations under way
	startReads  *startReadCounter // counts the reads before raft runs
}

// runTracked runs op, which may hang.
func (g storeGuard) runTracked(name string, op func() error) error {
	defer g.operations.finish(g.operations.begin(name))
	return op()
}

func (g storeGuard) endMemberOnError(op string, err error) error {
	if err == nil || !g.raftRunning() {
		return err
	}
	g.endMember(fmt.Errorf("quorum: %s: %w", op, err))
	runtime.Goexit()
	return nil
}

// logStore is the log with its guard. It counts the appended entries.
type logStore struct {
	raft.LogStore
	storeGuard
	metrics         *writeMetrics
	stages          *stages.Recorder
	logger          *slog.Logger // nil while the member does not run
	slowLines       *admission.LogLimiter
	hasEntries      atomic.Bool  // holds, or held, an entry
	hadTransaction  atomic.Bool  // see Data.HasTransaction
	appendedEntries atomic.Int64 // number appended by this process
	appendedBytes   atomic.Int64
}

// IsMonotonic implements raft.MonotonicLogStore. It makes raft empty the log when it installs a snapshot.
// Otherwise raft would leave a gap after the log or, worse, entries that contradict the snapshot.
func (s *logStore) IsMonotonic() bool { return true }

func (s *logStore) FirstIndex() (uint64, error) {
	i, err := s.LogStore.FirstIndex()
	return i, s.endMemberOnError("read log", err)
}

func (s *logStore) LastIndex() (uint64, error) {
	i, err := s.LogStore.LastIndex()
	return i, s.endMemberOnError("read log", err)
}

func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	err := s.runTracked("reading the log", func() error { return s.LogStore.GetLog(index, l) })
	if err == nil && !s.raftRunning() {
		s.startReads.addEntry(s.indexRange)
	}
	if errors.Is(err, raft.ErrLogNotFound) {
		first, last := s.indexRange()
		if first == 0 || index < first || index > last {
			return raft.ErrLogNotFound // raft compares the error with ==
		}
		err = fmt.Errorf("the log from %d to %d has a hole at %d", first, last, index)
	}
	return s.endMemberOnError("read log", err)
}

func (s *logStore) indexRange() (first, last uint64) {
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
	return s.runTracked("writing the log", func() error { return s.storeUntracked(logs) })
}

// storeUntracked stores entries. raft does not wait for it, or is tracked itself.
func (s *logStore) storeUntracked(logs []*raft.Log) error {
	if err := s.checkSizes(logs); err != nil {
		return err
	}
	if slices.ContainsFunc(logs, mayBeTransaction) {
		s.hadTransaction.Store(true)
	}
	begun := time.Now()
	err := s.LogStore.StoreLogs(logs)
	took := time.Since(begun)
	slow := s.metrics.addWrite(took)
	if err := s.endMemberOnError("write log", err); err != nil {
		return err
	}
	if len(logs) > 0 {
		s.stages.Durable(logs[0].Index, logs[len(logs)-1].Index)
		if slow {
			s.noteSlowSync(logs, begun, took)
		}
	}
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			s.metrics.entrySizes.Add(len(l.Data))
		}
		s.hasEntries.Store(true)
	}
	s.appendedEntries.Add(int64(len(logs)))
	s.appendedBytes.Add(approxEntriesBytes(logs))
	return nil
}

// noteSlowSync records a slow write of entries, and logs it, unless another line was logged a short time ago.
func (s *logStore) noteSlowSync(logs []*raft.Log, begun time.Time, took time.Duration) {
	s.stages.SlowSync(begun)
	skipped, due := s.slowLines.AllowLine(time.Now())
	if s.logger == nil || !due {
		return
	}
	s.logger.Warn("slow sync", "took", took.Round(time.Millisecond), "first", logs[0].Index, "entries", len(logs),
		"bytes", approxEntriesBytes(logs), "skipped", skipped)
}

func (s *logStore) checkSizes(logs []*raft.Log) error {
	for _, l := range logs {
		if err := CheckEntrySize(l); err != nil {
			return s.endMemberOnError("write log", err)
		}
	}
	return nil
}

// MaxEntryBytes limits an entry's data: four times the longest entry of a leader.
const MaxEntryBytes = 32 << 20

// ErrEntryTooLong is the error for an entry that is longer than MaxEntryBytes.
var ErrEntryTooLong = errors.New("quorum: entry is too long")

func CheckEntrySize(l *raft.Log) error {
	if size := len(l.Data) + len(l.Extensions); size > MaxEntryBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrEntryTooLong, size, MaxEntryBytes)
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (s *logStore) DeleteRange(first, last uint64) error {
	return s.runTracked("shortening the log", func() error { return s.deleteUntracked(first, last) })
}

// deleteUntracked deletes entries. raft does not wait for it, or is tracked itself.
func (s *logStore) deleteUntracked(first, last uint64) error {
	return s.endMemberOnError("shorten log", s.LogStore.DeleteRange(first, last))
}

// entryOverhead is the estimated size of an entry without its data, in bytes.
const entryOverhead = 64

func approxEntriesBytes(logs []*raft.Log) (n int64) {
	for _, l := range logs {
		n += approxEntryBytes(l)
	}
	return n
}

func approxEntryBytes(l *raft.Log) int64 { return int64(len(l.Data) + entryOverhead) }

// snapshotStore is the snapshot store with its guard.
type snapshotStore struct {
	raft.SnapshotStore
	storeGuard
	files      *snapshotFiles // the same store; nil if it is another one
	onStored   func()         // called when a snapshot has been stored
	lastOpened string         // name of the last one that was opened before raft ran
	openError  error          // why one could not be opened then; nil: none failed
}

func (s *snapshotStore) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, ci uint64,
	t raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, c, ci, t)
	if s.endMemberOnError("create snapshot", err) != nil {
		return nil, err
	}
	return &Sink{SnapshotSink: sink, Index: index, Term: term, store: s}, nil
}

func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	l, err := s.SnapshotStore.List()
	return l, s.endMemberOnError("list snapshots", err)
}

func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if !s.raftRunning() {
		s.lastOpened = id
		if s.files != nil {
			s.lastOpened = filepath.Join(s.files.dir, id)
		}
	}
	m, r, err := s.SnapshotStore.Open(id)
	if !s.raftRunning() {
		s.openError = withReason(err, s.openError)
	}
	if err != nil && s.raftRunning() && s.files != nil {
		if _, serr := os.Stat(filepath.Join(s.files.dir, id)); errors.Is(serr, os.ErrNotExist) {
			return nil, nil, err // a newer snapshot has replaced it since List
		}
	}
	if err := s.endMemberOnError("open snapshot", err); err != nil {
		return nil, nil, err
	}
	if !s.raftRunning() {
		s.startReads.beginSnapshot(m.Index, m.Size)
	}
	return m, &guardedReader{r, s.storeGuard}, nil
}

// guardedReader reads a snapshot with the guard of its store.
type guardedReader struct {
	io.ReadCloser
	guard storeGuard
}

func (r *guardedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if !r.guard.raftRunning() {
		r.guard.startReads.addSnapshotBytes(n)
	}
	if err == io.EOF {
		return n, io.EOF
	}
	return n, r.guard.endMemberOnError("read snapshot", err)
}
