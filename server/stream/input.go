package stream

import (
	"encoding/binary"
	"io"
)

// input reads from a client's socket. While it waits for the next frame it has only peek to read
// into. If a client sends more than that, input takes a buffer from a pool. Only the reader uses
// it.
type input struct {
	src  io.Reader
	rest []byte // read and not yet consumed; in peek, in big, or read by a loop
	peek [peekSize]byte
	big  *[readSize]byte // from the pool, nil when idle
}

// wait blocks until at least one byte has been read.
func (in *input) wait() error {
	if len(in.rest) > 0 {
		return nil
	}
	if in.big != nil {
		readers.Put(in.big)
		in.big = nil
	}
	n, err := in.src.Read(in.peek[:])
	in.rest = in.peek[:n]
	if n > 0 {
		return nil // the next read returns the error again
	}
	return err
}

// Read implements io.Reader for jute.ReadFrame.
func (in *input) Read(p []byte) (int, error) {
	if len(in.rest) == 0 {
		if len(p) >= readSize {
			return in.src.Read(p)
		}
		if in.big == nil {
			in.big = readers.Get().(*[readSize]byte)
		}
		n, err := in.src.Read(in.big[:])
		if n == 0 {
			return 0, err
		}
		in.rest = in.big[:n]
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// free gives pooled memory back, and drops all that has been read.
func (in *input) free() {
	if in.big != nil {
		readers.Put(in.big)
	}
	in.big, in.rest = nil, nil
}

// holdsFrame reports whether a whole frame has been read, so that reading it does not block.
func (in *input) holdsFrame() bool {
	return len(in.rest) >= 4 && uint64(binary.BigEndian.Uint32(in.rest)) <= uint64(len(in.rest)-4)
}

// word waits for the first four bytes and returns them without consuming them.
func (in *input) word() ([4]byte, error) {
	for len(in.rest) < 4 {
		have := copy(in.peek[:], in.rest)
		n, err := in.src.Read(in.peek[have:])
		in.rest = in.peek[:have+n]
		if n == 0 && err != nil {
			return [4]byte{}, err
		}
	}
	return [4]byte(in.rest), nil
}
