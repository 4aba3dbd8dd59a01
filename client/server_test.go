package client

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// scriptedServer is a server on a pipe, whose replies a test writes.
type scriptedServer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// sentRequest is a request that a scriptedServer has got.
type sentRequest struct {
	jute.RequestHeader
	record []byte
}

// dialScripted dials a Client, and returns the server of its connection. Call it in a bubble of synctest.
func dialScripted(t *testing.T, servers string, cfg Config) (*Client, *scriptedServer) {
	t.Helper()
	accepted := make(chan *scriptedServer, 1)
	_, chroot, _ := session.ParseServers(servers, DefaultPort)
	var dialed atomic.Bool
	cfg.DialConn = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		s := &scriptedServer{t: t, conn: theirs, in: bufio.NewReader(theirs)}
		go func() {
			if _, err := jute.ReadFrame(s.in, nil, 1<<20); err != nil {
				return
			}
			if err := jute.WriteFrame(theirs, jute.ConnectResponse{TimeOut: 30_000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil)); err != nil {
				return // the client is closed before its next connection stands
			}
			if !dialed.Swap(true) && chroot != "" {
				s.reply(s.next(), jute.OK, jute.Stat{}) // Dial asks whether it exists
			}
			accepted <- s
		}()
		return ours, nil
	}
	c, err := Dial(t.Context(), servers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c, <-accepted
}

func (s *scriptedServer) write(frame []byte) {
	if err := jute.WriteFrame(s.conn, frame); err != nil {
		s.t.Error(err)
	}
}

// next returns the next request.
func (s *scriptedServer) next() sentRequest {
	frame, err := jute.ReadFrame(s.in, nil, 1<<20)
	if err != nil {
		s.t.Error(err)
		return sentRequest{}
	}
	d := jute.NewDecoder(frame)
	var r sentRequest
	r.Decode(&d)
	r.record = d.Rest()
	return r
}

// appender is a record of a reply.
type appender interface{ Append(b []byte) []byte }

// reply replies to a request. record may be nil.
func (s *scriptedServer) reply(r sentRequest, code jute.Code, record appender) {
	frame := jute.ReplyHeader{Xid: r.Xid, Zxid: 5, Err: code}.Append(nil)
	if record != nil {
		frame = record.Append(frame)
	}
	s.write(frame)
}

// event sends an event of a node.
func (s *scriptedServer) event(kind jute.EventType, path string, zxid int64) {
	frame := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}.Append(nil)
	s.write(jute.WatcherEvent{Type: kind, State: jute.StateSyncConnected, Path: []byte(path)}.Append(frame))
}
