package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	walsegment "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walSegments adds a checksum to every entry in raft-wal's files. Without it, raft-wal does not notice that a
// stored entry has changed, and its decoder may then panic. Each append to the last file is recorded in a mark.
type walSegments struct {
	types.SegmentFiler
	mark *walMark

	mu          sync.Mutex
	createError error // why the last new segment could not be begun
}

// noteCreateError stores err for newestCreateError, and returns it.
func (s *walSegments) noteCreateError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.createError = err
	return err
}

// newestCreateError returns the error with which the last new segment could not be created, or nil.
func (s *walSegments) newestCreateError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.createError
}

// Create implements types.SegmentFiler, like the next two methods.
func (s *walSegments) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := s.SegmentFiler.Create(info)
	return s.wrapWriter(info, w, s.noteCreateError(err))
}

// RecoverTail implements types.SegmentFiler. A file that ends in an incomplete batch is not damaged.
func (s *walSegments) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := s.SegmentFiler.RecoverTail(info)
	return s.wrapWriter(info, w, err)
}

func (s *walSegments) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	r, err := s.SegmentFiler.Open(info)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", walsegment.FileName(info), err)
	}
	return checkedReader{r, walsegment.FileName(info)}, nil
}

func (s *walSegments) wrapWriter(info types.SegmentInfo, w types.SegmentWriter, err error) (types.SegmentWriter,
	error,
) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", walsegment.FileName(info), err)
	}
	return &checkedWriter{w, info, s.mark}, nil
}

type checkedWriter struct {
	types.SegmentWriter
	info types.SegmentInfo
	mark *walMark
}

func (w *checkedWriter) Append(entries []types.LogEntry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := w.SegmentWriter.Append(withChecksums(entries)); err != nil {
		return fmt.Errorf("%s: %w", walsegment.FileName(w.info), err)
	}
	return w.mark.record(w.info.ID, entries[len(entries)-1].Index)
}

func withChecksums(entries []types.LogEntry) []types.LogEntry {
	checked := make([]types.LogEntry, len(entries))
	for i, e := range entries {
		checked[i] = types.LogEntry{
			Index: e.Index,
			Data:  binary.BigEndian.AppendUint32(e.Data, entryChecksum(e.Index, e.Data)),
		}
	}
	return checked
}

func (w *checkedWriter) GetLog(index uint64) (*types.PooledBuffer, error) {
	return checkedReader{w.SegmentWriter, walsegment.FileName(w.info)}.GetLog(index)
}

type checkedReader struct {
	types.SegmentReader
	fileName string
}

func (r checkedReader) GetLog(index uint64) (*types.PooledBuffer, error) {
	b, err := r.SegmentReader.GetLog(index)
	if errors.Is(err, types.ErrNotFound) {
		return nil, err // raft-wal compares the error with ==
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", r.fileName, err)
	}
	data, err := verifyAndStripChecksum(index, b.Bs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", r.fileName, err), b.Close())
	}
	b.Bs = data
	return b, nil
}

// verifyAndStripChecksum returns the data before the checksum, if the checksum is right.
func verifyAndStripChecksum(index uint64, sealed []byte) ([]byte, error) {
	at := len(sealed) - checksumSize
	if at < 0 || binary.BigEndian.Uint32(sealed[at:]) != entryChecksum(index, sealed[:at]) {
		return nil, fmt.Errorf("%w: the checksum of entry %d is wrong", types.ErrCorrupt, index)
	}
	return sealed[:at], nil
}

// entryChecksum returns a checksum that covers the index too, so that it is wrong for an entry in another entry's
// place.
func entryChecksum(index uint64, data []byte) uint32 {
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], index)
	return crc32.Update(crc32.Checksum(head[:], castagnoliTable), castagnoliTable, data)
}

// raft-wal's files consist, after a header, of records. Each has a header of its own and is padded
// to a multiple of that header's size. A record holds an entry, or the end of a batch with the
// checksum of everything since the previous one, and so on. Zeros follow the last record.
const (
	walSegmentHeaderSize = 32
	walRecordHeaderSize  = 8
)

// recordLength returns the length of an entry's record, with its header and without the padding.
func recordLength(b []byte) int { return walRecordHeaderSize + int(binary.LittleEndian.Uint32(b[4:])) }

// parseWALRecord reads a record's header. size includes the header; sum is the checksum of a batch at its end.
func parseWALRecord(b []byte) (kind byte, size int, sum uint32) {
	if len(b) < walRecordHeaderSize {
		return walsegment.FrameInvalid, walRecordHeaderSize, 0
	}
	word := binary.LittleEndian.Uint32(b[4:])
	if b[0] == walsegment.FrameCommit {
		return b[0], walRecordHeaderSize, word
	}
	return b[0], (recordLength(b) + walRecordHeaderSize - 1) / walRecordHeaderSize * walRecordHeaderSize, 0
}

// readSegment returns the entries of a segment, from the first one that counts up to last, the last entry that
// raft-wal has found, or 0. used reports whether the segment is known to have had entries.
//
// It returns an error if a whole batch follows. A crash leaves nothing after the batch that it interrupted, so a
// record before the whole batch must have changed, and acknowledged entries would be forgotten. It also returns an
// error if a segment that was written to is shorter than its initial size (see walFS), or longer than raft-wal
// makes it.
func readSegment(path string, info types.SegmentInfo, last uint64, used bool) ([]types.LogEntry, error) {
	b, err := readBounded(path, maxSegment(info))
	if err != nil {
		return nil, err
	}
	head := b[:min(walSegmentHeaderSize, len(b))]
	if used = used || len(bytes.Trim(head, "\x00")) > 0; used && len(b) < int(info.SizeLimit) {
		return nil, fmt.Errorf("%w: it is %d bytes long, and was made with %d", ErrDamaged, len(b), info.SizeLimit)
	}
	var entries []types.LogEntry
	at := min(walSegmentHeaderSize, len(b))
	for next := info.BaseIndex; at < len(b); {
		kind, size, _ := parseWALRecord(b[at:])
		if kind == walsegment.FrameInvalid || kind > walsegment.FrameCommit || kind == walsegment.FrameEntry && next > last {
			break
		}
		if kind == walsegment.FrameEntry {
			data, err := verifyAndStripChecksum(next, b[at+walRecordHeaderSize:min(at+recordLength(b[at:]), len(b))])
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
	for ; at+walRecordHeaderSize <= len(b); at += walRecordHeaderSize {
		if b[at] == walsegment.FrameCommit && beginsWithBatch(b[at+walRecordHeaderSize:]) {
			return nil, fmt.Errorf("%w: a whole batch follows the end of the log, at byte %d", types.ErrCorrupt, at)
		}
	}
	return entries, nil
}

// maxSegment returns the maximum length of a segment, in bytes. raft-wal seals a segment with the batch that
// exceeds its size, and appends an index of 4 bytes for each entry.
func maxSegment(info types.SegmentInfo) int64 {
	const batch = MaxAppendEntries * (MaxEntryBytes + 2*entryOverhead)
	return 2*int64(info.SizeLimit) + batch
}

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

// beginsWithBatch reports whether b begins with a batch that has an entry and the right checksum.
func beginsWithBatch(b []byte) bool {
	entries := 0
	for at := 0; at < len(b); {
		kind, size, sum := parseWALRecord(b[at:])
		switch kind {
		case walsegment.FrameCommit:
			return entries > 0 && crc32.Checksum(b[:at], castagnoliTable) == sum
		case walsegment.FrameEntry:
			entries++
		case walsegment.FrameIndex:
		default:
			return false
		}
		at += size
	}
	return false
}
