package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"rollcall/internal/durable"
	"rollcall/quorum/disk"
)

// Limits says how much is kept.
type Limits struct {
	Age   time.Duration // moments that are longer ago need not be kept
	Bytes int64         // of the files; 0: nothing is kept
}

// Default limits.
const (
	DefaultAge   = 24 * time.Hour
	DefaultBytes = 1 << 30
)

const (
	// checkInterval is the time between two checks of the limits, if nothing is moved.
	checkInterval = 10 * time.Second
	// minReserve and reserveShare say how much of a disk is left free: the share, and at most minReserve bytes.
	minReserve   = 1 << 30
	reserveShare = 16
	// SnapshotDistance is the length of log, in bytes, between two snapshots that are kept. It is applied in about a second.
	// A snapshot that is longer than half of it has twice its own length.
	SnapshotDistance = 64 << 20
)

// Keeper keeps the files of the past within limits, and compresses them. Its methods may be called by any goroutine.
type Keeper struct {
	dirs   Directories
	limits Limits
	logger *slog.Logger
	moved  chan struct{} // capacity 1: there is something to trim or to compress

	files  sync.Mutex // held while files get or lose their names
	stats  atomic.Pointer[Stats]
	failed map[string]bool // files that could not be compressed; only for tidy
	// pace slows down the writing of a file; nil: Run sets it. Tests replace it, and freeShare.
	pace      func(io.Writer) io.Writer
	freeShare func(dir string) (free, size int64, err error)
}

// Stats are figures of what is kept.
type Stats struct {
	Files  int
	Bytes  int64
	Oldest time.Time // about when the oldest state was that can be built from what is kept; zero: nothing is kept
}

// NewKeeper returns a Keeper of the files in a member's own directories. Run must be called.
func NewKeeper(dirs Directories, limits Limits, logger *slog.Logger) *Keeper {
	k := &Keeper{dirs: dirs, limits: limits, logger: logger, moved: make(chan struct{}, 1), failed: map[string]bool{}, freeShare: freeShare}
	k.stats.Store(&Stats{})
	return k
}

// Retirement returns how a member's stores hand over what they no longer need.
func (k *Keeper) Retirement() disk.Retirement {
	if k.limits.Bytes == 0 {
		return disk.Retirement{}
	}
	return disk.Retirement{Moved: k.wake, FreeSpace: k.dropOldest}
}

func (k *Keeper) wake() { signal(k.moved) }

// signal puts a value into a channel that has room for one, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns the figures of the last check.
func (k *Keeper) Stats() Stats { return *k.stats.Load() }

// Run compresses what was moved, and removes what is beyond the limits, until ctx ends. Errors are logged.
func (k *Keeper) Run(ctx context.Context) {
	if err := k.removeHalfMade(); err != nil {
		k.logger.Warn("history: a file that is half made could not be removed", "err", err)
	}
	if k.limits.Bytes == 0 {
		k.removeAll()
		return
	}
	if k.pace == nil {
		k.pace = func(w io.Writer) io.Writer { return newPacedWriter(ctx, w) }
	}
	trimmed, compressed := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(compressed)
		k.compressAll(ctx, trimmed)
	}()
	defer func() { <-compressed }()
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		if _, err := k.trim(); err != nil {
			k.logCheckFailed(err)
		}
		signal(trimmed)
		select {
		case <-ctx.Done():
			return
		case <-k.moved:
		case <-ticker.C:
		}
	}
}

// compressAll compresses what is there, each time that something was trimmed, until ctx ends. A file takes minutes if it is long, so
// the limits do not wait for it.
func (k *Keeper) compressAll(ctx context.Context, trimmed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-trimmed:
		}
		if err := k.tidy(ctx); err != nil && ctx.Err() == nil {
			k.logCheckFailed(err)
		}
	}
}

func (k *Keeper) logCheckFailed(err error) {
	k.logger.Warn("history: the files of the past could not be checked; the next check is in "+checkInterval.String(), "err", err)
}

func (k *Keeper) keptDirs() []string {
	all := []string{filepath.Join(k.dirs.Data, disk.KeptDirName), filepath.Join(k.dirs.Log, disk.KeptDirName)}
	return slices.Compact(all)
}

// removeHalfMade removes what a process has left that ended while it made a file.
func (k *Keeper) removeHalfMade() (err error) {
	for _, dir := range k.keptDirs() {
		for _, pattern := range []string{"*" + tmpSuffix, "*/*" + tmpSuffix} {
			left, gerr := filepath.Glob(filepath.Join(dir, pattern))
			err = errors.Join(err, gerr)
			for _, path := range left {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}
	return err
}

func (k *Keeper) removeAll() {
	for _, dir := range k.keptDirs() {
		if err := os.RemoveAll(dir); err != nil {
			k.logger.Warn("history: it is off, and its files could not be removed", "dir", dir, "err", err)
		}
	}
}

// tidy does everything that is due: it removes what is beyond the limits, and compresses the rest, one file after the other.
func (k *Keeper) tidy(ctx context.Context) error {
	for ctx.Err() == nil {
		l, err := k.trim()
		if err != nil {
			return err
		}
		if done, err := k.compressNext(l); done || err != nil {
			return err
		}
	}
	return nil
}

// trim removes what is beyond the limits, and returns what is there then.
func (k *Keeper) trim() (l Listing, err error) {
	k.files.Lock()
	defer k.files.Unlock()
	for {
		if l, err = List(k.dirs, Everything); err != nil {
			return l, err
		}
		if err := k.removeFiles(append(l.Unused, k.superfluous(l)...)); err != nil {
			return l, err
		}
		k.noteStats(l)
		oldest := k.oldestPart(l)
		if short, err := k.mustShorten(l, oldest); err != nil || !short {
			return l, err
		}
		if len(oldest.files) == 0 {
			return l, nil
		}
		if err := k.removeFiles(oldest.files); err != nil {
			return l, err
		}
	}
}

// dropOldest removes the oldest part, and reports whether there was one.
func (k *Keeper) dropOldest() bool {
	k.files.Lock()
	defer k.files.Unlock()
	l, err := List(k.dirs, Everything)
	if err != nil {
		k.logger.Warn("history: the disk is full, and the files of the past cannot be listed", "err", err)
		return false
	}
	oldest := k.oldestPart(l)
	if len(oldest.files) == 0 {
		return false
	}
	k.logger.Warn("history: the disk is full, so the oldest part of the past is removed", "until", oldest.until, "files", len(oldest.files))
	if err := k.removeFiles(oldest.files); err != nil {
		k.logger.Warn("history: a file of the past could not be removed", "err", err)
		return false
	}
	return true
}

// part is the oldest part of what is kept: after it is removed, the rest begins with a snapshot.
type part struct {
	files []string
	until time.Time // when the snapshot was taken with which the rest begins; zero: there is no rest, or it is not known
}

// oldestPart returns the kept files of another log, or those before the second snapshot of the oldest span. If that has no
// second one, it is the whole span.
func (k *Keeper) oldestPart(l Listing) (p part) {
	if len(l.Others) > 0 {
		return part{files: l.Others, until: newestChange(l.Others)}
	}
	for i, s := range l.Spans {
		keepFrom, rest := s.Last+1, Snapshot{}
		after := s.Snapshots
		if s.First != 1 && len(after) > 0 {
			after = after[1:]
		}
		if len(after) > 0 {
			rest = after[0]
			keepFrom = rest.Index + 1
		}
		for _, snapshot := range s.Snapshots {
			if snapshot.Kept && snapshot.Index < rest.Index || snapshot.Kept && rest.Name == "" {
				p.files = append(p.files, k.snapshotPath(snapshot))
			}
		}
		for _, g := range s.Segments {
			if g.Kept && g.Last < keepFrom {
				p.files = append(p.files, g.path(k.dirs.Log))
			}
		}
		if len(p.files) > 0 {
			if p.until = rest.At; p.until.IsZero() && i < len(l.Spans)-1 {
				p.until = s.Snapshots[len(s.Snapshots)-1].At // an earlier span ends with a snapshot
			}
			return p
		}
	}
	return p
}

// newestChange returns when the newest of some files was written.
func newestChange(paths []string) (at time.Time) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// superfluous returns the kept segments before the oldest snapshot of a span, and the kept snapshots that lie too close to the ones
// before and after.
func (k *Keeper) superfluous(l Listing) (paths []string) {
	for _, s := range l.Spans {
		for _, g := range s.Segments {
			if s.First != 1 && len(s.Snapshots) > 0 && g.Kept && g.Last <= s.Snapshots[0].Index {
				paths = append(paths, g.path(k.dirs.Log))
			}
		}
		before := uint64(0) // index of the last snapshot that stays
		for i, snapshot := range s.Snapshots {
			if i == 0 && s.First != 1 || i == len(s.Snapshots)-1 || !snapshot.Kept ||
				s.BytesBetween(before, s.Snapshots[i+1].Index) >= max(SnapshotDistance, 2*snapshot.Bytes) {
				before = snapshot.Index
				continue
			}
			paths = append(paths, k.snapshotPath(snapshot))
		}
	}
	return paths
}

// BytesBetween returns the length of the log between two indexes, in whole segments.
func (s Span) BytesBetween(after, until uint64) (n int64) {
	for _, g := range s.Segments {
		if g.Last > after && g.First <= until {
			n += g.Bytes
		}
	}
	return n
}

// mustShorten reports whether the oldest part has to go.
func (k *Keeper) mustShorten(l Listing, oldest part) (bool, error) {
	if !oldest.until.IsZero() && time.Since(oldest.until) > k.limits.Age {
		return true, nil
	}
	if k.Stats().Bytes > k.limits.Bytes {
		return true, nil
	}
	for _, dir := range k.keptDirs() {
		free, size, err := k.freeShare(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		if free < min(minReserve, size/reserveShare) {
			return true, nil
		}
	}
	return false, nil
}

// freeShare returns the bytes that are free where dir is, and the bytes that there are.
func freeShare(dir string) (free, size int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil // the types depend on the system
}

func (k *Keeper) noteStats(l Listing) {
	var n Stats
	for _, s := range l.Spans {
		if n.Oldest.IsZero() && s.First == 1 && s.Segments[0].Kept {
			n.Oldest = newestChange([]string{s.Segments[0].path(k.dirs.Log)}) // the span goes back to the first entry
		}
		for _, snapshot := range s.Snapshots {
			if n.Oldest.IsZero() && snapshot.Kept {
				n.Oldest = snapshot.At
			}
		}
	}
	for _, path := range k.removable(l) {
		_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error { // what cannot be read is not counted
			if err != nil || e.IsDir() {
				return nil
			}
			if info, err := e.Info(); err == nil {
				n.Files, n.Bytes = n.Files+1, n.Bytes+info.Size()
			}
			return nil
		})
	}
	k.stats.Store(&n)
}

// removable returns the kept files that the limits can remove. Files that are damaged, or are not of the past, do not count: no
// limit removes them, and otherwise all that is kept would have to go for them.
func (k *Keeper) removable(l Listing) []string {
	paths := slices.Clone(l.Others)
	for _, s := range l.Spans {
		for _, snapshot := range s.Snapshots {
			if snapshot.Kept {
				paths = append(paths, k.snapshotPath(snapshot))
			}
		}
		for _, g := range s.Segments {
			if g.Kept {
				paths = append(paths, g.path(k.dirs.Log))
			}
		}
	}
	return paths
}

func (k *Keeper) snapshotPath(s Snapshot) string {
	return filepath.Join(k.dirs.Data, disk.KeptDirName, s.Name)
}

func (k *Keeper) removeFiles(paths []string) error {
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// compressNext compresses one kept file. done is true if there was none.
func (k *Keeper) compressNext(l Listing) (done bool, err error) {
	for _, s := range l.Spans {
		for _, snapshot := range s.Snapshots {
			path := filepath.Join(k.snapshotPath(snapshot), disk.SnapshotStateFile)
			if snapshot.Kept && !k.failed[path] && exists(path) {
				return false, k.replace(path, path+compressedSuffix, func() error { return compressFile(path, path+compressedSuffix, k.pace) })
			}
		}
		for i, g := range s.Segments {
			path := filepath.Join(k.dirs.Log, disk.KeptDirName, g.Name)
			if !g.Kept || k.failed[path] || !exists(path) { // if both files are there, power was lost before one was removed
				continue
			}
			next, err := k.nextHeader(s, i)
			if errors.Is(err, fs.ErrNotExist) {
				return true, nil // it was removed meanwhile; the next check continues
			}
			if err != nil {
				return false, err
			}
			return false, k.replace(path, path+compressedSuffix, func() error {
				return compressSegment(path, path+compressedSuffix, next, k.pace)
			})
		}
	}
	return true, nil
}

// nextHeader returns the header of the segment that follows the one with a number in a span, or nil if the log began anew after it.
func (k *Keeper) nextHeader(s Span, i int) (*disk.SegmentHeader, error) {
	if i == len(s.Segments)-1 {
		return nil, nil
	}
	next := file{Segment: s.Segments[i+1]}
	for _, path := range []string{
		filepath.Join(k.dirs.Log, disk.LogDirName, next.Name), filepath.Join(k.dirs.Log, disk.KeptDirName, next.Name),
		filepath.Join(k.dirs.Log, disk.KeptDirName, next.Name+compressedSuffix),
	} {
		next.path, next.Compressed = path, filepath.Ext(path) == compressedSuffix
		err := next.readHead()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return &next.header, err
	}
	return nil, fmt.Errorf("segment %s is gone: %w", next.Name, fs.ErrNotExist)
}

// replace makes the compressed copy of a file, and then removes the file. A damaged file stays as it is.
func (k *Keeper) replace(path, compressed string, make func() error) error {
	if err := k.syncMoves(path); err != nil {
		return err
	}
	err := make()
	switch {
	case errors.Is(err, disk.ErrDamaged):
		k.failed[path] = true
		k.logger.Error("history: a file of the past is damaged; it stays as it is", "path", path, "err", err)
		return nil
	case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile, because the disk is full
		return nil
	case err != nil:
		return err
	}
	k.files.Lock()
	defer k.files.Unlock()
	if !exists(path) {
		return os.Remove(compressed)
	}
	if info, err := os.Stat(path); err == nil {
		_ = os.Chtimes(compressed, info.ModTime(), info.ModTime()) // for people who look at the files
	}
	return os.Remove(path)
}

// syncMoves makes the move of a file durable: after a loss of power it must not have its former name and nothing in it.
func (k *Keeper) syncMoves(path string) error {
	from := filepath.Join(k.dirs.Log, disk.LogDirName)
	if filepath.Base(path) == disk.SnapshotStateFile {
		from = filepath.Join(k.dirs.Data, disk.SnapshotsDirName)
	}
	return errors.Join(durable.SyncDirectory(from), durable.SyncDirectory(filepath.Dir(path)))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
