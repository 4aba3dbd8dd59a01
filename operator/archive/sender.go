package archive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/operator/backup"
	"rollcall/quorum"
	"rollcall/quorum/history"
)

const (
	// DefaultInterval is the time between two rounds of a Sender: so long are the newest entries not in the archive.
	DefaultInterval = time.Minute
	// pollInterval is the time between two checks whether there is something to do.
	pollInterval = time.Second
	// stateInterval is the longest time between two snapshots of a log that grows. So if old objects are removed from a bucket
	// after some days, it keeps a snapshot at most a day older than the rest, and every moment after it can be built.
	stateInterval = 24 * time.Hour
	// stateCheckInterval is the time between two checks whether a snapshot is due. A check reads the heads of the log's files.
	stateCheckInterval = 5 * time.Minute
	// sendRate limits the entries and snapshots that are sent in a second, in bytes before their compression. Compressing them at
	// this rate takes a fifth of a processor (BenchmarkEncodeRun).
	sendRate = 32 << 20
	// batchBytes is the size of the entries of an object, before their compression. The last one may exceed it.
	batchBytes = maxObjectBytes
	// putTimeout limits the storing of one object of at most maxObjectBytes: 28 KiB in a second.
	putTimeout = 5 * time.Minute
	// minBackoff and maxBackoff are the waits after a failure: they double.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// warnInterval is the time between two lines in the log about failures.
	warnInterval = time.Minute
)

// MemberLog is what a Sender reads: quorum.Past.
type MemberLog interface {
	List() (history.Listing, error)
	Source() (history.Source, error)
	ReadEntries(after uint64, mostBytes int) ([]*raft.Log, error)
}

// Member is the member that a Sender belongs to. Its methods may be called by any goroutine.
type Member interface {
	// LogName returns the name of the log (EnsembleLog, DiskLog), or "" while it is not known.
	LogName() string
	// IsLeader reports whether the member leads, as far as it knows.
	IsLeader() bool
	// AppliedIndex returns the index of the last entry that the member has applied.
	AppliedIndex() uint64
	// TakeSnapshot stores a snapshot of the member's state, and waits for that.
	TakeSnapshot(ctx context.Context) error
}

// SenderConfig is the configuration of a Sender.
type SenderConfig struct {
	Store    Store
	Log      MemberLog
	Member   Member
	MemberID uint32
	Version  string        // of the program
	Interval time.Duration // between two rounds
	Logger   *slog.Logger
}

// Sender sends the committed entries and the snapshots of a member's log to an archive, while the member leads. The leader sends because
// it has every committed entry, and because a leader that dies is replaced anyway: the next one continues at the end of the archive. A
// leader that is deposed and does not know it yet sends committed entries too, so both are right.
//
// A Sender reads what the member has on its disk. Nothing waits for it.
type Sender struct {
	cfg SenderConfig

	// Only for the goroutine of Run.
	logName     string
	position    *EntryID    // the last entry in the archive; nil: not known
	checkedFrom uint64      // runs whose first entries are after this index are compared in the next round
	begun       EntryID     // of the snapshot with which this Sender made a beginning; zero: it made none
	lost        lostEntries // so that none is counted twice
	newest      string      // the last object with entries that was stored, or ""
	backoff     time.Duration
	notBefore   time.Time // of the next round
	warnAt      time.Time // of the next line about a failure
	unlogged    int       // failures since the last line
	nextStates  time.Time // of the next check whether a snapshot is due

	batchBytes int // see batchBytes; tests have a smaller one

	stateWork sync.WaitGroup
	sending   atomic.Bool // a snapshot, beside the entries
	lastState atomic.Pointer[state]
	stats     senderStats
}

type senderStats struct {
	failures, objects, bytes, lostEntries atomic.Uint64
	archived                              atomic.Uint64 // index
	completeAsOf                          atomic.Int64  // all entries of that time or before it are in the archive, ns since 1970; 0: this member does not send
}

// Stats are figures of a Sender since the start of the process, except Age.
type Stats struct {
	// Age is at least the age of the oldest entry that is not in the archive, by the clock of the leader that wrote it. It is 0 if all are
	// there, or if another member sends. A new leader that has not read the archive yet counts from its election.
	Age            time.Duration
	Failures       uint64 // attempts to reach, list or write the archive
	Objects, Bytes uint64 // stored
	LostEntries    uint64 // that were removed from the member before they were sent
	ArchivedIndex  uint64 // of the last entry that this member has sent or found in the archive
	IsSending      bool
}

// NewSender returns a Sender. Run must be called.
func NewSender(cfg SenderConfig) *Sender {
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	return &Sender{cfg: cfg, batchBytes: batchBytes}
}

// Stats returns the figures. It does not wait.
func (s *Sender) Stats() Stats {
	n := Stats{
		Failures: s.stats.failures.Load(), Objects: s.stats.objects.Load(), Bytes: s.stats.bytes.Load(),
		LostEntries: s.stats.lostEntries.Load(), ArchivedIndex: s.stats.archived.Load(),
	}
	if at := s.stats.completeAsOf.Load(); at != 0 {
		n.IsSending = true
		if n.ArchivedIndex < s.cfg.Member.AppliedIndex() {
			n.Age = time.Since(time.Unix(0, at))
		}
	}
	return n
}

// Run sends until ctx ends. Failures are logged, and tried again.
func (s *Sender) Run(ctx context.Context) {
	defer s.stateWork.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		name := s.cfg.Member.LogName()
		if name == "" || !s.cfg.Member.IsLeader() || s.cfg.Member.AppliedIndex() == 0 {
			s.forgetArchive()
			continue
		}
		if name != s.logName {
			s.forgetArchive()
			s.logName, s.begun, s.lost = name, EntryID{}, lostEntries{}
		}
		if s.stats.completeAsOf.CompareAndSwap(0, time.Now().UnixNano()) {
			s.notBefore = time.Time{}
		}
		if time.Now().Before(s.notBefore) {
			continue
		}
		s.finishRound(ctx, s.sendRound(ctx))
	}
}

// forgetArchive makes the next round begin with a list of the archive.
func (s *Sender) forgetArchive() {
	s.position, s.newest = nil, ""
	s.lastState.Store(nil)
	s.stats.completeAsOf.Store(0)
}

// finishRound notes the result of a round, and when the next one is.
func (s *Sender) finishRound(ctx context.Context, err error) {
	if err == nil {
		if s.backoff > 0 {
			s.cfg.Logger.Info("archive: sending again", "archive", s.cfg.Store.Location(s.logName), "index", s.stats.archived.Load())
		}
		s.backoff, s.warnAt, s.unlogged = 0, time.Time{}, 0
		s.notBefore = time.Now().Add(s.cfg.Interval)
		return
	}
	if ctx.Err() != nil {
		return
	}
	s.position = nil // what was stored is not known
	s.stats.failures.Add(1)
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	s.notBefore = time.Now().Add(s.backoff)
	if s.unlogged++; time.Now().Before(s.warnAt) {
		return
	}
	s.cfg.Logger.Warn("archive: the log could not be sent; this member tries again, and keeps what its history has room for",
		"archive", s.cfg.Store.Location(s.logName), "behind", s.Stats().Age.Round(time.Second), "failures", s.unlogged, "err", err)
	s.warnAt, s.unlogged = time.Now().Add(warnInterval), 0
}

// sendRound sends everything that was applied when it began, and starts to send a snapshot if one is due.
func (s *Sender) sendRound(ctx context.Context) error {
	begun := time.Now()
	if err := s.checkNewest(ctx); err != nil {
		return err
	}
	switch {
	case s.position == nil:
		if err := s.locateEnd(ctx); err != nil {
			return err
		}
		if err := s.noteOldestWaiting(ctx); err != nil {
			return err
		}
	case s.position.Index < s.cfg.Member.AppliedIndex():
		if err := s.checkOthers(ctx); err != nil {
			return err
		}
	}
	pace := newPace(ctx)
	for s.cfg.Member.IsLeader() {
		more, err := s.sendNext(ctx, pace)
		if err != nil {
			return err
		}
		if !more {
			s.stats.completeAsOf.Store(begun.UnixNano())
			s.sendStateIfDue(ctx)
			return nil
		}
	}
	return nil // the next leader sends the rest
}

// newPace returns a writer that takes sendRate bytes in a second, and fails when ctx ends.
func newPace(ctx context.Context) io.Writer { return backup.NewPacedWriter(ctx, io.Discard, sendRate) }

// checkNewest checks that the last object is still where it was stored. If it is not, another file system or bucket is there now.
func (s *Sender) checkNewest(ctx context.Context) error {
	if s.newest == "" || s.position == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, putTimeout)
	defer stop()
	f, err := s.cfg.Store.Open(ctx, s.newest)
	if errors.Is(err, fs.ErrNotExist) {
		s.cfg.Logger.Warn("archive: the object that was stored last is gone; this member finds the end of the archive again",
			"object", s.cfg.Store.Location(s.newest))
		s.position, s.newest = nil, ""
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *Sender) setPosition(at EntryID) {
	s.position = &at
	s.stats.archived.Store(at.Index)
}

// newestSpan returns the newest part of the log and the history of the member.
func (s *Sender) newestSpan() (history.Span, error) {
	l, err := s.cfg.Log.List()
	if err != nil {
		return history.Span{}, err
	}
	if len(l.Spans) == 0 {
		return history.Span{}, errors.New("the member has no entry yet")
	}
	return l.Spans[len(l.Spans)-1], nil
}

// readAfter returns committed entries after an index, of mostBytes bytes or a little more, from the log or from what is kept.
func (s *Sender) readAfter(ctx context.Context, after uint64, mostBytes int) ([]*raft.Log, error) {
	entries, err := s.cfg.Log.ReadEntries(after, mostBytes)
	if !errors.Is(err, quorum.ErrEntriesGone) {
		return entries[:min(len(entries), maxRunEntries)], err
	}
	own, err := s.newestSpan()
	if err != nil {
		return nil, err
	}
	source, err := s.cfg.Log.Source()
	if err != nil {
		return nil, err
	}
	entries, size := nil, 0
	for e, err := range history.NewChain(own, source).Entries(ctx, after) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
		if size += len(e.Data); size >= mostBytes || len(entries) == maxRunEntries {
			break
		}
	}
	return entries, nil
}

// sendNext sends the next entries as one object, and then writes them to pace. more is false if there are none.
func (s *Sender) sendNext(ctx context.Context, pace io.Writer) (more bool, err error) {
	entries, err := s.readAfter(ctx, s.position.Index, s.batchBytes)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	r, content, err := encodeRun(s.logName, s.cfg.MemberID, *s.position, entries)
	if err != nil {
		return false, err
	}
	if err := s.putObject(ctx, r.name(), content); err != nil {
		return false, err
	}
	s.newest = r.name()
	s.setPosition(r.last)
	if at := firstStamp(slices.Backward(entries)); at > s.stats.completeAsOf.Load() {
		s.stats.completeAsOf.Store(min(at, time.Now().UnixNano()))
	}
	for _, e := range entries {
		if _, err := pace.Write(e.Data); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *Sender) putObject(ctx context.Context, name string, content []byte) error {
	ctx, stop := context.WithTimeout(ctx, putTimeout)
	defer stop()
	if err := s.cfg.Store.Put(ctx, name, content); err != nil {
		return err
	}
	s.stats.objects.Add(1)
	s.stats.bytes.Add(uint64(len(content)))
	return nil
}
