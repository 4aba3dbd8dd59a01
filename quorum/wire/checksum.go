package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
)

// After the hello, a plain connection between members carries records with a checksum, on both ports and in both
// directions. TCP's own checksum has 16 bits, misses some errors, and is recomputed by middleboxes. A connection over
// TLS carries no records, because TLS authenticates its data.
//
//	record → length of data less 1 (2), checksum of the length (2), checksum (4), data
//
// Integers are big-endian. The checksum is the CRC-32C of all data that this end has sent on the connection, up to the
// end of this record, so the receiver also detects lost, duplicate and moved records. The length has its own checksum,
// the lower half of its CRC-32C: with a wrong length, the receiver would wait for data that never comes.
const (
	recordHeaderSize = 2 + 2 + 4
	// maxRecordSize is the maximum data of a record, as in TLS: the receiver uses none of it before all has come.
	maxRecordSize = 16 << 10
	// recordsPerWrite is the number of records in one write: it fills sendBufferSize.
	recordsPerWrite = sendBufferSize / maxRecordSize
)

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupted means that bytes were changed between two members.
var ErrCorrupted = errors.New("bytes were changed on the way between members, and TCP did not notice it; " +
	"check the network cards of both, their offloading, and the devices and proxies between them")

// checksumConn is a connection that carries records. It allows one concurrent reader and one concurrent
// writer.
type checksumConn struct {
	net.Conn
	onCorrupted func(error) // called once, when a checksum does not match

	r                *bufio.Reader
	verifiedBytes    int    // data in r whose checksum matched
	receivedBytes    int64  // data before verifiedBytes
	receivedChecksum uint32 // of all received data
	readErr          error  // after a mismatch

	writeBuffer  []byte
	sentChecksum uint32 // of all sent data
	writeErr     error  // the first failed write may have left a part of a record
}

func newChecksumConn(conn net.Conn, corrupted func(error)) *checksumConn {
	return &checksumConn{Conn: conn, onCorrupted: corrupted, r: bufio.NewReaderSize(conn, recordHeaderSize+maxRecordSize)}
}

// Read returns only data whose checksum matched. After a mismatch it always fails.
func (c *checksumConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.verifiedBytes == 0 {
		if err := c.readRecord(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p[:min(len(p), c.verifiedBytes)])
	c.verifiedBytes -= n
	return n, err
}

// readRecord reads a record and verifies its checksum.
func (c *checksumConn) readRecord() error {
	if c.readErr != nil {
		return c.readErr
	}
	head, err := c.peekFull(recordHeaderSize)
	if err != nil {
		return err
	}
	n, sum := int(binary.BigEndian.Uint16(head))+1, binary.BigEndian.Uint32(head[4:])
	if here, there := lengthChecksum(head[:2]), binary.BigEndian.Uint16(head[2:]); here != there || n > maxRecordSize {
		return c.failChecksum(fmt.Sprintf("after %d bytes of this connection, a length of %d has the checksum %#04x here, "+
			"and had %#04x when it was sent", c.receivedBytes, n, here, there))
	}
	record, err := c.peekFull(recordHeaderSize + n)
	if err != nil {
		return err
	}
	c.receivedChecksum = crc32.Update(c.receivedChecksum, castagnoliTable, record[recordHeaderSize:])
	if c.receivedChecksum != sum {
		return c.failChecksum(fmt.Sprintf("the first %d bytes of this connection have the checksum %#08x here, and had "+
			"%#08x when they were sent", c.receivedBytes+int64(n), c.receivedChecksum, sum))
	}
	c.verifiedBytes, c.receivedBytes = n, c.receivedBytes+int64(n)
	_, err = c.r.Discard(recordHeaderSize)
	return err
}

// peekFull returns the next n bytes without consuming them. An end of the connection is io.EOF only between
// two records.
func (c *checksumConn) peekFull(n int) ([]byte, error) {
	b, err := c.r.Peek(n)
	if errors.Is(err, io.EOF) && len(b) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func (c *checksumConn) failChecksum(what string) error {
	c.readErr = fmt.Errorf("quorum: %s: %w", what, ErrCorrupted)
	c.onCorrupted(c.readErr)
	return c.readErr
}

// Write sends p in records. After a failed write it always fails, because part of a record may have been
// sent.
func (c *checksumConn) Write(p []byte) (sent int, err error) {
	for part := range slices.Chunk(p, recordsPerWrite*maxRecordSize) {
		if c.writeErr != nil {
			return sent, c.writeErr
		}
		c.writeBuffer = c.writeBuffer[:0]
		for data := range slices.Chunk(part, maxRecordSize) {
			c.writeBuffer = c.appendRecord(c.writeBuffer, data)
		}
		if _, c.writeErr = c.Conn.Write(c.writeBuffer); c.writeErr == nil {
			sent += len(part)
		}
	}
	return sent, c.writeErr
}

func (c *checksumConn) appendRecord(b, data []byte) []byte {
	c.sentChecksum = crc32.Update(c.sentChecksum, castagnoliTable, data)
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)-1))
	b = binary.BigEndian.AppendUint16(b, lengthChecksum(b[len(b)-2:]))
	b = binary.BigEndian.AppendUint32(b, c.sentChecksum)
	return append(b, data...)
}

func lengthChecksum(length []byte) uint16 { return uint16(crc32.Checksum(length, castagnoliTable)) }

func appendChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoliTable))
}

// verifyChecksum verifies the checksum at the end of b.
func verifyChecksum(b []byte) error {
	data, end := b[:len(b)-checksumSize], b[len(b)-checksumSize:]
	if here, there := crc32.Checksum(data, castagnoliTable), binary.BigEndian.Uint32(end); here != there {
		return fmt.Errorf("it has the checksum %#08x here, and had %#08x when it was sent: %w", here, there, ErrCorrupted)
	}
	return nil
}

// Corruptions counts the connections that ended because of corrupted bytes. It is safe for concurrent use.
type Corruptions struct {
	mu         sync.Mutex
	count      uint64
	lastLogged logTimes[uint32] // by member
}

// Count returns the number of these connections since the start.
func (c *Corruptions) Count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// recordAndLog counts a connection. It logs at most one per member and refusalInterval.
func (c *Corruptions) recordAndLog(log *slog.Logger, peer uint32, remote string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if c.lastLogged.allowLine(peer) {
		log.Warn("closed a connection between members", "peer", peer, "remote", remote, "err", err)
	}
}
