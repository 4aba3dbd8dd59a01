package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"rollcall/quorum/disk"
)

// Listing is what a member's directories have of the past.
type Listing struct {
	Spans   []Span   // the oldest first
	Damaged []string // files that cannot be used, with the reason
	Unused  []string // kept files that are in no span and never will be: replaced, not known to be committed, or parts of a snapshot
	Others  []string // kept files of another log, which the member had before
}

// Everything is the index for List if the end of the newest span does not matter.
const Everything = math.MaxUint64

// file is a segment in a directory, by its name.
type file struct {
	Segment
	header disk.SegmentHeader
	path   string
}

// List lists what is in the directories. The newest span ends with the entry of index last, which the member has applied and has on
// its disk; 0: with the last entry whose record is whole. List reads the start of each segment, and all of the newest one if last is
// 0. It changes nothing.
func List(dirs Directories, last uint64) (l Listing, err error) {
	for range listTries {
		if l, err = listOnce(dirs, last); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return l, err
}

// listTries limits how often List begins anew because a file was moved meanwhile. Files are moved after a snapshot only.
const listTries = 3

func listOnce(dirs Directories, last uint64) (l Listing, err error) {
	files, err := l.segmentFiles(dirs.Log)
	if err != nil {
		return l, err
	}
	snapshots, err := l.snapshots(dirs.Data, currentLogID(files))
	if err != nil {
		return l, err
	}
	spans, err := l.spansOf(files, last)
	if err != nil {
		return l, err
	}
	for i, s := range spans {
		s.addSnapshots(snapshots)
		if i < len(spans)-1 {
			l.noteUnproved(dirs.Log, s.endAt(s.lastTaken()))
		}
		if len(s.Segments) > 0 {
			l.Spans = append(l.Spans, s)
		}
	}
	return l, nil
}

// noteUnproved notes the kept segments of an earlier span after its last entry that is known to be committed.
func (l *Listing) noteUnproved(logDir string, beyond []Segment) {
	for _, g := range beyond {
		if g.Kept {
			l.Unused = append(l.Unused, g.path(logDir))
		}
	}
}

// segmentFiles returns the segments beside a log and in it, by their numbers, each once.
func (l *Listing) segmentFiles(logDir string) (files []file, err error) {
	byNumber := map[uint64]file{}
	for _, dir := range []string{disk.LogDirName, disk.KeptDirName} { // a segment may be moved meanwhile, and then counts as kept
		entries, err := os.ReadDir(filepath.Join(logDir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			name, compressed, ok := segmentName(e.Name())
			if !ok {
				continue
			}
			f := file{Segment: Segment{Name: name, Kept: dir == disk.KeptDirName, Compressed: compressed}, path: filepath.Join(logDir, dir, e.Name())}
			switch err := f.readHead(); {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				l.Damaged = append(l.Damaged, fmt.Sprintf("%s: %v", f.path, err))
				continue
			}
			if was, found := byNumber[f.Number]; !found || f.Compressed || !was.Compressed {
				byNumber[f.Number] = f
			}
		}
	}
	for _, f := range byNumber {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return int(int64(a.Number) - int64(b.Number)) })
	return files, nil
}

// readHead reads the start of a segment.
func (f *file) readHead() error {
	in, err := openRegular(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	b := make([]byte, skippableHead+frameSize)
	n, err := io.ReadFull(in, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	f.FileBytes, f.Bytes = info.Size(), info.Size()
	c, compressed, err := decodeCompressedHead(b[:n])
	switch {
	case err != nil:
		return err
	case compressed:
		f.header, f.First, f.Last, f.Bytes = c.header, c.first, c.last, c.bytes
	default:
		if f.header, err = disk.ParseSegmentHeader(b[:n]); err != nil {
			return err
		}
		f.First = f.header.Base
	}
	if f.Number = f.header.Number; f.header.Name() != f.Name || compressed != f.Compressed {
		return fmt.Errorf("%w: its header is that of %s", disk.ErrDamaged, f.header.Name())
	}
	return nil
}

// currentLogID returns the id of the log of the newest segment that a start needs, or else of the newest one.
func currentLogID(files []file) uint64 {
	for _, f := range slices.Backward(files) {
		if !f.Kept {
			return f.header.LogID
		}
	}
	if len(files) == 0 {
		return 0
	}
	return files[len(files)-1].header.LogID
}

// spansOf returns the parts without a gap, and notes the kept segments that are in none.
func (l *Listing) spansOf(files []file, last uint64) (spans []Span, err error) {
	id := currentLogID(files)
	var part []file // from its end backwards
	need := uint64(0)
	finish := func() error {
		s, err := spanOf(part, last)
		last = 0
		if err == nil && len(s.Segments) > 0 {
			spans = append(spans, s)
		}
		part = nil
		return err
	}
	for _, f := range slices.Backward(files) {
		switch {
		case f.header.LogID != id:
			if f.Kept {
				l.Others = append(l.Others, f.path)
			}
			continue
		case len(part) > 0 && need != 0 && f.header.Base >= need:
			if f.Kept {
				l.Unused = append(l.Unused, f.path)
			}
			continue
		case len(part) > 0 && (need == 0 || f.Compressed && f.Last+1 != need): // the log began anew, or a file is gone
			if err := finish(); err != nil {
				return nil, err
			}
		}
		part, need = append(part, f), f.header.Base
	}
	if err := finish(); err != nil {
		return nil, err
	}
	slices.Reverse(spans)
	return spans, nil
}

// spanOf makes a span of segments, the newest first. It ends with the entry of index last; 0: with the last one that the newest
// segment has. If that is not compressed, it is read. So is the start of one whose first entry is not known.
func spanOf(newestFirst []file, last uint64) (s Span, err error) {
	for i, f := range newestFirst {
		switch {
		case i > 0:
			f.Last = newestFirst[i-1].header.Base - 1
		case last != 0:
			f.Last = last
		case !f.Compressed:
			if err := f.scan(); err != nil {
				return s, err
			}
		}
		if f.First == 0 {
			if err := f.scan(); err != nil {
				return s, err
			}
		}
		if f.First == 0 || f.Last < f.First {
			continue // it has no entry
		}
		s.Segments = append(s.Segments, f.Segment)
	}
	slices.Reverse(s.Segments)
	if len(s.Segments) > 0 {
		s.First, s.Last = s.Segments[0].First, s.Segments[len(s.Segments)-1].Last
	}
	return s, nil
}

// scan reads a segment that is not compressed up to the last record that is whole, and notes its entries. What it has noted of the last
// one stays.
func (f *file) scan() error {
	in, err := openRegular(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was read
	records, err := disk.NewSegmentReader(in)
	for err == nil {
		_, err = records.Record()
		if f.Last != 0 && records.FirstEntry() != 0 {
			break // its end is known
		}
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, disk.ErrDamaged) {
		return err
	}
	f.First = records.FirstEntry()
	if f.Last == 0 {
		f.Last, _ = records.LastEntry()
	}
	return nil
}

// snapshots returns the snapshots beside a log with an id, sorted.
func (l *Listing) snapshots(dataDir string, logID uint64) (all []Snapshot, err error) {
	for _, dir := range []string{disk.SnapshotsDirName, disk.KeptDirName} {
		entries, err := os.ReadDir(filepath.Join(dataDir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if !disk.IsSnapshotName(e.Name()) || slices.ContainsFunc(all, func(s Snapshot) bool { return s.Name == e.Name() }) {
				continue
			}
			path := filepath.Join(dataDir, dir, e.Name())
			m, err := readSnapshotMeta(path)
			switch {
			case errors.Is(err, fs.ErrNotExist) && dir == disk.KeptDirName:
				l.Unused = append(l.Unused, path) // a part of it is left, or it was removed meanwhile
			case errors.Is(err, fs.ErrNotExist): // it was moved or removed meanwhile
			case err != nil:
				l.Damaged = append(l.Damaged, err.Error())
			case m.LogID != 0 && m.LogID != logID:
				if dir == disk.KeptDirName {
					l.Others = append(l.Others, path)
				}
			default:
				all = append(all, Snapshot{
					Name: m.Name, Index: m.Index, Term: m.Term, At: m.At, Bytes: m.Size, Taken: m.Taken,
					Kept: dir == disk.KeptDirName,
				})
			}
		}
	}
	sortSnapshots(all)
	return all, nil
}

// readSnapshotMeta reads the metadata of a snapshot that has its state. Otherwise the error is fs.ErrNotExist.
func readSnapshotMeta(dir string) (disk.SnapshotMeta, error) {
	if state := filepath.Join(dir, disk.SnapshotStateFile); !exists(state) && !exists(state+compressedSuffix) {
		return disk.SnapshotMeta{}, &fs.PathError{Op: "open", Path: state, Err: fs.ErrNotExist}
	}
	f, err := openRegular(filepath.Join(dir, disk.SnapshotMetaFile))
	if err != nil {
		return disk.SnapshotMeta{}, err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, io.LimitReader(f, disk.MaxSnapshotMeta+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return disk.SnapshotMeta{}, err
	}
	return disk.ParseSnapshotMeta(dir, b.Bytes())
}
