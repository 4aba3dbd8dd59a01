package member

import (
	"errors"
	"fmt"
	"io"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// machine implements quorum.Machine on the state: it applies the log to it and makes snapshots of
// it.
type machine struct {
	state   *znode.State
	damaged func(error)        // called when a snapshot showed that the state is damaged
	applied func()             // called after each entry that was applied, without the lock
	applies *metrics.Durations // how long applying an entry took
}

// Apply applies committed entries in order. It releases the lock after each, so that reads get
// their turn.
func (a machine) Apply(batch []quorum.Committed) error {
	for _, c := range batch {
		var entry *proto.Entry // nil: raft's own
		if c.Data != nil {
			entry = new(proto.Entry)
			if err := protobuf.Unmarshal(c.Data, entry); err != nil {
				return fmt.Errorf("member: log entry %d cannot be read: %w", c.Index, err)
			}
		}
		begun := time.Now()
		if err := a.apply(c, entry); err != nil {
			return err
		}
		if entry != nil {
			a.applies.AddSince(begun)
		}
		a.applied()
	}
	return nil
}

func (a machine) apply(c quorum.Committed, entry *proto.Entry) error {
	a.state.Lock()
	defer a.state.Unlock()
	if err := a.state.ApplyEntry(c.Index, c.Term, entry); err != nil {
		return fmt.Errorf("member: apply log entry %d: %w", c.Index, err)
	}
	return nil
}

// Snapshot returns a copy of the state. It waits for nothing but the lock.
func (a machine) Snapshot() (quorum.Snapshot, error) {
	a.state.Lock()
	defer a.state.Unlock()
	return snapshot{a.state.Snapshot(), a.damaged}, nil
}

// Restore replaces the state. The state's hooks close the clients' connections.
func (a machine) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // it was only read
	return newer(a.state.RestoreSnapshot(r))
}

// Verify reads a snapshot and makes all of Restore's checks. It takes no lock.
func (a machine) Verify(r io.Reader) (disk.SnapshotContents, error) {
	index, term, err := znode.VerifySnapshot(r)
	return disk.SnapshotContents{Index: index, Term: term}, newer(err)
}

// newer wraps an error that says that a newer version wrote a snapshot, so that it is
// disk.ErrNewerFormat too.
func newer(err error) error {
	if errors.Is(err, znode.ErrNewerSnapshot) {
		return fmt.Errorf("%w: %w", disk.ErrNewerFormat, err)
	}
	return err
}

type snapshot struct {
	*znode.Snapshot
	damaged func(error)
}

// WriteTo also reports damage if the state that it writes is not the one that the log made.
func (s snapshot) WriteTo(w io.Writer) (int64, error) {
	n, err := s.Snapshot.WriteTo(w)
	if errors.Is(err, znode.ErrDamaged) {
		s.damaged(err)
	}
	return n, err
}

func (snapshot) Release() {}
