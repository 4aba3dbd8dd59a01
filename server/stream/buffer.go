package stream

import (
	"iter"
	"sync"
)

const (
	// bytes that an idle stream can read into: most requests fit, so one system call reads one
	peekSize          = 128
	initialBufferSize = 4 << 10  // a fresh buffer
	maxPooledSize     = 64 << 10 // larger buffers are left to the garbage collector
	readSize          = 16 << 10 // for one system call, from a client that sends much
)

// Buffer is memory that a stream has only while bytes are in it.
type Buffer struct {
	B []byte // to append to

	// inserted are bytes of the owner with their places between those of B. They are sent without being
	// copied.
	inserted      []insertedPiece
	insertedBytes int // in inserted
}

// insertedPiece is bytes of the owner that follow the first at bytes of a buffer.
type insertedPiece struct {
	at   int
	data []byte
}

// Size returns the number of bytes to be sent.
func (b *Buffer) Size() int { return len(b.B) + b.insertedBytes }

func (b *Buffer) InsertedBytes() int { return b.insertedBytes }

// Insert puts data after the first at bytes of B. Bytes of B after those are appended later than the call.
// data must not change until the client has taken it.
func (b *Buffer) Insert(at int, data []byte) {
	b.inserted = append(b.inserted, insertedPiece{at, data})
	b.insertedBytes += len(data)
}

// pieces yields the bytes to be sent after the first n bytes of B. If there are inserted bytes, n is 0.
func (b *Buffer) pieces(n int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, s := range b.inserted {
			if !yield(b.B[n:s.at]) || !yield(s.data) {
				return
			}
			n = s.at
		}
		yield(b.B[n:])
	}
}

var (
	bufferPool     = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, initialBufferSize)} }}
	readBufferPool = sync.Pool{New: func() any { return new([readSize]byte) }}
)

func takeBuffer() *Buffer { return bufferPool.Get().(*Buffer) }

// free returns the buffer, which may be nil, to the pool.
func (b *Buffer) free() {
	if b != nil && cap(b.B) <= maxPooledSize {
		*b = Buffer{B: b.B[:0]}
		bufferPool.Put(b)
	}
}
