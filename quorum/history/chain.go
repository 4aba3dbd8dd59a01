package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Source has the files of a span: a member's directories, a member that sends them, or an archive.
type Source interface {
	// Open opens a file of the span, by a name that SegmentFile, SnapshotMetaFile or SnapshotStateFile returns. The file may
	// be compressed. A segment of the log that is still written to may end anywhere after the span's last entry.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Location names the file for errors.
	Location(name string) string
}

const (
	segmentsPrefix  = "segments/"
	snapshotsPrefix = "snapshots/"
	metaSuffix      = "/meta"
	stateSuffix     = "/state"
)

// SegmentFile returns the name of a segment for Source.Open.
func SegmentFile(g Segment) string { return segmentsPrefix + g.Name }

// SnapshotMetaFile returns the name of a snapshot's metadata for Source.Open.
func SnapshotMetaFile(s Snapshot) string { return snapshotsPrefix + s.Name + metaSuffix }

// SnapshotStateFile returns the name of a snapshot's state for Source.Open.
func SnapshotStateFile(s Snapshot) string { return snapshotsPrefix + s.Name + stateSuffix }

// Chain reads a span. It is not safe for concurrent use.
type Chain struct {
	Span
	source Source
}

// NewChain returns a reader of a span, whose files source has.
func NewChain(s Span, source Source) *Chain { return &Chain{s, source} }

// OpenSnapshot opens the state of a snapshot. The reader returns an error that wraps disk.ErrDamaged instead of the last bytes if
// they have changed.
func (c *Chain) OpenSnapshot(ctx context.Context, s Snapshot) (io.ReadCloser, error) {
	m, err := c.readMeta(ctx, s)
	if err != nil {
		return nil, err
	}
	if m.Index != s.Index || m.Term != s.Term {
		return nil, fmt.Errorf("history: %s is %w: it is a snapshot of index %d", c.source.Location(SnapshotMetaFile(s)), disk.ErrDamaged, m.Index)
	}
	state, err := c.open(ctx, SnapshotStateFile(s))
	if err != nil {
		return nil, err
	}
	return m.ReadState(state, c.source.Location(SnapshotStateFile(s))), nil
}

func (c *Chain) readMeta(ctx context.Context, s Snapshot) (m disk.SnapshotMeta, err error) {
	f, err := c.source.Open(ctx, SnapshotMetaFile(s))
	if err != nil {
		return m, err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, io.LimitReader(f, disk.MaxSnapshotMeta+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return m, err
	}
	return disk.ParseSnapshotMeta(s.Name, b.Bytes())
}

func (c *Chain) open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := c.source.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return Decompress(f)
}

// Entries yields the entries after an index, in order and without a gap, up to the span's last one. An error is the last thing that it
// yields, and then the entries before it do not count: it may show that they were replaced. It wraps disk.ErrDamaged and names the
// file if bytes have changed or are missing.
func (c *Chain) Entries(ctx context.Context, after uint64) iter.Seq2[*raft.Log, error] {
	return func(yield func(*raft.Log, error) bool) {
		var before *disk.SegmentReader
		for _, g := range c.Segments {
			if g.Last <= after {
				continue
			}
			if after+1 < g.First {
				yield(nil, fmt.Errorf("history: entry %d is not kept: the next one is %d", after+1, g.First))
				return
			}
			var more bool
			if before, more = c.segmentEntries(ctx, g, before, after, yield); !more {
				return
			}
			after = g.Last
		}
	}
}

// segmentEntries yields the entries of a segment after an index. before is the reader of the segment before it, or nil. It reports
// whether the next segment is wanted, and returns its reader.
func (c *Chain) segmentEntries(ctx context.Context, g Segment, before *disk.SegmentReader, after uint64,
	yield func(*raft.Log, error) bool,
) (records *disk.SegmentReader, more bool) {
	where := c.source.Location(SegmentFile(g))
	fail := func(err error) (*disk.SegmentReader, bool) {
		if err == nil {
			err = fmt.Errorf("it ends before entry %d: %w", g.Last, disk.ErrDamaged)
		}
		yield(nil, fmt.Errorf("history: %s: %w", where, err))
		return nil, false
	}
	f, err := c.open(ctx, SegmentFile(g))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = f.Close() }() // it was read
	if records, err = disk.NewSegmentReader(f); err != nil {
		return fail(err)
	}
	if before != nil && !before.IsFollowedBy(records.SegmentHeader) {
		return fail(fmt.Errorf("it does not follow the segment before it: %w", disk.ErrDamaged))
	}
	for index := uint64(0); index < g.Last; {
		entry, err := records.Entry()
		if errors.Is(err, io.EOF) {
			return fail(nil)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fail(err)
		}
		if index = entry.Index; index > after && !yield(entry, nil) {
			return nil, false
		}
	}
	return records, true
}

// ErrNoSuchFile is the error for a name that no file of the past can have.
var ErrNoSuchFile = errors.New("is no file of the past")

// DirectorySource has the files of a member's own directories. It finds a file that was moved or compressed since it was listed.
type DirectorySource struct{ Directories }

// Open implements Source.
func (d DirectorySource) Open(_ context.Context, name string) (io.ReadCloser, error) {
	candidates, err := d.candidates(name)
	if err != nil {
		return nil, err
	}
	for range 2 { // it may have been moved between two looks, once
		for _, path := range candidates {
			if f, err := openRegular(path); !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	return nil, fmt.Errorf("history: %s: %w", d.Location(name), fs.ErrNotExist)
}

// candidates returns the paths that a file can have.
func (d DirectorySource) candidates(name string) ([]string, error) {
	if segment, ok := strings.CutPrefix(name, segmentsPrefix); ok && isPlainName(segment) && strings.HasSuffix(segment, segmentSuffix) {
		kept := filepath.Join(d.Log, disk.KeptDirName, segment)
		return []string{filepath.Join(d.Log, disk.LogDirName, segment), kept, kept + compressedSuffix}, nil
	}
	snapshot, ok := strings.CutPrefix(name, snapshotsPrefix)
	for suffix, file := range map[string]string{metaSuffix: disk.SnapshotMetaFile, stateSuffix: disk.SnapshotStateFile} {
		dir, found := strings.CutSuffix(snapshot, suffix)
		if !ok || !found || !isPlainName(dir) || !disk.IsSnapshotName(dir) {
			continue
		}
		live, kept := filepath.Join(d.Data, disk.SnapshotsDirName, dir, file), filepath.Join(d.Data, disk.KeptDirName, dir, file)
		return []string{live, kept, kept + compressedSuffix}, nil
	}
	return nil, fmt.Errorf("history: %.300q %w: such names are segments/NAME.log, snapshots/NAME/meta and snapshots/NAME/state", name,
		ErrNoSuchFile)
}

func isSegmentFile(name string) bool { return strings.HasPrefix(name, segmentsPrefix) }

// maxName is the length of the longest name of a file of the past and more, in bytes. All file systems take such names.
const maxName = 128

// isPlainName reports whether a file may have a name, which has no directory in it.
func isPlainName(name string) bool {
	return name != "" && len(name) <= maxName && name == filepath.Base(name) && name != ".." && name != "." && !strings.Contains(name, "\x00")
}

// Location implements Source.
func (d DirectorySource) Location(name string) string {
	if all, err := d.candidates(name); err == nil {
		for _, path := range all {
			if exists(path) {
				return path
			}
		}
		return all[0]
	}
	return name
}

// openRegular opens a file. To open a pipe would wait for its other end, so it and whatever else is no file is damage.
func openRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file, but %v", disk.ErrDamaged, info.Mode().Type())
	}
	return os.Open(path)
}
