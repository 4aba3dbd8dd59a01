// Package wire speaks ZooKeeper's client protocol frame by frame, for tests that check exactly what
// a server sends and when. It is not a client: it does not keep a session alive, reconnect or hide
// anything.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"rollcall/zk/jute"
)

// maxFrame is the longest frame that a test reads: a full list of 10,000 long names.
const maxFrame = 16 << 20

// Record is the body of a request or reply.
type Record interface {
	Append(b []byte) []byte
}

// Readable is a record that can be read from a reply.
type Readable interface {
	Decode(d *jute.Decoder)
}

// Conn is one connection. It is not safe for concurrent use, except that one goroutine may write
// while another one reads.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// New returns a Conn on an open connection.
func New(c net.Conn) *Conn { return &Conn{Conn: c, r: bufio.NewReader(c)} }

// Reply is one frame from the server: a reply or, with Xid -1, an event.
type Reply struct {
	jute.ReplyHeader
	Body []byte
}

// Event decodes a notification.
func (r Reply) Event() jute.WatcherEvent {
	var e jute.WatcherEvent
	d := jute.NewDecoder(r.Body)
	e.Decode(&d)
	return e
}

// Into decodes the body.
func (r Reply) Into(rec Readable) error {
	d := jute.NewDecoder(r.Body)
	rec.Decode(&d)
	return d.Err()
}

// String returns a short description for failure messages.
func (r Reply) String() string {
	if r.Xid == jute.XidNotification {
		e := r.Event()
		return fmt.Sprintf("event %v(%s) zxid %#x", e.Type, e.Path, r.Zxid)
	}
	return fmt.Sprintf("reply xid %d zxid %#x err %d, %d bytes", r.Xid, r.Zxid, r.Err, len(r.Body))
}

// Handshake sends a ConnectRequest and reads the answer.
func (c *Conn) Handshake(req jute.ConnectRequest) (jute.ConnectResponse, error) {
	if err := jute.WriteFrame(c.Conn, req.Append(nil)); err != nil {
		return jute.ConnectResponse{}, err
	}
	return c.ReadConnect()
}

// ReadConnect reads a ConnectResponse.
func (c *Conn) ReadConnect() (jute.ConnectResponse, error) {
	var resp jute.ConnectResponse
	frame, err := jute.ReadFrame(c.r, nil, maxFrame)
	if err != nil {
		return resp, err
	}
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	return resp, d.Err()
}

// Open does the handshake for a new session.
func (c *Conn) Open(timeout time.Duration) (jute.ConnectResponse, error) {
	return c.Handshake(jute.ConnectRequest{TimeOut: int32(timeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true})
}

// Resume does the handshake for an existing session.
func (c *Conn) Resume(s jute.ConnectResponse, zxid int64) (jute.ConnectResponse, error) {
	return c.Handshake(jute.ConnectRequest{
		LastZxidSeen: zxid, TimeOut: s.TimeOut, SessionID: s.SessionID, Passwd: s.Passwd, HasReadOnly: true,
	})
}

// Frame returns the body of a request's frame: header and record, without a record if rec is nil.
func Frame(xid int32, op jute.Op, rec Record) []byte {
	b := jute.RequestHeader{Xid: xid, Op: op}.Append(nil)
	if rec != nil {
		b = rec.Append(b)
	}
	return b
}

// Send writes one request.
func (c *Conn) Send(xid int32, op jute.Op, rec Record) error {
	return jute.WriteFrame(c.Conn, Frame(xid, op, rec))
}

// Recv reads one frame, reply or event.
func (c *Conn) Recv() (Reply, error) {
	frame, err := jute.ReadFrame(c.r, nil, maxFrame)
	if err != nil {
		return Reply{}, err
	}
	d := jute.NewDecoder(frame)
	var r Reply
	r.ReplyHeader.Decode(&d)
	r.Body = d.Rest()
	return r, d.Err()
}

// Call sends a request and reads until its reply. It returns the reply and the events that came
// before it.
func (c *Conn) Call(xid int32, op jute.Op, rec Record) (Reply, []jute.WatcherEvent, error) {
	if err := c.Send(xid, op, rec); err != nil {
		return Reply{}, nil, err
	}
	var events []jute.WatcherEvent
	for {
		r, err := c.Recv()
		switch {
		case err != nil:
			return r, events, err
		case r.Xid == jute.XidNotification && xid != jute.XidNotification:
			events = append(events, r.Event())
		case r.Xid != xid:
			return r, events, fmt.Errorf("wire: reply to xid %d while waiting for %d", r.Xid, xid)
		default:
			return r, events, nil
		}
	}
}

// Closed returns nil if the server closes the connection within limit and sends nothing before. It
// returns an error if a byte arrives or the connection stays open.
func (c *Conn) Closed(limit time.Duration) error {
	_ = c.SetReadDeadline(time.Now().Add(limit)) // fails only on a closed connection
	b, err := c.r.ReadByte()
	switch {
	case err == nil:
		return fmt.Errorf("wire: byte %#x instead of the end of the connection", b)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return nil
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("wire: connection still open after %v", limit)
	}
	return nil // the connection was reset
}
