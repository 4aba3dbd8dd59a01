package wire

import (
	"errors"
	"fmt"

	"rollcall/quorum/disk"
)

// raft's requests, as its NetworkTransport numbers them: the first byte of each.
const (
	requestAppend byte = iota
	requestVote
	requestSnapshot
	requestTimeoutNow
	requestPreVote
)

const (
	// maxFields is how many fields a request or an entry may name: twice those of raft's.
	maxFields = 24
	// maxElements is how many entries a request may name: eight times those that members send.
	maxElements = 64
	// maxSmall bounds every request but AppendEntries, in bytes, without the body of a snapshot:
	// the longest one names 255 servers twice.
	maxSmall = 256 << 10
	// maxRequest bounds an AppendEntries, in bytes: the last of its entries may be of any size
	// that a log takes.
	maxRequest = appendBytes + disk.MaxEntry + maxSmall
)

// bounds is what a value in MessagePack may be: a map of at most maxFields fields, so many
// bytes long, with containers so deep within each other, itself included, and so many elements
// in each list.
type bounds struct {
	bytes, elements int64
	depth           int
}

var (
	smallBounds = bounds{bytes: maxSmall, depth: 1}
	// requestBounds are those of each request, by its first byte.
	requestBounds = [...]bounds{
		requestAppend:     {bytes: maxRequest, depth: maxDepth, elements: maxElements},
		requestVote:       smallBounds,
		requestSnapshot:   smallBounds,
		requestTimeoutNow: smallBounds,
		requestPreVote:    smallBounds,
	}
	// configurationBounds are those of raft's list of servers.
	configurationBounds = bounds{bytes: maxSmall, depth: maxDepth, elements: maxMember}
)

// maxDepth is how deep a request goes: itself, the list of entries, an entry.
const maxDepth = 3

var errBounds = errors.New("quorum: not a request of raft's")

// scanner follows a value in MessagePack as its bytes come, and refuses values that raft never
// sends before raft's decoder sees them. The decoder allocates room for as many elements as a
// length promises, and follows lists within lists a thousand deep. begin starts it.
type scanner struct {
	bounds
	left   int64 // bytes that the value may still have
	open   [maxDepth]int64
	depth  int   // of open: values that are missing in each container
	head   byte  // whose length is being read
	digits int   // bytes of the length that are missing
	length int64 // as far as it has been read
	skip   int64 // bytes of a scalar that are missing
}

func (s *scanner) begin(b bounds) { *s = scanner{bounds: b, left: b.bytes} }

// scan goes over the next bytes of the value and returns how many of them are its own, and
// whether it ends with them.
func (s *scanner) scan(b []byte) (n int, whole bool, err error) {
	for n < len(b) {
		switch {
		case s.skip > 0:
			k := min(s.skip, int64(len(b)-n))
			n, s.skip = n+int(k), s.skip-k
			if s.skip == 0 {
				whole = s.end()
			}
		case s.digits > 0:
			s.length, s.digits = s.length<<8|int64(b[n]), s.digits-1
			n++
			if s.digits == 0 {
				whole, err = s.start(s.head, s.length)
			}
		default:
			n++
			whole, err = s.first(b[n-1])
		}
		if whole || err != nil {
			return n, whole, err
		}
	}
	return n, false, nil
}

// first takes the first byte of a value.
func (s *scanner) first(c byte) (whole bool, err error) {
	if err := s.take(1); err != nil {
		return false, err
	}
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small integers, nil, booleans
		return s.start(c, 0)
	case c <= 0x8f: // maps
		return s.start(0xdf, int64(c&0x0f))
	case c <= 0x9f: // lists
		return s.start(0xdd, int64(c&0x0f))
	case c <= 0xbf: // strings
		return s.start(0xdb, int64(c&0x1f))
	case c == 0xca, c == 0xcb: // floating point
		return s.start(c, 4<<(c-0xca))
	case c >= 0xcc && c <= 0xd3: // integers
		return s.start(c, 1<<((c-0xcc)%4))
	case c >= 0xd4 && c <= 0xd8: // extensions, with their type
		return s.start(c, 1<<(c-0xd4)+1)
	}
	var digits byte
	switch {
	case c >= 0xc4 && c <= 0xc6: // bytes
		digits = 1 << (c - 0xc4)
	case c >= 0xc7 && c <= 0xc9: // extensions
		digits = 1 << (c - 0xc7)
	case c >= 0xd9 && c <= 0xdb: // strings
		digits = 1 << (c - 0xd9)
	case c >= 0xdc: // lists, maps
		digits = 2 << (c & 1)
	default:
		return false, fmt.Errorf("%w: byte %#x is no MessagePack", errBounds, c)
	}
	s.head, s.digits, s.length = c, int(digits), 0
	return false, s.take(int64(digits))
}

// start begins the value that head and its length promise, and reports whether that ends all.
func (s *scanner) start(head byte, length int64) (whole bool, err error) {
	isMap, isList := head == 0xde || head == 0xdf, head == 0xdc || head == 0xdd
	switch {
	case s.depth == 0 && !isMap:
		return false, fmt.Errorf("%w: it is no map", errBounds)
	case (isMap || isList) && s.depth == s.bounds.depth:
		return false, fmt.Errorf("%w: containers more than %d deep", errBounds, s.bounds.depth)
	case isMap && length > maxFields:
		return false, fmt.Errorf("%w: %d fields, at most %d are allowed", errBounds, length, maxFields)
	case isList && length > s.elements:
		return false, fmt.Errorf("%w: %d elements, at most %d are allowed", errBounds, length, s.elements)
	case isMap || isList:
		if isMap {
			length *= 2
		}
		if length > 0 {
			s.open[s.depth] = length
			s.depth++
			return false, nil
		}
	default:
		if head >= 0xc7 && head <= 0xc9 {
			length++ // the type
		}
		if err := s.take(length); err != nil || length > 0 {
			s.skip = length
			return false, err
		}
	}
	return s.end(), nil
}

// end ends a value, and the containers that end with it.
func (s *scanner) end() (whole bool) {
	for s.depth > 0 {
		if s.open[s.depth-1]--; s.open[s.depth-1] > 0 {
			return false
		}
		s.depth--
	}
	return true
}

func (s *scanner) take(n int64) error {
	if s.left -= n; s.left < 0 {
		return fmt.Errorf("%w: more than %d bytes", errBounds, s.bytes)
	}
	return nil
}

// checkBounds checks a whole value.
func checkBounds(b []byte, within bounds) error {
	var s scanner
	s.begin(within)
	n, whole, err := s.scan(b)
	if err == nil && (!whole || n < len(b)) {
		err = fmt.Errorf("%w: %d of %d bytes are a value", errBounds, n, len(b))
	}
	return err
}
