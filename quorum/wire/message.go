package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// A request is its kind (1 byte) and a struct of raft's in MessagePack, or a frame. A snapshot's bytes follow
// its request. The reply to a request in MessagePack is the text of an error, empty if there is none, and a
// struct or nil, both in MessagePack. raft's own NetworkTransport uses the same bytes: it gets no frames, and
// skips appendReply.Frames.
const (
	requestAppend byte = iota
	requestVote
	requestSnapshot
	requestTimeoutNow
	requestPreVote
)

const (
	// maxFields bounds the fields of a request or an entry: twice the number of raft's.
	maxFields = 24
	// maxElements bounds the entries of a request: members send no more (addLaterEntries). A member that catches up gets
	// one request in a round trip. Beside its data, an entry takes up to 150 bytes in MessagePack. maxSmallRequest has room for
	// that of all entries.
	maxElements = 1500
	// maxDepth is the nesting of a request: itself, the list of entries, an entry.
	maxDepth = 3
	// maxSmallRequest limits every request but AppendEntries, in bytes, without a snapshot's body. The
	// longest one has 255 servers twice.
	maxSmallRequest = 256 << 10
	// maxAppendRequest limits an AppendEntries, in bytes: its last entry may have any size that a log
	// accepts.
	maxAppendRequest = maxAppendBytes + disk.MaxEntryBytes + maxSmallRequest
	// maxReplyText limits the text of an error in a reply, in bytes. maxReply limits each value of a reply: such a text,
	// or numbers.
	maxReplyText = math.MaxUint16
	maxReply     = 2 * maxReplyText
	// allocationStep is the memory, in bytes, that is allocated for a request ahead of its arrival.
	allocationStep = 256 << 10
)

// bounds limits a request. A value in MessagePack must be a map. maxElements holds for each list, and
// maxDepth for nested containers including the value itself.
type bounds struct {
	maxBytes, maxElements int64
	maxDepth              int
}

var (
	smallBounds = bounds{maxBytes: maxSmallRequest, maxDepth: 1}
	// configurationBounds limits raft's list of servers.
	configurationBounds = bounds{maxBytes: maxSmallRequest, maxDepth: maxDepth, maxElements: maxMemberID}
	appendBounds        = bounds{maxBytes: maxAppendRequest, maxDepth: maxDepth, maxElements: maxElements}
	// replyBounds limits a text, or a struct without lists, which is read at depth 1.
	replyBounds = bounds{maxBytes: maxReply, maxDepth: 2}
	// requestKinds is indexed by the first byte of a request. newRequest returns an empty request for the
	// MessagePack decoder, and is nil for frames.
	requestKinds = [...]struct {
		bounds
		requestForm
		newRequest func() any
	}{
		requestAppend:     {appendBounds, inMessagePack, func() any { return new(raft.AppendEntriesRequest) }},
		requestVote:       {smallBounds, inMessagePack, func() any { return new(raft.RequestVoteRequest) }},
		requestSnapshot:   {smallBounds, inMessagePack, func() any { return new(raft.InstallSnapshotRequest) }},
		requestTimeoutNow: {smallBounds, inMessagePack, func() any { return new(raft.TimeoutNowRequest) }},
		requestPreVote:    {smallBounds, inMessagePack, func() any { return new(raft.RequestPreVoteRequest) }},
		frameEntries:      {appendBounds, inFrames, nil},
		frameNotice:       {bounds{maxBytes: positionSize}, withoutReply, nil},
		frameDirect:       {bounds{maxBytes: maxDirectSize}, withoutReply, nil}, // and the frame after it
		frameCopy:         {bounds{maxBytes: copySize}, withoutReply, nil},
	}
)

var errNotRaftRequest = errors.New("quorum: not a request of raft's")

// newEncoder returns an encoder that writes times as raft's own transport does by default.
func newEncoder(w io.Writer) *codec.Encoder {
	handle := new(codec.MsgpackHandle)
	handle.TimeNotBuiltin = true
	return codec.NewEncoder(w, handle)
}

// messageReader reads a request: a value in MessagePack (readValue), or a frame (readFrame). It rejects
// invalid requests before the decoder sees them: the decoder allocates as many elements as a length promises,
// and follows nested lists a thousand deep.
type messageReader struct {
	bounds
	from    *bufio.Reader
	buffer  []byte               // received so far
	reserve func(more int) error // called before buffer grows
}

// By first byte, 0xc0 to 0xdf: the size of the length that follows, and the number of bytes that the length does not
// count.
const (
	lengthBytes = "\x00\x00\x00\x00" + "\x01\x02\x04" + "\x01\x02\x04" + "\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00" + "\x01\x02\x04" + "\x02\x04" + "\x02\x04"
	otherBytes = "\x00\x00\x00\x00" + "\x00\x00\x00" + "\x01\x01\x01" + "\x04\x08" + "\x01\x02\x04\x08\x01\x02\x04\x08" +
		"\x02\x03\x05\x09\x11" + "\x00\x00\x00" + "\x00\x00" + "\x00\x00"
)

// readValue reads a value inside depth containers into m.buffer.
func (m *messageReader) readValue(depth int) error {
	c, err := m.readNumber(1)
	var n int64 // bytes of a scalar, or fields, or elements
	switch {
	case err != nil || c <= 0x7f || c >= 0xe0: // a small integer
	case c <= 0x9f: // a short map or list
		n = c & 0x0f
	case c <= 0xbf: // a short string
		n = c & 0x1f
	case c == 0xc1:
		return fmt.Errorf("%w: byte %#x is not MessagePack", errNotRaftRequest, c)
	default:
		n, err = m.readNumber(int(lengthBytes[c-0xc0]))
		n += int64(otherBytes[c-0xc0])
	}
	isMap, isList := c >= 0x80 && c <= 0x8f || c >= 0xde && c <= 0xdf, c >= 0x90 && c <= 0x9f || c >= 0xdc && c <= 0xdd
	switch {
	case err != nil:
		return err
	case depth == 0 && !isMap:
		return fmt.Errorf("%w: it is not a map", errNotRaftRequest)
	case !isMap && !isList:
		return m.readBytes(n)
	case depth == m.maxDepth:
		return fmt.Errorf("%w: containers more than %d deep", errNotRaftRequest, m.maxDepth)
	case isMap && n > maxFields:
		return fmt.Errorf("%w: %d fields: must be at most %d", errNotRaftRequest, n, maxFields)
	case isList && n > m.maxElements:
		return fmt.Errorf("%w: %d elements: must be at most %d", errNotRaftRequest, n, m.maxElements)
	case isMap:
		n *= 2
	}
	for range n {
		if err := m.readValue(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// readNumber reads a big-endian number of so many bytes.
func (m *messageReader) readNumber(bytes int) (n int64, err error) {
	if err := m.readBytes(int64(bytes)); err != nil {
		return 0, err
	}
	for _, c := range m.buffer[len(m.buffer)-bytes:] {
		n = n<<8 | int64(c)
	}
	return n, nil
}

// readBytes appends the next n bytes to m.buffer. It allocates memory only as the bytes arrive.
func (m *messageReader) readBytes(n int64) error {
	if n > m.maxBytes-int64(len(m.buffer)) {
		return fmt.Errorf("%w: more than %d bytes", errNotRaftRequest, m.maxBytes)
	}
	end := len(m.buffer) + int(n)
	for len(m.buffer) < end {
		if len(m.buffer) == cap(m.buffer) {
			more := min(end-len(m.buffer), max(len(m.buffer), allocationStep))
			if err := m.reserve(more); err != nil {
				return err
			}
			m.buffer = slices.Grow(m.buffer, more)
		}
		k, err := io.ReadFull(m.from, m.buffer[len(m.buffer):min(end, cap(m.buffer))])
		m.buffer = m.buffer[:len(m.buffer)+k]
		if err != nil {
			return err
		}
	}
	return nil
}

// checkBounds checks that b is exactly one value within bounds.
func checkBounds(b []byte, within bounds) error {
	m := messageReader{bounds: within, from: bufio.NewReader(bytes.NewReader(b)), reserve: func(int) error { return nil }}
	if err := m.readValue(0); err != nil {
		return fmt.Errorf("%w: %w", errNotRaftRequest, err)
	}
	if len(m.buffer) < len(b) {
		return fmt.Errorf("%w: %d of %d bytes are a value", errNotRaftRequest, len(m.buffer), len(b))
	}
	return nil
}
