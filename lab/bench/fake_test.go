package bench

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// fakeServer replies to every request with success, in order, and each after delay, unless its fields
// say otherwise. The first connection, which a run keeps for itself, never stalls or breaks.
type fakeServer struct {
	delay     time.Duration
	startedAt time.Time
	// Between these two times, counted from startedAt, no request gets a reply.
	stallFrom, stallUntil time.Duration
	code                  jute.Code     // the result of getData
	drop                  time.Duration // when connections break, since startedAt; 0: never
	conns                 atomic.Int64  // that sent something
	resumes               atomic.Int64  // connections that resume a session
	resume                time.Duration // delay of each reply
	expired               atomic.Int64  // a session that cannot be resumed
	gets                  atomic.Int64
	serving               sync.WaitGroup
}

func (f *fakeServer) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	f.serving.Go(func() { f.serve(theirs) })
	return ours, nil
}

func (f *fakeServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	frame, err := jute.ReadFrame(r, nil, 1<<20)
	if err != nil {
		return // it only saw that something listens
	}
	n := f.conns.Add(1)
	if left := f.drop - time.Since(f.startedAt); n > 1 && left > 0 {
		timer := time.AfterFunc(left, func() { _ = c.Close() })
		defer timer.Stop()
	}
	var connect jute.ConnectRequest
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	id := connect.SessionID
	if id == 0 {
		id = jute.SessionID(n)
	} else {
		f.resumes.Add(1)
		time.Sleep(f.resume)
		if id == jute.SessionID(f.expired.Load()) {
			id = 0
		}
	}
	hello := jute.ConnectResponse{TimeOut: connect.TimeOut, SessionID: id, Passwd: make([]byte, 16)}
	if jute.WriteFrame(c, hello.Append(nil)) != nil {
		return
	}
	for zxid := int64(1); ; zxid++ {
		if frame, err = jute.ReadFrame(r, frame, 1<<20); err != nil {
			return
		}
		time.Sleep(f.delay)
		if at := time.Since(f.startedAt); n > 1 && at >= f.stallFrom && at < f.stallUntil {
			time.Sleep(f.stallUntil - at)
		}
		if jute.WriteFrame(c, f.handleRequest(frame, zxid)) != nil {
			return
		}
	}
}

func (f *fakeServer) handleRequest(frame []byte, zxid int64) []byte {
	var h jute.RequestHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	reply := jute.ReplyHeader{Xid: h.Xid, Zxid: zxid}
	switch h.Op {
	case jute.OpGetData:
		f.gets.Add(1)
		reply.Err = f.code
		if f.code == jute.OK {
			return jute.GetDataResponse{Data: make([]byte, 100)}.Append(reply.Append(nil))
		}
	case jute.OpSetData:
		return jute.SetDataResponse{}.Append(reply.Append(nil))
	case jute.OpCreate2:
		return jute.Create2Response{Path: []byte("/x")}.Append(reply.Append(nil))
	case jute.OpMulti:
		ops, _ := jute.DecodeMulti(&d, nil)
		b := reply.Append(nil)
		for _, op := range ops {
			b = jute.MultiHeader{Type: op.Op}.Append(b)
			switch op.Op {
			case jute.OpCreate2:
				b = jute.Create2Response{Path: []byte("/x")}.Append(b)
			case jute.OpSetData:
				b = jute.SetDataResponse{}.Append(b)
			}
		}
		return jute.AppendMultiEnd(b)
	}
	return reply.Append(nil)
}

// runCase runs a case against the fake. It uses virtual time, so it must be called in a synctest
// bubble.
func (f *fakeServer) runCase(t *testing.T, text string, base Params) Result {
	t.Helper()
	p, err := ParseCase(text, base)
	if err != nil {
		t.Fatal(err)
	}
	f.startedAt = time.Now()
	r, err := Run(t.Context(), Config{
		Target: Target{Servers: []string{"fake:1"}, Dial: f.dial}, Params: p, sleep: time.Sleep,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.serving.Wait()
	return r
}
