package history

import (
	"context"
	"errors"
	"io"

	"rollcall/quorum/disk"
)

// CommittedSource has the files of a member that runs. Of a segment that is not compressed it gives the records up to the entry of an
// index, which is committed, and not more.
//
// It gives the records before one that is damaged as if they were all. A process that is killed leaves half a record at the end of a
// segment, and the log continues in the next one. Whether entries are missing is for Chain, which knows where the next segment begins.
type CommittedSource struct {
	DirectorySource
	Last uint64
}

// Open implements Source.
func (c CommittedSource) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := c.DirectorySource.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	in := newSourceReader(f)
	magic, err := in.in.Peek(4)
	if err != nil || isCompressed(magic) || !isSegmentFile(name) {
		return readCloser{in.in, f}, nil // an error shows when it is read
	}
	records, err := disk.NewSegmentReader(in)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return readCloser{&committedRecords{records: records, last: c.Last, pending: records.HeaderBytes()}, f}, nil
}

// committedRecords reads the header and the records of a segment up to the entry of an index.
type committedRecords struct {
	records *disk.SegmentReader
	last    uint64
	pending []byte
}

// Read implements io.Reader.
func (c *committedRecords) Read(p []byte) (int, error) {
	if len(c.pending) == 0 {
		if index, _ := c.records.LastEntry(); index >= c.last {
			return 0, io.EOF // what follows may be half written
		}
		raw, err := c.records.Record()
		if errors.Is(err, disk.ErrDamaged) {
			return 0, io.EOF // see CommittedSource
		}
		if err != nil {
			return 0, err
		}
		if index, _ := c.records.LastEntry(); index > c.last {
			return 0, io.EOF // the segment begins after it
		}
		c.pending = raw
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}
