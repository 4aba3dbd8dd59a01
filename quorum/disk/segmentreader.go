package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/raft"
)

// SegmentHeader is the header of a segment of a log: see docs/dev/log.md.
type SegmentHeader struct {
	LogID  uint64 // of the log to which it belongs
	Number uint64 // of the segment in that log
	Base   uint64 // index of its first entry; 0: the log begins anew in it
	Size   int64  // of the file that the log wrote, in bytes

	header segmentHeader
}

// SegmentHeaderSize is the length of the header, in bytes.
const SegmentHeaderSize = segmentHeaderSize

// ParseSegmentHeader reads the header at the start of b. The error wraps ErrDamaged.
func ParseSegmentHeader(b []byte) (SegmentHeader, error) {
	h, err := decodeSegmentHeader(b)
	if err == nil {
		err = h.check()
	}
	return SegmentHeader{LogID: h.logID, Number: h.number, Base: h.base, Size: h.size, header: h}, err
}

// Name returns the name of the segment's file.
func (h SegmentHeader) Name() string { return h.header.name() }

// SegmentReader reads a segment of a log, from its start to the end of its records. It checks every record, and holds
// one of them. It is not safe for concurrent use.
type SegmentReader struct {
	SegmentHeader
	contents   segmentContents
	batch      int // where the batch of the next record begins
	in         *bufio.Reader
	head       []byte // the bytes of the header
	raw        []byte // of the last record
	firstIndex uint64 // of the entries; 0: none was read
	lastEntry  record
}

// NewSegmentReader reads the header of a segment. An error that r does not give wraps ErrDamaged.
func NewSegmentReader(r io.Reader) (*SegmentReader, error) {
	s := &SegmentReader{in: bufio.NewReaderSize(r, 64<<10), head: make([]byte, segmentHeaderSize)}
	if _, err := io.ReadFull(s.in, s.head); err != nil {
		return nil, shortAsDamage(err, 0)
	}
	var err error
	if s.SegmentHeader, err = ParseSegmentHeader(s.head); err != nil {
		return nil, err
	}
	s.contents = newSegment(s.header, "", nil).segmentContents
	s.batch = s.contents.end
	return s, nil
}

// HeaderBytes returns the bytes of the header.
func (s *SegmentReader) HeaderBytes() []byte { return s.head }

// Record reads the next record, and returns its bytes, which are valid until the next call. At the end of the records the
// error is io.EOF: there the bytes end, or only zeros follow in the next record's place.
func (s *SegmentReader) Record() ([]byte, error) {
	_, err := s.read()
	return s.raw, err
}

// Entry reads up to the next entry. At the end of the records the error is io.EOF, as that of Record.
func (s *SegmentReader) Entry() (*raft.Log, error) {
	for {
		r, err := s.read()
		if err != nil {
			return nil, err
		}
		if r.kind == entryRecord {
			entry := new(raft.Log)
			return entry, decodeEntry(slices.Clone(s.raw), s.header.checksum, r.index, entry)
		}
	}
}

func (s *SegmentReader) read() (record, error) {
	at := s.contents.end
	s.raw = slices.Grow(s.raw[:0], recordHeaderSize)[:recordHeaderSize]
	switch n, err := io.ReadFull(s.in, s.raw); {
	case n == 0 && errors.Is(err, io.EOF):
		return record{}, io.EOF
	case err != nil:
		return record{}, shortAsDamage(err, at)
	case isZero(s.raw):
		return record{}, io.EOF
	}
	r, ok := parseRecord(s.raw, s.header.checksum)
	if !ok || r.size > MaxEntryBytes+checksumSize { // the length of extensions takes as much as a checksum
		return r, fmt.Errorf("%w: the record at byte %d does not match its checksum", ErrDamaged, at)
	}
	s.raw = slices.Grow(s.raw, r.length()-recordHeaderSize)[:r.length()]
	if _, err := io.ReadFull(s.in, s.raw[recordHeaderSize:]); err != nil {
		return r, shortAsDamage(err, at)
	}
	if !r.isWhole(s.raw) {
		return r, fmt.Errorf("%w: the record at byte %d does not match its checksum", ErrDamaged, at)
	}
	if err := s.contents.checkFollows(r, s.batch); err != nil {
		return r, err
	}
	s.note(r)
	return r, nil
}

func (s *SegmentReader) note(r record) {
	if s.contents.add(r); r.flags&lastOfBatch != 0 {
		s.batch = s.contents.end
	}
	if r.kind == entryRecord {
		if s.firstIndex == 0 {
			s.firstIndex = r.index
		}
		s.lastEntry = r
	}
	s.contents.first, s.contents.offsets = s.contents.next(), s.contents.offsets[:0] // only the next index is needed
}

// FirstEntry returns the index of the first entry that was read, or 0.
func (s *SegmentReader) FirstEntry() uint64 { return s.firstIndex }

// LastEntry returns the index and the term of the last entry that was read, or zeros.
func (s *SegmentReader) LastEntry() (index, term uint64) { return s.lastEntry.index, s.lastEntry.term }

// IsFollowedBy reports whether the segment with header next, of the same log, follows the entries that were read.
func (s *SegmentReader) IsFollowedBy(next SegmentHeader) bool {
	return next.LogID == s.LogID && next.Number > s.Number && next.Base == s.contents.next() && next.header.before == s.contents.lastEntry
}

// shortAsDamage makes an unexpected end damage, at an offset.
func shortAsDamage(err error, at int) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in the record at byte %d", ErrDamaged, at)
	}
	return err
}
