package datadir

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/golang/snappy"
)

// openSnapshot opens a snapshot, compressed or not.
func openSnapshot(name string) (*valueReader, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	src, err := newDecompressingReader(f, name)
	if err != nil {
		_ = f.Close() // only read
		return nil, nil, err
	}
	return src, f, nil
}

// newDecompressingReader returns a reader of the contents of f, which is compressed by its name's extension.
func newDecompressingReader(f *os.File, name string) (*valueReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			return nil, err
		}
		return newValueReader(z, -1), nil
	case strings.HasSuffix(name, ".snappy"):
		z, err := newSnappyReader(f)
		if err != nil {
			return nil, err
		}
		return newValueReader(z, -1), nil
	}
	return newValueReader(f, info.Size()), nil
}

// snappyMagic is the beginning of a file from Java's snappy library. Two version numbers of 4 bytes follow.
const snappyMagic = "\x82SNAPPY\x00"

// maxSnappyBlock is the longest valid uncompressed block. ZooKeeper writes blocks of 32 KiB.
const maxSnappyBlock = 1 << 20

// snappyReader reads the format of Java's SnappyOutputStream: a head, and then blocks, each after its
// compressed length.
type snappyReader struct {
	r          *bufio.Reader
	compressed []byte
	block      []byte
	unread     []byte // of block
	err        error
}

func newSnappyReader(r io.Reader) (*snappyReader, error) {
	z := &snappyReader{r: bufio.NewReader(r)}
	var head [len(snappyMagic) + 8]byte
	if _, err := io.ReadFull(z.r, head[:]); err != nil {
		return nil, fmt.Errorf("the head of a snappy file: %w", err)
	}
	if string(head[:len(snappyMagic)]) != snappyMagic {
		return nil, errors.New("this is not the head of a snappy file")
	}
	if oldest := binary.BigEndian.Uint32(head[len(snappyMagic)+4:]); oldest > 1 {
		return nil, fmt.Errorf("a snappy file for readers of version %d; only versions up to 1 are supported", oldest)
	}
	return z, nil
}

// Read implements io.Reader.
func (z *snappyReader) Read(b []byte) (int, error) {
	for len(z.unread) == 0 {
		if z.err == nil {
			z.err = z.readBlock()
		}
		if z.err != nil {
			return 0, z.err
		}
	}
	n := copy(b, z.unread)
	z.unread = z.unread[n:]
	return n, nil
}

// readBlock reads a block.
func (z *snappyReader) readBlock() error {
	var head [4]byte
	if _, err := io.ReadFull(z.r, head[:]); err != nil {
		return err // io.EOF is the end of the file
	}
	n := binary.BigEndian.Uint32(head[:])
	if limit := snappy.MaxEncodedLen(maxSnappyBlock); n > uint32(limit) {
		return fmt.Errorf("a snappy block of %d bytes; it must have at most %d", n, limit)
	}
	if cap(z.compressed) < int(n) {
		z.compressed = make([]byte, n)
	}
	z.compressed = z.compressed[:n]
	if _, err := io.ReadFull(z.r, z.compressed); err != nil {
		return fmt.Errorf("a snappy block: %w", unexpectedEOF(err))
	}
	length, err := snappy.DecodedLen(z.compressed)
	if err != nil {
		return fmt.Errorf("a snappy block: %w", err)
	}
	if length > maxSnappyBlock {
		return fmt.Errorf("a snappy block of %d uncompressed bytes; it must have at most %d", length, maxSnappyBlock)
	}
	if z.block == nil {
		z.block = make([]byte, maxSnappyBlock)
	}
	if z.unread, err = snappy.Decode(z.block, z.compressed); err != nil {
		return fmt.Errorf("a snappy block: %w", err)
	}
	return nil
}

// unexpectedEOF returns err, but io.ErrUnexpectedEOF for io.EOF.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
