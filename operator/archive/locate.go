package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"rollcall/quorum"
	"rollcall/quorum/history"
)

// ErrOtherPast means that the archive has another log under the same name: the directories of all members are copies, and the ensemble
// that has the others, or had them, has sent its entries here.
var ErrOtherPast = errors.New("the archive has other entries under the name of this log, as if another ensemble ran with copies of the " +
	"directories of all members, or all members had been put back from copies of an earlier day; nothing more is sent: name another " +
	"directory or prefix in archive.to")

// locateEnd finds the last entry in the archive. If the member does not have the entries after it any more, or the archive has none, a
// snapshot is sent, and the entries after it are next.
//
// The names of objects are input from strangers. So the place is the end of a run whose last entry is the member's own, as its checksum
// shows, or a snapshot that this Sender has sent: no other object can make it skip an entry.
func (s *Sender) locateEnd(ctx context.Context) error {
	own, err := s.newestSpan()
	if err != nil {
		return err
	}
	within, stop := context.WithTimeout(ctx, putTimeout)
	defer stop()
	l, err := listLog(within, s.cfg.Store, s.logName, own.First-min(own.First, maxRunEntries))
	if err == nil && len(l.runs) == 0 {
		l, err = listLog(within, s.cfg.Store, s.logName, 0)
	}
	if err != nil {
		return err
	}
	if err := s.noteNewestState(within, l.states, own.Last); err != nil {
		return err
	}
	slices.SortStableFunc(l.runs, func(a, b run) int { return cmp.Compare(b.last.Index, a.last.Index) })
	end, err := s.endOf(ctx, own, l.runs)
	if err != nil {
		return err
	}
	s.checkedFrom = end.Index
	switch {
	case s.begun.Index > end.Index && s.begun.Index+1 >= own.First && slices.ContainsFunc(l.states, s.isBegun):
		s.setPosition(s.begun)
		return nil
	case end.Index < own.First:
		return s.beginArchive(ctx, own, end.Index)
	}
	s.setPosition(end)
	return nil
}

// isBegun reports whether a snapshot is the one with which this Sender made a beginning.
func (s *Sender) isBegun(n state) bool {
	return n.member == s.cfg.MemberID && n.index == s.begun.Index && n.term == s.begun.Term
}

// endOf returns the last entry that runs have of the member's log. The runs are sorted, those that reach farthest first. An entry that
// the member does not have any more cannot be compared.
func (s *Sender) endOf(ctx context.Context, own history.Span, runs []run) (end EntryID, err error) {
	for _, r := range runs {
		if r.last.Index < own.First {
			if end.Index > 0 {
				break
			}
			if sound, err := s.isSound(ctx, r); err != nil || sound {
				return r.last, err
			}
			continue
		}
		reached, err := s.compareRun(ctx, own, r, end.Index == 0)
		if err != nil {
			return end, err
		}
		if reached.Index > end.Index {
			end = reached
		}
	}
	return end, nil
}

// compareRun compares a run with the log of the member, and returns the last entry up to which they are the same, or the zero value if
// that is not known. The error wraps ErrOtherPast if the run has other entries. With thorough, it also reads entries that the log does not
// have any more, from the history.
func (s *Sender) compareRun(ctx context.Context, own history.Span, r run, thorough bool) (reached EntryID, err error) {
	index := min(r.last.Index, own.Last)
	if index <= r.before.Index {
		return EntryID{}, nil // all its entries are after those that the member has applied
	}
	e, err := s.readEntry(ctx, own, index, thorough)
	if err != nil || e == nil {
		return EntryID{}, err
	}
	id := IDOf(e)
	if index == r.last.Index && id == r.last {
		return id, nil
	}
	found, err := s.entryOf(ctx, r, index) // the name alone shows nothing
	switch {
	case err != nil || found.Index == 0:
		return EntryID{}, err
	case found != id:
		return EntryID{}, fmt.Errorf("%w; entry %d in %s is another one", ErrOtherPast, index, s.cfg.Store.Location(r.name()))
	}
	return id, nil
}

// isSound reports whether the content of a run is that of its name. If it is not, that is logged.
func (s *Sender) isSound(ctx context.Context, r run) (bool, error) {
	found, err := s.entryOf(ctx, r, r.last.Index)
	return found.Index != 0, err
}

// entryOf returns the entry of an index in a run, all of which it reads, or the zero value if the run is damaged or gone.
func (s *Sender) entryOf(ctx context.Context, r run, index uint64) (found EntryID, err error) {
	within, stop := context.WithTimeout(ctx, putTimeout)
	defer stop()
	for e, err := range readRun(within, s.cfg.Store, r) {
		switch {
		case err != nil && isDamage(err):
			s.cfg.Logger.Warn("archive: an object does not have what its name says, and is ignored", "object",
				s.cfg.Store.Location(r.name()), "err", err)
			return EntryID{}, nil
		case err != nil:
			return EntryID{}, err
		case e.Index == index:
			found = IDOf(e)
		}
	}
	return found, nil
}

// checkOthers compares the runs that were stored since the last check with the log of the member. Two ensembles with one identity, which
// begin with the same entries, both send the next ones; each finds those of the other before it sends more.
func (s *Sender) checkOthers(ctx context.Context) error {
	own, err := s.newestSpan()
	if err != nil {
		return err
	}
	within, stop := context.WithTimeout(ctx, putTimeout)
	defer stop()
	from := s.position.Index
	for item, err := range s.cfg.Store.List(within, s.logName+"/"+entriesDir, runsAfter(s.logName, s.checkedFrom+1)) {
		if err != nil {
			return err
		}
		if r, ok := parseRun(item.Name); ok {
			if _, err := s.compareRun(ctx, own, r, false); err != nil {
				return err
			}
		}
	}
	s.checkedFrom = from
	return nil
}

// noteNewestState notes the newest snapshot in the archive that has entries up to the index last at most. A name without the content
// of such a snapshot does not count.
func (s *Sender) noteNewestState(ctx context.Context, states []state, last uint64) error {
	s.lastState.Store(nil)
	for _, n := range slices.Backward(states) {
		if n.index > last {
			continue
		}
		r, err := openState(ctx, s.cfg.Store, n)
		if err == nil {
			s.lastState.Store(&n)
			return r.Close()
		}
		if !isDamage(err) {
			return err
		}
		s.cfg.Logger.Warn("archive: a snapshot does not have what its name says, and is ignored", "err", err)
	}
	return nil
}

// errSnapshotNeeded ends a round after a snapshot was made for want of one. The next round finds it.
var errSnapshotNeeded = errors.New("this member had no snapshot from which the archive can begin; one was made")

// beginArchive makes a beginning in the archive, which ends with the entry of index end: with the first entry of the log, or with the oldest
// snapshot of the member that can be read.
func (s *Sender) beginArchive(ctx context.Context, own history.Span, end uint64) error {
	if own.First == 1 {
		s.setPosition(EntryID{})
		return nil
	}
	for _, n := range own.Snapshots {
		s.reportLost(end, n.Index)
		err := s.sendState(ctx, s.logName, n)
		if errors.Is(err, errUnreadable) && ctx.Err() == nil {
			s.cfg.Logger.Error("archive: a snapshot of this member cannot be read; the archive begins with a later one", "err", err)
			continue
		}
		if err == nil {
			s.begun = EntryID{Index: n.Index, Term: n.Term}
			s.setPosition(s.begun)
		}
		return err
	}
	if err := s.cfg.Member.TakeSnapshot(ctx); err != nil {
		return err
	}
	return errSnapshotNeeded
}

// reportLost counts and logs the entries after one index up to another one, which will not be in the archive. An attempt to make a
// beginning may fail and be repeated: each entry is counted once. In an empty archive nothing is missing.
func (s *Sender) reportLost(end, begins uint64) {
	if end != s.lost.after {
		s.lost = lostEntries{after: end, until: end}
	}
	if end == 0 || begins <= s.lost.until {
		return
	}
	s.stats.lostEntries.Add(begins - s.lost.until)
	s.lost.until = begins
	s.cfg.Logger.Error("archive: entries are not on this member any more, or no snapshot before them can be read, and they were not sent; "+
		"the archive has a gap, after which it begins with a snapshot", "after", end, "lost", begins-end, "log", s.logName)
}

// lostEntries are those that were last reported as lost.
type lostEntries struct{ after, until uint64 }

// readEntry returns an entry of the member, or nil if it does not have it any more. Without thorough, it looks only in the log.
func (s *Sender) readEntry(ctx context.Context, own history.Span, index uint64, thorough bool) (*raft.Log, error) {
	if index < own.First {
		return nil, nil
	}
	read := func() ([]*raft.Log, error) { return s.cfg.Log.ReadEntries(index-1, 1) }
	if thorough {
		read = func() ([]*raft.Log, error) { return s.readAfter(ctx, index-1, 1) }
	}
	entries, err := read()
	switch {
	case errors.Is(err, quorum.ErrEntriesGone):
		return nil, nil
	case err != nil || len(entries) == 0:
		return nil, err
	}
	return entries[0], nil
}
