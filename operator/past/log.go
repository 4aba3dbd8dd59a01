package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"rollcall/proto"
	"rollcall/znode"
)

var (
	// ErrTooEarly means that the moment is before all that a chain can build.
	ErrTooEarly = errors.New("past: the moment is before the kept log")
	// ErrTooLate means that the chain ends before the moment.
	ErrTooLate = errors.New("past: the moment is after the kept log")
	// ErrNeverGiven means that no transaction has the zxid, although the log has later ones.
	ErrNeverGiven = errors.New("past: no transaction has this zxid")
	// ErrDamaged means that the chain is damaged.
	ErrDamaged = errors.New("past: the kept log is damaged")
	// ErrTooLarge means that a state exceeds Budget.MaxBytes.
	ErrTooLarge = errors.New("past: the state is too large")
)

// Budget limits what the building of a state takes. The zero value has no limit.
type Budget struct {
	// MaxBytes is the size of the largest state, as a snapshot of it would have; 0: there is no limit.
	MaxBytes int64
	// Rest is called between small parts of the work, some microseconds apart, and may sleep. Its error ends the work, and the
	// state stays usable unless it was being read from a snapshot. It may be nil.
	Rest func() error
	// SkipComparisons leaves out the comparison with later snapshots, whose reading can take longer than all the entries before them.
	SkipComparisons bool
}

// maxComparedBytes is the largest snapshot that is read to compare its digest, so that the comparison takes half a second at
// most where a Log passes it.
const maxComparedBytes = 64 << 20

// Log is the state of a chain at a moment. It belongs to one goroutine.
type Log struct {
	chain      Chain
	ctx        context.Context // of Open; all reads of the chain end with it
	state      *znode.State
	oldest     Point            // where the chain can begin
	latestMs   int64            // the greatest stamp of all entries so far
	unpassed   []Snapshot       // of the chain, after the state
	skipped    []*snapshotError // of the chain; see NewlySkipped
	nextHead   *znode.ImageHead // of the first of them; nil: not read yet
	nextEntry  func() (Entry, error, bool)
	stop       func()
	unapplied  *decodedEntry                // read, and after the last moment
	rest       func(zxid int64) (more bool) // applies the rest of the last entry; nil if the whole entry is applied
	observer   changeFunc
	budget     Budget
	compareAll bool // also snapshots that are larger than maxComparedBytes
}

// decodedEntry is an entry with its content, which is nil for an entry of raft's own.
type decodedEntry struct {
	Entry
	content *proto.Entry
}

// changeFunc is a znode.ChangeObserver that keeps its first error. A nil function takes nothing.
type changeFunc struct {
	take func(*znode.Change) error
	err  error
}

// ObserveChange implements znode.ChangeObserver.
func (f *changeFunc) ObserveChange(c *znode.Change) {
	if f.take != nil && f.err == nil {
		f.err = f.take(c)
	}
}

// StateReplaced implements znode.ChangeObserver.
func (f *changeFunc) StateReplaced() {}

// Open builds the state at a moment from the newest snapshot of the chain before it. Its error wraps ErrTooEarly, ErrTooLate,
// ErrNeverGiven or ErrDamaged, or is an error of the chain. All later reads of the chain end with ctx. The caller calls Close.
func Open(ctx context.Context, c Chain, m Moment) (*Log, error) {
	l, err := OpenBefore(ctx, c, m, Budget{})
	if err != nil {
		return nil, err
	}
	if err := l.Advance(m, nil); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// OpenBefore builds the state of the newest snapshot of the chain before a moment, or an empty one if the chain begins with the first
// entry and has no such snapshot. Advance moves it on to the moment. The errors are those of Open, or wrap ErrTooLarge.
func OpenBefore(ctx context.Context, c Chain, m Moment, b Budget) (*Log, error) {
	l := newLog(ctx, c, b)
	if err := l.restoreUsable(func() error { return l.restoreBefore(m) }); err != nil {
		return nil, err
	}
	l.readEntries()
	return l, nil
}

func newLog(ctx context.Context, c Chain, b Budget) *Log {
	l := &Log{chain: c, ctx: ctx, budget: b}
	l.state = znode.New(znode.Config{Observer: &l.observer})
	return l
}

// readEntries begins to read the entries of the chain after those that were read.
func (l *Log) readEntries() {
	after := l.state.Index()
	if l.unapplied != nil {
		after = l.unapplied.Index
	}
	l.nextEntry, l.stop = iter.Pull2(l.chain.Entries(l.ctx, after))
}

// Extend replaces the chain by a later one of the same log, which has more entries at its end.
func (l *Log) Extend(c Chain) {
	l.stop()
	l.chain, l.nextHead = c, nil
	l.skipped = slices.DeleteFunc(l.skipped, func(e *snapshotError) bool { return !slices.Contains(c.Snapshots(), e.Snapshot) })
	l.unpassed = slices.DeleteFunc(l.snapshots(), func(s Snapshot) bool { return s.Index <= l.state.Index() })
	l.readEntries()
}

// PassesSnapshot reports whether the chain has a snapshot between the state and a moment after it, from which the state at the moment
// can be built with fewer entries.
func (l *Log) PassesSnapshot(m Moment) (bool, error) {
	if m.IsEnd() {
		return len(l.unpassed) > 0, nil
	}
	h, found, err := l.firstHead(&l.unpassed)
	return found && m.mayFollow(h), err
}

// OpenOldest builds the oldest state that a chain has: that of its oldest snapshot, or an empty one before the first entry.
func OpenOldest(ctx context.Context, c Chain) (*Log, error) {
	return OpenOldestWithin(ctx, c, Budget{})
}

// OpenOldestWithin is OpenOldest with a budget. Its error may also wrap ErrTooLarge.
func OpenOldestWithin(ctx context.Context, c Chain, b Budget) (*Log, error) {
	l := newLog(ctx, c, b)
	if err := l.restoreUsable(l.restoreOldest); err != nil {
		return nil, err
	}
	l.readEntries()
	return l, nil
}

// restoreOldest restores the oldest snapshot, unless the chain reaches back to the beginning of the ensemble.
func (l *Log) restoreOldest() error {
	switch l.unpassed = l.snapshots(); {
	case l.chain.FirstIndex() <= 1:
		return nil
	case len(l.unpassed) == 0:
		return l.errNoBeginning()
	}
	return l.restore(0)
}

// CompareAll makes Advance compare the state with every snapshot that it passes, however large.
func (l *Log) CompareAll() { l.compareAll = true }

// Close ends the reading of the chain. The state stays usable, and Extend reads on.
func (l *Log) Close() { l.stop() }

// State returns the state, which Advance changes.
func (l *Log) State() *znode.State { return l.state }

// Point returns the place of the state in the log.
func (l *Log) Point() Point { return pointOf(l.state.Zxid(), l.state.Index(), l.state.TimeMs()) }

// restoreBefore restores the newest snapshot before a moment, or leaves the state empty if the chain reaches back to the
// beginning of the ensemble and no snapshot is before the moment.
func (l *Log) restoreBefore(m Moment) error {
	snapshots := l.snapshots()
	if m.IsEnd() && len(snapshots) > 0 {
		return l.restore(len(snapshots) - 1)
	}
	var failed error
	isAfter := func(i int) bool {
		h := znode.ImageHead{}
		if failed == nil {
			h, failed = l.readHead(snapshots[i])
		}
		return !m.mayFollow(h)
	}
	after := sort.Search(len(snapshots), isAfter) // the latest stamp and the zxid grow from snapshot to snapshot
	switch {
	case failed != nil:
		return failed
	case after > 0:
		return l.restore(after - 1)
	case l.chain.FirstIndex() <= 1:
		l.unpassed = snapshots
		return nil
	case len(snapshots) == 0:
		return l.errNoBeginning()
	}
	h, err := l.readHead(snapshots[0])
	if err != nil {
		return err
	}
	if h.Zxid == m.zxid { // the state may be a little after the transaction: sessions may have attached since
		return l.restore(0)
	}
	return fmt.Errorf("%w: %v; the oldest moment that can be built is %v", ErrTooEarly, m, pointOfHead(h))
}

func (l *Log) errNoBeginning() error {
	if len(l.skipped) > 0 {
		return fmt.Errorf("the log begins with entry %d, and no snapshot before that can be read: %w", l.chain.FirstIndex(), l.skipped[0].err)
	}
	return fmt.Errorf("%w: it begins with entry %d, and has no snapshot before that", ErrDamaged, l.chain.FirstIndex())
}

// mayFollow reports whether the state at m can be built from a snapshot.
func (m Moment) mayFollow(h znode.ImageHead) bool {
	if m.isTime {
		return h.LatestMs <= m.unixMs
	}
	return h.Zxid < m.zxid
}

func (l *Log) readHead(s Snapshot) (h znode.ImageHead, err error) {
	err = l.readSnapshot(s, func(r io.Reader) error {
		h, err = znode.ReadImageHead(r)
		return err
	})
	return h, err
}

// readSnapshot calls read with the bytes of a snapshot. All its errors are of the type *snapshotError.
func (l *Log) readSnapshot(s Snapshot, read func(io.Reader) error) error {
	r, err := l.chain.OpenSnapshot(l.ctx, s)
	if err == nil {
		err = errOfSnapshot(s, read(restingReader{r, l.budget.Rest}))
		_ = r.Close() // it was only read
	}
	if err != nil {
		return &snapshotError{Snapshot: s, err: err}
	}
	return nil
}

// errOfSnapshot names the snapshot that an error of package znode is about.
func errOfSnapshot(s Snapshot, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, znode.ErrSnapshotVersion):
		return fmt.Errorf("snapshot %s: %w; the version of rollcall that wrote it can read it", s.Name, err)
	case errors.Is(err, znode.ErrCorrupt), errors.Is(err, znode.ErrNotSnapshot):
		return fmt.Errorf("%w: snapshot %s: %w", ErrDamaged, s.Name, err)
	}
	return fmt.Errorf("snapshot %s: %w", s.Name, err)
}

// restore makes the state that of the snapshot with this number. After an error the state is as it was.
func (l *Log) restore(number int) error {
	snapshots := l.snapshots()
	s := snapshots[number]
	if err := l.budget.check(s.Bytes); err != nil {
		return err
	}
	head, err := l.readHead(s)
	if err == nil {
		err = l.readSnapshot(s, l.state.RestoreSnapshot)
	}
	if err != nil {
		return err
	}
	l.unpassed, l.oldest, l.latestMs = snapshots[number+1:], l.Point(), head.LatestMs
	return nil
}

// Advance moves the state on to a moment that is not before it, and calls take, unless it is nil, for each change on the way. A
// change is valid during the call. The first error of take ends the work. The errors are those of Open. After an error the state
// is between the two moments. If the chain follows a running ensemble, the end of the log is never reached.
func (l *Log) Advance(m Moment, take func(*znode.Change) error) error {
	l.observer = changeFunc{take: take}
	l.state.Lock()
	defer l.state.Unlock()
	if m.zxid != 0 && m.zxid < l.state.Zxid() || m.isTime && m.unixMs < l.latestMs {
		return fmt.Errorf("%w: %v is before %v", ErrTooEarly, m, l.Point())
	}
	for {
		if done, err := l.reached(m); done || err != nil {
			return err
		}
		if err := l.applyNext(m); err != nil {
			return err
		}
		if l.observer.err != nil {
			return l.observer.err
		}
		if err := l.budget.rest(l.state); err != nil {
			return err
		}
	}
}

// reached reports whether the state is that at m.
func (l *Log) reached(m Moment) (bool, error) {
	if m.zxid != 0 && l.state.Zxid() >= m.zxid {
		if l.state.Zxid() == m.zxid {
			return true, nil
		}
		return true, fmt.Errorf("%w: %v; the next one in the log is %v", ErrNeverGiven, m, l.Point())
	}
	if l.rest != nil {
		return false, nil
	}
	if err := l.peek(); err != nil {
		return false, err
	}
	switch {
	case l.unapplied == nil && m.zxid != 0:
		return true, fmt.Errorf("%w: %v; the newest moment that can be built is %v", ErrTooLate, m, l.Point())
	case l.unapplied == nil:
		return true, nil
	}
	isAfter := m.isTime && l.unapplied.content != nil && l.unapplied.content.GetTimeMs() > m.unixMs
	if isAfter && l.latestMs == 0 && l.oldest == (Point{}) {
		return true, fmt.Errorf("%w: %v; the first entry of the ensemble is of %v", ErrTooEarly, m,
			AtTime(time.UnixMilli(l.unapplied.content.GetTimeMs())))
	}
	return isAfter, nil
}

// peek reads and decodes the next entry, unless it has been read. unapplied is nil at the end of the chain.
func (l *Log) peek() error {
	if l.unapplied != nil {
		return nil
	}
	e, err, ok := l.nextEntry()
	switch {
	case !ok:
		return nil
	case err != nil:
		return err
	case e.Index != l.state.Index()+1:
		return fmt.Errorf("%w: entry %d follows entry %d", ErrDamaged, e.Index, l.state.Index())
	}
	l.unapplied = &decodedEntry{Entry: e}
	if e.Data != nil {
		if l.unapplied.content, err = proto.UnmarshalEntry(e.Data); err != nil {
			return fmt.Errorf("%w: entry %d cannot be read: %w", ErrDamaged, e.Index, err)
		}
	}
	return nil
}

// applyNext applies the rest of the last entry, or the next entry, but no transaction after the zxid of m.
func (l *Log) applyNext(m Moment) error {
	through := cmp.Or(m.zxid, math.MaxInt64)
	if l.rest != nil {
		if !l.rest(through) {
			l.rest = nil
		}
		return l.comparePassed()
	}
	e := l.unapplied
	l.unapplied = nil
	var err error
	if l.rest, err = l.state.ApplyEntryThrough(e.Index, e.Term, e.content, through); err != nil {
		return err
	}
	l.latestMs = max(l.latestMs, e.content.GetTimeMs())
	return l.comparePassed()
}

// comparePassed compares the state with that of a snapshot of the chain, if it is at the snapshot's last entry. A large
// snapshot is not compared.
func (l *Log) comparePassed() error {
	for len(l.unpassed) > 0 && l.rest == nil {
		switch isPassed, err := l.compareNext(); {
		case l.skip(err):
		case err != nil:
			return err
		case !isPassed:
			return nil
		}
		l.unpassed, l.nextHead = l.unpassed[1:], nil
	}
	return nil
}

// compareNext compares the state with that of the next snapshot, and reports whether the state has reached it.
func (l *Log) compareNext() (isPassed bool, err error) {
	s := l.unpassed[0]
	if l.nextHead == nil {
		h, err := l.readHead(s)
		if err != nil {
			return false, err
		}
		l.nextHead = &h
	}
	if l.nextHead.Index > l.state.Index() {
		return false, nil
	}
	if l.nextHead.Index == l.state.Index() && (l.compareAll || !l.budget.SkipComparisons && s.Bytes > 0 && s.Bytes <= maxComparedBytes) {
		err = l.compare(s)
	}
	return true, err
}

func (l *Log) compare(s Snapshot) error {
	var digest uint64
	err := l.readSnapshot(s, func(r io.Reader) (err error) {
		_, digest, err = znode.ReadImage(r, znode.ImageVisitor{})
		return err
	})
	if err != nil {
		return err
	}
	if own := l.state.Digest(); own != digest {
		return fmt.Errorf("%w: the state built from %v through entry %d has the digest %016x, and snapshot %s of the same entry "+
			"has %016x: that snapshot, the one before it or an entry between them is not what the members had",
			ErrDamaged, l.oldest, l.state.Index(), own, s.Name, digest)
	}
	return nil
}
