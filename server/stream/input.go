package stream

import (
	"encoding/binary"
	"io"
)

// input reads from a client's socket. While a reader waits for the next frame it has only peekBuffer to read into.
// If a client sends more, input takes a buffer from a pool. Only the reader uses it.
type input struct {
	source       io.Reader
	unread       []byte          // read and not yet consumed; in one of the buffers, or read by a loop
	numReads     uint32          // times that input came from the source, or from a loop; it may wrap
	peekBuffer   *[peekSize]byte // nil until the reader waits; a stream in a loop has none
	pooledBuffer *[readSize]byte // from the pool, nil when idle
}

// awaitByte blocks until at least one byte has been read.
func (in *input) awaitByte() error {
	if len(in.unread) > 0 {
		return nil
	}
	if in.pooledBuffer != nil {
		readBufferPool.Put(in.pooledBuffer)
		in.pooledBuffer = nil
	}
	peek := in.peeked()
	n, err := in.readSource(peek)
	in.unread = peek[:n]
	if n > 0 {
		return nil // the next read returns the error again
	}
	return err
}

// peeked returns peekBuffer.
func (in *input) peeked() []byte {
	if in.peekBuffer == nil {
		in.peekBuffer = new([peekSize]byte)
	}
	return in.peekBuffer[:]
}

// Read implements io.Reader for jute.ReadFrame.
func (in *input) Read(p []byte) (int, error) {
	if len(in.unread) == 0 {
		if len(p) >= readSize {
			return in.readSource(p)
		}
		if in.pooledBuffer == nil {
			in.pooledBuffer = readBufferPool.Get().(*[readSize]byte)
		}
		n, err := in.readSource(in.pooledBuffer[:])
		if n == 0 {
			return 0, err
		}
		in.unread = in.pooledBuffer[:n]
	}
	n := copy(p, in.unread)
	in.unread = in.unread[n:]
	return n, nil
}

func (in *input) readSource(p []byte) (int, error) {
	in.numReads++
	return in.source.Read(p)
}

// free gives all memory back, and drops all unread input.
func (in *input) free() {
	if in.pooledBuffer != nil {
		readBufferPool.Put(in.pooledBuffer)
	}
	in.pooledBuffer, in.peekBuffer, in.unread = nil, nil, nil
}

// holdsFrame reports whether a whole frame has been read, so that reading it does not block.
func (in *input) holdsFrame() bool {
	return len(in.unread) >= 4 && uint64(binary.BigEndian.Uint32(in.unread)) <= uint64(len(in.unread)-4)
}

// peekFourBytes waits for the first four bytes and returns them without consuming them.
func (in *input) peekFourBytes() ([4]byte, error) {
	for len(in.unread) < 4 {
		peek := in.peeked()
		have := copy(peek, in.unread)
		n, err := in.readSource(peek[have:])
		in.unread = peek[:have+n]
		if n == 0 && err != nil {
			return [4]byte{}, err
		}
	}
	return [4]byte(in.unread), nil
}
