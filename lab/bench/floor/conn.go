package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"rollcall/zk/jute"
)

const (
	frameLength  = 4
	headerLength = 8        // of a request: xid and operation
	readBuffer   = 16 << 10 // one read of a socket takes 64 requests
	mostTogether = 64 << 10 // bytes of writes that a connection submits together, before the last of them
	mostQueued   = 4 << 20  // bytes of a connection's replies and waiting reads; above it, its requests are not read
)

// readers have the buffers of connections that have ended.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// conn is a connection of a client. Its goroutine reads requests. It answers a read at once if the connection has no
// unapplied write. Otherwise the goroutine that commits answers the read, after that write.
type conn struct {
	leader *leader
	socket net.Conn
	in     *bufio.Reader

	// Of the goroutine that reads.
	frame  []byte // the last one; its memory is used again
	writes []byte // frames of writes that are not yet submitted
	ends   []int  // of each of these

	// Of the goroutine that commits.
	answered bool // a reply of this batch is queued

	mu          sync.Mutex
	roomFreed   sync.Cond // less is queued, or last is true
	begun       uint64    // writes
	applied     uint64    // writes
	waiting     []waitingRead
	waitingSize int    // bytes of waiting
	out         []byte // replies
	spare       []byte // memory for out, unless it is being written
	writing     bool   // a goroutine writes replies to the socket
	last        bool   // no reply follows those in the queue: then the connection is closed
}

// waitingRead is a read that is answered when so many writes of its connection are applied.
type waitingRead struct {
	after   uint64
	request []byte
}

// serveConn serves a connection until it ends.
func serveConn(ctx context.Context, l *leader, socket net.Conn) {
	in := readers.Get().(*bufio.Reader)
	in.Reset(socket)
	c := &conn{leader: l, socket: socket, in: in}
	c.roomFreed.L = &c.mu
	defer context.AfterFunc(ctx, c.end)()
	defer func() {
		in.Reset(nil)
		readers.Put(in)
		_ = socket.Close()
	}()
	if word, err := in.Peek(frameLength); err != nil || c.answerWord(string(word)) {
		return
	}
	for {
		if (!c.frameReady() || len(c.writes) >= mostTogether) && !c.passOn() {
			return
		}
		var err error
		if c.frame, err = jute.ReadFrame(in, c.frame, maxFrame); err != nil {
			return
		}
		if c.take(c.frame) > mostQueued && (!c.passOn() || !c.awaitRoom()) {
			return
		}
	}
}

// end ends the connection.
func (c *conn) end() {
	c.mu.Lock()
	c.last = true
	c.mu.Unlock()
	c.roomFreed.Broadcast()
	_ = c.socket.Close()
}

// queuedLocked returns the bytes of replies and waiting reads.
func (c *conn) queuedLocked() int { return len(c.out) + c.waitingSize }

// awaitRoom waits until no more than mostQueued is queued. It returns false if the connection has ended.
func (c *conn) awaitRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queuedLocked() > mostQueued && !c.last {
		c.roomFreed.Wait()
	}
	return !c.last
}

// answerWord answers a four-letter word, or returns false if there is none.
func (c *conn) answerWord(word string) bool {
	reply := ""
	switch word {
	case "ruok":
		reply = "imok"
	case "srvr", "stat":
		reply = fmt.Sprintf("Rollcall's floor, for measuring only\nConnections: %d\nMode: %s\n", c.leader.connections.Load(), c.leader.role)
	default:
		return false
	}
	_, _ = io.WriteString(c.socket, reply) // the client may have gone
	return true
}

// frameReady reports whether the next frame can be read without waiting.
func (c *conn) frameReady() bool {
	if c.in.Buffered() < frameLength {
		return false
	}
	length, err := c.in.Peek(frameLength)
	return err == nil && c.in.Buffered()-frameLength >= int(binary.BigEndian.Uint32(length))
}

// passOn submits the writes and sends the replies that have gathered. It returns false if the leader is closed.
func (c *conn) passOn() bool {
	open := true
	if len(c.ends) > 0 {
		open = c.leader.submitWrites(c, c.writes, c.ends)
		c.writes, c.ends = c.writes[:0], c.ends[:0]
	}
	c.flush()
	return open
}

// take begins a request. It returns queuedLocked.
func (c *conn) take(request []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	handshake := c.begun == 0
	switch {
	case c.last:
	case !handshake && len(request) < headerLength:
		c.last = true
	case handshake || opOf(request).IsWrite():
		c.begun++
		c.writes = append(binary.BigEndian.AppendUint32(c.writes, uint32(len(request))), request...)
		c.ends = append(c.ends, len(c.writes))
	case c.begun == c.applied:
		c.answerLocked(c.leader.nodes.appendRead, request)
	default:
		c.waiting = append(c.waiting, waitingRead{c.begun, bytes.Clone(request)})
		c.waitingSize += len(request)
	}
	return c.queuedLocked()
}

func opOf(request []byte) jute.Op { return jute.Op(binary.BigEndian.Uint32(request[4:])) }

// answerLocked queues the reply that append returns. A request that cannot be decoded ends the connection.
func (c *conn) answerLocked(append func(b, request []byte) ([]byte, bool), request []byte) {
	if !c.last {
		var ok bool
		c.out, ok = append(c.out, request)
		c.last = !ok
	}
}

// applyWrite applies the connection's next write. It queues the write's reply, and replies to the reads that waited for the
// write.
func (c *conn) applyWrite(request []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied++
	if c.applied == 1 {
		c.answerLocked(c.leader.nodes.appendHandshake, request)
	} else {
		c.answerLocked(c.leader.nodes.appendWrite, request)
		c.last = c.last || opOf(request) == jute.OpCloseSession
	}
	n := 0
	for ; n < len(c.waiting) && c.waiting[n].after == c.applied; n++ {
		c.answerLocked(c.leader.nodes.appendRead, c.waiting[n].request)
		c.waitingSize -= len(c.waiting[n].request)
	}
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
}

// flush writes the queued replies to the socket. If another goroutine is writing, that one writes these too, and flush
// returns at once.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return
	}
	for len(c.out) > 0 {
		out := c.out
		c.out, c.writing = c.spare[:0], true
		c.mu.Unlock()
		_, err := c.socket.Write(out)
		c.mu.Lock()
		c.spare, c.writing = out, false
		if err != nil {
			c.last, c.out = true, nil
		}
		c.roomFreed.Broadcast()
	}
	if c.last {
		c.roomFreed.Broadcast()
		_ = c.socket.Close()
	}
}
