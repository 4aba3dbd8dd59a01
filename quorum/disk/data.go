// Package disk keeps what one member must not forget: its log, its term and votes, and its
// snapshots, in files of its own directory.
//
//   - Data: one member's stores, as raft uses them. Open locks the directories, checks which member
//     they belong to and opens the stores. OpenStopped opens those of a member that does not
//     run.
//   - Stores: the same without the guards, for a member that does not have to keep anything
//     (tests).
//   - Plant: fills the empty directories of a member that has never run.
//   - Examine, ReadLog: what the directories of a stopped member hold.
//   - Explain: advice for an error that ends a member.
//
// Damage is never ignored: data that cannot be trusted give an error that wraps ErrDamaged, and
// nothing is deleted because of it.
//
// # Failing
//
// While raft runs, an error of a store ends the member: see guard. A store may also hang without an
// error: see operations and Data.Stalled.
//
// # Durable entries
//
// A leader's disk writes while raft replicates: see logQueue. So what raft takes for committed may not
// yet be on this disk: see Data.Durable and Data.Await.
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

	"rollcall/internal/metrics"
)

// Config is what Data is opened with. A field without a default is required.
type Config struct {
	MemberID   uint32   // the member that the data belong to
	ServerList []string // the server list, in the one form in which every member writes it

	DataDir string  // data directory
	LogDir  string  // directory of the log; default: Dir
	LogKind LogKind // how the log is stored; default: as the directory is, or DefaultLogKind
	Stores  Stores  // in place of the directories; default: on disk

	SegmentBytes int // size of a file of the log, if the log is in raft-wal; default 16 MiB

	StallLimit time.Duration // how long one operation may take; see Data.Stalled. Default: no limit

	RaftRunning func() bool  // reports whether raft's goroutines run; before that, errors are simply returned
	RaftLeads   func() bool  // reports to raft's main goroutine whether raft leads; see logQueue. Default: it never does
	EndMember   func(error)  // ends the member; called only while raft runs
	Logger      *slog.Logger // warnings
	RaftLog     hclog.Logger // for the log messages of raft's libraries
}

// Data is one member's stores, open and, if they are files, locked. Unless its comment says
// otherwise, a method may be called by any goroutine.
type Data struct {
	directories  []*directory // for the data, and for the log if that has its own; nil if the stores are not files
	storesCloser io.Closer    // of the stores; nil if they are the caller's
	closeOnce    sync.Once

	unguarded     Stores
	guardedLog    *logStore // guarded, like the next three
	logQueue      *logQueue // log, as raft sees it
	stableStore   *Stable
	snapshotStore *snapshotStore

	operations       operations
	writeMetrics     writeMetrics
	hasSnapshot      atomic.Bool  // a snapshot has been stored, by this or an earlier process
	bytesAtSnapshot  atomic.Int64 // log.bytes when the last snapshot was stored
	rejectedSnapshot error        // see Refused
	serverList       []string
	diskID           ID
}

// Open opens a member's data. A directory without data becomes this member's. Open returns an error
// for a directory of another member or of a newer version, and for a damaged one.
func Open(cfg Config) (*Data, error) {
	d := &Data{unguarded: cfg.Stores, operations: operations{stallLimit: cfg.StallLimit}, serverList: cfg.ServerList}
	if cfg.DataDir != "" {
		var err error
		if d.directories, d.unguarded, d.storesCloser, err = openDirectories(cfg); err != nil {
			return nil, err
		}
		d.serverList = d.directories[0].identity.Servers
		warnOfLooseModes(d.directories, cfg.Logger)
		if err := bindToMember(d.unguarded.Stable, d.logDirectory().dir, cfg.MemberID); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if err := d.guardStores(cfg.RaftRunning, cfg.RaftLeads, cfg.EndMember); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	var err error
	if d.diskID, err = ensureDiskID(d.unguarded); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.snapshotStore.files, _ = d.unguarded.Snapshots.(*snapshotFiles)
	return d, nil
}

// OpenStopped locks the directories of a member that does not run and opens the stores in them. Of cfg
// it uses Dir, LogDir or Stores, SegmentBytes and RaftLog. The error is ErrNoData if no member has begun there.
func OpenStopped(cfg Config) (*Data, error) {
	d := &Data{unguarded: cfg.Stores}
	if cfg.DataDir != "" {
		if err := d.openDirectories(cfg); err != nil {
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

// openDirectories locks the directories of a member that does not run, and opens the stores in them.
func (d *Data) openDirectories(cfg Config) (err error) {
	if err := checkMemberBegan(cfg.DataDir); err != nil {
		return err
	}
	if d.directories, err = lockDirectories(cfg.DataDir, cfg.LogDir); err != nil {
		return err
	}
	if err := checkNothingMissing(d.directories); err != nil {
		return err
	}
	if err := removeIncompleteMarks(d.directories); err != nil { // as in openDirectories
		return err
	}
	d.serverList = d.directories[0].identity.Servers
	d.unguarded, d.storesCloser, err = openStores(d.directories, logKindOf(d.directories), cfg)
	return err
}

// guardStores wraps the stores in their guards.
func (d *Data) guardStores(running, leads func() bool, fail func(error)) error {
	data, err := hasData(d.unguarded)
	if err != nil {
		return err
	}
	g := storeGuard{endMember: fail, raftRunning: running, operations: &d.operations}
	_, whole := d.unguarded.Log.(*walFiles)
	d.guardedLog = &logStore{LogStore: d.unguarded.Log, storeGuard: g, metrics: &d.writeMetrics, deletesAtOnce: whole}
	d.guardedLog.hasEntries.Store(data)
	d.logQueue = newLogQueue(d.guardedLog, leads)
	d.stableStore = &Stable{StableStore: d.unguarded.Stable, storeGuard: g, drainQueue: d.logQueue.drain}
	d.snapshotStore = &snapshotStore{SnapshotStore: d.unguarded.Snapshots, storeGuard: g, onStored: d.snapshotStored}
	return nil
}

func (d *Data) snapshotStored() {
	d.hasSnapshot.Store(true)
	d.bytesAtSnapshot.Store(d.guardedLog.appendedBytes.Load())
}

// logDirectory returns the directory that holds the log.
func (d *Data) logDirectory() *directory { return d.directories[len(d.directories)-1] }

// Close closes the stores and unlocks the directories. It leaves stores open that the caller has
// opened.
func (d *Data) Close() error {
	var err error
	d.closeOnce.Do(func() {
		if d.storesCloser != nil {
			err = d.storesCloser.Close()
		}
		for _, f := range d.directories {
			err = errors.Join(err, f.close())
		}
	})
	return err
}

// Log returns the log for raft. A leader's entries may be in it before they are durable.
func (d *Data) Log() raft.LogStore { return d.logQueue }

// LimitToDurable returns index, or if that is lower, the index up to which all entries of the log are durable.
// Nobody may learn a leader's commit index unless Durable has lowered it: raft has counted copies that
// are only queued.
func (d *Data) LimitToDurable(index uint64) uint64 { return d.logQueue.LimitToDurable(index) }

// AwaitDurable waits until all entries up to an index are durable, and reports whether they are. They are
// not if the disk has failed, which ends the member.
func (d *Data) AwaitDurable(index uint64) bool { return d.logQueue.AwaitDurable(index) }

// FinishWrites waits until the entries that raft has left are written, or until the disk has failed. It is
// called when raft has ended, before Close.
func (d *Data) FinishWrites() { d.logQueue.awaitWriteLoop() }

// Stable returns the stable store.
func (d *Data) Stable() *Stable { return d.stableStore }

// Snapshots returns the snapshots for raft.
func (d *Data) Snapshots() raft.SnapshotStore { return d.snapshotStore }

// HasData reports whether there is a snapshot or a log entry.
func (d *Data) HasData() bool { return d.guardedLog.hasEntries.Load() || d.hasSnapshot.Load() }

// AppendTotals returns how many entries this process has appended to the log, how many bytes they
// take, and how many of these bytes came after the last snapshot.
func (d *Data) AppendTotals() (entries, bytes, sinceSnapshot int64) {
	bytes = d.guardedLog.appendedBytes.Load()
	return d.guardedLog.appendedEntries.Load(), bytes, bytes - d.bytesAtSnapshot.Load()
}

// WriteDurations returns how long the writes of the log took, and how many of them were slow: a second or
// more. They are counted since Open or ResetWrites.
func (d *Data) WriteDurations() (took metrics.Summary, slow uint64) {
	return d.writeMetrics.durations.Summary(), d.writeMetrics.slowWrites.Load()
}

// WriteBuckets returns how long the writes of the log took, and how long the entries in them were, since
// Open.
func (d *Data) WriteBuckets() (took, entries metrics.Buckets) {
	return d.writeMetrics.durations.Buckets(), d.writeMetrics.entrySizes.Buckets()
}

// ResetWriteDurations sets the counters of Writes to zero.
func (d *Data) ResetWriteDurations() {
	d.writeMetrics.durations.Reset()
	d.writeMetrics.slowWrites.Store(0)
}

// RunTimed runs op, which may hang. what is the name of op in Stalled's error.
func (d *Data) RunTimed(what string, op func() error) error { return d.guardedLog.runTimed(what, op) }

// StallError returns an error that names the oldest operation of a store, or of Timed, if it has taken
// longer than Config.StallLimit. Otherwise it returns nil.
func (d *Data) StallError() error { return d.operations.stallError() }

// BindTo makes the stable store that of member. Open refuses it for any other member.
func (d *Data) BindTo(member uint32) error {
	if err := d.stableStore.SetUint64(keyMember, uint64(member)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// ServerList returns the server list for which the directory was made.
func (d *Data) ServerList() []string { return d.serverList }

// SetIdentity makes the directories, if there are any, those of member in the given server list.
func (d *Data) SetIdentity(member uint32, servers []string) error {
	if len(d.directories) == 0 {
		return nil
	}
	id := identity{Member: member, Servers: servers, SeparateLog: len(d.directories) > 1, LogCreated: true, LogKind: logKindOf(d.directories)}
	for i := len(d.directories) - 1; i >= 0; i-- {
		if err := d.directories[i].writeIdentity(id); err != nil {
			return err
		}
	}
	return nil
}

// slowWrite is how long a write of the log takes at least to count as slow: ZooKeeper's
// fsync.warningthresholdms.
const slowWrite = time.Second

// writeMetrics is the data behind Writes. It is safe for concurrent use.
type writeMetrics struct {
	durations  metrics.Durations
	slowWrites atomic.Uint64

	entrySizes metrics.SizeHistogram
}

func (f *writeMetrics) addWrite(took time.Duration) {
	f.durations.Add(took)
	if took >= slowWrite {
		f.slowWrites.Add(1)
	}
}

// openStores opens the stores in the directories of a member: the one for its data and, if the log has
// its own, that. Of cfg it uses SegmentBytes and RaftLog.
func openStores(fs []*directory, kind LogKind, cfg Config) (s Stores, closer io.Closer, err error) {
	dir, logDir := fs[0].dir, fs[len(fs)-1].dir
	if err := removeIncompleteSnapshots(dir); err != nil {
		return s, nil, fmt.Errorf("quorum: clean data directory: %w", err)
	}
	snaps, err := newSnapshotFiles(filepath.Join(dir, snapshotsDir), cfg.RaftLog)
	if err != nil {
		return s, nil, fmt.Errorf("quorum: open snapshots: %w", err)
	}
	log, err := openLog(kind, logDir, cmp.Or(cfg.SegmentBytes, walSegment), cfg.RaftLog)
	if err != nil {
		return s, nil, err
	}
	return Stores{Log: log, Stable: log, Snapshots: snaps}, log, nil
}

// removeIncompleteSnapshots removes the snapshots, received or written here, that a crash left incomplete.
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

// hasData reports whether a member has anything that the others may count on: a snapshot or an entry.
func hasData(s Stores) (bool, error) {
	last, err := s.Log.LastIndex()
	if err != nil {
		return false, fmt.Errorf("quorum: read log: %w", err)
	}
	list, err := s.Snapshots.List()
	if err != nil {
		return false, fmt.Errorf("quorum: list snapshots: %w", err)
	}
	return last > 0 || len(list) > 0, nil
}
