package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// A request is its kind (1 byte) and a struct of raft's in MessagePack, or a frame. A snapshot's bytes follow
// its request. The answer to a request in MessagePack is the text of an error, which is empty if there is
// none, and a struct or nil, both in MessagePack. raft's own NetworkTransport
// reads and writes the same bytes: it gets no frames, and skips appendAnswer.Frames.
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
	// maxDepth is the nesting of a request: itself, the list of entries, an entry.
	maxDepth = 3
	// maxSmall limits every request but AppendEntries, in bytes, without the body of a snapshot.
	// The longest one has 255 servers twice.
	maxSmall = 256 << 10
	// maxRequest limits an AppendEntries, in bytes: the last of its entries may have any size that
	// a log takes.
	maxRequest = appendBytes + disk.MaxEntryBytes + maxSmall
	// trusted is how many bytes of memory are allocated for a request before they have come.
	trusted = 256 << 10
)

// bounds limits a request. A value in MessagePack must be a map. It has at most maxFields fields,
// bytes bytes, elements elements in each list, and containers nested at most depth deep, itself
// included.
type bounds struct {
	bytes, elements int64
	depth           int
}

var (
	smallBounds = bounds{bytes: maxSmall, depth: 1}
	// configurationBounds limits raft's list of servers.
	configurationBounds = bounds{bytes: maxSmall, depth: maxDepth, elements: maxMember}
	appendBounds        = bounds{bytes: maxRequest, depth: maxDepth, elements: maxElements}
	// kinds has the bounds and the form of each request by its first byte. empty returns an empty request for the decoder
	// of MessagePack, and is nil for frames.
	kinds = [...]struct {
		bounds
		form
		empty func() any
	}{
		requestAppend:     {appendBounds, inMessagePack, func() any { return new(raft.AppendEntriesRequest) }},
		requestVote:       {smallBounds, inMessagePack, func() any { return new(raft.RequestVoteRequest) }},
		requestSnapshot:   {smallBounds, inMessagePack, func() any { return new(raft.InstallSnapshotRequest) }},
		requestTimeoutNow: {smallBounds, inMessagePack, func() any { return new(raft.TimeoutNowRequest) }},
		requestPreVote:    {smallBounds, inMessagePack, func() any { return new(raft.RequestPreVoteRequest) }},
		frameEntries:      {appendBounds, inFrames, nil},
		frameNotice:       {bounds{bytes: positionSize}, unanswered, nil},
	}
)

var errBounds = errors.New("quorum: not a request of raft's")

// newEncoder returns an encoder that writes a time as raft's own transport does by default.
func newEncoder(w io.Writer) *codec.Encoder {
	handle := new(codec.MsgpackHandle)
	handle.TimeNotBuiltin = true
	return codec.NewEncoder(w, handle)
}

// message reads a request: a value in MessagePack (value), or a frame (frame). It refuses what raft never
// sends before the decoder sees it. The decoder allocates room for as many elements as a length promises,
// and follows nested lists a thousand deep.
type message struct {
	bounds
	from *bufio.Reader
	b    []byte               // what has come
	room func(more int) error // called before b grows
}

// For the first bytes 0xc0 to 0xdf: how many bytes of length come next, and how many bytes come
// besides those that the length counts.
const (
	lengthBytes = "\x00\x00\x00\x00" + "\x01\x02\x04" + "\x01\x02\x04" + "\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00" + "\x01\x02\x04" + "\x02\x04" + "\x02\x04"
	otherBytes  = "\x00\x00\x00\x00" + "\x00\x00\x00" + "\x01\x01\x01" + "\x04\x08" + "\x01\x02\x04\x08\x01\x02\x04\x08" + "\x02\x03\x05\x09\x11" + "\x00\x00\x00" + "\x00\x00" + "\x00\x00"
)

// value reads a value that is in so many containers, and adds its bytes to m.b.
func (m *message) value(depth int) error {
	c, err := m.number(1)
	var n int64 // bytes of a scalar, or fields, or elements
	switch {
	case err != nil || c <= 0x7f || c >= 0xe0: // a small integer
	case c <= 0x9f: // a short map or list
		n = c & 0x0f
	case c <= 0xbf: // a short string
		n = c & 0x1f
	case c == 0xc1:
		return fmt.Errorf("%w: byte %#x is not MessagePack", errBounds, c)
	default:
		n, err = m.number(int(lengthBytes[c-0xc0]))
		n += int64(otherBytes[c-0xc0])
	}
	isMap, isList := c >= 0x80 && c <= 0x8f || c >= 0xde && c <= 0xdf, c >= 0x90 && c <= 0x9f || c >= 0xdc && c <= 0xdd
	switch {
	case err != nil:
		return err
	case depth == 0 && !isMap:
		return fmt.Errorf("%w: it is not a map", errBounds)
	case !isMap && !isList:
		return m.take(n)
	case depth == m.depth:
		return fmt.Errorf("%w: containers more than %d deep", errBounds, m.depth)
	case isMap && n > maxFields:
		return fmt.Errorf("%w: %d fields, at most %d are allowed", errBounds, n, maxFields)
	case isList && n > m.elements:
		return fmt.Errorf("%w: %d elements, at most %d are allowed", errBounds, n, m.elements)
	case isMap:
		n *= 2
	}
	for range n {
		if err := m.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// number reads a big-endian number of so many bytes.
func (m *message) number(bytes int) (n int64, err error) {
	if err := m.take(int64(bytes)); err != nil {
		return 0, err
	}
	for _, c := range m.b[len(m.b)-bytes:] {
		n = n<<8 | int64(c)
	}
	return n, nil
}

// take adds the next n bytes to m.b. If n is large, memory is allocated as the bytes arrive.
func (m *message) take(n int64) error {
	if n > m.bytes-int64(len(m.b)) {
		return fmt.Errorf("%w: more than %d bytes", errBounds, m.bytes)
	}
	end := len(m.b) + int(n)
	for len(m.b) < end {
		if len(m.b) == cap(m.b) {
			more := min(end-len(m.b), max(len(m.b), trusted))
			if err := m.room(more); err != nil {
				return err
			}
			m.b = slices.Grow(m.b, more)
		}
		k, err := io.ReadFull(m.from, m.b[len(m.b):min(end, cap(m.b))])
		m.b = m.b[:len(m.b)+k]
		if err != nil {
			return err
		}
	}
	return nil
}

// checkBounds checks that b is exactly one value within bounds.
func checkBounds(b []byte, within bounds) error {
	m := message{bounds: within, from: bufio.NewReader(bytes.NewReader(b)), room: func(int) error { return nil }}
	if err := m.value(0); err != nil {
		return fmt.Errorf("%w: %w", errBounds, err)
	}
	if len(m.b) < len(b) {
		return fmt.Errorf("%w: %d of %d bytes are a value", errBounds, len(m.b), len(b))
	}
	return nil
}
