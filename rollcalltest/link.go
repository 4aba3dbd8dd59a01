package rollcalltest

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

	// maxFrame is far longer than every frame, and less than a four-letter command read as a length.
	maxFrame = 1 << 30

	// lingerTime limits the wait for a client to close its side after the server's has been closed. Closing a socket
	// with unread input would reset the connection, and the client might lose replies that it has not read.
	lingerTime = time.Second
)

// link is one connection of a client, and its connection to the server. One goroutine forwards the requests, and
// another one the replies.
type link struct {
	proxy  *proxy
	client net.Conn
	ended  chan struct{} // closed by end

	mu       sync.Mutex
	changed  sync.Cond
	member   net.Conn // nil until it is connected
	hasEnded bool
	raw      bool // the client sends no frames: bytes pass as they are
	opened   bool // the reply to the connect has arrived
	session  int64
	waiting  []sentRequest // for their replies, in the order in which they were sent; the pipe's size limits them
}

// sentRequest is a request that waits for its reply.
type sentRequest struct {
	xid     int32
	verdict Verdict
}

func newLink(p *proxy, client net.Conn) *link {
	l := &link{proxy: p, client: client, ended: make(chan struct{})}
	l.changed.L = &l.mu
	return l
}

// run forwards requests and replies until one side closes its connection or a fault breaks it.
func (l *link) run() {
	defer func() { _ = l.client.Close() }()
	member, err := l.proxy.network.Dial(l.proxy.ctx, clientsHost, l.proxy.address)
	if err != nil || !l.connected(member) {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		if l.forwardRequests(member) {
			l.end()
		}
	})
	l.forwardReplies(member)
	l.end()
	half, ok := l.client.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		_ = l.client.Close()
	}
	_ = l.client.SetReadDeadline(time.Now().Add(lingerTime)) // if it fails, so will the read
	requests.Wait()
	_, _ = io.Copy(io.Discard, l.client) // until the client has closed its side
}

// connected notes the connection to the server. It returns false if the link has ended meanwhile.
func (l *link) connected(member net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		_ = member.Close()
		return false
	}
	l.member = member
	return true
}

// end closes the connection to the server. The goroutine of the replies then closes the client's. It may be called
// more than once.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		return
	}
	l.hasEnded = true
	close(l.ended)
	l.changed.Broadcast()
	if l.member != nil {
		_ = l.member.Close()
	}
}

func (l *link) sessionID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// forwardRequests reads the client's requests until it closes the connection, or the link ends. It reports whether the
// link must end now.
func (l *link) forwardRequests(member net.Conn) (end bool) {
	in := bufio.NewReader(l.client)
	var buffer []byte
	for first := true; ; first = false {
		if first && sendsCommand(in) {
			l.setRaw()
			_, err := io.Copy(member, in)
			return err != nil // a client that has sent its last byte may still wait for a reply
		}
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			return true
		}
		verdict, xid := l.judgeRequest(frame, first)
		if verdict.LoseRequest {
			l.awaitReplies()
			return true
		}
		l.expectReply(sentRequest{xid, verdict})
		if buffer, err = writeFrame(member, frame); err != nil {
			return true
		}
		switch {
		case verdict.LoseReply:
			<-l.ended // no later request may be carried out
			return true
		case first && !l.awaitOpened():
			return true
		}
	}
}

// sendsCommand reports whether the client's first bytes are no frame, but a four-letter command.
func sendsCommand(in *bufio.Reader) bool {
	b, err := in.Peek(lengthSize)
	return err == nil && binary.BigEndian.Uint32(b) > maxFrame
}

// holdsFrame reports whether a whole frame is in the buffer.
func holdsFrame(in *bufio.Reader) bool {
	if in.Buffered() < lengthSize {
		return false
	}
	b, err := in.Peek(lengthSize)
	return err == nil && in.Buffered() >= lengthSize+int(binary.BigEndian.Uint32(b))
}

// writeFrame writes a frame and returns its memory for the next one.
func writeFrame(to io.Writer, frame []byte) ([]byte, error) {
	whole := make([]byte, 0, lengthSize+len(frame))
	whole = binary.BigEndian.AppendUint32(whole, uint32(len(frame)))
	_, err := to.Write(append(whole, frame...))
	return frame, err
}

// judgeRequest returns the verdict on a request, and its xid.
func (l *link) judgeRequest(frame []byte, first bool) (Verdict, int32) {
	if first {
		var connect jute.ConnectRequest
		d := jute.NewDecoder(frame)
		connect.Decode(&d) // a broken one is the server's to reject
		return l.proxy.judge.decide(Request{
			Server: l.proxy.server, Session: int64(connect.SessionID), Op: OpConnect,
		}), 0
	}
	header, path := parseRequest(frame)
	return l.proxy.judge.decide(Request{
		Server: l.proxy.server, Session: l.sessionID(), Op: header.Op.String(), Path: path,
	}), header.Xid
}

func (l *link) setRaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw = true
}

func (l *link) isRaw() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.raw
}

func (l *link) expectReply(r sentRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, r)
}

// awaitReplies waits until every request has got its reply, or the link has ended.
func (l *link) awaitReplies() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && len(l.waiting) > 0 {
		l.changed.Wait()
	}
}

// awaitOpened waits for the reply to the connect. It returns false if the link ends first.
func (l *link) awaitOpened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && !l.opened {
		l.changed.Wait()
	}
	return l.opened
}

// forwardReplies reads what the server sends until it closes the connection, or a fault breaks it.
func (l *link) forwardReplies(member net.Conn) {
	in, out := bufio.NewReader(member), bufio.NewWriter(l.client)
	defer func() { _ = out.Flush() }() // if it fails, the client is gone
	if _, err := in.Peek(1); err != nil {
		return
	}
	if l.isRaw() {
		_, _ = io.Copy(l.client, in)
		return
	}
	var buffer []byte
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			return
		}
		buffer = frame
		verdict := l.verdictOn(frame, first)
		if verdict.Delay > 0 && (out.Flush() != nil || !l.pause(verdict.Delay)) {
			return
		}
		if verdict.LoseReply {
			return
		}
		if _, err := writeFrame(out, frame); err != nil {
			return
		}
		if !holdsFrame(in) && out.Flush() != nil {
			return
		}
		l.noteReply(frame, first)
	}
}

// pause waits for d, or returns false if the link ends first.
func (l *link) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// replyIndex returns the index of the request that a frame of the server replies to, or -1 if it is none's. The lock is
// held.
func (l *link) replyIndex(frame []byte, first bool) int {
	if first {
		return len(l.waiting[:min(len(l.waiting), 1)]) - 1
	}
	var header jute.ReplyHeader
	d := jute.NewDecoder(frame)
	header.Decode(&d)
	if d.Err() != nil || header.Xid == jute.XidNotification {
		return -1
	}
	return slices.IndexFunc(l.waiting, func(r sentRequest) bool { return r.xid == header.Xid })
}

// verdictOn returns the verdict on the request that a frame of the server replies to.
func (l *link) verdictOn(frame []byte, first bool) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.replyIndex(frame, first); i >= 0 {
		return l.waiting[i].verdict
	}
	return Verdict{}
}

// noteReply notes that a frame of the server is on its way to the client.
func (l *link) noteReply(frame []byte, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.replyIndex(frame, first); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	if first {
		var connect jute.ConnectResponse
		d := jute.NewDecoder(frame)
		connect.Decode(&d)
		l.opened, l.session = true, int64(connect.SessionID)
	}
	l.changed.Broadcast()
}
