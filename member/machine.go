package member

import (
	"errors"
	"fmt"
	"io"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// machine implements quorum.Machine over the state: log in, state out.
type machine struct {
	state   *znode.State
	damaged func(error) // hears that a snapshot showed the state to be damaged
	applied func()      // hears of each entry that was applied, when the lock has been given back
}

// Apply takes committed entries in order. The lock is given back after each, so that
// reads get between them.
func (a machine) Apply(batch []quorum.Committed) error {
	for _, c := range batch {
		var entry *proto.Entry // nil: raft's own
		if c.Data != nil {
			entry = new(proto.Entry)
			if err := protobuf.Unmarshal(c.Data, entry); err != nil {
				return fmt.Errorf("member: log entry %d cannot be read: %w", c.Index, err)
			}
		}
		if err := a.apply(c, entry); err != nil {
			return err
		}
		a.applied()
	}
	return nil
}

func (a machine) apply(c quorum.Committed, entry *proto.Entry) error {
	a.state.Lock()
	defer a.state.Unlock()
	if err := a.state.Apply(c.Index, c.Term, entry); err != nil {
		return fmt.Errorf("member: apply log entry %d: %w", c.Index, err)
	}
	return nil
}

// Snapshot takes a copy of the state, without waiting for anything but the lock.
func (a machine) Snapshot() (quorum.Snapshot, error) {
	a.state.Lock()
	defer a.state.Unlock()
	return snapshot{a.state.Snapshot(), a.damaged}, nil
}

// Restore replaces the state. Connections of clients are closed by the observer.
func (a machine) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // it was only read
	return newer(a.state.Restore(r))
}

// Verify reads a snapshot and makes all of Restore's checks. It takes no lock.
func (a machine) Verify(r io.Reader) (disk.Contents, error) {
	index, term, err := znode.Verify(r)
	return disk.Contents{Index: index, Term: term}, newer(err)
}

// newer says in quorum's words that a newer version wrote a snapshot.
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

// WriteTo also tells if what is written is not what the log has made.
func (s snapshot) WriteTo(w io.Writer) (int64, error) {
	n, err := s.Snapshot.WriteTo(w)
	if errors.Is(err, znode.ErrDamaged) {
		s.damaged(err)
	}
	return n, err
}

func (snapshot) Release() {}
