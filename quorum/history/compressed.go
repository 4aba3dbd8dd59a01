package history

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"rollcall/internal/durable"
	"rollcall/quorum/disk"
)

// A compressed segment is a file of zstd, with a frame that decoders skip in front: skippableMagic, the frame's size, both
// little-endian, and then, big-endian, compressedMagic, the segment's header, the indexes of the first and of the last entry, the
// length of the segment up to the end of its records, and a checksum (CRC32C) of the frame from compressedMagic on.
const (
	skippableMagic  = 0x184D2A50
	compressedMagic = "RCKEPT1\n"
	skippableHead   = 8
	frameSize       = len(compressedMagic) + disk.SegmentHeaderSize + 3*8 + 4
)

const (
	// zstdWindow is the memory, in bytes, in which repetitions are found. With 256 KiB instead of 4 MiB a log takes a twentieth
	// more.
	zstdWindow = 256 << 10
	// maxZstdWindow limits what a file may ask of a reader, in bytes.
	maxZstdWindow = 8 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compressedHead is the frame in front of a compressed segment.
type compressedHead struct {
	header      disk.SegmentHeader
	first, last uint64
	bytes       int64
}

func (c compressedHead) encode(header []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippableMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(frameSize))
	b = append(append(b, compressedMagic...), header...)
	for _, v := range []uint64{c.first, c.last, uint64(c.bytes)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[skippableHead:], castagnoli))
}

// decodeCompressedHead reads the frame in front of a compressed segment. ok is false if b does not begin with one.
func decodeCompressedHead(b []byte) (c compressedHead, ok bool, err error) {
	if len(b) < skippableHead || binary.LittleEndian.Uint32(b) != skippableMagic {
		return c, false, nil
	}
	damaged := func(reason string) (compressedHead, bool, error) {
		return compressedHead{}, true, fmt.Errorf("%w: %s", disk.ErrDamaged, reason)
	}
	frame := b[skippableHead:]
	if len(frame) < frameSize || string(frame[:len(compressedMagic)]) != compressedMagic {
		return damaged("it does not begin as a compressed segment of a log")
	}
	at := frameSize - 4
	if binary.BigEndian.Uint32(frame[at:]) != crc32.Checksum(frame[:at], castagnoli) {
		return damaged("the checksum in front of it is wrong")
	}
	rest := frame[len(compressedMagic):]
	if c.header, err = disk.ParseSegmentHeader(rest); err != nil {
		return c, true, err
	}
	rest = rest[disk.SegmentHeaderSize:]
	c.first, c.last, c.bytes = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), int64(binary.BigEndian.Uint64(rest[16:]))
	if c.last != 0 && c.last < c.first || c.bytes < disk.SegmentHeaderSize {
		return damaged(fmt.Sprintf("it goes from entry %d to %d, in %d bytes", c.first, c.last, c.bytes))
	}
	return c, true, nil
}

// compressSegment writes the segment in file from compressed to the file to, which is durable when it returns. next is the segment
// that follows; nil: the log began anew after it. If the records do not reach it, the error wraps ErrDamaged.
func compressSegment(from, to string, next *disk.SegmentHeader, pace func(io.Writer) io.Writer) (err error) {
	in, err := openRegular(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was read
	records, err := disk.NewSegmentReader(in)
	if err != nil {
		return err
	}
	return writeDurably(to, func(out *os.File) error {
		c := compressedHead{header: records.SegmentHeader}
		if _, err := out.Write(c.encode(records.HeaderBytes())); err != nil {
			return err
		}
		if c.bytes, err = copyRecords(pace(out), records, next); err != nil {
			return err
		}
		c.first = records.FirstEntry()
		c.last, _ = records.LastEntry()
		_, err := out.WriteAt(c.encode(records.HeaderBytes()), 0)
		return err
	})
}

// copyRecords compresses the records up to the entry that next follows. It returns their length and the header's.
func copyRecords(w io.Writer, records *disk.SegmentReader, next *disk.SegmentHeader) (bytes int64, err error) {
	z, err := NewCompressor(w)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	put := func(b []byte) {
		bytes += int64(len(b))
		if err == nil {
			_, err = z.Write(b)
		}
	}
	for put(records.HeaderBytes()); err == nil && (next == nil || !records.IsFollowedBy(*next)); {
		raw, rerr := records.Record()
		switch {
		case errors.Is(rerr, io.EOF) && next == nil:
			return bytes, nil
		case errors.Is(rerr, io.EOF):
			return bytes, fmt.Errorf("%w: it does not reach the entry that %s follows", disk.ErrDamaged, next.Name())
		case rerr != nil:
			return bytes, rerr
		}
		put(raw)
	}
	return bytes, err
}

// compressFile writes a compressed copy of a file, which is durable when it returns.
func compressFile(from, to string, pace func(io.Writer) io.Writer) error {
	in, err := openRegular(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was read
	return writeDurably(to, func(out *os.File) error {
		z, err := NewCompressor(pace(out))
		if err != nil {
			return err
		}
		_, err = io.Copy(z, in)
		return errors.Join(err, z.Close())
	})
}

// writeDurably makes a file with what write puts into it. The file has its name only when it is whole and on the disk.
func writeDurably(path string, write func(*os.File) error) error {
	out, err := os.OpenFile(path+tmpSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	if err = write(out); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(path+tmpSuffix, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+tmpSuffix))
	}
	return durable.SyncDirectory(filepath.Dir(path))
}

// NewCompressor returns a writer that compresses what is kept of the past to w. It takes a few hundred KiB of memory and no
// goroutine. Close writes the end, and does not close w.
func NewCompressor(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest))
}

// Decompress returns a reader of a file that may be compressed. Its errors wrap disk.ErrDamaged, or are those of the file. Close closes
// the file.
func Decompress(file io.ReadCloser) (io.ReadCloser, error) {
	source := newSourceReader(file)
	magic, err := source.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, file.Close())
	}
	if !isCompressed(magic) {
		return readCloser{source.in, file}, nil
	}
	z, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &decompressing{z, source, file}, nil
}

const readBuffer = 64 << 10 // bytes

type readCloser struct {
	io.Reader
	io.Closer
}

func isCompressed(magic []byte) bool {
	if len(magic) < 4 {
		return false
	}
	n := binary.LittleEndian.Uint32(magic)
	return n == skippableMagic || n == 0xFD2FB528 // a frame of zstd (RFC 8878, 3.1.1)
}

// sourceReader notes the first error of a source, which says nothing about what was read.
type sourceReader struct {
	in  *bufio.Reader
	err error
}

func newSourceReader(in io.Reader) *sourceReader {
	return &sourceReader{in: bufio.NewReaderSize(in, readBuffer)}
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

type decompressing struct {
	decoder *zstd.Decoder
	source  *sourceReader
	file    io.Closer
}

// Read implements io.Reader. An error that the source does not give means damage.
func (d *decompressing) Read(p []byte) (int, error) {
	n, err := d.decoder.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case d.source.err != nil:
		return n, d.source.err
	}
	return n, fmt.Errorf("%w: %w", disk.ErrDamaged, err)
}

func (d *decompressing) Close() error {
	d.decoder.Close()
	return d.file.Close()
}
