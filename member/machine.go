package member

import (
	"errors"
	"fmt"
	"io"
	"time"

	"rollcall/internal/metrics"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// stateMachine implements quorum.StateMachine on the state: it applies the log to it and makes snapshots of
// it.
type stateMachine struct {
	state          *znode.State
	onDamage       func(error)        // called when a snapshot shows that the state is damaged
	onApplied      func()             // called after each applied entry, without the lock
	applyDurations *metrics.Durations // of applying an entry
	stages         *stages.Recorder   // nil: nothing is recorded
	ownReadLease   time.Duration      // see quorum.StateMachine
}

// offlineMachine returns a stateMachine for a member that does not run.
func offlineMachine(state *znode.State) stateMachine {
	return stateMachine{
		state: state, onDamage: func(error) {}, onApplied: func() {},
		applyDurations: new(metrics.Durations),
	}
}

// Apply applies committed entries in order. It releases the lock after each, so that reads get
// their turn.
func (a stateMachine) Apply(batch []quorum.CommittedEntry) error {
	for _, c := range batch {
		var entry *proto.Entry // nil: raft's own
		if c.Data != nil {
			var err error
			if entry, err = proto.UnmarshalEntry(c.Data); err != nil {
				return fmt.Errorf("member: log entry %d cannot be read: %w", c.Index, err)
			}
		}
		begun := time.Now()
		a.stages.ApplyBegun(c.Index)
		if err := a.applyEntry(c, entry); err != nil {
			return err
		}
		a.stages.Applied(c.Index)
		if entry != nil {
			a.applyDurations.AddSince(begun)
		}
		a.onApplied()
	}
	return nil
}

func (a stateMachine) applyEntry(c quorum.CommittedEntry, entry *proto.Entry) error {
	a.state.Lock()
	defer a.state.Unlock()
	a.stages.ApplyLocked(c.Index)
	if err := a.state.ApplyEntry(c.Index, c.Term, entry); err != nil {
		return fmt.Errorf("member: apply log entry %d: %w", c.Index, err)
	}
	return nil
}

// Snapshot returns a copy of the state. It only waits for the lock.
func (a stateMachine) Snapshot() (quorum.Snapshot, error) {
	a.state.Lock()
	defer a.state.Unlock()
	return stateSnapshot{a.state.Snapshot(), a.onDamage}, nil
}

// Restore replaces the state. The state's hooks close the clients' connections.
func (a stateMachine) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // it was only read
	return wrapNewerFormat(a.state.RestoreSnapshot(r))
}

// Verify reads a snapshot and makes all of Restore's checks. It takes no lock.
func (a stateMachine) Verify(r io.Reader) (disk.SnapshotContents, error) {
	index, term, err := znode.VerifySnapshot(r)
	return disk.SnapshotContents{Index: index, Term: term}, wrapNewerFormat(err)
}

// ReadLease implements quorum.StateMachine.
func (a stateMachine) ReadLease() (lease time.Duration, index uint64) {
	a.state.RLock()
	defer a.state.RUnlock()
	return time.Duration(a.state.Term().ReadLeaseMs) * time.Millisecond, a.state.Index()
}

// OwnReadLease implements quorum.StateMachine.
func (a stateMachine) OwnReadLease() time.Duration { return a.ownReadLease }

// ReadLeaseOf implements quorum.StateMachine.
func (a stateMachine) ReadLeaseOf(data []byte) (time.Duration, bool) { return znode.ReadLeaseOf(data) }

// wrapNewerFormat makes znode.ErrNewerSnapshot a disk.ErrNewerFormat, too.
func wrapNewerFormat(err error) error {
	if errors.Is(err, znode.ErrNewerSnapshot) {
		return fmt.Errorf("%w: %w", disk.ErrNewerFormat, err)
	}
	return err
}

type stateSnapshot struct {
	*znode.Snapshot
	onDamage func(error)
}

// WriteTo also reports damage if the state differs from the one that the log made.
func (s stateSnapshot) WriteTo(w io.Writer) (int64, error) {
	n, err := s.Snapshot.WriteTo(w)
	if errors.Is(err, znode.ErrDamaged) {
		s.onDamage(err)
	}
	return n, err
}

func (stateSnapshot) Release() {}
