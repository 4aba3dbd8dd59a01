package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzSegment reads records that are made from what it is given. It neither panics nor calls an entry whole that cannot be
// decoded. Each record has right checksums unless its fourth byte says otherwise, so that the fuzzer comes further.
func FuzzSegment(f *testing.F) {
	h := segmentHeader{logID: 7, number: 1, size: 8 << 10}
	header := h.encode()
	entry, front := recordOf(testLog(1, 40)), record{kind: frontRecord, flags: lastOfBatch, index: 1}
	entry.batch, front.batch = segmentHeaderSize, segmentHeaderSize
	b := entry.appendTo(nil, 0, testLog(1, 40))
	f.Add(b)
	entry.flags |= lastOfBatch
	b = entry.appendTo(nil, 0, testLog(1, 40))
	f.Add(append(b, front.appendTo(nil, 0, nil)...))
	f.Add(append(b, b...))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, records []byte) {
		b := make([]byte, h.size)
		copy(b[copy(b, header):], records)
		sealRecords(b, h.checksum)
		s := newSegment(h, "segment", nil)
		if _, err := s.scanLast(b); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%v, want ErrDamaged", err)
		}
		for i := s.first; i < s.next(); i++ {
			r, _ := parseRecord(b[s.offsetOf(i):], h.checksum)
			payload := bytes.Clone(b[s.offsetOf(i)+recordHeaderSize : s.offsetOf(i)+r.length()])
			maskPayload(payload, h.checksum)
			payload = payload[:r.size]
			short := r.flags&withExtensions != 0 && (len(payload) < 4 || int64(binary.BigEndian.Uint32(payload)) > int64(len(payload)-4))
			if err := decodeEntry(b[s.offsetOf(i):s.offsetOf(i+1)], h.checksum, i, new(raft.Log)); (err != nil) != short {
				t.Errorf("entry %d was read, and is decoded with %v", i, err)
			}
		}
	})
}

// sealRecords gives records right checksums, up to the first that ends beyond b.
func sealRecords(b []byte, seed uint32) {
	before, batch := seed, segmentHeaderSize
	for at := segmentHeaderSize; at+recordHeaderSize <= len(b); {
		r, h := record{size: int(binary.BigEndian.Uint32(b[at+4:]) % 300)}, b[at:]
		if at+r.length() > len(b) || h[3]&1 != 0 {
			return
		}
		binary.BigEndian.PutUint32(h[4:], uint32(r.size))
		if h[3]&2 == 0 {
			binary.BigEndian.PutUint32(h[32:], uint32(batch/recordAlignment))
			binary.BigEndian.PutUint32(h[40:], before)
		}
		binary.BigEndian.PutUint32(h[36:], crc32.Checksum(h[recordHeaderSize:r.length()], castagnoliTable))
		before = crc32.Update(seed, castagnoliTable, h[:recordHeaderSize-checksumSize])
		binary.BigEndian.PutUint32(h[44:], before)
		if at += r.length(); h[1]&lastOfBatch != 0 {
			batch = at
		}
	}
}
