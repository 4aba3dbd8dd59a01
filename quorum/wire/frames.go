package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// Frames are a shorter form of raft's AppendEntries, read without reflection. A member announces its support in its
// reply to an AppendEntries in MessagePack (appendReply.Frames). From then on its leader sends frames on that
// connection. raft's own transport does not send the field, and skips it in replies. All integers are big-endian:
//
//	entries  → 5 (1), position (40), number of entries (2), entries
//	notice   → 6 (1), position (40)
//	position → term (8), index of the entry before (8), its term (8), commit index (8), majority index (8)
//	entry    → index (8), term (8), type (1), nanoseconds since 1970 or 0 (8), length of data (4), length of extensions (4), data, extensions
//	direct   → 7 (1), the leader's word that needs direct messages: see direct.go. A frame of entries or a notice follows
//	copy     → 8 (1), a direct message: see direct.go
//	reply    → any number of waiting marks (1 each), 1 for success or 0 (1), 1 if the next attempt must not wait or 0 (1), term (8), end of the log (8), length of an error (2), its text
//
// The follower commits up to the commit index. Up to the majority index, which is not higher, it need not wait for its own disk:
// those entries are on the disks of a majority. A waiting mark says that the reply waits until the entries of its request are
// settled.
//
// A frame names no sender. Its sender is that of the last AppendEntries in MessagePack on its connection. A notice
// has no reply: if raft rejects it, the connection ends.
const (
	frameEntries = requestPreVote + 1 + iota
	frameNotice
	frameDirect
	frameCopy
)

const (
	positionSize    = 5 * 8
	entryCountSize  = 2
	entryHeaderSize = 8 + 8 + 1 + 8 + 4 + 4
	replyHeaderSize = 1 + 1 + 8 + 8 + 2

	waitingMark = 2
)

// requestForm is the encoding of a request and of its reply.
type requestForm byte

const (
	inMessagePack requestForm = iota
	inFrames
	withoutReply // a notice in a frame, or a direct message
)

// appendReply is raft's reply to an AppendEntries in MessagePack. A decoder that does not know Frames skips
// it.
type appendReply struct {
	*raft.AppendEntriesResponse
	Frames bool
}

// errNoticeRejected means that raft rejected a notice.
var errNoticeRejected = errors.New("quorum: a commit notice was rejected")

// appendPosition appends a request without its entries.
func appendPosition(b []byte, req *raft.AppendEntriesRequest, majority uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, req.Term)
	b = binary.BigEndian.AppendUint64(b, req.PrevLogEntry)
	b = binary.BigEndian.AppendUint64(b, req.PrevLogTerm)
	b = binary.BigEndian.AppendUint64(b, req.LeaderCommitIndex)
	return binary.BigEndian.AppendUint64(b, majority)
}

func appendNotice(b []byte, req *raft.AppendEntriesRequest, majority uint64) []byte {
	return appendPosition(append(b, frameNotice), req, majority)
}

// framedIfSupported returns framed, one of the two forms in frames, if the member takes frames, and otherwise
// inMessagePack.
func (c *outConn) framedIfSupported(framed requestForm) requestForm {
	if c.takesFrames.Load() {
		return framed
	}
	return inMessagePack
}

func (c *outConn) sendAppend(a *appendFuture) error {
	switch a.form {
	case withoutReply:
		_, _ = c.w.Write(appendNotice(appendDirect(c.frameHeader[:0], a.direct), a.req, a.majority)) // Flush returns an error of w again
		return c.w.Flush()
	case inFrames:
		return c.sendEntries(a.req, a.majority, a.direct)
	}
	return c.sendRequest(requestAppend, a.req)
}

// awaitBytes waits until more bytes have come, or the connection has failed.
func (c *outConn) awaitBytes() error {
	_, err := c.r.Peek(1)
	return err
}

// awaitAppendReply waits for the reply to the oldest pending request, which must be a, or for a waiting mark.
func (c *outConn) awaitAppendReply(a *appendFuture) (waits bool, err error) {
	if a.form == inFrames {
		waits, err = c.awaitFrameReply(a.resp)
	} else {
		err = c.awaitReply(a.resp)
	}
	if err != nil || waits {
		return waits, err
	}
	return false, checkReply(a.req, a.resp)
}

// sendEntries sends a request as a frame of entries.
func (c *outConn) sendEntries(req *raft.AppendEntriesRequest, majority uint64, direct *directPart) error {
	if len(req.Entries) > maxElements {
		return fmt.Errorf("quorum: %d entries in a request: must be at most %d", len(req.Entries), maxElements)
	}
	head := append(appendDirect(c.frameHeader[:0], direct), frameEntries)
	head = binary.BigEndian.AppendUint16(appendPosition(head, req, majority), uint16(len(req.Entries)))
	for _, e := range req.Entries {
		head = appendEntryHeader(head, e)
		_, _ = c.w.Write(head) // Flush returns an error of w again
		_, _ = c.w.Write(e.Data)
		_, _ = c.w.Write(e.Extensions)
		head = head[:0]
	}
	_, _ = c.w.Write(head) // empty, unless the request has no entries
	c.frameHeader = head
	return c.w.Flush()
}

func appendEntryHeader(b []byte, e *raft.Log) []byte {
	var at uint64
	if !e.AppendedAt.IsZero() {
		at = uint64(e.AppendedAt.UnixNano())
	}
	b = binary.BigEndian.AppendUint64(b, e.Index)
	b = binary.BigEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	b = binary.BigEndian.AppendUint64(b, at)
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Data)))
	return binary.BigEndian.AppendUint32(b, uint32(len(e.Extensions)))
}

func (c *outConn) awaitFrameReply(resp *raft.AppendEntriesResponse) (waits bool, err error) {
	var head [replyHeaderSize]byte
	if head[0], err = c.r.ReadByte(); err != nil || head[0] == waitingMark {
		return true, err
	}
	if _, err := io.ReadFull(c.r, head[1:]); err != nil {
		return false, err
	}
	resp.Success, resp.NoRetryBackoff = head[0] == 1, head[1] == 1
	resp.Term, resp.LastLog = binary.BigEndian.Uint64(head[2:]), binary.BigEndian.Uint64(head[10:])
	n := binary.BigEndian.Uint16(head[18:])
	if n == 0 {
		return false, nil
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c.r, text); err != nil {
		return false, err
	}
	return false, errors.New(string(text))
}

// appendFrameReply appends the reply to a frame. resp may be nil if there is an error.
func appendFrameReply(b []byte, resp *raft.AppendEntriesResponse, err error) []byte {
	if resp == nil {
		resp = new(raft.AppendEntriesResponse)
	}
	text := ""
	if err != nil {
		text = err.Error()
		text = text[:min(len(text), maxReplyText)]
	}
	b = append(b, boolByte(resp.Success), boolByte(resp.NoRetryBackoff))
	b = binary.BigEndian.AppendUint64(b, resp.Term)
	b = binary.BigEndian.AppendUint64(b, resp.LastLog)
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

func boolByte(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// readFrame reads the rest of a frame into m.buffer.
func (m *messageReader) readFrame(kind byte) error {
	if err := m.readBytes(positionSize); err != nil || kind == frameNotice {
		return err
	}
	n, err := m.readNumber(entryCountSize)
	if err != nil {
		return err
	}
	if n > m.maxElements {
		return fmt.Errorf("%w: %d entries: must be at most %d", errNotRaftRequest, n, m.maxElements)
	}
	for range n {
		if err := m.readBytes(entryHeaderSize - 8); err != nil {
			return err
		}
		data, err := m.readNumber(4)
		if err != nil {
			return err
		}
		extensions, err := m.readNumber(4)
		if err != nil {
			return err
		}
		if err := m.readBytes(data + extensions); err != nil {
			return err
		}
	}
	return nil
}

// parseFrame decodes a whole frame without its kind. It leaves the sender empty. The request shares no memory
// with b, because raft keeps entries for longer than a connection keeps its buffer.
func parseFrame(kind byte, b []byte) (req *raft.AppendEntriesRequest, majority uint64) {
	majority = binary.BigEndian.Uint64(b[32:])
	req = &raft.AppendEntriesRequest{
		Term:         binary.BigEndian.Uint64(b),
		PrevLogEntry: binary.BigEndian.Uint64(b[8:]), PrevLogTerm: binary.BigEndian.Uint64(b[16:]),
		LeaderCommitIndex: binary.BigEndian.Uint64(b[24:]),
	}
	if kind == frameNotice {
		return req, majority
	}
	req.Entries = make([]*raft.Log, binary.BigEndian.Uint16(b[positionSize:]))
	b = b[positionSize+entryCountSize:]
	for i := range req.Entries {
		req.Entries[i], b = parseEntry(b)
	}
	return req, majority
}

// parseEntry decodes the first entry of b.
func parseEntry(b []byte) (e *raft.Log, rest []byte) {
	e = &raft.Log{Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]), Type: raft.LogType(b[16])}
	if at := binary.BigEndian.Uint64(b[17:]); at != 0 {
		e.AppendedAt = time.Unix(0, int64(at)).UTC()
	}
	data, extensions := binary.BigEndian.Uint32(b[25:]), binary.BigEndian.Uint32(b[29:])
	b = b[entryHeaderSize:]
	e.Data, b = copyPrefix(b, data)
	e.Extensions, b = copyPrefix(b, extensions)
	return e, b
}

// copyPrefix returns a copy of the first n bytes of b, or nil if n is 0, and the rest of b.
func copyPrefix(b []byte, n uint32) (first, rest []byte) {
	if n > 0 {
		first = append(make([]byte, 0, n), b[:n]...)
	}
	return first, b[n:]
}
