package backup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Reader reads the framing of a backup: its reads return the bytes of the state. They return io.EOF only after
// the end of the backup, when all checksums were right. An error is ErrCorrupt with the offset in the file, or
// one of the file.
type Reader struct {
	// Head is what the backup says of itself.
	Head   Head
	r      *bufio.Reader
	chunk  []byte
	rest   []byte // the unread part of the chunk
	offset int64  // of the next chunk
	sum    uint32
	state  uint64 // bytes of the state so far
	last   bool   // the chunk was not full, so no other may follow
	err    error
}

// NewReader reads the head from r. Its error is ErrNotBackup, ErrNewer, ErrCorrupt, or one of r.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, maxHead), chunk: make([]byte, 4+maxChunk+4)}
	head, line, err := readHead(b.r)
	if err != nil {
		return nil, err
	}
	b.Head, b.offset, b.sum = head, int64(len(line)), crc32.Update(0, castagnoli, line)
	return b, nil
}

// Read implements io.Reader.
func (b *Reader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.next()
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Size returns how many bytes of the file have been read. At the end it is the length of the backup.
func (b *Reader) Size() int64 { return b.offset }

func (b *Reader) corrupt(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
}

// next reads a chunk, or the end.
func (b *Reader) next() {
	if !b.fill(0, 4) {
		return
	}
	n := binary.BigEndian.Uint32(b.chunk)
	switch {
	case n == 0:
		b.end()
		return
	case n > maxChunk || b.last:
		b.corrupt("at byte %d there is a chunk of %d bytes, which cannot be there", b.offset, n)
		return
	}
	end := 4 + int(n)
	if !b.fill(4, end+4) {
		return
	}
	b.sum = crc32.Update(b.sum, castagnoli, b.chunk[:end])
	if binary.BigEndian.Uint32(b.chunk[end:]) != b.sum {
		b.corrupt("the bytes %d to %d do not fit their checksum", b.offset, b.offset+int64(end)+4)
		return
	}
	b.rest, b.last = b.chunk[4:end], n < maxChunk
	b.state += uint64(n)
	b.offset += int64(end) + 4
}

// end reads the rest of the end, and sets err to io.EOF if the backup is whole.
func (b *Reader) end() {
	if !b.fill(4, 16) {
		return
	}
	sum := crc32.Update(b.sum, castagnoli, b.chunk[:12])
	if binary.BigEndian.Uint32(b.chunk[12:]) != sum || binary.BigEndian.Uint64(b.chunk[4:]) != b.state {
		b.corrupt("the end at byte %d does not fit what comes before it", b.offset)
		return
	}
	b.offset += 16
	switch _, err := b.r.ReadByte(); {
	case err == nil:
		b.corrupt("something follows its end at byte %d", b.offset)
	case !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("read backup: %w", err)
	default:
		b.err = io.EOF
	}
}

// fill reads the bytes from to to of the chunk.
func (b *Reader) fill(from, to int) bool {
	n, err := io.ReadFull(b.r, b.chunk[from:to])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		b.corrupt("it is cut short at byte %d, before its end", b.offset+int64(from+n))
	} else if err != nil {
		b.err = fmt.Errorf("read backup: %w", err)
	}
	return b.err == nil
}
