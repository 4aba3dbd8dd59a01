package wire

import (
	"errors"
	"fmt"

	"rollcall/quorum/disk"
)

// The first byte of each of raft's requests, as its NetworkTransport numbers them.
const (
	requestAppend byte = iota
	requestVote
	requestSnapshot
	requestTimeoutNow
	requestPreVote
)

const (
	// maxFields is how many fields a request or an entry may have: twice as many as raft's have.
	maxFields = 24
	// maxElements is how many entries a request may have: eight times as many as members send.
	maxElements = 64
	// maxSmall limits every request but AppendEntries, in bytes, without the body of a snapshot.
	// The longest one has 255 servers twice.
	maxSmall = 256 << 10
	// maxRequest limits an AppendEntries, in bytes: the last of its entries may have any size that
	// a log takes.
	maxRequest = appendBytes + disk.MaxEntry + maxSmall
)

// bounds limits a value in MessagePack. The value must be a map. It has at most maxFields fields,
// bytes bytes, elements elements in each list, and containers nested at most depth deep, itself
// included.
type bounds struct {
	bytes, elements int64
	depth           int
}

var (
	smallBounds = bounds{bytes: maxSmall, depth: 1}
	// requestBounds has the bounds of each request, by its first byte.
	requestBounds = [...]bounds{
		requestAppend:     {bytes: maxRequest, depth: maxDepth, elements: maxElements},
		requestVote:       smallBounds,
		requestSnapshot:   smallBounds,
		requestTimeoutNow: smallBounds,
		requestPreVote:    smallBounds,
	}
	// configurationBounds limits raft's list of servers.
	configurationBounds = bounds{bytes: maxSmall, depth: maxDepth, elements: maxMember}
)

// maxDepth is the nesting of a request: itself, the list of entries, an entry.
const maxDepth = 3

var errBounds = errors.New("quorum: not a request of raft's")

// scanner follows a value in MessagePack as its bytes come, and refuses values that raft never
// sends before raft's decoder sees them. The decoder allocates room for as many elements as a
// length promises, and follows nested lists a thousand deep. Call begin first.
type scanner struct {
	bounds
	left   int64 // bytes that the value may still have
	open   [maxDepth]int64
	depth  int   // used length of open, which holds the number of missing values of each container
	head   byte  // first byte of the value whose length is being read
	digits int   // missing bytes of that length
	length int64 // the length as far as it has been read
	skip   int64 // missing bytes of a scalar
}

func (s *scanner) begin(b bounds) { *s = scanner{bounds: b, left: b.bytes} }

// scan scans the next bytes of the value. It returns how many of them belong to the value, and
// whether the value ends with them.
func (s *scanner) scan(b []byte) (n int, whole bool, err error) {
	for n < len(b) {
		switch {
		case s.skip > 0:
			k := min(s.skip, int64(len(b)-n))
			n, s.skip = n+int(k), s.skip-k
			if s.skip == 0 {
				whole = s.endValue()
			}
		case s.digits > 0:
			s.length, s.digits = s.length<<8|int64(b[n]), s.digits-1
			n++
			if s.digits == 0 {
				whole, err = s.startValue(s.head, s.length)
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

// first handles the first byte of a value.
func (s *scanner) first(c byte) (whole bool, err error) {
	if err := s.take(1); err != nil {
		return false, err
	}
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small integers, nil, booleans
		return s.startValue(c, 0)
	case c <= 0x8f: // maps
		return s.startValue(0xdf, int64(c&0x0f))
	case c <= 0x9f: // lists
		return s.startValue(0xdd, int64(c&0x0f))
	case c <= 0xbf: // strings
		return s.startValue(0xdb, int64(c&0x1f))
	case c == 0xca, c == 0xcb: // floating point
		return s.startValue(c, 4<<(c-0xca))
	case c >= 0xcc && c <= 0xd3: // integers
		return s.startValue(c, 1<<((c-0xcc)%4))
	case c >= 0xd4 && c <= 0xd8: // extensions, with their type
		return s.startValue(c, 1<<(c-0xd4)+1)
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
		return false, fmt.Errorf("%w: byte %#x is not MessagePack", errBounds, c)
	}
	s.head, s.digits, s.length = c, int(digits), 0
	return false, s.take(int64(digits))
}

// startValue begins the value with the given head and length, and reports whether that ends the
// whole value.
func (s *scanner) startValue(head byte, length int64) (whole bool, err error) {
	isMap, isList := head == 0xde || head == 0xdf, head == 0xdc || head == 0xdd
	switch {
	case s.depth == 0 && !isMap:
		return false, fmt.Errorf("%w: it is not a map", errBounds)
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
	return s.endValue(), nil
}

// endValue ends a value, and the containers that end with it. It reports whether that ends the
// whole value.
func (s *scanner) endValue() (whole bool) {
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

// checkBounds checks that b is exactly one value within bounds.
func checkBounds(b []byte, within bounds) error {
	var s scanner
	s.begin(within)
	n, whole, err := s.scan(b)
	if err == nil && (!whole || n < len(b)) {
		err = fmt.Errorf("%w: %d of %d bytes are a value", errBounds, n, len(b))
	}
	return err
}
