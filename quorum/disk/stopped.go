package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// ErrNoData is the error for a directory that holds nothing that the other members count on.
var ErrNoData = errors.New("quorum: no data to recover from")

// checkMemberBegan returns ErrNoData if no member has begun in a data directory.
func checkMemberBegan(dir string) error {
	own, err := memberDirectory(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(own, identityName)); err != nil {
		return fmt.Errorf("%w: %w", ErrNoData, err)
	}
	return nil
}

// DataEnd says how far a member's data go.
type DataEnd struct {
	Index, Term uint64    // of the last entry
	LastTime    time.Time // when a leader appended that entry, or when the snapshot that contains it was written; zero: unknown
}

// Before reports whether other goes further than e, as raft compares logs.
func (e DataEnd) Before(other DataEnd) bool {
	return cmp.Or(cmp.Compare(e.Term, other.Term), cmp.Compare(e.Index, other.Index)) < 0
}

// ReadDataEnd returns how far the data of a stopped member go. It changes no more than a start would:
// it removes writes that a crash left incomplete. It returns ErrNoData if there are no data. An error of
// the directory itself matches ErrUnusable.
func ReadDataEnd(dir, logDir string) (e DataEnd, err error) {
	defer func() { err = asUnusable(err) }()
	d, err := OpenStopped(Config{DataDir: dir, LogDir: logDir, RaftLog: hclog.NewNullLogger()})
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s := d.unguarded
	list, err := s.Snapshots.List()
	if err != nil {
		return e, fmt.Errorf("quorum: list snapshots: %w", err)
	}
	if len(list) > 0 {
		e = DataEnd{Index: list[0].Index, Term: list[0].Term, LastTime: snapshotTime(list[0].ID)}
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return e, fmt.Errorf("quorum: read log: %w", err)
	}
	if last > e.Index {
		var l raft.Log
		if err := s.Log.GetLog(last, &l); err != nil {
			return e, fmt.Errorf("quorum: read log: %w", err)
		}
		e = DataEnd{Index: last, Term: l.Term, LastTime: l.AppendedAt}
	}
	if e.Index <= BootstrapIndex {
		return DataEnd{}, ErrNoData
	}
	return e, nil
}

// NewestConfiguration returns the newest configuration in the log, or if that has none, in the newest snapshot. It reads the log from its
// end, so its cost grows with the entries after the last change.
func (d *Data) NewestConfiguration() (c raft.Configuration, err error) {
	first, err := d.unguarded.Log.FirstIndex()
	if err != nil {
		return c, fmt.Errorf("quorum: read log: %w", err)
	}
	last, err := d.unguarded.Log.LastIndex()
	if err != nil {
		return c, fmt.Errorf("quorum: read log: %w", err)
	}
	for at := last; at >= first && at > 0; at-- {
		var l raft.Log
		if err := d.unguarded.Log.GetLog(at, &l); err != nil {
			return c, fmt.Errorf("quorum: read log: %w", err)
		}
		if l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data), nil
		}
	}
	list, err := d.unguarded.Snapshots.List()
	if err != nil {
		return c, fmt.Errorf("quorum: list snapshots: %w", err)
	}
	if len(list) > 0 {
		c = list[0].Configuration
	}
	return c, nil
}

// EntriesAsCommands returns the log for raft.RecoverCluster: see allEntries. It has no guard.
func (d *Data) EntriesAsCommands() raft.LogStore { return entriesAsCommands{d.unguarded.Log} }

// entriesAsCommands is a log in which raft's own entries are commands without data. So RecoverCluster
// passes them to the state machine too, and the snapshot goes to the index that it claims.
type entriesAsCommands struct{ raft.LogStore }

// GetLog implements raft.LogStore.
func (a entriesAsCommands) GetLog(index uint64, l *raft.Log) error {
	err := a.LogStore.GetLog(index, l)
	if err == nil && l.Type != raft.LogCommand {
		l.Type, l.Data = raft.LogCommand, nil
	}
	return err
}
