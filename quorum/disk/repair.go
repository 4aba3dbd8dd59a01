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

// SnapshotContents is the extent of a snapshot according to the data that the state machine wrote into it.
type SnapshotContents struct {
	Index uint64 // the last entry that was applied
	Term  uint64 // the term of that entry or of an earlier one
}

// CheckMetadata compares c with the index and term of the snapshot's metadata.
func (c SnapshotContents) CheckMetadata(index, term uint64) error {
	switch {
	case c.Index != index:
		return fmt.Errorf("the snapshot is %w: it goes to index %d, and is said to go to %d", ErrDamaged, c.Index, index)
	case c.Term > term:
		return fmt.Errorf("the snapshot is %w: it has an entry of term %d, and is said to end in term %d", ErrDamaged, c.Term,
			term)
	}
	return nil
}

// RepairLog corrects the log after a crash during the installation of a snapshot: it may end before the snapshot, or
// contradict it. The snapshot replaces that log, so RepairLog deletes the whole log, after verify, which belongs to
// the state machine, has read the whole snapshot. A gap between log and snapshot is damage. So is a log that ends before a
// snapshot that was taken, or contradicts it: that log had reached the snapshot's index, and committed entries never leave a
// log unless a received snapshot replaces them. RepairLog must be called before raft runs.
func (d *Data) RepairLog(verify func(io.Reader) (SnapshotContents, error)) error {
	s := d.unguarded
	newest, err := s.newestSnapshot()
	if err != nil {
		return err
	}
	var snap raft.SnapshotMeta
	if newest != nil {
		snap = *newest
	}
	first, last, err := s.logRange()
	if err != nil {
		return err
	}
	drop, taken, text := false, s.isTaken(snap.ID), fmt.Sprintf("from %d to %d", first, last)
	switch {
	case first == 0:
		return nil
	case first > snap.Index+1:
		return withReason(fmt.Errorf("quorum: data is %w: %s begins at index %d, the newest readable snapshot ends at %d",
			ErrDamaged, d.logLocation(), first, snap.Index), newestSnapshotError(s))
	case last < snap.Index:
		drop = true
	case first <= snap.Index:
		at, err := s.readEntry(snap.Index)
		if err != nil {
			return err
		}
		drop = at.Term != snap.Term
	}
	switch {
	case !drop:
		return nil
	case taken:
		return fmt.Errorf("quorum: data is %w: %s, %s, is not that of which snapshot %s was taken; %s", ErrDamaged, d.logLocation(),
			text, snap.ID, putBackAdvice)
	}
	err = newestSnapshotError(s)
	if err == nil {
		err = verifySnapshot(s, &snap, verify)
	}
	if errors.Is(err, ErrNewerFormat) {
		return newerVersionError(fmt.Errorf("snapshot %s: %w", snap.ID, err))
	} else if err != nil {
		return fmt.Errorf("quorum: %s, %s, does not fit snapshot %s, which cannot take its place: %w", d.logLocation(), text,
			snap.ID, err)
	}
	if err := s.Log.DeleteRange(first, last); err != nil {
		return fmt.Errorf("quorum: drop log before snapshot: %w", err)
	}
	return nil
}

// logLocation describes the log, with its path if it is in files.
func (d *Data) logLocation() string {
	if len(d.directories) == 0 {
		return "the log"
	}
	return "the log in " + filepath.Join(d.logDirectory().dir, logDirName)
}

// newestSnapshotError returns an error if the newest snapshot cannot be read. It returns nil for stores that are not
// files. Older snapshots do not matter.
func newestSnapshotError(s Stores) error {
	files, ok := s.Snapshots.(*snapshotFiles)
	if !ok {
		return nil
	}
	index, reason, err := files.newestUnreadable()
	newest, serr := s.newestSnapshot()
	if err = errors.Join(err, serr); err != nil || newest != nil && index <= newest.Index {
		return err
	}
	return reason
}

// newerVersionError returns the error for data that a newer version wrote.
func newerVersionError(reason error) error {
	return fmt.Errorf("quorum: %w; nothing is damaged: start the newer version", reason)
}

// withReason adds reason, if there is one, to err.
func withReason(err, reason error) error {
	if reason == nil || err == nil {
		return cmp.Or(err, reason)
	}
	return fmt.Errorf("%w (%w)", err, reason)
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

// NewestSnapshotIndex returns the index of the newest snapshot, readable or not, or 0 if there is none.
func (d *Data) NewestSnapshotIndex() (newest uint64, err error) {
	if meta, err := d.unguarded.newestSnapshot(); err != nil {
		return 0, err
	} else if meta != nil {
		newest = meta.Index
	}
	if files, ok := d.unguarded.Snapshots.(*snapshotFiles); ok {
		named, _, err := files.newestUnreadable()
		return max(newest, named), err
	}
	return newest, nil
}

// NewestReadableSnapshot returns the index and the time of the newest readable snapshot. The index is 0 if there
// is none, and the time is zero if the store does not have it. It reads files, and an error does not end the
// member.
func (d *Data) NewestReadableSnapshot() (index uint64, at time.Time, err error) {
	newest, err := d.unguarded.newestSnapshot()
	if err != nil || newest == nil {
		return 0, time.Time{}, err
	}
	return newest.Index, snapshotTime(newest.ID), nil
}

// NoteRejectedSnapshot records that the state machine has rejected the snapshot that was opened last. raft then tries
// an older one while it starts. It must not be called while raft runs.
func (d *Data) NoteRejectedSnapshot(reason error) {
	d.rejectedSnapshot = withReason(fmt.Errorf("snapshot %s: %w", d.snapshotStore.lastOpened, reason), d.rejectedSnapshot)
}

// NewestSnapshotUnusedReason returns the reason if raft has not started from the newest snapshot, or else nil.
func (d *Data) NewestSnapshotUnusedReason() error {
	if reason := withReason(d.rejectedSnapshot, d.snapshotStore.openError); reason != nil {
		return reason
	}
	return newestSnapshotError(d.unguarded)
}

// ExplainStartError wraps err, the error with which raft could not start on the data.
func (d *Data) ExplainStartError(err error) error {
	if errors.Is(d.rejectedSnapshot, ErrNewerFormat) {
		return newerVersionError(d.rejectedSnapshot)
	}
	return withReason(fmt.Errorf("quorum: start raft: data is %w: %w", ErrDamaged, err), d.NewestSnapshotUnusedReason())
}

// CheckReadable returns an error if the newest snapshot cannot be read and the log does not reach as far. It reads
// the snapshots with verify, newest first, until one is sound.
func (d *Data) CheckReadable(verify func(io.Reader) (SnapshotContents, error)) error {
	s := d.unguarded
	newest, err := d.NewestSnapshotIndex()
	if err != nil {
		return err
	}
	_, last, err := s.logRange()
	if err != nil {
		return err
	}
	list, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("quorum: list snapshots: %w", err)
	}
	reason := newestSnapshotError(s)
	for _, meta := range list {
		verr := verifySnapshot(s, meta, verify)
		if verr == nil {
			last = max(last, meta.Index)
			break
		}
		reason = withReason(fmt.Errorf("snapshot %s: %w", meta.ID, verr), reason)
	}
	if last < newest && errors.Is(reason, ErrNewerFormat) {
		return newerVersionError(reason)
	} else if last < newest {
		return withReason(fmt.Errorf("quorum: data is %w: the snapshot of index %d cannot be read, and the readable data "+
			"end at %d", ErrDamaged, newest, last), reason)
	}
	return nil
}
