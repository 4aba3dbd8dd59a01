package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"rollcall/jute"
)

// answer plays a server that answers every request at once: a setData with a Stat, all that
// one read returned in one write.
func answer(conn net.Conn) {
	defer conn.Close()
	in := make([]byte, 256<<10)
	var out []byte
	r, w := 0, 0
	first := true
	for {
		n, err := conn.Read(in[w:])
		if err != nil {
			return
		}
		w += n
		out = out[:0]
		for w-r >= 4 {
			size := int(binary.BigEndian.Uint32(in[r:]))
			if w-r < 4+size {
				break
			}
			frame := in[r+4 : r+4+size]
			r += 4 + size
			var mark int
			out, mark = jute.BeginFrame(out)
			if first {
				first = false
				out = jute.ConnectResponse{TimeOut: 30000, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true}.Append(out)
			} else {
				d := jute.NewDecoder(frame)
				var h jute.RequestHeader
				h.Decode(&d)
				out = jute.ReplyHeader{Xid: h.Xid, Zxid: 1}.Append(out)
				if h.Op == jute.OpSetData {
					out = jute.Stat{}.Append(out)
				}
			}
			out = jute.EndFrame(out, mark)
		}
		w = copy(in, in[r:w])
		r = 0
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// openLoopback opens a Client at a server on the loopback that answers at once.
func openLoopback(tb testing.TB) *Client {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	c, err := Open(context.Background(), Config{Servers: []string{ln.Addr().String()}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Abandon()
		_ = ln.Close()
	})
	return c
}

// A request's whole way, with so many in flight: whoever is answered sends the next.
func BenchmarkGo(b *testing.B) {
	for _, window := range []int{1, 64} {
		b.Run(fmt.Sprintf("inflight=%d", window), func(b *testing.B) {
			c := openLoopback(b)
			rec := &jute.SetDataRequest{Path: []byte("/bench/node"), Data: make([]byte, 100), Version: -1}
			ctx := context.Background()
			left, under := b.N, 0
			done := make(chan error, 1)
			var next func(Reply, error)
			next = func(r Reply, err error) {
				under--
				if err != nil {
					done <- err
					return
				}
				if left > 0 {
					left--
					under++
					err = c.Go(ctx, jute.OpSetData, rec, next)
				}
				if err != nil || under == 0 {
					done <- err
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			// The first reply sends the others: all that follows runs on the reader.
			start := func(Reply, error) {
				under = min(window, left)
				for range under {
					left--
					_ = c.Go(ctx, jute.OpSetData, rec, next)
				}
			}
			if err := c.Go(ctx, jute.OpSync, jute.SyncRequest{}, start); err != nil {
				b.Fatal(err)
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// One caller that waits for each reply.
func BenchmarkDo(b *testing.B) {
	c := openLoopback(b)
	rec := &jute.SetDataRequest{Path: []byte("/bench/node"), Data: make([]byte, 100), Version: -1}
	var resp jute.SetDataResponse
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(context.Background(), jute.OpSetData, rec, &resp); err != nil {
			b.Fatal(err)
		}
	}
}
