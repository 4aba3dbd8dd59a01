package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
)

// SnapshotContents says how far a snapshot goes, by the data that the state machine wrote into it.
type SnapshotContents struct {
	Index uint64 // the last entry that was applied
	Term  uint64 // the term of that entry or of an earlier one
}

// CheckMetadata compares c with the index and term that the snapshot is said to have.
func (c SnapshotContents) CheckMetadata(index, term uint64) error {
	switch {
	case c.Index != index:
		return fmt.Errorf("the snapshot is %w: it goes to index %d, and is said to go to %d", ErrDamaged, c.Index, index)
	case c.Term > term:
		return fmt.Errorf("the snapshot is %w: it has an entry of term %d, and is said to end in term %d", ErrDamaged, c.Term, term)
	}
	return nil
}

// Repair corrects what a crash during the installation of a snapshot leaves: a log that ends before
// the snapshot, or contradicts it. The snapshot replaces that log, so Repair deletes the whole log.
// Before that, verify, which belongs to the state machine, must have read the whole snapshot. A gap
// between log and snapshot is damage. Repair must be called before raft runs.
func (d *Data) Repair(verify func(io.Reader) (SnapshotContents, error)) error {
	s := d.unguarded
	list, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("quorum: list snapshots: %w", err)
	}
	var snap raft.SnapshotMeta
	if len(list) > 0 {
		snap = *list[0]
	}
	first, err := s.Log.FirstIndex()
	if err != nil {
		return fmt.Errorf("quorum: read log: %w", err)
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("quorum: read log: %w", err)
	}
	drop := false
	switch {
	case first == 0:
		return nil
	case first > snap.Index+1:
		return withReason(fmt.Errorf("quorum: data is %w: %s begins at index %d, the newest readable snapshot ends at %d",
			ErrDamaged, d.logLocation(), first, snap.Index), newestUnreadable(s))
	case last < snap.Index:
		drop = true
	case first <= snap.Index:
		var at raft.Log
		if err := s.Log.GetLog(snap.Index, &at); err != nil {
			return fmt.Errorf("quorum: read log: %w", err)
		}
		drop = at.Term != snap.Term
	}
	if !drop {
		return nil
	}
	err = newestUnreadable(s)
	if err == nil {
		err = verifySnapshot(s, &snap, verify)
	}
	if errors.Is(err, ErrNewerFormat) {
		return newerVersionError(fmt.Errorf("snapshot %s: %w", snap.ID, err))
	} else if err != nil {
		return fmt.Errorf("quorum: %s, from %d to %d, does not fit snapshot %s, which cannot take its place: %w",
			d.logLocation(), first, last, snap.ID, err)
	}
	if err := s.Log.DeleteRange(first, last); err != nil {
		return fmt.Errorf("quorum: drop log before snapshot: %w", err)
	}
	return nil
}

// logLocation returns a name for the log, with its path if it is in files.
func (d *Data) logLocation() string {
	switch {
	case len(d.directories) == 0:
		return "the log"
	case logKindOf(d.directories) == LogWAL:
		return "the log in " + filepath.Join(d.logDirectory().dir, walName)
	}
	return "the log in " + filepath.Join(d.logDirectory().dir, logName)
}

// newestUnreadable returns why the newest snapshot cannot be read. It returns nil if it can, or if
// snapshots are not files. Older snapshots do not matter.
func newestUnreadable(s Stores) error {
	files, ok := s.Snapshots.(*snapshotFiles)
	if !ok {
		return nil
	}
	index, why, err := files.newestUnreadable()
	list, lerr := files.List()
	if err = errors.Join(err, lerr); err != nil || why == nil {
		return err
	}
	if len(list) > 0 && index <= list[0].Index {
		return nil
	}
	return why
}

// newerVersionError returns the error for data that this version cannot read because a newer one wrote
// them.
func newerVersionError(why error) error {
	return fmt.Errorf("quorum: %w; nothing is damaged: start the newer version", why)
}

// withReason adds the reason why to err, if there is one.
func withReason(err, why error) error {
	if why == nil || err == nil {
		return cmp.Or(err, why)
	}
	return fmt.Errorf("%w (%w)", err, why)
}

// verifySnapshot reads all of a snapshot, and compares its contents with its metadata.
func verifySnapshot(s Stores, meta *raft.SnapshotMeta, verify func(io.Reader) (SnapshotContents, error)) error {
	_, r, err := s.Snapshots.Open(meta.ID)
	if err != nil {
		return err
	}
	c, err := verify(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	return c.CheckMetadata(meta.Index, meta.Term)
}

// NewestSnapshotIndex returns the index of the newest stored snapshot, readable or not, or 0 if there is none.
func (d *Data) NewestSnapshotIndex() (newest uint64, err error) {
	if list, err := d.unguarded.Snapshots.List(); err != nil {
		return 0, err
	} else if len(list) > 0 {
		newest = list[0].Index
	}
	if files, ok := d.unguarded.Snapshots.(*snapshotFiles); ok {
		named, _, err := files.newestUnreadable()
		return max(newest, named), err
	}
	return newest, nil
}

// NewestReadableSnapshot returns the index of the newest readable snapshot, and when it was written. The index is
// 0 if there is none, and the time is zero if the store does not say it. It reads files, without a guard.
func (d *Data) NewestReadableSnapshot() (index uint64, at time.Time, err error) {
	list, err := d.unguarded.Snapshots.List()
	if err != nil || len(list) == 0 {
		return 0, time.Time{}, err
	}
	return list[0].Index, snapshotTime(list[0].ID), nil
}

// SnapshotRejected records that the state machine did not accept the snapshot that was opened last, and why:
// raft then tries an older one while it starts. It must not be called while raft runs.
func (d *Data) SnapshotRejected(why error) {
	d.rejectedSnapshot = withReason(fmt.Errorf("snapshot %s: %w", d.snapshotStore.lastOpened, why), d.rejectedSnapshot)
}

// NewestUnusedReason returns why raft has not started from the newest snapshot, or nil if it has.
func (d *Data) NewestUnusedReason() error {
	if why := withReason(d.rejectedSnapshot, d.snapshotStore.openError); why != nil {
		return why
	}
	return newestUnreadable(d.unguarded)
}

// UnusableError returns the error for data with which raft could not start. err says what raft did not
// find.
func (d *Data) UnusableError(err error) error {
	if errors.Is(d.rejectedSnapshot, ErrNewerFormat) {
		return newerVersionError(d.rejectedSnapshot)
	}
	return withReason(fmt.Errorf("quorum: start raft: data is %w: %w", ErrDamaged, err), d.NewestUnusedReason())
}

// CheckReadable returns an error if the newest snapshot cannot be read and the log does not reach
// as far. It reads the snapshots with verify, newest first, until one is sound.
func (d *Data) CheckReadable(verify func(io.Reader) (SnapshotContents, error)) error {
	s := d.unguarded
	newest, err := d.NewestSnapshotIndex()
	if err != nil {
		return err
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("quorum: read log: %w", err)
	}
	list, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("quorum: list snapshots: %w", err)
	}
	why := newestUnreadable(s)
	for _, meta := range list {
		verr := verifySnapshot(s, meta, verify)
		if verr == nil {
			last = max(last, meta.Index)
			break
		}
		why = withReason(fmt.Errorf("snapshot %s: %w", meta.ID, verr), why)
	}
	if last < newest && errors.Is(why, ErrNewerFormat) {
		return newerVersionError(why)
	} else if last < newest {
		return withReason(fmt.Errorf("quorum: data is %w: the snapshot of index %d cannot be read, and the readable data end at %d", ErrDamaged, newest, last), why)
	}
	return nil
}
