// Package tap stands between clients and their servers, for proxies that let faults happen. A Link is one connection of
// a client and its connection to a server, with the requests that wait for their replies.
package tap

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"rollcall/zk/jute"
)

const (
	lengthSize = 4 // of the length before a frame

	// MaxLength is above the length of every frame, and below a four-letter command that is read as a length.
	MaxLength = 1 << 30

	// acceptPause is the wait after accept fails, such as for want of descriptors.
	acceptPause = 5 * time.Millisecond

	// lingerTime limits the wait for a client to close its side after the server's has been closed. Closing a socket
	// with unread input would reset the connection, and the client might lose replies that it has not read.
	lingerTime = time.Second
)

// AcceptAll passes each connection that l accepts to serve, until l is closed or ctx ends.
func AcceptAll(ctx context.Context, l net.Listener, serve func(client net.Conn)) {
	for {
		client, err := l.Accept()
		switch {
		case err == nil:
			serve(client)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-ctx.Done():
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// Handler decides what happens to the frames of a link. It may keep no frame. T is what it keeps of a request until its
// reply.
type Handler[T any] interface {
	// Request forwards a request to the server, after Expect, or lets something else happen. first is for the connect. It
	// reports whether the request is the last one of the connection.
	Request(server net.Conn, frame []byte, first bool) (last bool)
	// Reply decides on a frame of the server. note is that of the request to which it replies, or zero if it is no reply.
	Reply(frame []byte, first bool, note T) Fate
	// NoMore is called when no more frames can be read from the client, or from the server. The link ends when it returns.
	NoMore(fromServer bool, err error)
}

// Fate is what happens to a frame of the server. The zero value lets it pass.
type Fate struct {
	Delay time.Duration // it is held back, with everything that follows
	Await func() bool   // if not nil, waits after the delay until the frame may pass; if it returns false, the link ends
	Lose  bool          // the link ends in place of it, after the delay and Await
	Last  bool          // the link ends after it
}

// isHeld reports whether the frame may have to wait, so that those before it must be sent first.
func (f Fate) isHeld() bool { return f.Delay > 0 || f.Await != nil }

// Link is a connection of a client, and its connection to a server. The requests are forwarded on one goroutine and the
// replies on another one; see Run. It is safe for concurrent use.
type Link[T any] struct {
	Client net.Conn

	ended chan struct{} // closed by End

	mu       sync.Mutex
	changed  sync.Cond
	server   net.Conn // nil until Run
	hasEnded bool
	raw      bool          // the client sends no frames: bytes pass as they are
	opened   bool          // the reply to the connect has arrived
	waiting  []expected[T] // for their replies, in the order in which they were sent; the server's limits bound them
}

// expected is a request that waits for its reply.
type expected[T any] struct {
	xid  int32
	note T
}

// New returns the link of a client.
func New[T any](client net.Conn) *Link[T] {
	l := &Link[T]{Client: client, ended: make(chan struct{})}
	l.changed.L = &l.mu
	return l
}

// Run forwards requests and replies as h decides, until one side closes its connection, or a frame is the last one or
// longer than maxFrame. Then it ends the link, waits until the client has closed its side, for a second at most, and
// closes both connections. If the link has ended before, it only closes them.
func (l *Link[T]) Run(server net.Conn, maxFrame int, h Handler[T]) {
	defer func() { _ = l.Client.Close() }()
	if !l.connected(server) {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		if l.forwardRequests(server, maxFrame, h) {
			l.End()
		}
	})
	h.NoMore(true, l.forwardReplies(server, maxFrame, h))
	l.End()
	half, ok := l.Client.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		_ = l.Client.Close()
	}
	_ = l.Client.SetReadDeadline(time.Now().Add(lingerTime)) // if it fails, so will the read
	requests.Wait()
	_, _ = io.Copy(io.Discard, l.Client) // until the client has closed its side
}

// forwardRequests reads the client's requests until it closes the connection, or the link ends. It reports whether the
// link must end now.
func (l *Link[T]) forwardRequests(server net.Conn, maxFrame int, h Handler[T]) (end bool) {
	in := bufio.NewReader(l.Client)
	if isCommand, end := l.forwardCommand(in, server); isCommand {
		return end
	}
	var buffer []byte
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			h.NoMore(false, err)
			return true
		}
		buffer = frame
		if h.Request(server, frame, first) || first && !l.awaitOpened() {
			return true
		}
	}
}

// forwardReplies reads what the server sends until it closes the connection, or the link must end. It returns the error
// of the server's connection.
func (l *Link[T]) forwardReplies(server net.Conn, maxFrame int, h Handler[T]) error {
	in, out := bufio.NewReader(server), bufio.NewWriter(l.Client)
	defer func() { _ = out.Flush() }() // if it fails, the client is gone
	if l.forwardAnswer(in) {
		return nil
	}
	var buffer []byte
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			return err
		}
		buffer = frame
		fate := h.Reply(frame, first, l.noteOf(frame, first))
		if fate.isHeld() && (out.Flush() != nil || !l.holdBack(fate)) || fate.Lose {
			return nil
		}
		if jute.WriteFrame(out, frame) != nil || !holdsFrame(in) && out.Flush() != nil || fate.Last {
			return nil
		}
		l.noteReplied(frame, first)
	}
}

// holdBack waits as the fate of a frame says. It returns false if the link ends first.
func (l *Link[T]) holdBack(f Fate) bool {
	return (f.Delay <= 0 || l.Hold(f.Delay)) && (f.Await == nil || f.Await())
}

// holdsFrame reports whether a whole frame is in the buffer.
func holdsFrame(in *bufio.Reader) bool {
	if in.Buffered() < lengthSize {
		return false
	}
	b, err := in.Peek(lengthSize)
	return err == nil && in.Buffered() >= lengthSize+int(binary.BigEndian.Uint32(b))
}

// connected notes the connection to the server. It returns false if the link has ended meanwhile.
func (l *Link[T]) connected(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// End closes the connection to the server. Run then closes the client's. It may be called more than once.
func (l *Link[T]) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		return
	}
	l.hasEnded = true
	close(l.ended)
	l.changed.Broadcast()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// Ended is closed when the link has ended.
func (l *Link[T]) Ended() <-chan struct{} { return l.ended }

// Hold waits for d, or returns false if the link ends first.
func (l *Link[T]) Hold(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// forwardCommand reports whether the client's first bytes are no frame, but a four-letter command. If so, it forwards
// all that the client sends, and end is true if that failed. A client that has sent its last byte may still wait for a
// reply.
func (l *Link[T]) forwardCommand(in *bufio.Reader, server net.Conn) (isCommand, end bool) {
	if length, err := in.Peek(lengthSize); err != nil || binary.BigEndian.Uint32(length) <= MaxLength {
		return false, false
	}
	l.mu.Lock()
	l.raw = true
	l.mu.Unlock()
	_, err := io.Copy(server, in)
	return true, err != nil
}

// forwardAnswer waits for the server's first byte. If the client has sent a command, or the server has closed the
// connection, it forwards all that the server sends, and returns true.
func (l *Link[T]) forwardAnswer(in *bufio.Reader) (isAnswer bool) {
	if _, err := in.Peek(1); err != nil {
		return true
	}
	l.mu.Lock()
	raw := l.raw
	l.mu.Unlock()
	if raw {
		_, _ = io.Copy(l.Client, in)
	}
	return raw
}

// Expect notes a request before it is forwarded. Its xid is 0 for a connect.
func (l *Link[T]) Expect(xid int32, note T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, expected[T]{xid, note})
}

// noteOf returns the note on the request that a frame of the server replies to, or zero if it is none's. first is for the
// reply to the connect.
func (l *Link[T]) noteOf(frame []byte, first bool) (note T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.indexOf(frame, first); i >= 0 {
		return l.waiting[i].note
	}
	return note
}

// noteReplied notes that a frame of the server is on its way to the client.
func (l *Link[T]) noteReplied(frame []byte, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.indexOf(frame, first); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.opened = l.opened || first
	l.changed.Broadcast()
}

// indexOf returns the index of the request that a frame of the server replies to, or -1 if it is none's. The lock is
// held.
func (l *Link[T]) indexOf(frame []byte, first bool) int {
	if first {
		return min(len(l.waiting), 1) - 1
	}
	var header jute.ReplyHeader
	d := jute.NewDecoder(frame)
	header.Decode(&d)
	if d.Err() != nil || header.Xid == jute.XidNotification {
		return -1
	}
	return slices.IndexFunc(l.waiting, func(r expected[T]) bool { return r.xid == header.Xid })
}

// AwaitReplies waits until every request has got its reply, or the link has ended.
func (l *Link[T]) AwaitReplies() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && len(l.waiting) > 0 {
		l.changed.Wait()
	}
}

// awaitOpened waits for the reply to the connect. It returns false if the link ends first.
func (l *Link[T]) awaitOpened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && !l.opened {
		l.changed.Wait()
	}
	return l.opened
}
