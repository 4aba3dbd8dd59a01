package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// Contents is how far a snapshot goes, by what the state machine has put into it.
type Contents struct {
	Index uint64 // of the last entry that was applied
	Term  uint64 // of an entry, that one or one before
}

// Check compares c with what is said of the snapshot. A recovery may let a snapshot end in
// entries of raft's own, of which the state machine does not hear.
func (c Contents) Check(index, term uint64, recovered bool) error {
	switch {
	case c.Index > index, c.Index < index && !recovered:
		return fmt.Errorf("the snapshot is %w: it goes to index %d, and is said to go to %d", ErrDamaged, c.Index, index)
	case c.Term > term:
		return fmt.Errorf("the snapshot is %w: it has an entry of term %d, and is said to end in term %d", ErrDamaged, c.Term, term)
	}
	return nil
}

// Mend sets right what a crash in the middle of installing a snapshot leaves: a log that
// lies below the snapshot, or contradicts it. All of it goes, as the snapshot has taken its
// place; but not before all of the snapshot has been read by verify, a state machine's. A gap
// between the two is damage. recovered says that the data went through a recovery. Mend is
// called before raft runs.
func (d *Data) Mend(verify func(io.Reader) (Contents, error), recovered bool) error {
	s := d.bare
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
		return because(fmt.Errorf("quorum: data is %w: %s begins at index %d, the newest readable snapshot ends at %d",
			ErrDamaged, d.theLog(), first, snap.Index), unreadable(s))
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
	err = unreadable(s)
	if err == nil {
		err = verifyStored(s, &snap, verify, recovered)
	}
	if errors.Is(err, ErrNewerFormat) {
		return newerVersion(fmt.Errorf("snapshot %s: %w", snap.ID, err))
	} else if err != nil {
		return fmt.Errorf("quorum: %s, from %d to %d, does not fit snapshot %s, which cannot take its place: %w",
			d.theLog(), first, last, snap.ID, err)
	}
	if err := s.Log.DeleteRange(first, last); err != nil {
		return fmt.Errorf("quorum: drop log before snapshot: %w", err)
	}
	return nil
}

// theLog names the log, with its place if it is in files.
func (d *Data) theLog() string {
	switch {
	case len(d.folders) == 0:
		return "the log"
	case storeOf(d.folders) == LogWAL:
		return "the log in " + filepath.Join(d.logFolder().dir, walName)
	}
	return "the log in " + filepath.Join(d.logFolder().dir, logName)
}

// unreadable is why the newest snapshot cannot be read; nil if it can, or is not in files. An
// older one is of no account.
func unreadable(s Stores) error {
	files, ok := s.Snapshots.(*snapshotFiles)
	if !ok {
		return nil
	}
	index, why, err := files.unreadable()
	list, lerr := files.List()
	if err = errors.Join(err, lerr); err != nil || why == nil {
		return err
	}
	if len(list) > 0 && index <= list[0].Index {
		return nil
	}
	return why
}

// newerVersion is the error about what this version cannot read because a newer one wrote it.
func newerVersion(why error) error {
	return fmt.Errorf("quorum: %w; nothing is damaged: start the newer version", why)
}

// because adds a reason, if there is one, to err.
func because(err, why error) error {
	if why == nil || err == nil {
		return cmp.Or(err, why)
	}
	return fmt.Errorf("%w (%w)", err, why)
}

// verifyStored reads all of a snapshot, and compares its contents with its metadata.
func verifyStored(s Stores, meta *raft.SnapshotMeta, verify func(io.Reader) (Contents, error), recovered bool) error {
	_, r, err := s.Snapshots.Open(meta.ID)
	if err != nil {
		return err
	}
	c, err := verify(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	return c.Check(meta.Index, meta.Term, recovered)
}

// Newest returns the index of the newest snapshot that is stored, readable or not; 0 if there is
// none.
func (d *Data) Newest() (newest uint64, err error) {
	if list, err := d.bare.Snapshots.List(); err != nil {
		return 0, err
	} else if len(list) > 0 {
		newest = list[0].Index
	}
	if files, ok := d.bare.Snapshots.(*snapshotFiles); ok {
		named, _, err := files.unreadable()
		return max(newest, named), err
	}
	return newest, nil
}

// Refused notes that the state machine did not take the snapshot that was opened last, and why:
// raft goes on to an older one while it starts. Not to be called while raft runs.
func (d *Data) Refused(why error) {
	d.refused = because(fmt.Errorf("snapshot %s: %w", d.snaps.opened, why), d.refused)
}

// Unused is why raft has not started from the newest snapshot; nil if it has.
func (d *Data) Unused() error {
	if why := because(d.refused, d.snaps.failed); why != nil {
		return why
	}
	return unreadable(d.bare)
}

// Unusable returns the error about data with which raft could not start; err says what raft did
// not find.
func (d *Data) Unusable(err error) error {
	if errors.Is(d.refused, ErrNewerFormat) {
		return newerVersion(d.refused)
	}
	return because(fmt.Errorf("quorum: start raft: data is %w: %w", ErrDamaged, err), d.Unused())
}

// CheckReadable refuses data whose newest snapshot cannot be read and is not made up for by
// the log. It reads the newest ones with verify, until one is sound.
func (d *Data) CheckReadable(verify func(io.Reader) (Contents, error)) error {
	s := d.bare
	newest, err := d.Newest()
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
	why := unreadable(s)
	for _, meta := range list {
		verr := verifyStored(s, meta, verify, true)
		if verr == nil {
			last = max(last, meta.Index)
			break
		}
		why = because(fmt.Errorf("snapshot %s: %w", meta.ID, verr), why)
	}
	if last < newest && errors.Is(why, ErrNewerFormat) {
		return newerVersion(why)
	} else if last < newest {
		return because(fmt.Errorf("quorum: data is %w: the snapshot of index %d cannot be read, what can be ends at %d", ErrDamaged, newest, last), why)
	}
	return nil
}
