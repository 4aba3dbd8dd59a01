package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
)

// maxCutRecord is the longest end of a log that may be a cut record, in bytes. ZooKeeper's transactions are
// much shorter, unless jute.maxbuffer is set as high.
const maxCutRecord = 64 << 20

// checkEnding checks the bytes after the last record of a log, from the offset start on. last is the zxid of that
// record.
//
//   - ZooKeeper leaves zeros, or nothing.
//   - A crash leaves a cut record: a beginning of it, and then zeros or nothing. Its transaction was not on the disk, so
//     the server had not confirmed it, unless forceSync was off or the file is an incomplete copy. checkEnding returns
//     a note.
//   - Everything else is damage: ZooKeeper reads it as an end, too, and drops the transactions that follow.
func (r *logReader) checkEnding(start, last int64) (note string, err error) {
	end, err := r.lastNonzeroByte(start)
	if err != nil {
		return "", r.damageAt(start, err.Error())
	}
	if end < start {
		return "", nil
	}
	if end-start >= maxCutRecord {
		return "", r.lostRecordsDamage(start,
			fmt.Sprintf("no record follows the last one, but bytes that are not zero up to offset %d", end))
	}
	tail := make([]byte, end-start+1)
	if _, err := r.f.ReadAt(tail, start); err != nil {
		return "", r.damageAt(start, err.Error())
	}
	if what := tailProblem(tail, start, r.size, last); what != "" {
		return "", r.lostRecordsDamage(start, what)
	}
	return fmt.Sprintf("%s: offset %d: the last record is cut, as a crash leaves it; it is dropped, as ZooKeeper does",
		r.path, start), nil
}

// lostRecordsDamage returns the damage of a log whose records ZooKeeper would not read to the end.
func (r *logReader) lostRecordsDamage(offset int64, what string) *Damage {
	return &Damage{File: r.path, Offset: offset, Problem: what, Remedy: useOtherOrForce}
}

// lastNonzeroByte returns the offset of the last byte from start on that is not zero, or start-1 if there is none.
func (r *logReader) lastNonzeroByte(start int64) (int64, error) {
	chunk := make([]byte, min(64<<10, max(0, r.size-start)))
	for end := r.size; end > start; {
		from := max(start, end-int64(len(chunk)))
		b := chunk[:end-from]
		if _, err := r.f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != 0 {
				return from + int64(i), nil
			}
		}
		end = from
	}
	return start - 1, nil
}

// tailProblem returns the problem of tail, the end of a log of this size without its last zeros, from offset start on.
// It returns "" if tail is the beginning of a record.
func tailProblem(tail []byte, start, size, last int64) string {
	if len(tail) <= recordHeadSize {
		return ""
	}
	sum, n := binary.BigEndian.Uint64(tail), int64(int32(binary.BigEndian.Uint32(tail[8:])))
	rest := tail[recordHeadSize:]
	whole := int64(len(rest) - 1)
	switch {
	case rest[whole] == recordEndMark && n != whole && uint64(adler32.Checksum(rest[:whole])) == sum:
		return fmt.Sprintf("the length of the last record is %d and should be %d", n, whole)
	case n < txnHeadSize:
		return fmt.Sprintf("a record of %d bytes; the shortest has %d", n, txnHeadSize)
	case n < whole || n == whole && rest[whole] != 0:
		return fmt.Sprintf("a record of %d bytes does not end with the letter B, and other bytes than zeros follow", n)
	}
	if at := findRecord(tail, last); at > 0 {
		return fmt.Sprintf("this is no record, but a whole one follows at offset %d", start+int64(at))
	}
	return ""
}

// findRecord returns the offset in b, after its beginning, of a whole record whose zxid follows last. It returns 0 if
// there is none.
func findRecord(b []byte, last int64) int {
	for at := 1; at+recordHeadSize+txnHeadSize < len(b); at++ {
		head := b[at:]
		sum, n := binary.BigEndian.Uint64(head), int64(binary.BigEndian.Uint32(head[8:]))
		rest := head[recordHeadSize:]
		if sum>>32 != 0 || n < txnHeadSize || n >= int64(len(rest)) || rest[n] != recordEndMark {
			continue
		}
		zxid := int64(binary.BigEndian.Uint64(rest[12:]))
		if zxid > last && zxid-last < maxZxidGap && uint64(adler32.Checksum(rest[:n])) == sum {
			return at
		}
	}
	return 0
}

// maxZxidGap limits the increase of the zxid within a log: many epochs.
const maxZxidGap = 1 << 48
