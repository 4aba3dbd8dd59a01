package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// The layout of a record of the log: see docs/dev/log.md. Numbers are big-endian.
const (
	recordHeaderSize = 48
	recordAlignment  = 8 // a record begins at a multiple of it

	entryRecord = 1
	frontRecord = 2 // its index is that of the log's first entry from now on

	lastOfBatch    = 1 << 0
	withExtensions = 1 << 1
)

const checksumSize = 4

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)

// record is the header of a record.
type record struct {
	kind, flags     byte
	logType         raft.LogType
	size            int // of the payload, in bytes
	index, term     uint64
	appendedAt      int64  // nanoseconds since 1970; 0: not known
	batch           int    // where the batch begins in the file
	payloadChecksum uint32 // of the payload with its padding, as the file has it
	before          uint32 // checksum of the record before, or of the segment's header
	checksum        uint32
}

// length returns the length of the record in the file, with its padding.
func (r record) length() int {
	return recordHeaderSize + (r.size+recordAlignment-1)/recordAlignment*recordAlignment
}

// recordOf returns the record of an entry, without what depends on its place.
func recordOf(l *raft.Log) record {
	r := record{kind: entryRecord, logType: l.Type, size: len(l.Data), index: l.Index, term: l.Term}
	if len(l.Extensions) > 0 {
		r.flags, r.size = withExtensions, r.size+4+len(l.Extensions)
	}
	if !l.AppendedAt.IsZero() {
		r.appendedAt = l.AppendedAt.UnixNano()
	}
	return r
}

// appendTo appends the record to b, with the payload of l, which is nil for a new front. It sets the checksums. seed is
// the checksum of the segment's header.
func (r *record) appendTo(b []byte, seed uint32, l *raft.Log) []byte {
	at := len(b)
	var header [recordHeaderSize]byte
	b = append(b, header[:]...)
	if l != nil {
		if r.flags&withExtensions != 0 {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(l.Extensions))), l.Extensions...)
		}
		b = append(b, l.Data...)
	}
	b = append(b, make([]byte, at+r.length()-len(b))...)
	h := b[at:]
	maskPayload(h[recordHeaderSize:], seed)
	r.payloadChecksum = crc32.Checksum(h[recordHeaderSize:], castagnoliTable)
	h[0], h[1], h[2] = r.kind, r.flags, byte(r.logType)
	binary.BigEndian.PutUint32(h[4:], uint32(r.size))
	binary.BigEndian.PutUint64(h[8:], r.index)
	binary.BigEndian.PutUint64(h[16:], r.term)
	binary.BigEndian.PutUint64(h[24:], uint64(r.appendedAt))
	binary.BigEndian.PutUint32(h[32:], uint32(r.batch/recordAlignment))
	binary.BigEndian.PutUint32(h[36:], r.payloadChecksum)
	binary.BigEndian.PutUint32(h[40:], r.before)
	r.checksum = crc32.Update(seed, castagnoliTable, h[:recordHeaderSize-checksumSize])
	binary.BigEndian.PutUint32(h[44:], r.checksum)
	return b
}

// parseRecord reads the header at the start of b, and reports whether its checksum is right. seed is the checksum of the
// segment's header.
func parseRecord(b []byte, seed uint32) (r record, ok bool) {
	if len(b) < recordHeaderSize {
		return record{}, false
	}
	r.checksum = binary.BigEndian.Uint32(b[44:])
	if r.checksum != crc32.Update(seed, castagnoliTable, b[:recordHeaderSize-checksumSize]) {
		return record{}, false
	}
	r.kind, r.flags, r.logType = b[0], b[1], raft.LogType(b[2])
	r.size = int(binary.BigEndian.Uint32(b[4:]))
	r.index, r.term = binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
	r.appendedAt = int64(binary.BigEndian.Uint64(b[24:]))
	r.batch = int(binary.BigEndian.Uint32(b[32:])) * recordAlignment
	r.payloadChecksum, r.before = binary.BigEndian.Uint32(b[36:]), binary.BigEndian.Uint32(b[40:])
	return r, true
}

// maskPayload changes a payload with its padding into what the file has, and back. A payload may have sectors of zeros, and a
// sector of zeros in the file must mean that it was lost (see checkTorn). The file has the payload's words of 8 bytes, each
// with the same mask. The mask is never zero, so a sector in the file is zeros only if each word of it is the mask. That
// depends on the log's id, which nobody who writes data knows.
func maskPayload(b []byte, seed uint32) {
	mask := uint64(seed)<<32 | uint64(^seed)
	for ; len(b) > 0; b = b[recordAlignment:] {
		binary.BigEndian.PutUint64(b, binary.BigEndian.Uint64(b)^mask)
	}
}

// isWhole reports whether the payload of the record at the start of b, with its padding, has the right checksum.
func (r record) isWhole(b []byte) bool {
	return len(b) >= r.length() && crc32.Checksum(b[recordHeaderSize:r.length()], castagnoliTable) == r.payloadChecksum
}

// decodeEntry reads the entry at the start of b into l. It changes b, in which the data of l then lie.
func decodeEntry(b []byte, seed uint32, index uint64, l *raft.Log) error {
	r, ok := parseRecord(b, seed)
	if !ok || !r.isWhole(b) || r.kind != entryRecord || r.index != index {
		return fmt.Errorf("%w: entry %d does not match its checksum", ErrDamaged, index)
	}
	maskPayload(b[recordHeaderSize:r.length()], seed)
	payload := b[recordHeaderSize:][:r.size:r.size]
	*l = raft.Log{Index: r.index, Term: r.term, Type: r.logType, Data: payload}
	if r.flags&withExtensions != 0 {
		if len(payload) < 4 || uint32(len(payload)-4) < binary.BigEndian.Uint32(payload) {
			return fmt.Errorf("%w: entry %d has no room for its extensions", ErrDamaged, index)
		}
		end := 4 + int(binary.BigEndian.Uint32(payload))
		l.Extensions, l.Data = payload[4:end:end], payload[end:]
	}
	if r.appendedAt != 0 {
		l.AppendedAt = time.Unix(0, r.appendedAt)
	}
	return nil
}
