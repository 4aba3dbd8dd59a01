// Package jute implements the wire format of ZooKeeper's clients. It has the serialisation, the
// records of every request and reply, opcodes, error codes, event types and the session id.
//
// # Memory
//
// Decoding copies nothing: every []byte of a decoded record refers to its frame, and is valid as
// long as the frame. Decode sets all fields of its record and reuses the memory of the record's
// vectors, so that records can be kept and reused. Copy a field to keep it beyond the next Decode.
// Only vectors are ever allocated, and only as many elements as the rest of the frame has room for.
// Encoding appends to a caller's slice.
//
// # Null
//
// Like ZooKeeper, this package distinguishes null from empty in strings, buffers and vectors. nil
// is null, and a slice of length 0 that is not nil is empty.
//
// # Concurrency
//
// Nothing here locks, starts a goroutine or keeps state between calls. Use a value from one
// goroutine at a time.
package jute

import (
	"encoding/binary"
	"errors"
)

var (
	// errShortFrame means that the frame ends within a value.
	errShortFrame = errors.New("jute: frame ends within a value")
	// errLength means that a string or buffer has a length below -1, or that a vector has more elements than
	// fit into the rest of the frame.
	errLength = errors.New("jute: impossible length")
)

// Decoder reads the values of one frame in order. It keeps its first error; after that, every read returns
// the zero value. So read a whole record and check Err once.
type Decoder struct {
	unread []byte // not yet read; nil after an error
	err    error
}

// NewDecoder returns a Decoder at the start of frame. The frame must not change while values read
// from it are in use.
func NewDecoder(frame []byte) Decoder { return Decoder{unread: frame} }

// ReadBool reads one byte. Any value but 0 is true.
func (d *Decoder) ReadBool() bool {
	if len(d.unread) < 1 {
		d.keepFirstError(errShortFrame)
		return false
	}
	v := d.unread[0] != 0
	d.unread = d.unread[1:]
	return v
}

// ReadInt32 reads an int.
func (d *Decoder) ReadInt32() int32 {
	if len(d.unread) < 4 {
		d.keepFirstError(errShortFrame)
		return 0
	}
	v := binary.BigEndian.Uint32(d.unread)
	d.unread = d.unread[4:]
	return int32(v)
}

// ReadInt64 reads a long.
func (d *Decoder) ReadInt64() int64 {
	if len(d.unread) < 8 {
		d.keepFirstError(errShortFrame)
		return 0
	}
	v := binary.BigEndian.Uint64(d.unread)
	d.unread = d.unread[8:]
	return int64(v)
}

// ReadBytes reads a string or a buffer; it returns nil for null. The result refers to the frame,
// with no capacity beyond its length.
func (d *Decoder) ReadBytes() []byte {
	n := int(d.ReadInt32())
	switch {
	case d.err != nil || n == -1:
		return nil
	case n < 0:
		d.keepFirstError(errLength)
		return nil
	case n > len(d.unread):
		d.keepFirstError(errShortFrame)
		return nil
	}
	v := d.unread[:n:n]
	d.unread = d.unread[n:]
	return v
}

// ReadCount reads the number of elements of a vector whose elements take at least size bytes (at
// least 1). If the rest of the frame cannot hold so many, the error is errLength. -1 is null. As in
// ZooKeeper, any other negative number means an empty vector.
func (d *Decoder) ReadCount(size int) (n int, null bool) {
	n = int(d.ReadInt32())
	switch {
	case d.err != nil || n == -1:
		return 0, true
	case n < 0:
		return 0, false
	case n > len(d.unread)/max(size, 1):
		d.keepFirstError(errLength)
		return 0, true
	}
	return n, false
}

// Err returns the first error: errShortFrame, errLength or nil.
func (d *Decoder) Err() error { return d.err }

// Rest returns the bytes not yet read, or nil after an error. They refer to the frame.
func (d *Decoder) Rest() []byte { return d.unread }

// takeBytes reads n bytes, or returns nil if the frame does not have them.
func (d *Decoder) takeBytes(n int) []byte {
	if len(d.unread) < n {
		d.keepFirstError(errShortFrame)
		return nil
	}
	v := d.unread[:n:n]
	d.unread = d.unread[n:]
	return v
}

// readStrings reads a vector of strings into the memory of dst.
func (d *Decoder) readStrings(dst [][]byte) [][]byte {
	n, null := d.ReadCount(minStringSize)
	if null {
		return nil
	}
	dst = sliceOfLen(dst, n)
	for i := range dst {
		dst[i] = d.ReadBytes()
	}
	return dst
}

// keepFirstError keeps the first error.
func (d *Decoder) keepFirstError(err error) {
	if d.err == nil {
		d.err = err
	}
	d.unread = nil
}

// minStringSize is the size of the smallest string or buffer: a length and no bytes.
const minStringSize = 4

// sliceOfLen returns a slice of n elements, in the memory of s if that suffices. It is never nil, and
// its elements may still hold old values.
func sliceOfLen[T any](s []T, n int) []T {
	if s == nil || cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
