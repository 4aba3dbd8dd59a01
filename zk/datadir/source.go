package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
)

const (
	// maxValue is the longest string or buffer that is read: far above any jute.maxbuffer.
	maxValue = 1 << 30
	// windowSize is how much of a file is read at once.
	windowSize = 128 << 10
	// roomStep is how many bytes are read between two calls of Options.Room. What is made of them in memory takes a
	// few times as much, which is little beside a machine's memory.
	roomStep = 1 << 20
)

// source reads the values of a file in order, and sums up what it has read. It keeps its first error;
// after that, every read returns the zero value.
type source struct {
	r      io.Reader
	size   int64 // of the contents; -1: unknown, because they are compressed
	window []byte
	at     int   // the next byte to read in the window
	base   int64 // the offset of the window
	summed int   // the bytes of the window that are in sum
	sum    hash.Hash32
	err    error
	room   func() error // Options.Room; nil: nothing is asked
	due    int64        // the offset at which room is called next
	full   error        // of room; it says nothing about the file
}

func newSource(r io.Reader, size int64) *source {
	room := int64(windowSize)
	if size >= 0 {
		room = min(room, size)
	}
	return &source{r: r, size: size, window: make([]byte, 0, room), sum: adler32.New()}
}

// offset returns the offset of the next byte.
func (s *source) offset() int64 { return s.base + int64(s.at) }

// adler returns the check value of everything that has been read.
func (s *source) adler() int64 {
	s.sum.Write(s.window[s.summed:s.at])
	s.summed = s.at
	return int64(s.sum.Sum32())
}

// errEnd says that the file ends within a value.
var errEnd = errors.New("the file ends within a value")

// fill makes at least n bytes ready in the window, and reports whether they are. n is at most
// windowSize.
func (s *source) fill(n int) bool {
	if s.err != nil {
		return false
	}
	if len(s.window)-s.at >= n {
		return true
	}
	if n > cap(s.window) {
		s.err = errEnd
		return false
	}
	if s.room != nil && s.base >= s.due {
		s.due = s.base + roomStep
		if s.full = s.room(); s.full != nil {
			s.err = s.full
			return false
		}
	}
	s.adler()
	kept := copy(s.window[:cap(s.window)], s.window[s.at:])
	s.base += int64(s.at)
	s.window, s.at, s.summed = s.window[:kept], 0, 0
	for len(s.window) < n {
		more, err := s.r.Read(s.window[len(s.window):cap(s.window)])
		s.window = s.window[:len(s.window)+more]
		switch {
		case len(s.window) >= n:
			return true
		case errors.Is(err, io.EOF):
			s.err = errEnd
			return false
		case err != nil:
			s.err = err
			return false
		}
	}
	return true
}

// take returns the next n bytes, at most windowSize. They are valid until the next call.
func (s *source) take(n int) []byte {
	if !s.fill(n) {
		return nil
	}
	s.at += n
	return s.window[s.at-n : s.at]
}

// int32 reads an int.
func (s *source) int32() int32 {
	if b := s.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// int64 reads a long.
func (s *source) int64() int64 {
	if b := s.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// count reads the number of the elements that follow.
func (s *source) count() int {
	n := s.int32()
	if n < 0 && s.err == nil {
		s.err = fmt.Errorf("the number of elements is %d", n)
	}
	return int(n)
}

// bytes reads a string or a buffer, and returns nil for null. If owned is false, value is part of the
// window, and is valid until the next call.
func (s *source) bytes() (value []byte, owned bool) {
	n := int(s.int32())
	switch {
	case s.err != nil || n == -1:
		return nil, false
	case n < 0 || n > maxValue:
		s.err = fmt.Errorf("a length of %d bytes; allowed are -1 to %d", n, maxValue)
		return nil, false
	case s.size >= 0 && int64(n) > s.size-s.offset():
		s.err = errEnd
		return nil, false
	case n == 0:
		return []byte{}, true
	case n <= windowSize:
		return s.take(n), false
	}
	for len(value) < n && s.err == nil {
		value = append(value, s.take(min(n-len(value), windowSize))...)
	}
	return value, true
}

// ended reports whether nothing follows. An error of reading is kept in s.err.
func (s *source) ended() bool {
	if s.err != nil {
		return false
	}
	if s.fill(1) {
		return false
	}
	if errors.Is(s.err, errEnd) {
		s.err = nil
		return true
	}
	return false
}
