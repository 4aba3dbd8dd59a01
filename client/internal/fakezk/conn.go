package fakezk

import (
	"errors"
	"io"
	"net"

	"rollcall/zk/jute"
)

// conn is a connection of a session.
type conn struct {
	net.Conn
	server  *Server
	out     chan []byte
	session *session // nil before the handshake
	watches
	lag *lag // nil: its reads see all changes
}

// maxUnsent is the number of frames that wait to be sent. A client that leaves more of them unread stops the server.
const maxUnsent = 1 << 12

func newConn(s *Server, theirs net.Conn) *conn {
	return &conn{Conn: theirs, server: s, out: make(chan []byte, maxUnsent), watches: newWatches()}
}

// sendFrames sends what is queued, until out is closed.
func (c *conn) sendFrames() {
	for frame := range c.out {
		if err := jute.WriteFrame(c, frame); err != nil {
			_ = c.Close()
		}
	}
}

// serve handles requests until the connection ends.
func (c *conn) serve() {
	s := c.server
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = c.Close()
		if c.session != nil && c.session.link == c {
			c.session.link = nil
		}
		close(c.out)
	}()
	frame, err := jute.ReadFrame(c, nil, jute.DefaultMaxBuffer)
	if err != nil {
		return
	}
	var connect jute.ConnectRequest
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	c.out <- c.openSession(connect).Append(nil)
	for {
		frame, err := jute.ReadFrame(c, nil, jute.DefaultMaxBuffer)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.ErrUnexpectedEOF) {
				s.t.Error(err)
			}
			return
		}
		if !c.handleRequest(frame) {
			return
		}
	}
}

// openSession makes the connection that of a new session, or of the one that the client asks for. It ends an earlier
// connection of that.
func (c *conn) openSession(connect jute.ConnectRequest) jute.ConnectResponse {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sessions[connect.SessionID]
	if s.rejecting || connect.SessionID != 0 && known == nil {
		return jute.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: true}
	}
	if known == nil {
		s.lastSession++
		known = &session{id: s.lastSession}
		s.sessions[known.id] = known
	}
	if known.link != nil {
		_ = known.link.Close()
	}
	known.link, c.session = c, known
	c.lag, known.behind = known.behind, nil
	return jute.ConnectResponse{
		TimeOut: connect.TimeOut, SessionID: known.id, Passwd: make([]byte, 16), ReadOnly: s.readOnly, HasReadOnly: true,
	}
}

// handleRequest carries a request out. It reports whether the connection can have another one.
func (c *conn) handleRequest(frame []byte) bool {
	s := c.server
	var h jute.RequestHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	body := d.Rest()
	path := firstPath(h.Op, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.session == nil {
		return false // its session was rejected
	}
	if hook := s.BeforeRequest; hook != nil {
		r := Request{Session: c.session.id, Op: h.Op, Path: path}
		s.mu.Unlock()
		hook(r)
		s.mu.Lock()
	}
	if c.session.link != c {
		return false // the session has ended, or has another connection
	}
	if path != jute.HistoryPath {
		s.requests[h.Op]++
	}
	code, rec := c.executeRequest(h.Op, body)
	lost := s.OnRequest != nil && s.OnRequest(h.Op, path, s.requests[h.Op])
	if !lost {
		out := jute.ReplyHeader{Xid: h.Xid, Zxid: s.zxid, Err: code}.Append(nil)
		if code == jute.OK && rec != nil {
			out = rec.Append(out)
		}
		c.out <- out
	}
	if s.OnReply != nil {
		s.mu.Unlock()
		s.OnReply(h.Op, path)
		s.mu.Lock()
	}
	return !lost // the client closes the connection after closeSession
}

// firstPath returns the first path of a request, or what is at its place.
func firstPath(op jute.Op, body []byte) (path string) {
	if op == jute.OpMulti || op == jute.OpMultiRead {
		jute.EachMultiOp(body, func(first *jute.MultiOp) bool {
			path = string(first.Path())
			return false
		})
		return path
	}
	if d := jute.NewDecoder(body); len(body) > 4 {
		return string(d.ReadBytes())
	}
	return string(body)
}
