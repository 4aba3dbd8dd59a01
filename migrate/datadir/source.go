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
	// maxValue is the longest valid string or buffer, in bytes: far above any jute.maxbuffer.
	maxValue = 1 << 30
	// windowSize is the number of bytes read at once.
	windowSize = 128 << 10
	// roomCheckStep is the number of bytes read between two calls of Options.CheckRoom. In memory they take a few times as
	// much, which is little.
	roomCheckStep = 1 << 20
)

// valueReader reads the values of a file in order, and computes a checksum. It keeps its first error. After that, every
// read returns the zero value.
type valueReader struct {
	r             io.Reader
	size          int64 // of the contents; -1: unknown, because they are compressed
	window        []byte
	position      int   // the next byte to read in the window
	windowOffset  int64 // the offset of the window
	summedBytes   int   // the bytes of the window that are in checksum
	checksum      hash.Hash32
	err           error
	checkRoom     func() error // Options.CheckRoom; nil: no limit
	nextRoomCheck int64        // the offset at which checkRoom is called next
	roomError     error        // of checkRoom; not an error of the file
}

func newValueReader(r io.Reader, size int64) *valueReader {
	room := int64(windowSize)
	if size >= 0 {
		room = min(room, size)
	}
	return &valueReader{r: r, size: size, window: make([]byte, 0, room), checksum: adler32.New()}
}

// offset returns the offset of the next byte.
func (s *valueReader) offset() int64 { return s.windowOffset + int64(s.position) }

// adlerSum returns the Adler-32 of everything that has been read.
func (s *valueReader) adlerSum() int64 {
	s.checksum.Write(s.window[s.summedBytes:s.position])
	s.summedBytes = s.position
	return int64(s.checksum.Sum32())
}

var errFileEnds = errors.New("the file ends within a value")

// fillWindow reads until the window has at least n unread bytes, and reports whether it could. n is at most windowSize.
func (s *valueReader) fillWindow(n int) bool {
	if s.err != nil {
		return false
	}
	if len(s.window)-s.position >= n {
		return true
	}
	if n > cap(s.window) {
		s.err = errFileEnds
		return false
	}
	if s.checkRoom != nil && s.windowOffset >= s.nextRoomCheck {
		s.nextRoomCheck = s.windowOffset + roomCheckStep
		if s.roomError = s.checkRoom(); s.roomError != nil {
			s.err = s.roomError
			return false
		}
	}
	s.adlerSum()
	kept := copy(s.window[:cap(s.window)], s.window[s.position:])
	s.windowOffset += int64(s.position)
	s.window, s.position, s.summedBytes = s.window[:kept], 0, 0
	for len(s.window) < n {
		more, err := s.r.Read(s.window[len(s.window):cap(s.window)])
		s.window = s.window[:len(s.window)+more]
		switch {
		case len(s.window) >= n:
			return true
		case errors.Is(err, io.EOF):
			s.err = errFileEnds
			return false
		case err != nil:
			s.err = err
			return false
		}
	}
	return true
}

// takeBytes returns the next n bytes, at most windowSize. They are valid until the next call.
func (s *valueReader) takeBytes(n int) []byte {
	if !s.fillWindow(n) {
		return nil
	}
	s.position += n
	return s.window[s.position-n : s.position]
}

func (s *valueReader) readInt32() int32 {
	if b := s.takeBytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (s *valueReader) readInt64() int64 {
	if b := s.takeBytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// readCount reads the number of the elements that follow.
func (s *valueReader) readCount() int {
	n := s.readInt32()
	if n < 0 && s.err == nil {
		s.err = fmt.Errorf("the number of elements is %d", n)
	}
	return int(n)
}

// readBytes reads a string or a buffer, and returns nil for null. If owned is false, value is part of the
// window, and is valid until the next call.
func (s *valueReader) readBytes() (value []byte, owned bool) {
	n := int(s.readInt32())
	switch {
	case s.err != nil || n == -1:
		return nil, false
	case n < 0 || n > maxValue:
		s.err = fmt.Errorf("a length of %d bytes; it must be -1 to %d", n, maxValue)
		return nil, false
	case s.size >= 0 && int64(n) > s.size-s.offset():
		s.err = errFileEnds
		return nil, false
	case n == 0:
		return []byte{}, true
	case n <= windowSize:
		return s.takeBytes(n), false
	}
	for len(value) < n && s.err == nil {
		value = append(value, s.takeBytes(min(n-len(value), windowSize))...)
	}
	return value, true
}

// atEnd reports whether nothing follows. It keeps an error of reading in s.err.
func (s *valueReader) atEnd() bool {
	if s.err != nil {
		return false
	}
	if s.fillWindow(1) {
		return false
	}
	if errors.Is(s.err, errFileEnds) {
		s.err = nil
		return true
	}
	return false
}
