package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// An entry on its way to who follows the log: index, term (8 bytes each), raft's type (1 byte), the length of the data (4 bytes),
// the data, and a checksum of all that (CRC32C). Numbers are big-endian.
const (
	entryHead     = 8 + 8 + 1 + 4
	entryChecksum = 4
)

// AppendEntry appends the form of an entry in which ReadEntry reads it.
func AppendEntry(b []byte, e *raft.Log) []byte {
	begin := len(b)
	b = binary.BigEndian.AppendUint64(b, e.Index)
	b = binary.BigEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Data)))
	b = append(b, e.Data...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli))
}

// ReadEntry reads an entry. At the end of r the error is io.EOF. It wraps disk.ErrDamaged if the bytes are no entry, and no more
// memory is taken than an entry of disk.MaxEntryBytes needs.
func ReadEntry(r io.Reader) (*raft.Log, error) {
	head := make([]byte, entryHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[entryHead-4:]))
	if length > disk.MaxEntryBytes {
		return nil, fmt.Errorf("history: an entry of %d bytes: %w", length, disk.ErrDamaged)
	}
	rest := make([]byte, length+entryChecksum)
	if _, err := io.ReadFull(r, rest); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, rest[:length])
	if binary.BigEndian.Uint32(rest[length:]) != sum {
		return nil, fmt.Errorf("history: the checksum of an entry is wrong: %w", disk.ErrDamaged)
	}
	return &raft.Log{
		Index: binary.BigEndian.Uint64(head), Term: binary.BigEndian.Uint64(head[8:]), Type: raft.LogType(head[16]), Data: rest[:length:length],
	}, nil
}
