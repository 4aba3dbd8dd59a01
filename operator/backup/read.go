package backup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Reader reads the framing of a backup: its reads return the bytes of the state. They return io.EOF only after the end
// of the backup, when all checksums were right. Another error is ErrCorrupt with the offset in the file, or an error of
// the file.
type Reader struct {
	Head         Head
	r            *bufio.Reader
	chunk        []byte
	unread       []byte // the unread part of the chunk
	offset       int64  // of the next chunk
	checksum     uint32
	stateBytes   uint64 // bytes of the state so far
	sawLastChunk bool   // the chunk was not full, so no other may follow
	err          error
}

// NewReader reads the head from r. Its error is ErrNotBackup, ErrNewerFormat, ErrCorrupt, or an error of r.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, maxHeadBytes), chunk: make([]byte, 4+maxChunkBytes+4)}
	head, line, err := readHead(b.r)
	if err != nil {
		return nil, err
	}
	b.Head, b.offset, b.checksum = head, int64(len(line)), crc32.Update(0, castagnoliTable, line)
	return b, nil
}

// Read implements io.Reader.
func (b *Reader) Read(p []byte) (int, error) {
	for len(b.unread) == 0 && b.err == nil {
		b.readChunk()
	}
	if len(b.unread) == 0 {
		return 0, b.err
	}
	n := copy(p, b.unread)
	b.unread = b.unread[n:]
	return n, nil
}

// BytesRead returns the number of bytes of the file that have been read: at the end, the length of the backup.
func (b *Reader) BytesRead() int64 { return b.offset }

func (b *Reader) failCorrupt(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
}

// readChunk reads a chunk, or the end.
func (b *Reader) readChunk() {
	if !b.fillChunk(0, 4) {
		return
	}
	n := binary.BigEndian.Uint32(b.chunk)
	switch {
	case n == 0:
		b.readEnd()
		return
	case n > maxChunkBytes || b.sawLastChunk:
		b.failCorrupt("at byte %d there is a chunk of %d bytes, which cannot be there", b.offset, n)
		return
	}
	end := 4 + int(n)
	if !b.fillChunk(4, end+4) {
		return
	}
	b.checksum = crc32.Update(b.checksum, castagnoliTable, b.chunk[:end])
	if binary.BigEndian.Uint32(b.chunk[end:]) != b.checksum {
		b.failCorrupt("the bytes %d to %d do not fit their checksum", b.offset, b.offset+int64(end)+4)
		return
	}
	b.unread, b.sawLastChunk = b.chunk[4:end], n < maxChunkBytes
	b.stateBytes += uint64(n)
	b.offset += int64(end) + 4
}

// readEnd reads the rest of the end, and sets err to io.EOF if the backup is complete.
func (b *Reader) readEnd() {
	if !b.fillChunk(4, 16) {
		return
	}
	sum := crc32.Update(b.checksum, castagnoliTable, b.chunk[:12])
	if binary.BigEndian.Uint32(b.chunk[12:]) != sum || binary.BigEndian.Uint64(b.chunk[4:]) != b.stateBytes {
		b.failCorrupt("the end at byte %d does not fit what comes before it", b.offset)
		return
	}
	b.offset += 16
	switch _, err := b.r.ReadByte(); {
	case err == nil:
		b.failCorrupt("something follows its end at byte %d", b.offset)
	case !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("read backup: %w", err)
	default:
		b.err = io.EOF
	}
}

// fillChunk reads chunk[from:to], and reports whether it could.
func (b *Reader) fillChunk(from, to int) bool {
	n, err := io.ReadFull(b.r, b.chunk[from:to])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		b.failCorrupt("it is cut short at byte %d, before its end", b.offset+int64(from+n))
	} else if err != nil {
		b.err = fmt.Errorf("read backup: %w", err)
	}
	return b.err == nil
}
