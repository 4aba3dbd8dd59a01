package client

import (
	"context"
	"iter"
	"net"
	"sync/atomic"
	"testing"

	"rollcall/zk/jute"
)

// replyAtOnce is a server that replies at once to every get and set: with 100 bytes, and a Stat. The replies to all
// requests of one read go out in one write.
func replyAtOnce(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var in, out []byte
	buffer := make([]byte, 256<<10)
	handshake := true
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		in, out = append(in, buffer[:n]...), out[:0]
		for {
			size := jute.NewDecoder(in)
			length := int(size.ReadInt32())
			if size.Err() != nil || len(in) < 4+length {
				break
			}
			frame := jute.NewDecoder(in[4 : 4+length])
			in = in[4+length:]
			var mark int
			out, mark = jute.BeginFrame(out)
			if handshake {
				handshake = false
				out = jute.ConnectResponse{TimeOut: 30_000, SessionID: 7, Passwd: make([]byte, 16)}.Append(out)
			} else {
				out = appendReply(out, &frame)
			}
			out = jute.EndFrame(out, mark)
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

var hundredBytes = make([]byte, 100)

func appendReply(out []byte, request *jute.Decoder) []byte {
	var header jute.RequestHeader
	header.Decode(request)
	out = jute.ReplyHeader{Xid: header.Xid, Zxid: 1}.Append(out)
	switch header.Op {
	case jute.OpGetData:
		return jute.GetDataResponse{Data: hundredBytes}.Append(out)
	case jute.OpSetData:
		return jute.Stat{}.Append(out)
	case jute.OpGetChildren2:
		return jute.GetChildren2Response{Children: hundredNames}.Append(out)
	case jute.OpCreate2:
		var request2 jute.CreateRequest
		request2.Decode(request)
		return jute.Create2Response{Path: request2.Path}.Append(out)
	}
	if header.Op == jute.OpMulti {
		for range 10 {
			out = jute.Stat{}.Append(jute.MultiHeader{Type: jute.OpSetData}.Append(out))
		}
		return jute.AppendMultiEnd(out)
	}
	return out
}

var hundredNames = func() [][]byte {
	names := make([][]byte, 100)
	for i := range names {
		names[i] = []byte("name-0000000000")
	}
	return names
}()

// dialAtOnce returns a Client of replyAtOnce on the loopback interface.
func dialAtOnce(tb testing.TB) *Client {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go replyAtOnce(conn)
		}
	}()
	c, err := Dial(context.Background(), listener.Addr().String(), Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Abandon()
		_ = listener.Close()
	})
	return c
}

func BenchmarkGet(b *testing.B) {
	c := dialAtOnce(b)
	b.ReportAllocs()
	for b.Loop() {
		if data, _, err := c.Get(b.Context(), "/bench/node"); err != nil || len(data) != 100 {
			b.Fatal(err)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	c := dialAtOnce(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Set(b.Context(), "/bench/node", hundredBytes, AnyVersion); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSessionGet and BenchmarkSessionSet are the same requests without the layer of this package.
func BenchmarkSessionGet(b *testing.B) {
	c := dialAtOnce(b)
	b.ReportAllocs()
	rec := &jute.GetDataRequest{Path: []byte("/bench/node")}
	for b.Loop() {
		var resp jute.GetDataResponse
		if _, err := c.session.Do(b.Context(), jute.OpGetData, rec, &resp); err != nil || len(resp.Data) != 100 {
			b.Fatal(err)
		}
	}
}

func BenchmarkSessionSet(b *testing.B) {
	c := dialAtOnce(b)
	b.ReportAllocs()
	rec := &jute.SetDataRequest{Path: []byte("/bench/node"), Data: hundredBytes, Version: -1}
	for b.Loop() {
		var resp jute.SetDataResponse
		if _, err := c.session.Do(b.Context(), jute.OpSetData, rec, &resp); err != nil {
			b.Fatal(err)
		}
	}
}

// pipelineWindow is the number of requests in flight of the benchmarks of a Pipeline.
const pipelineWindow = 64

// inWindow keeps pipelineWindow requests in flight until b.N have been sent. slot returns the sender of one of them,
// which calls next with the error of each reply.
func inWindow(b *testing.B, slot func(next func(error)) (send func() error)) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	ended := make(chan error, pipelineWindow)
	for range pipelineWindow {
		var send func() error
		next := func(err error) {
			if err == nil && left.Add(-1) >= 0 {
				if err = send(); err == nil {
					return
				}
			}
			ended <- err
		}
		send = slot(next)
		next(nil)
	}
	for range pipelineWindow {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// These measure requests of a Pipeline, pipelineWindow of them in flight. They need no memory but for the names of
// children.
func BenchmarkPipelineGet(b *testing.B) {
	p := dialAtOnce(b).Pipeline()
	inWindow(b, func(next func(error)) func() error {
		done := func(_ []byte, _ Stat, err error) { next(err) }
		return func() error { return p.Get(context.Background(), "/bench/node", done) }
	})
}

func BenchmarkPipelineSet(b *testing.B) {
	p := dialAtOnce(b).Pipeline()
	inWindow(b, func(next func(error)) func() error {
		done := func(_ Stat, err error) { next(err) }
		return func() error { return p.Set(context.Background(), "/bench/node", hundredBytes, AnyVersion, done) }
	})
}

func BenchmarkPipelineCreate(b *testing.B) {
	p := dialAtOnce(b).Pipeline()
	inWindow(b, func(next func(error)) func() error {
		done := func(_ string, _ Stat, err error) { next(err) }
		return func() error { return p.Create(context.Background(), "/bench/node", hundredBytes, Persistent, done) }
	})
}

func BenchmarkPipelineChildren(b *testing.B) {
	p := dialAtOnce(b).Pipeline()
	inWindow(b, func(next func(error)) func() error {
		done := func(_ []string, _ Stat, err error) { next(err) }
		return func() error { return p.Children(context.Background(), "/bench", done) }
	})
}

func BenchmarkPipelineEachChild(b *testing.B) {
	p := dialAtOnce(b).Pipeline()
	inWindow(b, func(next func(error)) func() error {
		done := func(_ iter.Seq2[[]byte, error], _ Stat, err error) { next(err) }
		return func() error { return p.EachChild(context.Background(), "/bench", done) }
	})
}

func BenchmarkPipelineMulti(b *testing.B) {
	p := dialAtOnce(b).Pipeline()
	inWindow(b, func(next func(error)) func() error {
		done := func(_ []Result, err error) { next(err) }
		ops := make([]Operation, 10)
		for i := range ops {
			ops[i] = SetOp("/bench/node", hundredBytes, AnyVersion)
		}
		return func() error { return p.Multi(context.Background(), ops, done) }
	})
}
