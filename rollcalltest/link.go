package rollcalltest

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync/atomic"

	"rollcall/lab/proxy/tap"
	"rollcall/zk/jute"
)

const (
	lengthSize = 4 // of the length before a frame

	// maxFrame is far longer than every frame, and less than a four-letter command read as a length.
	maxFrame = 1 << 30
)

// link is one connection of a client, and its connection to the server. What it keeps of a request is the verdict.
type link struct {
	*tap.Link[Verdict]
	proxy   *proxy
	session atomic.Int64 // 0 before the reply to the connect
}

func newLink(p *proxy, client net.Conn) *link {
	return &link{Link: tap.New[Verdict](client), proxy: p}
}

// forwardAll forwards requests and replies until one side closes its connection or a fault breaks it.
func (l *link) forwardAll() {
	defer func() { _ = l.Client.Close() }()
	server, err := l.proxy.network.Dial(l.proxy.ctx, clientsHost, l.proxy.address)
	if err != nil {
		return
	}
	l.Run(server, func() bool { return l.forwardRequests(server) }, func() { l.forwardReplies(server) })
}

// forwardRequests reads the client's requests until it closes the connection, or the link ends. It reports whether the
// link must end now.
func (l *link) forwardRequests(server net.Conn) (end bool) {
	in := bufio.NewReader(l.Client)
	if isCommand, end := l.ForwardCommand(in, server); isCommand {
		return end
	}
	var buffer []byte
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			return true
		}
		buffer = frame
		verdict, xid := l.judgeRequest(frame, first)
		if verdict.LoseRequest {
			l.AwaitReplies()
			return true
		}
		l.Expect(xid, verdict)
		if jute.WriteFrame(server, frame) != nil {
			return true
		}
		switch {
		case verdict.LoseReply:
			<-l.Ended() // no later request may be carried out
			return true
		case first && !l.AwaitOpened():
			return true
		}
	}
}

// holdsFrame reports whether a whole frame is in the buffer.
func holdsFrame(in *bufio.Reader) bool {
	if in.Buffered() < lengthSize {
		return false
	}
	b, err := in.Peek(lengthSize)
	return err == nil && in.Buffered() >= lengthSize+int(binary.BigEndian.Uint32(b))
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
	header, path := tap.ParseRequest(frame)
	return l.proxy.judge.decide(Request{
		Server: l.proxy.server, Session: l.session.Load(), Op: header.Op.String(), Path: path,
	}), header.Xid
}

// forwardReplies reads what the server sends until it closes the connection, or a fault breaks it.
func (l *link) forwardReplies(server net.Conn) {
	in, out := bufio.NewReader(server), bufio.NewWriter(l.Client)
	defer func() { _ = out.Flush() }() // if it fails, the client is gone
	if l.ForwardAnswer(in) {
		return
	}
	var buffer []byte
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			return
		}
		buffer = frame
		verdict, _ := l.RequestOf(frame, first) // the zero verdict if it is no reply
		if verdict.Delay > 0 && (out.Flush() != nil || !l.Hold(verdict.Delay)) {
			return
		}
		if verdict.LoseReply {
			return
		}
		if jute.WriteFrame(out, frame) != nil {
			return
		}
		if !holdsFrame(in) && out.Flush() != nil {
			return
		}
		if first {
			l.noteOpened(frame)
		}
		l.Replied(frame, first)
	}
}

// noteOpened notes the reply to the connect.
func (l *link) noteOpened(frame []byte) {
	var connect jute.ConnectResponse
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	l.session.Store(int64(connect.SessionID))
}
