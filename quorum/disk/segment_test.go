package disk

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// A segment's header is read as it was written. Each wrong bit in it is noticed, and a header that is too short.
func TestSegmentHeader(t *testing.T) {
	h := segmentHeader{logID: 7, number: 3, base: 40, size: 8 << 10, front: 11, before: 99}
	b := h.encode()
	if got, err := decodeSegmentHeader(b); err != nil || got != h {
		t.Errorf("%+v, %v; want %+v", got, err, h)
	}
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeSegmentHeader(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d is wrong: %v", bit, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	if _, err := decodeSegmentHeader(b[:len(b)-1]); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte is missing: %v", err)
	}
}

// An entry with a wrong bit is rejected, both at the start and when it is read.
func TestRecordHasAWrongBit(t *testing.T) {
	h := segmentHeader{logID: 7, number: 1, base: 5, front: 5, size: 8 << 10}
	header := h.encode()
	r := recordOf(testLog(5, 40))
	r.batch, r.before = segmentHeaderSize, h.checksum
	b := r.appendTo(header, h.checksum, testLog(5, 40))
	check := func(bit int, whole bool) {
		_, atStart := newSegment(h, "segment", nil).readRecord(b, segmentHeaderSize)
		read := decodeEntry(b[segmentHeaderSize:], h.checksum, 5, new(raft.Log))
		if errors.Is(atStart, ErrDamaged) == whole || errors.Is(read, ErrDamaged) == whole {
			t.Errorf("bit %d: at the start %v, and when it is read %v", bit, atStart, read)
		}
	}
	check(-1, true)
	for bit := 8 * segmentHeaderSize; bit < 8*len(b); bit++ {
		b[bit/8] ^= 1 << (bit % 8)
		check(bit, false)
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// A record with the right checksum is rejected if it does not follow the one before it.
func TestReadRecordOutOfPlace(t *testing.T) {
	h := segmentHeader{logID: 7, number: 1, base: 5, front: 5, size: 8 << 10}
	header := h.encode()
	for _, tt := range []struct {
		name   string
		change func(r *record)
		fits   bool
	}{
		{"in its place", func(*record) {}, true},
		{"of another batch", func(r *record) { r.batch += recordAlignment }, false},
		{"after another record", func(r *record) { r.before++ }, false},
		{"of a later entry", func(r *record) { r.index++ }, false},
		{"of no entry", func(r *record) { r.index = 0 }, false},
		{"of an unknown kind", func(r *record) { r.kind = 9 }, false},
		{"a front after all entries", func(r *record) { r.kind, r.index = frontRecord, 6 }, false},
	} {
		s := newSegment(h, "segment", nil)
		r := recordOf(testLog(5, 40))
		r.batch, r.before = segmentHeaderSize, h.checksum
		tt.change(&r)
		if _, err := s.readRecord(r.appendTo(header, h.checksum, testLog(5, 40)), segmentHeaderSize); tt.fits != (err == nil) ||
			err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("a record %s: %v", tt.name, err)
		}
	}
}

// A wrong bit in the last batch is not taken for a sector that a loss of power took, although its entries have sectors of zeros.
// A lost sector is, wherever it is.
func TestWrongBitIsNotTorn(t *testing.T) {
	h := segmentHeader{logID: 7, number: 1, base: 5, front: 5, size: 8 << 10}
	header := h.encode()
	b, before, batch := header, h.checksum, segmentHeaderSize
	for i, size := range []int{100, 1000, 0, 601, 1400} {
		e := &raft.Log{Index: 5 + uint64(i), Term: 1, Data: make([]byte, size)}
		r := recordOf(e)
		r.batch, r.before = batch, before
		if i == 0 || i == 4 {
			r.flags |= lastOfBatch
		}
		b = r.appendTo(b, h.checksum, e)
		if before = r.checksum; i == 0 {
			batch = len(b)
		}
	}
	end := len(b)
	b = append(b, make([]byte, int(h.size)-end)...)
	scan := func(b []byte) (torn bool, err error) { return newSegment(h, "segment", nil).scanLast(b) }
	if torn, err := scan(b); torn || err != nil {
		t.Fatal(torn, err)
	}
	for bit := 8 * batch; bit < 8*end; bit++ {
		b[bit/8] ^= 1 << (bit % 8)
		if torn, err := scan(b); torn || !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d of the file is wrong: torn %t, %v", bit, torn, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for at := batch; at < end; {
		next := min((at/sectorSize+1)*sectorSize, end)
		lost := zeroAt(at, next)(bytes.Clone(b))
		if torn, err := scan(lost); !torn || err != nil {
			t.Errorf("the sector from byte %d is lost: torn %t, %v", at, torn, err)
		}
		at = next
	}
}
