package quorum

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/stages"
	"rollcall/quorum/disk"
	"rollcall/quorum/readlease"
)

// StateMachine is the replicated state machine. raft's FSM goroutine calls its methods, except Verify, one at a
// time. The Snapshot that it returned is written while Apply continues.
type StateMachine interface {
	// Apply applies committed entries, in the order of the log. Indexes may be skipped (raft's own entries). batch
	// is valid only during the call, but the Data in it stays valid. An error ends this member, because it cannot
	// follow the log any more.
	Apply(batch []CommittedEntry) error
	// Snapshot returns the present state. It must be fast.
	Snapshot() (Snapshot, error)
	// Restore replaces the state with a snapshot. An error ends this member. The error is disk.ErrNewerFormat if a
	// newer version wrote the snapshot.
	Restore(r io.ReadCloser) error
	// Verify reads a snapshot to its end, as Restore would, and changes nothing. It returns the same errors as
	// Restore. Any goroutine may call it, at the same time as all other methods.
	Verify(r io.Reader) (disk.SnapshotContents, error)
	// ReadLease returns the longest lease for reads that the leader grants whose term the applied state is in, and the index up to which that
	// state is applied. If lease is 0, that leader grants none. Any goroutine may call it.
	ReadLease() (lease time.Duration, index uint64)
	// OwnReadLease returns the longest lease that this member grants in the terms that it leads; 0: it grants none.
	OwnReadLease() time.Duration
	// ReadLeaseOf returns the same for the term that an entry begins, and false if it begins none.
	ReadLeaseOf(data []byte) (lease time.Duration, ok bool)
}

// CommittedEntry is a committed entry of the log. Data is nil if the entry is raft's own, or empty.
type CommittedEntry struct {
	Index, Term uint64
	Data        []byte
}

// Snapshot is a copy of the state that can be written. Release is called once the copy is not needed any more,
// whether it was written or not.
type Snapshot interface {
	WriteTo(w io.Writer) (int64, error)
	// Zxid returns the zxid of the last transaction in it.
	Zxid() int64
	Release()
}

var errStateMachineFailed = errors.New("quorum: the state machine has failed")

// fsmDisk is what an fsm needs of its member's disk: an appliedDisk.
type fsmDisk interface {
	// AwaitSettled waits until all entries up to index are on this member's disk, or known to be on the disks of a majority,
	// and reports whether they are. They may never be if its disk has failed.
	AwaitSettled(index uint64) bool
	// AwaitDurable does the same for this member's disk alone.
	AwaitDurable(index uint64) bool
	// RunTracked runs an operation that may hang, with a name for an error.
	RunTracked(name string, op func() error) error
	// NoteRejectedSnapshot is called if a snapshot cannot be restored while raft selects one to start from.
	NoteRejectedSnapshot(reason error)
}

// appliedDisk implements fsmDisk.
type appliedDisk struct{ data *disk.Data }

func (d appliedDisk) AwaitSettled(index uint64) bool { return d.data.Durability().AwaitSettled(index) }

func (d appliedDisk) AwaitDurable(index uint64) bool    { return d.data.Durability().AwaitDurable(index) }
func (d appliedDisk) NoteRejectedSnapshot(reason error) { d.data.NoteRejectedSnapshot(reason) }

func (d appliedDisk) RunTracked(name string, op func() error) error {
	return d.data.RunTracked(name, op)
}

// fsm adapts a StateMachine to raft.
type fsm struct {
	stateMachine StateMachine
	endMember    func(error)
	disk         fsmDisk
	// awaitReleased waits until the entries up to index, which are committed and settled, may be applied: see package readlease. It returns false
	// if this member stops first. It calls late if that takes long.
	awaitReleased func(index uint64, late func()) bool
	// onCommit is called after the entries up to index are committed and settled, before they are applied.
	onCommit func(index uint64)
	// onConfiguration is called after a configuration was committed, which is raft's latest one by then.
	onConfiguration   func()
	metrics           *Metrics
	raftRunning       func() bool // false while raft selects a snapshot to start from
	failed            bool        // only for raft's FSM goroutine
	writingSnapshot   atomic.Bool
	snapshotRequested atomic.Bool // Snapshotter.TakeSnapshot waits for one
	lastSnapshot      atomic.Pointer[StoredSnapshot]
	noPauses          atomic.Bool // no client is served that snapshots could delay
	batch             []CommittedEntry
	appliedIndex      atomic.Uint64
	appliedTerm       atomic.Uint64 // of the last command applied, or in an installed snapshot
	roster            *readlease.Roster
}

// Apply implements raft.FSM. Only RecoverCluster calls it.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM. It returns one response for each entry: nil, or the error that stopped
// the state machine. It waits until the entries are settled first: raft has counted this member's copies, and they may
// still be queued. Then it waits until they are released. If that takes long, the followers hear already that a majority has them.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	responses := make([]any, len(logs))
	last := logs[len(logs)-1].Index
	f.failed = f.failed || !f.disk.AwaitSettled(last) || !f.awaitReleased(last, func() { f.onCommit(last) })
	if !f.failed {
		f.onCommit(last)
		f.applyEntries(logs)
	}
	if f.failed {
		for i := range responses {
			responses[i] = errStateMachineFailed
		}
	}
	return responses
}

func (f *fsm) applyEntries(logs []*raft.Log) {
	f.batch = f.batch[:0]
	for _, l := range logs {
		c := CommittedEntry{Index: l.Index, Term: l.Term}
		if l.Type == raft.LogCommand && len(l.Data) > 0 {
			// an empty one only shows that a term has begun: see membership.ensureListIsCurrent
			c.Data = l.Data
		}
		f.batch = append(f.batch, c)
	}
	if err := f.disk.RunTracked("applying entries", func() error { return f.stateMachine.Apply(f.batch) }); err != nil {
		f.failed = true
		f.endMember(err)
		return
	}
	clear(f.batch)
	for _, l := range logs {
		switch l.Type {
		case raft.LogCommand:
			f.appliedTerm.Store(l.Term)
		case raft.LogConfiguration:
			f.onConfiguration()
		}
	}
	f.appliedIndex.Store(logs[len(logs)-1].Index)
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.failed {
		return nil, errStateMachineFailed
	}
	s, err := f.stateMachine.Snapshot()
	if err != nil {
		f.failed = true
		f.endMember(err)
		return nil, err
	}
	f.writingSnapshot.Store(true)
	f.metrics.stages.BeginCause(stages.Snapshot)
	return fsmSnapshot{s, f, time.Now()}, nil
}

// Restore implements raft.FSM. If it fails while raft is starting, raft tries an older snapshot.
func (f *fsm) Restore(r io.ReadCloser) error {
	err := f.stateMachine.Restore(r)
	switch {
	case err == nil:
	case f.raftRunning():
		f.failed = true
		f.endMember(err)
	default:
		f.disk.NoteRejectedSnapshot(err)
	}
	return err
}

// fsmSnapshot adapts a Snapshot to raft.
type fsmSnapshot struct {
	Snapshot
	fsm       *fsm
	startedAt time.Time
}

// Persist implements raft.FSMSnapshot. It waits until the log is on the disk up to the snapshot's last entry, which may have
// been applied before: a start takes a log that ends before a snapshot of its own for one that has lost its end.
func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	of := sink.(*disk.Sink) // raft has no others
	if !s.fsm.disk.AwaitDurable(of.Index) {
		return errors.Join(errStateMachineFailed, sink.Cancel())
	}
	of.NoteTaken()
	n, err := s.WriteTo(disk.NewPacedWriter(sink, &s.fsm.noPauses, s.startedAt))
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	s.fsm.metrics.snapshotDurations.AddSince(s.startedAt)
	s.fsm.lastSnapshot.Store(&StoredSnapshot{
		Index: of.Index, Term: of.Term, Zxid: s.Zxid(), Bytes: n,
		WriteDuration: time.Since(s.startedAt),
	})
	return nil
}

// Release implements raft.FSMSnapshot. raft calls it once for each snapshot, whether it was written or not.
func (s fsmSnapshot) Release() {
	s.Snapshot.Release()
	s.fsm.writingSnapshot.Store(false)
	s.fsm.metrics.stages.EndCause(stages.Snapshot)
}
