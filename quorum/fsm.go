package quorum

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Machine is the replicated state machine. raft's one goroutine calls its methods, never
// two at a time; what Snapshot returned is written while Apply goes on.
type Machine interface {
	// Apply changes the state by committed entries, in the order of the log, which may
	// skip indexes (raft's own entries). batch is valid during the call only, the Data in
	// it for ever. After an error this member stops: it cannot follow the log any more.
	Apply(batch []Committed) error
	// Snapshot returns the present state. It must not take time.
	Snapshot() (Snapshot, error)
	// Restore replaces the state by a snapshot. After an error this member stops. It is
	// disk.ErrNewerFormat if a newer version wrote the snapshot.
	Restore(r io.ReadCloser) error
	// Verify reads a snapshot to its end, as Restore would, and changes nothing. Its errors are
	// Restore's. Any goroutine may call it, beside all else.
	Verify(r io.Reader) (disk.Contents, error)
}

// Committed is a committed entry of the log. Data is nil if the entry is raft's own.
type Committed struct {
	Index, Term uint64
	Data        []byte
}

// Snapshot is a state to be written. Release is called once it is no longer needed,
// whether it was written or not.
type Snapshot interface {
	WriteTo(w io.Writer) (int64, error)
	Release()
}

var errMachineStopped = errors.New("quorum: the state machine has failed")

// fsm is the Machine as raft sees it.
type fsm struct {
	machine Machine
	fail    func(error)
	commits func() // hears that entries were committed, before they are applied
	// timed does what may hang; what says it in an error.
	timed   func(what string, op func() error) error
	figures *figures
	running func() bool     // false while raft looks for a snapshot to start from
	refused func(why error) // hears what was not restored then
	failed  bool            // raft's FSM goroutine only
	hurry   atomic.Bool     // snapshots are written without pauses: no client is served
	batch   []Committed
	index   atomic.Uint64 // last entry applied
	term    atomic.Uint64 // of the last command applied, or contained in an installed snapshot
}

// Apply implements raft.FSM; only RecoverCluster calls it.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM: one response for each entry, nil or the error
// that stopped the machine.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	f.commits()
	responses := make([]any, len(logs))
	if !f.failed {
		f.apply(logs)
	}
	if f.failed {
		for i := range responses {
			responses[i] = errMachineStopped
		}
	}
	return responses
}

func (f *fsm) apply(logs []*raft.Log) {
	f.batch = f.batch[:0]
	for _, l := range logs {
		c := Committed{Index: l.Index, Term: l.Term}
		if l.Type == raft.LogCommand {
			c.Data = l.Data
		}
		f.batch = append(f.batch, c)
	}
	if err := f.timed("applying entries", func() error { return f.machine.Apply(f.batch) }); err != nil {
		f.failed = true
		f.fail(err)
		return
	}
	clear(f.batch)
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			f.term.Store(l.Term)
		}
	}
	f.index.Store(logs[len(logs)-1].Index)
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.failed {
		return nil, errMachineStopped
	}
	s, err := f.machine.Snapshot()
	if err != nil {
		f.failed = true
		f.fail(err)
		return nil, err
	}
	return fsmSnapshot{s, f, time.Now()}, nil
}

// Restore implements raft.FSM. While starting, raft goes on to an older snapshot after an
// error.
func (f *fsm) Restore(r io.ReadCloser) error {
	err := f.machine.Restore(r)
	switch {
	case err == nil:
	case f.running():
		f.failed = true
		f.fail(err)
	default:
		f.refused(err)
	}
	return err
}

// fsmSnapshot is a Snapshot as raft sees it.
type fsmSnapshot struct {
	Snapshot
	fsm   *fsm
	begun time.Time
}

// Persist implements raft.FSMSnapshot.
func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := s.WriteTo(disk.Paced(sink, &s.fsm.hurry, s.begun)); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	s.fsm.figures.snapshot.Since(s.begun)
	return nil
}
