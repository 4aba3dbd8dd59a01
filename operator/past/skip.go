package past

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"rollcall/quorum/disk"
	"rollcall/znode"
)

// snapshotError is the error of reading a snapshot of the chain.
type snapshotError struct {
	Snapshot
	err        error
	isReported bool // by NewlySkipped
}

// Error implements error.
func (e *snapshotError) Error() string { return e.err.Error() }

func (e *snapshotError) Unwrap() error { return e.err }

// isUnusable reports whether a snapshot is damaged or gone. Another error, such as one of the network, is not about the snapshot.
func (e *snapshotError) isUnusable() bool {
	for _, reason := range []error{ErrDamaged, disk.ErrDamaged, znode.ErrCorrupt, fs.ErrNotExist} {
		if errors.Is(e.err, reason) {
			return true
		}
	}
	return false
}

// skip leaves out the snapshot that an error is about, if it is damaged or gone: members remove snapshots while their log is read. The
// entries give the same states from an older snapshot on. It returns true once per snapshot, so that loops around it end.
func (l *Log) skip(err error) bool {
	e, ok := errors.AsType[*snapshotError](err)
	if !ok || !e.isUnusable() || l.hasSkipped(e.Snapshot) {
		return false
	}
	l.skipped = append(l.skipped, e)
	return true
}

// NewlySkipped returns an error for each snapshot of the chain that was left out, because it is damaged or gone, since the last call. A
// state that was built from an older snapshot is as exact, so callers warn and continue.
func (l *Log) NewlySkipped() (all []error) {
	for _, e := range l.skipped {
		if !e.isReported {
			e.isReported, all = true, append(all, e)
		}
	}
	return all
}

// snapshots returns the snapshots of the chain that were not left out.
func (l *Log) snapshots() []Snapshot {
	return slices.DeleteFunc(slices.Clone(l.chain.Snapshots()), l.hasSkipped)
}

func (l *Log) hasSkipped(s Snapshot) bool {
	return slices.ContainsFunc(l.skipped, func(e *snapshotError) bool { return e.Snapshot == s })
}

// restoreUsable calls restore until it meets no snapshot that is damaged or gone. Each call has one snapshot less. If a snapshot was left
// out and no state could be built from the others, the error also has the reason why it was left out.
func (l *Log) restoreUsable(restore func() error) error {
	for {
		err := restore()
		switch {
		case l.skip(err):
			continue
		case errors.Is(err, ErrTooEarly) && len(l.skipped) > 0:
			return fmt.Errorf("%w; a snapshot was left out: %s", err, l.skipped[0].Error())
		}
		return err
	}
}

// firstHead returns the head of the first snapshot of a list that can be read, and removes those before it from the list.
func (l *Log) firstHead(of *[]Snapshot) (h znode.ImageHead, found bool, err error) {
	for ; len(*of) > 0; *of = (*of)[1:] {
		if h, err = l.readHead((*of)[0]); !l.skip(err) {
			return h, err == nil, err
		}
	}
	return h, false, nil
}

// Reaches reports whether a chain reaches back to a moment: whether a state that is not after it can be built. Only the heads of
// snapshots are read.
func Reaches(ctx context.Context, c Chain, m Moment) (bool, error) {
	snapshots := c.Snapshots()
	switch {
	case c.FirstIndex() <= 1:
		return true, nil
	case m.IsEnd():
		return len(snapshots) > 0, nil
	}
	h, found, err := newLog(ctx, c, Budget{Rest: ctx.Err}).firstHead(&snapshots)
	return found && m.mayFollow(h), err
}
