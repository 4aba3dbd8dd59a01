package znode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A snapshot is a stream of blocks. Integers are big-endian.
//
//	magic (8 bytes), version (4)
//	blocks: length (4, at most maxBlock), bytes, sum (4)
//	length 0 (4), number of blocks (8), sum (4), end of file
//
// sum is the CRC32C of all bytes before it except earlier sums, so a swapped or missing block is noticed. All
// blocks but the last are full, so equal states have equal snapshots.
const (
	snapshotMagic   = "rollcall"
	snapshotVersion = 2        // the only version written and read
	maxBlock        = 64 << 10 // the size of a reader's buffer
)

var (
	// ErrNotSnapshot means that the bytes do not begin with a snapshot's header.
	ErrNotSnapshot = errors.New("znode: not a snapshot")
	// ErrSnapshotVersion means that another version of this program wrote the snapshot.
	ErrSnapshotVersion = errors.New("znode: snapshot of another version")
	// ErrNewerSnapshot is the ErrSnapshotVersion for a newer version.
	ErrNewerSnapshot = fmt.Errorf("%w, a newer one", ErrSnapshotVersion)
	// ErrCorrupt means that the snapshot is truncated or changed, or describes no valid state.
	ErrCorrupt = errors.New("znode: corrupt snapshot")
)

// ErrDamaged means that this member's state differs from the one that its log produces, because its memory
// was damaged.
var ErrDamaged = errors.New("znode: the state in memory is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter writes the stream. It keeps its first error.
type blockWriter struct {
	w            io.Writer
	block        []byte // in progress; its length is filled in by flushBlock
	checksum     uint32
	blockCount   uint64
	bytesWritten int64
	err          error
}

// newBlockWriter writes the stream's header.
func newBlockWriter(w io.Writer) *blockWriter {
	b := &blockWriter{w: w, block: make([]byte, 4, 4+maxBlock+4)}
	b.writeSummed(binary.BigEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion))
	return b
}

func (b *blockWriter) writeSummed(p []byte) {
	b.checksum = crc32.Update(b.checksum, castagnoli, p)
	b.writeRaw(p)
}

func (b *blockWriter) writeRaw(p []byte) {
	if b.err == nil {
		var n int
		n, b.err = b.w.Write(p)
		b.bytesWritten += int64(n)
	}
}

func (b *blockWriter) flushBlock() {
	binary.BigEndian.PutUint32(b.block, uint32(len(b.block)-4))
	b.checksum = crc32.Update(b.checksum, castagnoli, b.block)
	b.writeRaw(binary.BigEndian.AppendUint32(b.block, b.checksum))
	b.block = b.block[:4]
	b.blockCount++
}

// writeStreamEnd writes the last block and the stream's end.
func (b *blockWriter) writeStreamEnd() error {
	if len(b.block) > 4 {
		b.flushBlock()
	}
	b.writeSummed(binary.BigEndian.AppendUint64(make([]byte, 4, 12), b.blockCount))
	b.writeRaw(binary.BigEndian.AppendUint32(nil, b.checksum))
	return b.err
}

func (b *blockWriter) putUint32(v uint32) {
	var p [4]byte
	binary.BigEndian.PutUint32(p[:], v)
	b.putBytes(p[:])
}

func (b *blockWriter) putUint64(v uint64) {
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], v)
	b.putBytes(p[:])
}

func (b *blockWriter) putBool(v bool) {
	if v {
		b.putBytes([]byte{1})
	} else {
		b.putBytes([]byte{0})
	}
}

func (b *blockWriter) putText(s string) {
	b.putUint32(uint32(len(s)))
	for len(s) > 0 {
		n := min(len(s), b.makeRoom())
		b.block, s = append(b.block, s[:n]...), s[n:]
	}
}

// putNullable is putText for bytes that may be nil.
func (b *blockWriter) putNullable(p []byte) {
	if p == nil {
		b.putUint32(nullLength)
		return
	}
	b.putUint32(uint32(len(p)))
	b.putBytes(p)
}

// nullLength is the length of nil data.
const nullLength = math.MaxUint32

func (b *blockWriter) putBytes(p []byte) {
	for len(p) > 0 {
		n := min(len(p), b.makeRoom())
		b.block, p = append(b.block, p[:n]...), p[n:]
	}
}

// makeRoom returns the free bytes of the block. It first flushes a full block and begins the next.
func (b *blockWriter) makeRoom() int {
	if len(b.block) == 4+maxBlock {
		b.flushBlock()
	}
	return 4 + maxBlock - len(b.block)
}

// blockReader reads and checks the stream. It keeps its first error; after that, reads return zero values.
type blockReader struct {
	r            io.Reader
	block        []byte // with its length and sum
	unread       []byte // of the block
	checksum     uint32
	blockCount   uint64
	sawLastBlock bool // the block was not full, so none may follow
	err          error
}

func newBlockReader(r io.Reader) *blockReader {
	b := &blockReader{r: r, block: make([]byte, 4+maxBlock+4)}
	head := b.block[:len(snapshotMagic)+4]
	if !b.readFull(head) && !errors.Is(b.err, ErrCorrupt) {
		return b // a failed reader proves nothing about the snapshot
	}
	if b.err != nil || string(head[:len(snapshotMagic)]) != snapshotMagic {
		b.err = fmt.Errorf("%w: no magic number", ErrNotSnapshot)
	} else if version := binary.BigEndian.Uint32(head[len(snapshotMagic):]); version != snapshotVersion {
		other := ErrSnapshotVersion
		if version > snapshotVersion {
			other = ErrNewerSnapshot
		}
		b.err = fmt.Errorf("%w: it has version %d, this program knows %d", other, version, snapshotVersion)
	}
	b.checksum = crc32.Update(0, castagnoli, head)
	return b
}

func (b *blockReader) failCorrupt(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
	b.unread = nil
}

// keepFirstError keeps err if it is the first error. A nil err is ignored.
func (b *blockReader) keepFirstError(err error) {
	if err != nil && b.err == nil {
		b.err, b.unread = err, nil
	}
}

func (b *blockReader) readFull(p []byte) bool {
	if b.err != nil {
		return false
	}
	if _, err := io.ReadFull(b.r, p); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		b.failCorrupt("it is cut short")
	} else if err != nil {
		b.err = fmt.Errorf("znode: read snapshot: %w", err)
	}
	return b.err == nil
}

func (b *blockReader) readBlock() {
	if !b.readFull(b.block[:4]) {
		return
	}
	n := int(binary.BigEndian.Uint32(b.block))
	if n == 0 || n > maxBlock || b.sawLastBlock {
		b.failCorrupt("impossible block of %d bytes", n)
		return
	}
	if !b.readFull(b.block[4 : 4+n+4]) {
		return
	}
	b.checksum = crc32.Update(b.checksum, castagnoli, b.block[:4+n])
	if binary.BigEndian.Uint32(b.block[4+n:]) != b.checksum {
		b.failCorrupt("wrong checksum of block %d", b.blockCount)
		return
	}
	b.unread, b.sawLastBlock = b.block[4:4+n], n < maxBlock
	b.blockCount++
}

// checkStreamEnd reads the stream's end and returns the first error.
func (b *blockReader) checkStreamEnd() error {
	if len(b.unread) > 0 {
		b.failCorrupt("bytes left over")
	}
	if end := b.block[:16]; b.readFull(end) {
		sum := crc32.Update(b.checksum, castagnoli, end[:12])
		switch {
		case binary.BigEndian.Uint32(end) != 0 || binary.BigEndian.Uint64(end[4:]) != b.blockCount:
			b.failCorrupt("wrong end after %d blocks", b.blockCount)
		case binary.BigEndian.Uint32(end[12:]) != sum:
			b.failCorrupt("wrong checksum at the end")
		}
	}
	if b.err != nil {
		return b.err
	}
	switch n, err := io.ReadFull(b.r, b.block[:1]); {
	case n > 0:
		b.failCorrupt("bytes behind the end")
	case !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("znode: read snapshot: %w", err)
	}
	return b.err
}

// takeUpTo returns the next 1 to n bytes, or none after an error. They are valid until the next call.
func (b *blockReader) takeUpTo(n int) []byte {
	if len(b.unread) == 0 && b.err == nil {
		b.readBlock()
	}
	n = min(n, len(b.unread))
	p := b.unread[:n]
	b.unread = b.unread[n:]
	return p
}

func (b *blockReader) getUint32() uint32 {
	var p [4]byte
	b.getBytes(p[:])
	return binary.BigEndian.Uint32(p[:])
}

func (b *blockReader) getUint64() uint64 {
	var p [8]byte
	b.getBytes(p[:])
	return binary.BigEndian.Uint64(p[:])
}

func (b *blockReader) getByte() byte {
	var p [1]byte
	b.getBytes(p[:])
	return p[0]
}

func (b *blockReader) getBool() bool {
	v := b.getByte()
	if v > 1 {
		b.failCorrupt("%d is neither true nor false", v)
	}
	return v == 1
}

// getBytes fills p, or clears it after an error.
func (b *blockReader) getBytes(p []byte) {
	for done := 0; done < len(p); {
		part := b.takeUpTo(len(p) - done)
		if len(part) == 0 {
			clear(p)
			return
		}
		done += copy(p[done:], part)
	}
}

// getNullable reads what putNullable wrote. It allocates memory as bytes arrive and does not trust the
// length.
func (b *blockReader) getNullable() []byte {
	n := b.getUint32()
	if n == nullLength || b.err != nil {
		return nil
	}
	if n > math.MaxInt32 {
		b.failCorrupt("impossible length of %d bytes", n)
		return nil
	}
	p := make([]byte, 0, min(int(n), maxBlock))
	for len(p) < int(n) {
		part := b.takeUpTo(int(n) - len(p))
		if len(part) == 0 {
			return nil
		}
		p = append(p, part...)
	}
	if n > maxBlock { // the slice grew by doubling
		p = append(make([]byte, 0, n), p...)
	}
	return p
}

func (b *blockReader) getText() string {
	p := b.getNullable()
	if p == nil {
		b.failCorrupt("null text")
	}
	return borrowString(p) // nothing else refers to p
}
