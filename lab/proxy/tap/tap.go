// Package tap stands between clients and their servers, for proxies that let faults happen. A Link is one connection of
// a client and its connection to a server, with the requests that wait for their replies.
package tap

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"rollcall/zk/jute"
)

const (
	lengthSize = 4 // of the length before a frame

	// maxLength is above the length of every frame, and below a four-letter command that is read as a length.
	maxLength = 1 << 30

	// lingerTime limits the wait for a client to close its side after the server's has been closed. Closing a socket
	// with unread input would reset the connection, and the client might lose replies that it has not read.
	lingerTime = time.Second
)

// Link is a connection of a client, and its connection to a server. A proxy forwards the requests on one goroutine and
// the replies on another one; see Run. T is what the proxy keeps of a request until its reply. It is safe for concurrent
// use.
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

// Run calls forwardRequests and forwardReplies at the same time. When the replies have ended, or forwardRequests returns
// true, it ends the link. Then it waits until the client has closed its side, for a second at most, and closes both
// connections. If the link has ended before, it only closes them.
func (l *Link[T]) Run(server net.Conn, forwardRequests func() (end bool), forwardReplies func()) {
	defer func() { _ = l.Client.Close() }()
	if !l.connected(server) {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		if forwardRequests() {
			l.End()
		}
	})
	forwardReplies()
	l.End()
	half, ok := l.Client.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		_ = l.Client.Close()
	}
	_ = l.Client.SetReadDeadline(time.Now().Add(lingerTime)) // if it fails, so will the read
	requests.Wait()
	_, _ = io.Copy(io.Discard, l.Client) // until the client has closed its side
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

// ForwardCommand reports whether the client's first bytes are no frame, but a four-letter command. If so, it forwards
// all that the client sends, and end is true if that failed. A client that has sent its last byte may still wait for a
// reply.
func (l *Link[T]) ForwardCommand(in *bufio.Reader, server net.Conn) (isCommand, end bool) {
	if length, err := in.Peek(lengthSize); err != nil || binary.BigEndian.Uint32(length) <= maxLength {
		return false, false
	}
	l.mu.Lock()
	l.raw = true
	l.mu.Unlock()
	_, err := io.Copy(server, in)
	return true, err != nil
}

// ForwardAnswer waits for the server's first byte. If the client has sent a command, or the server has closed the
// connection, it forwards all that the server sends, and returns true.
func (l *Link[T]) ForwardAnswer(in *bufio.Reader) (isAnswer bool) {
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

// RequestOf returns the note on the request that a frame of the server replies to, or false if it is none's. first is
// for the reply to the connect.
func (l *Link[T]) RequestOf(frame []byte, first bool) (note T, isReply bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.indexOf(frame, first); i >= 0 {
		return l.waiting[i].note, true
	}
	return note, false
}

// Replied notes that a frame of the server is on its way to the client.
func (l *Link[T]) Replied(frame []byte, first bool) {
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

// AwaitOpened waits for the reply to the connect. It returns false if the link ends first.
func (l *Link[T]) AwaitOpened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && !l.opened {
		l.changed.Wait()
	}
	return l.opened
}
