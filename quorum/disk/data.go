// Package disk keeps one member's durable state in its own directory: log, term, votes and snapshots.
//
//   - Data: one member's stores, as raft uses them. Open locks the directories, checks their owner and opens the
//     stores. OpenStopped opens the stores of a stopped member.
//   - Stores: the same without guards, for a member that keeps nothing (tests).
//   - Seed: fills the empty directories of a member that has never run.
//   - ReadDataEnd, OpenLogReader: read the directories of a stopped member.
//   - WithAdvice: adds advice to an error that ends a member.
//
// Damage is never ignored: damaged data give an error that wraps ErrDamaged, and nothing is deleted.
//
// # Failing
//
// While raft runs, an error of a store ends the member: see storeGuard. A store may also hang without an
// error: see operations and Data.StallError.
//
// # Durable entries
//
// A member's disk writes while raft continues: see logQueue. So an entry that raft considers committed may not be on this
// disk yet: see Durability.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/internal/admission"
	"rollcall/internal/lockwatch"
	"rollcall/internal/metrics"
	"rollcall/internal/stages"
)

// Config configures a Data. Fields without a default are required.
type Config struct {
	MemberID   uint32   // owner of the data
	ServerList []string // canonical

	DataDir string
	LogDir  string // default: DataDir
	Stores  Stores // in place of the directories; default: on disk

	SegmentBytes int // the limit of the size of a file of the log; default 16 MiB

	Retirement Retirement // of the files that no start needs; default: they are removed

	StallLimit time.Duration // limit of one operation, required; see Data.StallError
	// SlowSync is the least duration of a write of the log that is logged and recorded as slow; default DefaultSlowSync.
	SlowSync time.Duration

	RaftRunning func() bool // reports whether raft's goroutines run; before that, errors are simply returned
	EndMember   func(error) // ends the member; called only while raft runs

	// QueuedWritten is called when more entries are durable, while this member's disk writes. It must not wait. Default: nothing.
	QueuedWritten func()

	Stages     *stages.Recorder // records when entries are durable; default: nothing is recorded
	Logger     *slog.Logger     // warnings
	RaftLogger hclog.Logger     // for the log messages of raft's libraries
}

// Data holds the open stores of one member, and the locks on its directories. Unless its comment says otherwise, a
// method may be called by any goroutine.
type Data struct {
	directories  []*directory // data directory, and log directory if that is separate; nil if the stores are not files
	storesCloser io.Closer    // nil if the stores are the caller's
	closeOnce    sync.Once

	unguarded     Stores
	guardedLog    *logStore // guarded, like the next three
	logQueue      *logQueue // log, as raft sees it
	stableStore   *Stable
	snapshotStore *snapshotStore

	operations       operations
	startReads       startReadCounter
	writeMetrics     writeMetrics
	hasSnapshot      atomic.Bool  // a snapshot has been stored, by this or an earlier process
	bytesAtSnapshot  atomic.Int64 // appendedBytes when the last snapshot was stored
	rejectedSnapshot error        // see NoteRejectedSnapshot
	serverList       []string
	diskID           ID
}

// Open opens a member's data. An empty directory becomes this member's. Open returns an error for a directory that
// belongs to another member, was written by a newer version, or is damaged.
func Open(cfg Config) (*Data, error) {
	if cfg.StallLimit <= 0 {
		return nil, fmt.Errorf("quorum: StallLimit is %v, but must be positive", cfg.StallLimit)
	}
	d := &Data{unguarded: cfg.Stores, operations: operations{stallLimit: cfg.StallLimit}, serverList: cfg.ServerList}
	if cfg.DataDir != "" {
		var err error
		if d.directories, d.unguarded, d.storesCloser, err = openDirectoriesAndStores(cfg); err != nil {
			return nil, err
		}
		d.serverList = d.directories[0].identity.Servers
		warnOfLooseModes(d.directories, cfg.Logger)
		if err := checkOrBindMember(d.unguarded.Stable, d.logDirectory().dir, cfg.MemberID); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if err := d.unguarded.finishRenewing(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.guardStores(cfg.RaftRunning, cfg.QueuedWritten, cfg.EndMember); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.guardedLog.stages, d.guardedLog.logger = cfg.Stages, cfg.Logger
	d.writeMetrics.slowSync = cmp.Or(cfg.SlowSync, DefaultSlowSync)
	var err error
	if d.diskID, err = ensureDiskID(d.unguarded); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.snapshotStore.files, _ = d.unguarded.Snapshots.(*snapshotFiles)
	return d, nil
}

// OpenStopped locks the directories of a stopped member and opens the stores in them. It uses only DataDir, LogDir
// or Stores, SegmentBytes and RaftLogger of cfg. The error is ErrNoData if the directories have never been used.
func OpenStopped(cfg Config) (*Data, error) {
	d := &Data{unguarded: cfg.Stores}
	if cfg.DataDir != "" {
		if err := d.openStoppedDirectories(cfg); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	var err error
	if d.diskID, err = existingDiskID(d.unguarded); err == nil && d.diskID == 0 {
		err = fmt.Errorf("%w: its first start was interrupted", ErrNoData)
	}
	if err = errors.Join(err, d.guardStores(func() bool { return false }, nil, nil)); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Data) openStoppedDirectories(cfg Config) (err error) {
	if err := checkMemberBegan(cfg.DataDir); err != nil {
		return err
	}
	if d.directories, err = lockDirectories(cfg.DataDir, cfg.LogDir); err != nil {
		return err
	}
	if err := checkNothingMissing(d.directories); err != nil {
		return err
	}
	if err := removeIncompleteMarks(d.directories); err != nil { // as in openDirectoriesAndStores
		return err
	}
	d.serverList = d.directories[0].identity.Servers
	if kept, err := pathExists(filepath.Join(d.directories[0].dir, KeptDirName)); err != nil {
		return err
	} else if kept {
		cfg.Retirement = Retirement{Moved: func() {}, FreeSpace: func() bool { return false }}
	}
	d.unguarded, d.storesCloser, err = openStores(d.directories, cfg, false)
	return err
}

func (d *Data) guardStores(running func() bool, onWritten func(), fail func(error)) error {
	data, err := hasData(d.unguarded)
	if err != nil {
		return err
	}
	g := storeGuard{endMember: fail, raftRunning: running, operations: &d.operations, startReads: &d.startReads}
	d.guardedLog = &logStore{
		LogStore: d.unguarded.Log, storeGuard: g, metrics: &d.writeMetrics, slowLines: admission.NewLogLimiter(),
	}
	d.guardedLog.hasEntries.Store(data)
	has, err := d.unguarded.hasTransaction()
	d.guardedLog.hadTransaction.Store(has || err != nil)
	d.logQueue = newLogQueue(d.guardedLog, onWritten)
	d.stableStore = &Stable{StableStore: d.unguarded.Stable, storeGuard: g, drainQueueOrExit: d.logQueue.drainOrExit}
	d.snapshotStore = &snapshotStore{SnapshotStore: d.unguarded.Snapshots, storeGuard: g, onStored: d.noteSnapshotStored}
	return nil
}

func (d *Data) noteSnapshotStored() {
	d.hasSnapshot.Store(true)
	d.bytesAtSnapshot.Store(d.guardedLog.appendedBytes.Load())
}

func (d *Data) logDirectory() *directory { return d.directories[len(d.directories)-1] }

// Close closes the stores and unlocks the directories. Stores of the caller stay open.
func (d *Data) Close() error {
	var err error
	d.closeOnce.Do(func() {
		if d.storesCloser != nil {
			err = d.storesCloser.Close()
		}
		err = unlock(d.directories, err)
	})
	return err
}

// Log returns the log for raft. Entries may be in it before they are durable.
func (d *Data) Log() raft.LogStore { return d.logQueue }

// Durability returns how far the log is on the disks.
func (d *Data) Durability() Durability { return Durability{d.logQueue} }

// AwaitQueuedWrites waits until the queued entries are written, or until the disk has failed. It is called after raft
// has stopped, before Close.
func (d *Data) AwaitQueuedWrites() { d.logQueue.awaitWriteLoop() }

func (d *Data) Stable() *Stable { return d.stableStore }

// Snapshots returns the snapshot store for raft.
func (d *Data) Snapshots() raft.SnapshotStore { return d.snapshotStore }

// HasData reports whether there is a snapshot or a log entry.
func (d *Data) HasData() bool { return d.guardedLog.hasEntries.Load() || d.hasSnapshot.Load() }

// StartReads returns the progress of reading the data before raft runs.
func (d *Data) StartReads() StartReads { return d.startReads.current() }

// AppendTotals returns the number of entries that this process has appended to the log, their size in bytes, and
// the part of these bytes that came after the last snapshot.
func (d *Data) AppendTotals() (entries, bytes, sinceSnapshot int64) {
	bytes = d.guardedLog.appendedBytes.Load()
	return d.guardedLog.appendedEntries.Load(), bytes, bytes - d.bytesAtSnapshot.Load()
}

// WriteDurations returns the durations of the log writes since Open or ResetWriteDurations, and the number of slow
// ones: a second or more.
func (d *Data) WriteDurations() (took metrics.Summary, slow uint64) {
	return d.writeMetrics.durations.Summary(), d.writeMetrics.slowWrites.Load()
}

// WriteBuckets returns the durations of the log writes, and the sizes of their entries, since Open.
func (d *Data) WriteBuckets() (took, entries metrics.Buckets) {
	return d.writeMetrics.durations.Buckets(), d.writeMetrics.entrySizes.Buckets()
}

// ResetWriteDurations sets the counters of WriteDurations to zero.
func (d *Data) ResetWriteDurations() {
	d.writeMetrics.durations.ResetSummary()
	d.writeMetrics.slowWrites.Store(0)
}

// RunTracked runs op, which may hang, and names it in StallError's error.
func (d *Data) RunTracked(name string, op func() error) error {
	return d.guardedLog.runTracked(name, op)
}

// StallError returns an error that names the oldest operation of a store, or of RunTracked, if it has run for longer
// than Config.StallLimit. Otherwise it returns nil. OpenStopped sets no limit.
func (d *Data) StallError() error { return d.operations.stallError() }

// ReplaceOwner makes member the owner of the stable store. Open returns an error for any other member.
func (d *Data) ReplaceOwner(member uint32) error {
	if err := d.stableStore.SetUint64(keyMember, uint64(member)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// ServerList returns the server list for which the directory was created.
func (d *Data) ServerList() []string { return d.serverList }

// WriteIdentity makes the directories belong to member in the given server list.
func (d *Data) WriteIdentity(member uint32, servers []string) error {
	if len(d.directories) == 0 {
		return nil
	}
	id := identity{Member: member, Servers: servers, SeparateLog: len(d.directories) > 1, LogCreated: true}
	return writeIdentities(d.directories, id)
}

// DefaultSlowSync is the default of ZooKeeper's fsync.warningthresholdms.
const DefaultSlowSync = time.Second

// writeMetrics counts the writes of the log. It is safe for concurrent use.
type writeMetrics struct {
	durations  metrics.Durations
	slowSync   time.Duration // least duration of a slow write, set before raft runs; 0: none is slow
	slowWrites atomic.Uint64

	entrySizes metrics.SizeHistogram
}

// addWrite counts a write, and reports whether it was slow.
func (f *writeMetrics) addWrite(took time.Duration) (slow bool) {
	f.durations.Add(took)
	if slow = f.slowSync > 0 && took >= f.slowSync; slow {
		f.slowWrites.Add(1)
	}
	return slow
}

// openStores opens the stores in a member's directories. starts reports whether a member starts with them. openStores uses only
// SegmentBytes, Retirement and RaftLogger of cfg.
func openStores(locked []*directory, cfg Config, starts bool) (s Stores, closer io.Closer, err error) {
	dir, logDir := locked[0].dir, locked[len(locked)-1].dir
	if err := removeIncompleteSnapshots(dir); err != nil {
		return s, nil, fmt.Errorf("quorum: clean data directory: %w", err)
	}
	snaps, err := newSnapshotFiles(filepath.Join(dir, snapshotsDir), cfg.RaftLogger)
	if err != nil {
		return s, nil, fmt.Errorf("quorum: open snapshots: %w", err)
	}
	if snaps.retired, err = newRetired(cfg.Retirement, dir, cfg.RaftLogger); err != nil {
		return s, nil, fmt.Errorf("quorum: open snapshots: %w", err)
	}
	how := logOpening{whole: locked[0].identity.LogCreated, starts: starts}
	if how.retired, err = newRetired(cfg.Retirement, logDir, cfg.RaftLogger); err != nil {
		return s, nil, fmt.Errorf("quorum: open log: %w", err)
	}
	if how.known, err = snaps.knownEnds(); err != nil {
		return s, nil, fmt.Errorf("quorum: open snapshots: %w", err)
	}
	log, err := openLog(logDir, dir, cfg.SegmentBytes, how, cfg.RaftLogger)
	if err != nil {
		return s, nil, err
	}
	snaps.logEnd, snaps.onStored = log.segments.durableEnd, log.segments.noteSnapshot
	return Stores{Log: log, Stable: log, Snapshots: snaps}, log, nil
}

// removeIncompleteSnapshots removes the received and own snapshots that a crash left incomplete.
func removeIncompleteSnapshots(dir string) error {
	received, err := globIn(dir, spoolPrefix+"*"+tmpSuffix)
	if err != nil {
		return err
	}
	half, err := globIn(dir, snapshotsDir+"/*"+tmpSuffix)
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

// hasData reports whether there is data that other members may count on: a snapshot or an entry.
func hasData(s Stores) (bool, error) {
	_, last, err := s.logRange()
	if err != nil {
		return false, err
	}
	newest, err := s.newestSnapshot()
	return last > 0 || newest != nil, err
}

// Locks returns the lock of the queue of the log, and that by which other operations that hang are noticed. Those of the files
// are held during such operations.
func (d *Data) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{
		{Name: "disk.logQueue.mu", Locker: &d.logQueue.mu},
		{Name: "disk.operations.mu", Locker: &d.operations.mu},
		{Name: "disk.startReadCounter.mu", Locker: &d.startReads.mu},
	}
}
