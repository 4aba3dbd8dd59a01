package server

import (
	"encoding/binary"
	"io"
	"iter"
	"sync"
)

const (
	peekSize  = 128      // bytes an idle connection has room for: most requests fit, so one system call reads one
	bufSize   = 4 << 10  // a fresh buffer
	maxPooled = 64 << 10 // larger buffers are left to the garbage collector
	readSize  = 16 << 10 // what one system call reads of a client that sends much
)

// buffer is memory that a connection has only while bytes are in it.
type buffer struct {
	b []byte

	// shared are the tree's own bytes, which belong between those of b. They are sent from where
	// they are.
	shared []share
	extra  int // bytes in shared
}

// share is bytes of the tree that follow the first at bytes of a buffer.
type share struct {
	at int
	b  []byte
}

// size returns how many bytes are to be sent.
func (b *buffer) size() int { return len(b.b) + b.extra }

// insert puts data, which nobody changes, after the first at bytes, which are all there are yet.
func (b *buffer) insert(at int, data []byte) {
	b.shared = append(b.shared, share{at, data})
	b.extra += len(data)
}

// pieces yields what is to be sent after the first n bytes of b.b; with something shared n is 0.
func (b *buffer) pieces(n int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, s := range b.shared {
			if !yield(b.b[n:s.at]) || !yield(s.b) {
				return
			}
			n = s.at
		}
		yield(b.b[n:])
	}
}

var (
	buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, bufSize)} }}
	readers = sync.Pool{New: func() any { return new([readSize]byte) }}
)

func takeBuffer() *buffer { return buffers.Get().(*buffer) }

// free gives the buffer back to the pool. It may be nil.
func (b *buffer) free() {
	if b != nil && cap(b.b) <= maxPooled {
		*b = buffer{b: b.b[:0]}
		buffers.Put(b)
	}
}

// input reads from a client's socket. Waiting for the next frame it has only peek to
// read into; a pooled buffer serves a client that sends more than that. Only the
// connection's reader uses it.
type input struct {
	src  io.Reader
	rest []byte // read and not yet consumed; lies in peek or big, or was read by a loop
	peek [peekSize]byte
	big  *[readSize]byte // from the pool, nil when idle
}

// wait blocks until at least one byte is in hand.
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
		return nil // an error comes again with the next read
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

// free gives the memory back that lies in pools, with all that is in hand.
func (in *input) free() {
	if in.big != nil {
		readers.Put(in.big)
	}
	in.big, in.rest = nil, nil
}

// holdsFrame reports whether a whole frame is in hand, so that reading it blocks not.
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
