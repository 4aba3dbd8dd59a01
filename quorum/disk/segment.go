package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"rollcall/internal/durable"
)

// The header of a segment: see docs/dev/log.md.
const (
	segmentMagic      = "RCLOG02\n"
	segmentHeaderSize = 56
	segmentSuffix     = ".log"
	removedSuffix     = ".removed" // of a segment that is being removed

	firstSegmentBytes = 256 << 10 // size of a log's first segment
	maxSegmentBytes   = 16 << 20  // default limit of the sizes; a longer batch gets a segment of its own
)

// segmentHeader is the header of a segment.
type segmentHeader struct {
	logID    uint64
	number   uint64
	base     uint64 // index of the first entry; 0: the log begins anew in this segment, with whichever index comes
	size     int64  // of the file, in bytes
	front    uint64 // index of the log's first entry; 0 if base is 0
	before   uint32 // checksum of the record of the entry before the first one; 0 if base is 0
	checksum uint32
}

func (h segmentHeader) name() string {
	return fmt.Sprintf("%010d-%020d%s", h.number, h.base, segmentSuffix)
}

func (h *segmentHeader) encode() []byte {
	b := []byte(segmentMagic)
	for _, v := range []uint64{h.logID, h.number, h.base, uint64(h.size), h.front} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = binary.BigEndian.AppendUint32(b, h.before)
	h.checksum = crc32.Checksum(b, castagnoliTable)
	return binary.BigEndian.AppendUint32(b, h.checksum)
}

func decodeSegmentHeader(b []byte) (h segmentHeader, err error) {
	at := segmentHeaderSize - checksumSize
	if len(b) < segmentHeaderSize || string(b[:len(segmentMagic)]) != segmentMagic {
		return h, fmt.Errorf("%w: it does not begin as a segment of a log", ErrDamaged)
	}
	h.checksum = binary.BigEndian.Uint32(b[at:])
	if h.checksum != crc32.Checksum(b[:at], castagnoliTable) {
		return h, fmt.Errorf("%w: the checksum of its header is wrong", ErrDamaged)
	}
	var size uint64
	for i, v := range []*uint64{&h.logID, &h.number, &h.base, &size, &h.front} {
		*v = binary.BigEndian.Uint64(b[len(segmentMagic)+8*i:])
	}
	h.size = int64(size)
	h.before = binary.BigEndian.Uint32(b[at-checksumSize:])
	return h, nil
}

// segment is an open segment.
type segment struct {
	segmentHeader
	segmentContents // changes under the lock of the segmentLog
	path            string
	file            *os.File
}

// segmentContents is what is known of the records of a segment.
type segmentContents struct {
	first       uint64   // index of the first entry, also if base is 0; 0: none has come yet
	offsets     []uint32 // where the entries begin, divided by recordAlignment
	end         int      // where the next record goes
	last        uint32   // checksum of the last record, or of the header
	lastEntry   uint32   // checksum of the last entry's record, which may be in an earlier segment
	newestFront uint64   // in a record or in the header; 0: the first entry
}

// next returns the index of the entry that comes next, or 0 if it may be any.
func (c *segmentContents) next() uint64 { return c.first + uint64(len(c.offsets)) }

// offsetOf returns where the record of an entry begins. For the index after the last entry it returns the end.
func (c *segmentContents) offsetOf(index uint64) int {
	if i := index - c.first; i < uint64(len(c.offsets)) {
		return int(c.offsets[i]) * recordAlignment
	}
	return c.end
}

// add notes a record at the end.
func (c *segmentContents) add(r record) {
	switch r.kind {
	case entryRecord:
		if len(c.offsets) == 0 {
			c.first = r.index
		}
		c.offsets = append(c.offsets, uint32(c.end/recordAlignment))
		c.lastEntry = r.checksum
	case frontRecord:
		c.newestFront = r.index
	}
	c.end, c.last = c.end+r.length(), r.checksum
}

// cutAfter forgets the entries after one.
func (c *segmentContents) cutAfter(index uint64) {
	c.end = c.offsetOf(index + 1)
	c.offsets = c.offsets[:index-c.first+1]
}

// newSegment returns a segment without records.
func newSegment(h segmentHeader, path string, file *os.File) *segment {
	c := segmentContents{first: h.base, end: segmentHeaderSize, last: h.checksum, lastEntry: h.before, newestFront: h.front}
	return &segment{h, c, path, file}
}

// createSegment makes a segment in dir without records. Once it has its name, which is durable when createSegment
// returns, it has its header and its size.
func createSegment(dir string, h segmentHeader) (*segment, error) {
	path := filepath.Join(dir, h.name())
	file, err := os.OpenFile(path+tmpSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return nil, err
	}
	err = allocate(file, h.size)
	if err == nil {
		_, err = file.WriteAt(h.encode(), 0)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(path+tmpSuffix, path)
	}
	if err == nil {
		err = durable.SyncDirectory(dir)
	}
	if err != nil {
		_ = os.Remove(path + tmpSuffix) // it would take space; the next start removes it otherwise
		return nil, errors.Join(err, file.Close())
	}
	return newSegment(h, path, file), nil
}

// openSegment opens a segment, and checks its header, its name and its size.
func openSegment(path string) (*segment, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	h, err := readSegmentHeader(file, filepath.Base(path))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return newSegment(h, path, file), nil
}

func readSegmentHeader(file *os.File, name string) (h segmentHeader, err error) {
	info, err := file.Stat()
	if err != nil {
		return h, err
	}
	b := make([]byte, min(segmentHeaderSize, info.Size()))
	if _, err := file.ReadAt(b, 0); err != nil {
		return h, err
	}
	h, err = decodeSegmentHeader(b)
	switch {
	case err != nil:
	case h.name() != name:
		err = fmt.Errorf("%w: its header is that of %s", ErrDamaged, h.name())
	case h.size != info.Size():
		err = fmt.Errorf("%w: it is %d bytes long, and was made with %d", ErrDamaged, info.Size(), h.size)
	default:
		err = h.check()
	}
	return h, err
}

// read reads the whole file into b, or into a longer slice.
func (s *segment) read(b []byte) ([]byte, error) {
	b = slices.Grow(b[:0], int(s.size))[:s.size]
	_, err := s.file.ReadAt(b, 0)
	return b, err
}

// scanSealed notes the records in the segment's contents b, up to the entry that the segment with header next follows.
func (s *segment) scanSealed(b []byte, next segmentHeader) error {
	for batch := s.end; s.next() != next.base || s.lastEntry != next.before; {
		r, err := s.readRecord(b, batch)
		if err != nil {
			return err
		}
		if r.kind == entryRecord && r.index >= next.base {
			return fmt.Errorf("%w: it does not end with the entry that %s follows", ErrDamaged, next.name())
		}
		if s.add(r); r.flags&lastOfBatch != 0 {
			batch = s.end
		}
	}
	return nil
}

// scanLast notes the whole batches in the contents b of the last segment. It reports whether a torn batch follows.
func (s *segment) scanLast(b []byte) (torn bool, err error) {
	whole := s.segmentContents
	for {
		r, err := s.readRecord(b, whole.end)
		if err != nil {
			s.segmentContents = whole
			return s.tornTail(b, s.end)
		}
		if s.add(r); r.flags&lastOfBatch != 0 {
			whole = s.segmentContents
		}
	}
}

// readRecord returns the record at the end, of the batch that begins at an offset. It must follow the last one.
func (s *segment) readRecord(b []byte, batch int) (record, error) {
	r, ok := parseRecord(b[s.end:], s.checksum)
	if !ok || !r.isWhole(b[s.end:]) {
		return r, fmt.Errorf("%w: the record at byte %d does not match its checksum", ErrDamaged, s.end)
	}
	return r, s.checkFollows(r, batch)
}

// checkFollows returns an error unless a record of the batch that begins at an offset can be the next one.
func (c *segmentContents) checkFollows(r record, batch int) error {
	next := c.next()
	switch {
	case r.before != c.last, r.batch != batch,
		r.kind == entryRecord && (r.index == 0 || r.index > maxLogIndex || next != 0 && r.index != next),
		r.kind == frontRecord && (next == 0 || r.index > next),
		r.kind != entryRecord && r.kind != frontRecord:
		return fmt.Errorf("%w: the record at byte %d does not follow the one before it", ErrDamaged, c.end)
	}
	return nil
}

// allocateByWriting gives a new file its size, where the system cannot reserve space.
func allocateByWriting(file *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// segmentPaths returns the segments in dir, by their numbers. It removes what is only half made or half removed.
func segmentPaths(dir string) ([]string, error) {
	for _, suffix := range []string{tmpSuffix, removedSuffix} {
		left, err := globIn(dir, "*"+segmentSuffix+suffix)
		if err != nil {
			return nil, err
		}
		for _, path := range left {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	paths, err := globIn(dir, "*"+segmentSuffix)
	slices.Sort(paths) // numbers have leading zeros
	return paths, err
}
