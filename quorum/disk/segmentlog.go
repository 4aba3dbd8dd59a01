package disk

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/internal/durable"
)

const (
	// logDirName is the directory of the log's files.
	logDirName = "log"
	// keptBuffer limits the buffer that is kept for the next batch, in bytes.
	keptBuffer = 2 * maxWriteBytes
)

var errLogClosed = errors.New("the log is closed")

// segmentLog is the log in its files: see docs/dev/log.md. Any goroutine may call its methods.
type segmentLog struct {
	dir     string
	maxSize int64 // of a new segment, in bytes
	mark    logMark
	start   uint64 // see logEnd
	// snapshot is the highest index of a stored snapshot: see logEnd.
	snapshot atomic.Uint64
	remover  *remover
	// create is createSegment, and in tests also a full disk.
	create func(dir string, h segmentHeader) (*segment, error)
	// onBegin is called when a segment has begun, with the end of the log. Default: nothing.
	onBegin func(logEnd) error
	retired *retired // takes the segments that no start needs

	writing sync.Mutex // held while a method writes
	failed  error      // the first error of a write, which ends all writing; guarded by writing
	buffer  []byte     // of the last batch; guarded by writing

	mu       sync.RWMutex // writers hold writing, too
	segments []*segment   // those that are needed, by their numbers; the last one is written to
	closed   bool
}

// logOpening says how a log is opened.
type logOpening struct {
	whole  bool       // the directory was complete, so a file that is missing was lost
	starts bool       // a member starts with it: see logEnd
	known  []knownEnd // what is known of the log outside of it
	newest uint64     // the highest index of a snapshot
	// retired takes the segments that no start needs; nil: they are removed.
	retired *retired
}

// openSegmentLog opens the log in dir, and makes it if dir does not exist or is empty. New segments have at most maxSize
// bytes.
func openSegmentLog(dir string, maxSize int64, how logOpening, logger hclog.Logger) (l *segmentLog, err error) {
	if err := os.Mkdir(dir, dirMode); err == nil {
		if err := durable.SyncDirectory(filepath.Dir(dir)); err != nil {
			return nil, fmt.Errorf("quorum: open log: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("quorum: open log: %w", err)
	}
	l = &segmentLog{dir: dir, maxSize: maxSize, remover: newRemover(dir, logger), create: createSegment, retired: how.retired}
	if err := l.open(how); err != nil {
		return nil, errors.Join(fmt.Errorf("quorum: log %s: %w", dir, err), l.Close())
	}
	return l, nil
}

func (l *segmentLog) open(how logOpening) (err error) {
	paths, err := segmentPaths(l.dir)
	if err != nil {
		return err
	}
	if l.mark, err = openLogMark(filepath.Join(l.dir, logMarkName), how.whole); err != nil {
		return err
	}
	if len(paths) == 0 {
		return l.createFirst()
	}
	l.start = l.mark.start
	l.snapshot.Store(how.newest)
	for _, path := range paths {
		s, err := openSegment(path)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, s)
	}
	torn, err := l.scanLast()
	if err != nil {
		return err
	}
	earlier, replaced, err := l.dropUnneeded()
	defer closeSegments(slices.Concat(earlier, replaced))
	if err != nil {
		return err
	}
	if err := l.scanSealed(); err != nil {
		return err
	}
	if err := l.checkFront(); err != nil {
		return err
	}
	for _, k := range how.known {
		if err := k.check(l.end(), k.source); err != nil {
			return fmt.Errorf("%w; %s", err, putBackAdvice)
		}
	}
	for _, k := range append(how.known, knownEnd{l.mark.logEnd, l.mark.path}) {
		if err := k.checkSnapshot(max(how.newest, l.end().index), k.source); err != nil {
			return err
		}
	}
	if how.starts {
		l.start++
	}
	if err := l.settle(); err != nil {
		return err
	}
	if torn {
		if err := l.begin(l.headerAfterLast(l.last().size)); err != nil {
			return err
		}
	}
	for _, s := range earlier {
		if l.retired.take(s.path) {
			continue
		}
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	for _, s := range replaced {
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	return nil
}

// createFirst makes the first segment of a new log.
func (l *segmentLog) createFirst() error {
	if l.mark.file != nil {
		return fmt.Errorf("%w: all its segments are gone, and it was durable up to entry %d", ErrDamaged, l.mark.index)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	h := segmentHeader{logID: binary.BigEndian.Uint64(id[:]), number: 1, size: min(firstSegmentBytes, l.maxSize)}
	s, err := l.create(l.dir, h)
	if err != nil {
		return err
	}
	l.segments, l.start = []*segment{s}, 1
	return l.mark.record(l.end(), true)
}

// dropUnneeded takes the segments that are not needed out of the list, and returns them, the newest first: those of earlier
// entries, and those that were replaced when the end of the log was deleted. It looks at headers, and at the front that the last
// segment has now.
func (l *segmentLog) dropUnneeded() (earlier, replaced []*segment, err error) {
	last := l.last()
	needed := []*segment{last}
	need := last.base
	for _, s := range slices.Backward(l.segments[:len(l.segments)-1]) {
		switch {
		case s.logID != last.logID || s.number >= needed[0].number:
			err = errors.Join(err, fmt.Errorf("%s: %w: it belongs to another log than %s", s.path, ErrDamaged, last.path))
		case need > last.newestFront && s.base < need:
			needed = slices.Insert(needed, 0, s)
			need = s.base
			continue
		case need != 0 && s.base >= need:
			replaced = append(replaced, s)
			continue
		}
		earlier = append(earlier, s)
	}
	l.segments = needed
	if err == nil && need > last.newestFront {
		err = fmt.Errorf("%w: it begins with %s, and a segment with entry %d is gone", ErrDamaged, filepath.Base(needed[0].path),
			last.newestFront)
	}
	return earlier, replaced, err
}

// scanLast reads the last segment, and compares its end with the mark. It reports whether the segment ends in a torn batch.
func (l *segmentLog) scanLast() (torn bool, err error) {
	last := l.last()
	b, err := last.read(nil)
	if err == nil {
		torn, err = last.scanLast(b)
	}
	if err == nil && l.mark.file != nil {
		err = l.mark.check(l.end(), l.mark.path)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", last.path, err)
	}
	return torn, err
}

// scanSealed reads the other segments.
func (l *segmentLog) scanSealed() (err error) {
	var b []byte
	for i, s := range l.segments[:len(l.segments)-1] {
		if b, err = s.read(b); err == nil {
			err = s.scanSealed(b, l.segments[i+1].segmentHeader)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	return nil
}

// settle makes the log durable up to its end, and records that. A process that was killed may have written and not synced
// the last batch, and the kernel may have forgotten that it could not write a page. So what follows the mark is written once more.
func (l *segmentLog) settle() error {
	last, from := l.last(), segmentHeaderSize
	if l.mark.segment == last.number && l.mark.index >= last.first {
		from = last.offsetOf(l.mark.index) // a new front may follow that entry
	}
	b := make([]byte, last.end-from)
	if _, err := last.file.ReadAt(b, int64(from)); err != nil {
		return err
	}
	if _, err := last.file.WriteAt(b, int64(from)); err != nil {
		return err
	}
	if err := errors.Join(syncData(last.file), durable.SyncDirectory(l.dir)); err != nil {
		return err
	}
	return l.mark.record(l.end(), true)
}

func (l *segmentLog) last() *segment { return l.segments[len(l.segments)-1] }

// end returns the end of the log, for a mark. All of it is durable. The caller holds writing or mu.
func (l *segmentLog) end() logEnd {
	s := l.last()
	return logEnd{logID: s.logID, start: l.start, segment: s.number, index: max(s.next(), 1) - 1, snapshot: l.snapshot.Load()}
}

// noteSnapshot notes that a snapshot was stored.
func (l *segmentLog) noteSnapshot(index uint64) {
	for was := l.snapshot.Load(); was < index && !l.snapshot.CompareAndSwap(was, index); was = l.snapshot.Load() {
	}
}

// durableEnd is end for other callers.
func (l *segmentLog) durableEnd() logEnd {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.end()
}

// headerAfterLast returns the header of a segment that follows the last entry. An empty log begins anew in it.
func (l *segmentLog) headerAfterLast(size int64) segmentHeader {
	h := segmentHeader{size: size}
	if first, last := l.indexRange(); last > 0 {
		h.base, h.front, h.before = last+1, first, l.last().lastEntry
	}
	return h
}

// begin makes a segment with a header, which gets the next number. The segment becomes the last one. A full disk has
// space again once the files are removed that wait for it, and then once what is kept of the past gives way.
func (l *segmentLog) begin(h segmentHeader) error {
	h.logID, h.number = l.last().logID, l.last().number+1
	s, err := l.create(l.dir, h)
	if isDiskFull(err) && l.remover.waitUntilEmpty() {
		s, err = l.create(l.dir, h)
	}
	for isDiskFull(err) && l.retired.freeSpace() {
		s, err = l.create(l.dir, h)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	if l.onBegin != nil {
		return l.onBegin(l.end())
	}
	return nil
}

// roll begins a segment for a batch that does not fit into the last one.
func (l *segmentLog) roll(batch int) error {
	const page = 4096
	h := l.headerAfterLast(min(2*l.last().size, l.maxSize))
	h.size = max(h.size, int64(segmentHeaderSize+batch+page-1)/page*page)
	if err := l.begin(h); err != nil || h.base != 0 {
		return err
	}
	return l.removeUnneeded()
}

// StoreLog implements raft.LogStore, as the next methods do.
func (l *segmentLog) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs appends a batch. It is durable when StoreLogs returns.
func (l *segmentLog) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	records := make([]record, len(logs))
	for i, e := range logs {
		if records[i] = recordOf(e); e.Index == 0 || e.Index != logs[0].Index+uint64(i) {
			return fmt.Errorf("entry %d of the batch has index %d, and the first one has %d", i, e.Index, logs[0].Index)
		}
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if next := l.last().next(); next != 0 && next != logs[0].Index {
		return fmt.Errorf("entry %d does not follow the log, which ends with %d", logs[0].Index, next-1)
	}
	return l.writeOnce(func() error { return l.appendBatch(records, logs) })
}

// writeOnce calls do, unless an earlier write has failed. The caller holds writing.
func (l *segmentLog) writeOnce(do func() error) error {
	if l.failed == nil {
		if err := do(); err != nil {
			l.failed = fmt.Errorf("log %s: %w", l.dir, err)
		}
	}
	return l.failed
}

// appendBatch writes records, and makes them durable. logs has their entries, or is nil.
func (l *segmentLog) appendBatch(records []record, logs []*raft.Log) error {
	size := 0
	for _, r := range records {
		size += r.length()
	}
	if int64(l.last().end+size) > l.last().size {
		if err := l.roll(size); err != nil {
			return err
		}
	}
	last := l.last()
	b, before := slices.Grow(l.buffer[:0], size), last.last
	records[len(records)-1].flags |= lastOfBatch
	for i := range records {
		r := &records[i]
		r.batch, r.before = last.end, before
		var e *raft.Log
		if logs != nil {
			e = logs[i]
		}
		b = r.appendTo(b, last.checksum, e)
		before = r.checksum
	}
	if l.buffer = b; cap(b) > keptBuffer {
		l.buffer = nil
	}
	if _, err := last.file.WriteAt(b, int64(last.end)); err != nil {
		return err
	}
	if err := syncData(last.file); err != nil {
		return err
	}
	firstBatch := last.end == segmentHeaderSize
	l.mu.Lock()
	for _, r := range records {
		last.add(r)
	}
	l.mu.Unlock()
	return l.mark.record(l.end(), firstBatch)
}

// DeleteRange implements raft.LogStore. The entries must be at one end of the log, or be all of it.
func (l *segmentLog) DeleteRange(first, last uint64) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	from, to := l.indexRange()
	first, last = max(first, from), min(last, to)
	switch {
	case to == 0 || first > last:
		return nil
	case first > from && last < to:
		return fmt.Errorf("entries %d to %d are in the middle of the log, from %d to %d", first, last, from, to)
	}
	return l.writeOnce(func() (err error) {
		switch {
		case first > from:
			err = l.cutEnd(first)
		case last < to:
			err = l.appendBatch([]record{{kind: frontRecord, index: last + 1}}, nil)
		default:
			err = l.begin(segmentHeader{size: l.last().size})
		}
		if err != nil {
			return err
		}
		return l.removeUnneeded()
	})
}

// cutEnd begins a segment in which the entry of an index comes next.
func (l *segmentLog) cutEnd(index uint64) error {
	s := l.find(index - 1)
	b := make([]byte, recordHeaderSize)
	if _, err := s.file.ReadAt(b, int64(s.offsetOf(index-1))); err != nil {
		return err
	}
	r, ok := parseRecord(b, s.checksum)
	if !ok || r.index != index-1 {
		return fmt.Errorf("%s: %w: entry %d does not match its checksum", s.path, ErrDamaged, index-1)
	}
	front, _ := l.indexRange()
	if err := l.begin(segmentHeader{base: index, front: front, before: r.checksum, size: l.last().size}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.cutAfter(index - 1)
	return nil
}

// removeUnneeded hands the segments over that are not needed any more, or removes them in the background.
func (l *segmentLog) removeUnneeded() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	earlier, replaced, err := l.dropUnneeded()
	closeSegments(earlier)
	closeSegments(replaced)
	for _, s := range slices.Backward(earlier) { // the oldest first
		if !l.retired.take(s.path) {
			l.remover.remove(s.path)
		}
	}
	for _, s := range slices.Backward(replaced) {
		l.remover.remove(s.path)
	}
	return err
}

func closeSegments(all []*segment) {
	for _, s := range all {
		_ = s.file.Close() // everything that was written to it has been synced
	}
}

// indexRange returns the first and the last index of the log, or zeros if it is empty. The caller holds writing or mu.
func (l *segmentLog) indexRange() (first, last uint64) {
	end := l.last()
	if last = max(end.next(), 1) - 1; last == 0 {
		return 0, 0
	}
	if end.newestFront == 0 {
		return end.first, last
	}
	return end.newestFront, last
}

func (l *segmentLog) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	first, _ := l.indexRange()
	return first, l.closedError()
}

func (l *segmentLog) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, last := l.indexRange()
	return last, l.closedError()
}

func (l *segmentLog) closedError() error {
	if l.closed {
		return errLogClosed
	}
	return nil
}

// find returns the segment of an entry. The caller holds writing or mu.
func (l *segmentLog) find(index uint64) *segment {
	after := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].first > index })
	return l.segments[after-1]
}

// GetLog implements raft.LogStore. An entry that exists and cannot be read is damaged, unless the system gives another
// reason. Writes do not wait for it: a segment that is removed meanwhile has none of the log's entries.
func (l *segmentLog) GetLog(index uint64, e *raft.Log) error {
	s, at, end, err := l.locate(index)
	if err != nil {
		return err
	}
	b := make([]byte, end-at)
	_, err = s.file.ReadAt(b, int64(at))
	switch _, system := errors.AsType[syscall.Errno](err); {
	case err == nil:
		err = decodeEntry(b, s.checksum, index, e)
	case errors.Is(err, os.ErrClosed):
		return raft.ErrLogNotFound
	case !system:
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", s.path, err)
	}
	return nil
}

// locate returns where the record of an entry begins and ends, in which segment.
func (l *segmentLog) locate(index uint64) (s *segment, at, end int, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.closedError(); err != nil {
		return nil, 0, 0, err
	}
	if first, last := l.indexRange(); last == 0 || index < first || index > last {
		return nil, 0, 0, raft.ErrLogNotFound
	}
	s = l.find(index)
	return s, s.offsetOf(index), s.offsetOf(index + 1), nil
}

// Close closes the files. What is still to be removed is left to the next start.
func (l *segmentLog) Close() error {
	l.remover.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errLogClosed
	}
	l.closed = true
	err := l.mark.Close()
	for _, s := range l.segments {
		err = errors.Join(err, s.file.Close())
	}
	return err
}
