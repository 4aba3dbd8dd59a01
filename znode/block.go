package znode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A snapshot is a stream of bytes in blocks:
//
//	magic (8 bytes), version (4)
//	blocks: length (4, at most maxBlock), bytes, sum (4)
//	length 0 (4), number of blocks (8), sum (4), end of file
//
// sum is the CRC32C of all bytes before it except earlier sums, so a swapped or missing block is
// noticed. All blocks but the last are full, so equal states have equal snapshots. Integers are
// big-endian.
const (
	snapshotMagic   = "rollcall"
	snapshotVersion = 1        // the only version that is written and read
	maxBlock        = 64 << 10 // reading needs one buffer of this size
)

// These errors say why a snapshot cannot be restored.
var (
	// ErrNotSnapshot says that the bytes do not begin as a snapshot does.
	ErrNotSnapshot = errors.New("znode: not a snapshot")
	// ErrSnapshotVersion says that another version of this program wrote the snapshot.
	ErrSnapshotVersion = errors.New("znode: snapshot of another version")
	// ErrNewerSnapshot is the ErrSnapshotVersion of a snapshot that a newer version wrote.
	ErrNewerSnapshot = fmt.Errorf("%w, a newer one", ErrSnapshotVersion)
	// ErrCorrupt says that the snapshot is cut short or changed, or describes no valid state.
	ErrCorrupt = errors.New("znode: corrupt snapshot")
)

// ErrDamaged says that this member's state differs from the one that its log produces, because its
// memory has been damaged.
var ErrDamaged = errors.New("znode: the state in memory is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter writes the stream. It keeps its first error.
type blockWriter struct {
	w      io.Writer
	buf    []byte // the block in progress; its length is filled in at the end
	sum    uint32
	blocks uint64
	n      int64 // bytes written
	err    error
}

// newBlockWriter writes the header of a stream.
func newBlockWriter(w io.Writer) *blockWriter {
	b := &blockWriter{w: w, buf: make([]byte, 4, 4+maxBlock+4)}
	b.write(binary.BigEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion))
	return b
}

func (b *blockWriter) write(p []byte) {
	b.sum = crc32.Update(b.sum, castagnoli, p)
	b.send(p)
}

func (b *blockWriter) send(p []byte) {
	if b.err == nil {
		var n int
		n, b.err = b.w.Write(p)
		b.n += int64(n)
	}
}

// flush writes the block in progress.
func (b *blockWriter) flush() {
	binary.BigEndian.PutUint32(b.buf, uint32(len(b.buf)-4))
	b.sum = crc32.Update(b.sum, castagnoli, b.buf)
	b.send(binary.BigEndian.AppendUint32(b.buf, b.sum))
	b.buf = b.buf[:4]
	b.blocks++
}

// close writes the last block and the end of the stream.
func (b *blockWriter) close() error {
	if len(b.buf) > 4 {
		b.flush()
	}
	b.write(binary.BigEndian.AppendUint64(make([]byte, 4, 12), b.blocks))
	b.send(binary.BigEndian.AppendUint32(nil, b.sum))
	return b.err
}

func (b *blockWriter) u32(v uint32) {
	var p [4]byte
	binary.BigEndian.PutUint32(p[:], v)
	b.raw(p[:])
}

func (b *blockWriter) u64(v uint64) {
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], v)
	b.raw(p[:])
}

func (b *blockWriter) bool(v bool) {
	if v {
		b.raw([]byte{1})
	} else {
		b.raw([]byte{0})
	}
}

// text writes a length and bytes.
func (b *blockWriter) text(s string) {
	b.u32(uint32(len(s)))
	for len(s) > 0 {
		n := min(len(s), b.room())
		b.buf, s = append(b.buf, s[:n]...), s[n:]
	}
}

// data is text for bytes that may be nil.
func (b *blockWriter) data(p []byte) {
	if p == nil {
		b.u32(null)
		return
	}
	b.u32(uint32(len(p)))
	b.raw(p)
}

// null is the length that stands for nil data.
const null = math.MaxUint32

func (b *blockWriter) raw(p []byte) {
	for len(p) > 0 {
		n := min(len(p), b.room())
		b.buf, p = append(b.buf, p[:n]...), p[n:]
	}
}

// room returns how many bytes fit into the block. If the block is full, room writes it first and
// begins the next.
func (b *blockWriter) room() int {
	if len(b.buf) == 4+maxBlock {
		b.flush()
	}
	return 4 + maxBlock - len(b.buf)
}

// blockReader reads the stream and checks everything. It keeps its first error; after that, reads
// return zero values.
type blockReader struct {
	r      io.Reader
	buf    []byte // a block with its length and sum
	rest   []byte // the unread part of the block
	sum    uint32
	blocks uint64
	last   bool // the block was not full, so no other may follow
	err    error
}

func newBlockReader(r io.Reader) *blockReader {
	b := &blockReader{r: r, buf: make([]byte, 4+maxBlock+4)}
	head := b.buf[:len(snapshotMagic)+4]
	if !b.fill(head) && !errors.Is(b.err, ErrCorrupt) {
		return b // the reader has failed, which says nothing about the snapshot
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
	b.sum = crc32.Update(0, castagnoli, head)
	return b
}

func (b *blockReader) corrupt(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
	b.rest = nil
}

// fail makes err, if it is one, the first error.
func (b *blockReader) fail(err error) {
	if err != nil && b.err == nil {
		b.err, b.rest = err, nil
	}
}

// fill reads len(p) bytes into p.
func (b *blockReader) fill(p []byte) bool {
	if b.err != nil {
		return false
	}
	if _, err := io.ReadFull(b.r, p); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		b.corrupt("it is cut short")
	} else if err != nil {
		b.err = fmt.Errorf("znode: read snapshot: %w", err)
	}
	return b.err == nil
}

// next reads a block.
func (b *blockReader) next() {
	if !b.fill(b.buf[:4]) {
		return
	}
	n := int(binary.BigEndian.Uint32(b.buf))
	if n == 0 || n > maxBlock || b.last {
		b.corrupt("impossible block of %d bytes", n)
		return
	}
	if !b.fill(b.buf[4 : 4+n+4]) {
		return
	}
	b.sum = crc32.Update(b.sum, castagnoli, b.buf[:4+n])
	if binary.BigEndian.Uint32(b.buf[4+n:]) != b.sum {
		b.corrupt("wrong checksum of block %d", b.blocks)
		return
	}
	b.rest, b.last = b.buf[4:4+n], n < maxBlock
	b.blocks++
}

// close reads the end of the stream and returns the first error.
func (b *blockReader) close() error {
	if len(b.rest) > 0 {
		b.corrupt("bytes left over")
	}
	if end := b.buf[:16]; b.fill(end) {
		sum := crc32.Update(b.sum, castagnoli, end[:12])
		switch {
		case binary.BigEndian.Uint32(end) != 0 || binary.BigEndian.Uint64(end[4:]) != b.blocks:
			b.corrupt("wrong end after %d blocks", b.blocks)
		case binary.BigEndian.Uint32(end[12:]) != sum:
			b.corrupt("wrong checksum at the end")
		}
	}
	if b.err != nil {
		return b.err
	}
	switch n, err := io.ReadFull(b.r, b.buf[:1]); {
	case n > 0:
		b.corrupt("bytes behind the end")
	case !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("znode: read snapshot: %w", err)
	}
	return b.err
}

// take returns the next bytes, 1 to n of them, or none after an error. They are valid until the
// next call.
func (b *blockReader) take(n int) []byte {
	if len(b.rest) == 0 && b.err == nil {
		b.next()
	}
	n = min(n, len(b.rest))
	p := b.rest[:n]
	b.rest = b.rest[n:]
	return p
}

func (b *blockReader) u32() uint32 {
	var p [4]byte
	b.raw(p[:])
	return binary.BigEndian.Uint32(p[:])
}

func (b *blockReader) u64() uint64 {
	var p [8]byte
	b.raw(p[:])
	return binary.BigEndian.Uint64(p[:])
}

func (b *blockReader) bool() bool {
	var p [1]byte
	b.raw(p[:])
	if p[0] > 1 {
		b.corrupt("%d is neither true nor false", p[0])
	}
	return p[0] == 1
}

// raw reads len(p) bytes into p, or sets them to zero after an error.
func (b *blockReader) raw(p []byte) {
	for done := 0; done < len(p); {
		part := b.take(len(p) - done)
		if len(part) == 0 {
			clear(p)
			return
		}
		done += copy(p[done:], part)
	}
}

// data reads a length and as many bytes; it returns nil for null data. It allocates memory as bytes
// arrive and does not trust the length.
func (b *blockReader) data() []byte {
	n := b.u32()
	if n == null || b.err != nil {
		return nil
	}
	if n > math.MaxInt32 {
		b.corrupt("impossible length of %d bytes", n)
		return nil
	}
	p := make([]byte, 0, min(int(n), maxBlock))
	for len(p) < int(n) {
		part := b.take(int(n) - len(p))
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

// text reads what text wrote.
func (b *blockReader) text() string {
	p := b.data()
	if p == nil {
		b.corrupt("null text")
	}
	return borrow(p) // nothing else refers to p
}
