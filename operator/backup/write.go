package backup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Writer writes the framing of a backup. Make one with NewWriter, write the state to it, and close it. A backup
// whose Writer was not closed has no end, and nobody takes it for whole.
type Writer struct {
	w     io.Writer
	chunk []byte // the chunk in progress, after the room for its length
	sum   uint32
	state uint64 // bytes of the state
	err   error
}

// NewWriter writes the head to w. Format and Version of the head are filled in.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	line, err := h.line()
	if err != nil {
		return nil, err
	}
	b := &Writer{w: w, chunk: make([]byte, 4, 4+maxChunk+4), sum: crc32.Update(0, castagnoli, line)}
	b.send(line)
	return b, b.err
}

// Write writes bytes of the state.
func (b *Writer) Write(p []byte) (n int, err error) {
	for len(p) > 0 && b.err == nil {
		part := p[:min(len(p), 4+maxChunk-len(b.chunk))]
		b.chunk, p = append(b.chunk, part...), p[len(part):]
		n += len(part)
		if len(b.chunk) == 4+maxChunk {
			b.flush()
		}
	}
	return n, b.err
}

// flush writes the chunk in progress.
func (b *Writer) flush() {
	binary.BigEndian.PutUint32(b.chunk, uint32(len(b.chunk)-4))
	b.state += uint64(len(b.chunk) - 4)
	b.sum = crc32.Update(b.sum, castagnoli, b.chunk)
	b.send(binary.BigEndian.AppendUint32(b.chunk, b.sum))
	b.chunk = b.chunk[:4]
}

func (b *Writer) send(p []byte) {
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
		b.flush()
	}
	end := binary.BigEndian.AppendUint64(make([]byte, 4, 16), b.state)
	b.send(binary.BigEndian.AppendUint32(end, crc32.Update(b.sum, castagnoli, end)))
	return b.err
}
