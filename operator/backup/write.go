package backup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Writer writes the framing of a backup. Make one with NewWriter, write the state to it, and close it. A backup whose
// Writer was not closed has no end, so a Reader rejects it.
type Writer struct {
	w          io.Writer
	chunk      []byte // the chunk in progress, with 4 bytes for its length at the front
	checksum   uint32
	stateBytes uint64 // bytes of the state
	err        error
}

// NewWriter writes the head to w. It sets the head's Format and Version.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	line, err := h.encodeLine()
	if err != nil {
		return nil, err
	}
	b := &Writer{w: w, chunk: make([]byte, 4, 4+maxChunkBytes+4), checksum: crc32.Update(0, castagnoliTable, line)}
	b.writeRaw(line)
	return b, b.err
}

// Write writes bytes of the state.
func (b *Writer) Write(p []byte) (n int, err error) {
	for len(p) > 0 && b.err == nil {
		part := p[:min(len(p), 4+maxChunkBytes-len(b.chunk))]
		b.chunk, p = append(b.chunk, part...), p[len(part):]
		n += len(part)
		if len(b.chunk) == 4+maxChunkBytes {
			b.flushChunk()
		}
	}
	return n, b.err
}

// flushChunk writes the chunk in progress.
func (b *Writer) flushChunk() {
	binary.BigEndian.PutUint32(b.chunk, uint32(len(b.chunk)-4))
	b.stateBytes += uint64(len(b.chunk) - 4)
	b.checksum = crc32.Update(b.checksum, castagnoliTable, b.chunk)
	b.writeRaw(binary.BigEndian.AppendUint32(b.chunk, b.checksum))
	b.chunk = b.chunk[:4]
}

func (b *Writer) writeRaw(p []byte) {
	if b.err != nil {
		return
	}
	if _, err := b.w.Write(p); err != nil {
		b.err = fmt.Errorf("write backup: %w", err)
	}
}

// Close writes the end. It returns the first error of all writes.
func (b *Writer) Close() error {
	if len(b.chunk) > 4 {
		b.flushChunk()
	}
	end := binary.BigEndian.AppendUint64(make([]byte, 4, 16), b.stateBytes)
	b.writeRaw(binary.BigEndian.AppendUint32(end, crc32.Update(b.checksum, castagnoliTable, end)))
	return b.err
}
