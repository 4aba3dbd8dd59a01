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

// ErrNoData is the error for a directory without data that other members count on.
var ErrNoData = errors.New("quorum: no data to recover from")

// checkMemberBegan returns ErrNoData if no member has used a data directory.
func checkMemberBegan(dir string) error {
	memberDir, err := memberOrLogDirectory(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(memberDir, identityName)); err != nil {
		return fmt.Errorf("%w: %w", ErrNoData, err)
	}
	return nil
}

// DataEnd is the last entry of a member's data.
type DataEnd struct {
	Index, Term uint64 // of the last entry
	// when a leader appended that entry, or when the snapshot that contains it was written; zero: unknown
	LastTime time.Time
}

// Before reports whether other is more up to date than e, as raft compares logs.
func (e DataEnd) Before(other DataEnd) bool {
	return cmp.Or(cmp.Compare(e.Term, other.Term), cmp.Compare(e.Index, other.Index)) < 0
}

// ReadDataEnd returns the end of a stopped member's data. Like a start, it removes writes that a crash left
// incomplete. It returns ErrNoData if there are no data. An error for the directory itself matches ErrUnusable.
func ReadDataEnd(dir, logDir string) (e DataEnd, err error) {
	defer func() { err = asUnusable(err) }()
	d, err := OpenStopped(Config{DataDir: dir, LogDir: logDir, RaftLogger: hclog.NewNullLogger()})
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s := d.unguarded
	newest, err := s.newestSnapshot()
	if err != nil {
		return e, err
	}
	if newest != nil {
		e = DataEnd{Index: newest.Index, Term: newest.Term, LastTime: snapshotTime(newest.ID)}
	}
	_, last, err := s.logRange()
	if err != nil {
		return e, err
	}
	if last > e.Index {
		l, err := s.readEntry(last)
		if err != nil {
			return e, err
		}
		e = DataEnd{Index: last, Term: l.Term, LastTime: l.AppendedAt}
	}
	if e.Index <= BootstrapIndex {
		return DataEnd{}, ErrNoData
	}
	return e, nil
}

// NewestConfiguration returns the newest configuration in the log, or if that has none, in the newest snapshot. It
// reads the log backwards, so its cost grows with the entries after the last change.
func (d *Data) NewestConfiguration() (c raft.Configuration, err error) {
	first, last, err := d.unguarded.logRange()
	if err != nil {
		return c, err
	}
	for at := last; at >= first && at > 0; at-- {
		l, err := d.unguarded.readEntry(at)
		if err != nil {
			return c, err
		}
		if l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data), nil
		}
	}
	newest, err := d.unguarded.newestSnapshot()
	if newest != nil {
		c = newest.Configuration
	}
	return c, err
}

// EntriesAsCommands returns the log for raft.RecoverCluster, without guard.
func (d *Data) EntriesAsCommands() raft.LogStore { return entriesAsCommands{d.unguarded.Log} }

// entriesAsCommands is a log in which raft's own entries are commands without data. So RecoverCluster passes them
// to the state machine too, and the snapshot goes to the index that it claims.
type entriesAsCommands struct{ raft.LogStore }

func (a entriesAsCommands) GetLog(index uint64, l *raft.Log) error {
	err := a.LogStore.GetLog(index, l)
	if err == nil && l.Type != raft.LogCommand {
		l.Type, l.Data = raft.LogCommand, nil
	}
	return err
}
