package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walSegments are raft-wal's files, with a checksum behind every entry: raft-wal itself does
// not notice that a stored one has changed, and its decoder may panic then.
type walSegments struct{ types.SegmentFiler }

// Create implements types.SegmentFiler, as do the next two.
func (s *walSegments) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	return checkedSegment(s.SegmentFiler.Create(info))
}

// RecoverTail: that the file ends in a batch that is not whole is no damage.
func (s *walSegments) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	return checkedSegment(s.SegmentFiler.RecoverTail(info))
}

func (s *walSegments) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	r, err := s.SegmentFiler.Open(info)
	if err != nil {
		return nil, err
	}
	return checkedReader{r}, nil
}

func checkedSegment(w types.SegmentWriter, err error) (types.SegmentWriter, error) {
	if err != nil {
		return nil, err
	}
	return &checkedWriter{SegmentWriter: w}, nil
}

type checkedWriter struct{ types.SegmentWriter }

// Append implements types.SegmentWriter.
func (w *checkedWriter) Append(entries []types.LogEntry) error {
	checked := make([]types.LogEntry, len(entries))
	for i, e := range entries {
		checked[i] = types.LogEntry{Index: e.Index, Data: binary.BigEndian.AppendUint32(e.Data, checksum(e.Index, e.Data))}
	}
	return w.SegmentWriter.Append(checked)
}

// GetLog implements types.SegmentReader.
func (w *checkedWriter) GetLog(index uint64) (*types.PooledBuffer, error) {
	return checkedReader{w.SegmentWriter}.GetLog(index)
}

type checkedReader struct{ types.SegmentReader }

// GetLog implements types.SegmentReader.
func (r checkedReader) GetLog(index uint64) (*types.PooledBuffer, error) {
	b, err := r.SegmentReader.GetLog(index)
	if err != nil {
		return nil, err
	}
	at := len(b.Bs) - checksumSize
	if at < 0 || binary.BigEndian.Uint32(b.Bs[at:]) != checksum(index, b.Bs[:at]) {
		return nil, errors.Join(fmt.Errorf("%w: the checksum of entry %d is wrong", types.ErrCorrupt, index), b.Close())
	}
	b.Bs = b.Bs[:at]
	return b, nil
}

const checksumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers the index as well: an entry in another's place is wrong, too.
func checksum(index uint64, data []byte) uint32 {
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], index)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, data)
}

// What raft-wal's files are made of, after a header: records, each with a header of its own
// and filled up to a multiple of that. Records of entries, the end of a batch with the
// checksum of all since the one before, and so on; zeros behind the last one.
const (
	segmentHeader = 32
	recordHeader  = 8
)

// record reads the header of one. size: with the header; sum: of the end of a batch.
func record(b []byte) (kind byte, size int, sum uint32) {
	if len(b) < recordHeader {
		return segment.FrameInvalid, recordHeader, 0
	}
	word := binary.LittleEndian.Uint32(b[4:])
	if b[0] == segment.FrameCommit {
		return b[0], recordHeader, word
	}
	return b[0], int(recordHeader + (int64(word)+recordHeader-1)/recordHeader*recordHeader), 0
}

// noneBehind returns an error if a whole batch lies in the segment behind its first so many
// entries, which are all that raft-wal has found. A crash leaves nothing behind the batch
// that it tore; so a record before that batch has changed, and what was acknowledged would
// be forgotten.
func noneBehind(path string, entries int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	end := behind(b, entries)
	for at := end; at+recordHeader <= len(b); at += recordHeader {
		if b[at] == segment.FrameCommit && wholeBatch(b[at+recordHeader:]) {
			return fmt.Errorf("%w: a whole batch lies behind the end of the log, at byte %d of %s", types.ErrCorrupt, at, path)
		}
	}
	return nil
}

// behind is where the batch ends that has the last of so many entries.
func behind(b []byte, entries int) int {
	at := min(segmentHeader, len(b))
	for at < len(b) {
		kind, size, _ := record(b[at:])
		switch {
		case kind == segment.FrameInvalid || kind > segment.FrameCommit:
			return at
		case kind == segment.FrameEntry && entries == 0:
			return at
		case kind == segment.FrameEntry:
			entries--
		}
		at = min(at+size, len(b))
	}
	return at
}

// wholeBatch reports whether b begins with a batch that has an entry and the right checksum.
func wholeBatch(b []byte) bool {
	entries := 0
	for at := 0; at < len(b); {
		kind, size, sum := record(b[at:])
		switch kind {
		case segment.FrameCommit:
			return entries > 0 && crc32.Checksum(b[:at], castagnoli) == sum
		case segment.FrameEntry:
			entries++
		case segment.FrameIndex:
		default:
			return false
		}
		at += size
	}
	return false
}
