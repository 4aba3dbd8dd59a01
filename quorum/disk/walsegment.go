package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walSegments are raft-wal's files, with a checksum behind every entry: raft-wal itself does
// not notice that a stored entry has changed, and its decoder may panic then. Each append to
// the last file is noted in a mark.
type walSegments struct {
	types.SegmentFiler
	mark *walMark

	mu     sync.Mutex
	failed error // why the last new segment could not be begun
}

// note keeps err, which it returns, for failure.
func (s *walSegments) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// failure returns why the last new segment could not be begun, or nil.
func (s *walSegments) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Create implements types.SegmentFiler, as do the next two.
func (s *walSegments) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := s.SegmentFiler.Create(info)
	return s.checked(info, w, s.note(err))
}

// RecoverTail: that the file ends in a batch that is not whole is no damage.
func (s *walSegments) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := s.SegmentFiler.RecoverTail(info)
	return s.checked(info, w, err)
}

func (s *walSegments) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	r, err := s.SegmentFiler.Open(info)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", segment.FileName(info), err)
	}
	return checkedReader{r, segment.FileName(info)}, nil
}

func (s *walSegments) checked(info types.SegmentInfo, w types.SegmentWriter, err error) (types.SegmentWriter, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", segment.FileName(info), err)
	}
	return &checkedWriter{w, info, s.mark}, nil
}

type checkedWriter struct {
	types.SegmentWriter
	info types.SegmentInfo
	mark *walMark
}

// Append implements types.SegmentWriter. It notes in the mark what is durable after it.
func (w *checkedWriter) Append(entries []types.LogEntry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := w.SegmentWriter.Append(seal(entries)); err != nil {
		return fmt.Errorf("%s: %w", segment.FileName(w.info), err)
	}
	return w.mark.set(w.info.ID, entries[len(entries)-1].Index)
}

// seal returns the entries with their checksums.
func seal(entries []types.LogEntry) []types.LogEntry {
	checked := make([]types.LogEntry, len(entries))
	for i, e := range entries {
		checked[i] = types.LogEntry{Index: e.Index, Data: binary.BigEndian.AppendUint32(e.Data, checksum(e.Index, e.Data))}
	}
	return checked
}

// GetLog implements types.SegmentReader.
func (w *checkedWriter) GetLog(index uint64) (*types.PooledBuffer, error) {
	return checkedReader{w.SegmentWriter, segment.FileName(w.info)}.GetLog(index)
}

type checkedReader struct {
	types.SegmentReader
	name string
}

// GetLog implements types.SegmentReader.
func (r checkedReader) GetLog(index uint64) (*types.PooledBuffer, error) {
	b, err := r.SegmentReader.GetLog(index)
	if errors.Is(err, types.ErrNotFound) {
		return nil, err // raft-wal compares
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	data, err := unseal(index, b.Bs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", r.name, err), b.Close())
	}
	b.Bs = data
	return b, nil
}

// unseal returns what stands before the checksum, if that is right.
func unseal(index uint64, sealed []byte) ([]byte, error) {
	at := len(sealed) - checksumSize
	if at < 0 || binary.BigEndian.Uint32(sealed[at:]) != checksum(index, sealed[:at]) {
		return nil, fmt.Errorf("%w: the checksum of entry %d is wrong", types.ErrCorrupt, index)
	}
	return sealed[:at], nil
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

// length is that of the record of an entry, with the header, and as it is before it is filled up.
func length(b []byte) int { return recordHeader + int(binary.LittleEndian.Uint32(b[4:])) }

// record reads the header of one. size: with the header; sum: of the end of a batch.
func record(b []byte) (kind byte, size int, sum uint32) {
	if len(b) < recordHeader {
		return segment.FrameInvalid, recordHeader, 0
	}
	word := binary.LittleEndian.Uint32(b[4:])
	if b[0] == segment.FrameCommit {
		return b[0], recordHeader, word
	}
	return b[0], (length(b) + recordHeader - 1) / recordHeader * recordHeader, 0
}

// readSegment returns the entries of a segment, from its first that counts to last, which is
// the last one that raft-wal has found; 0: none. used says that the segment is known to have had
// entries.
//
// It is an error if a whole batch lies behind that. A crash leaves nothing behind the batch
// that it tore; so a record before that batch has changed, and what was acknowledged would
// be forgotten. It is an error, too, if a segment that was written to is shorter than it was made
// (see walFS), or longer than raft-wal makes it.
func readSegment(path string, info types.SegmentInfo, last uint64, used bool) ([]types.LogEntry, error) {
	b, err := readBounded(path, maxSegment(info))
	if err != nil {
		return nil, err
	}
	head := b[:min(segmentHeader, len(b))]
	if used = used || len(bytes.Trim(head, "\x00")) > 0; used && len(b) < int(info.SizeLimit) {
		return nil, fmt.Errorf("%w: it is %d bytes long, and was made with %d", ErrDamaged, len(b), info.SizeLimit)
	}
	var entries []types.LogEntry
	at := min(segmentHeader, len(b))
	for next := info.BaseIndex; at < len(b); {
		kind, size, _ := record(b[at:])
		if kind == segment.FrameInvalid || kind > segment.FrameCommit || kind == segment.FrameEntry && next > last {
			break
		}
		if kind == segment.FrameEntry {
			data, err := unseal(next, b[at+recordHeader:min(at+length(b[at:]), len(b))])
			if err != nil {
				return nil, err
			}
			if next >= info.MinIndex {
				entries = append(entries, types.LogEntry{Index: next, Data: data[:len(data):len(data)]})
			}
			next++
		}
		at = min(at+size, len(b))
	}
	for ; at+recordHeader <= len(b); at += recordHeader {
		if b[at] == segment.FrameCommit && wholeBatch(b[at+recordHeader:]) {
			return nil, fmt.Errorf("%w: a whole batch follows the end of the log, at byte %d", types.ErrCorrupt, at)
		}
	}
	return entries, nil
}

// maxSegment is how long a segment can be, in bytes: raft-wal seals it with the batch that goes
// past its size, and appends an index of 4 bytes for each entry.
func maxSegment(info types.SegmentInfo) int64 {
	const batch = MaxAppend * (MaxEntry + 2*entryOverhead)
	return 2*int64(info.SizeLimit) + batch
}

// readBounded reads a file of at most so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%w: it is %d bytes long, at most %d are written", ErrDamaged, info.Size(), most)
	}
	return os.ReadFile(path)
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
