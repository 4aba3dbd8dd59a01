package session

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"rollcall/zk/jute"
)

// answer is a server that replies to every request immediately. A setData gets a Stat. The replies to
// all requests of one read go out in one write.
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

// openLoopback opens a Session to a server on the loopback interface that replies to every request immediately.
func openLoopback(tb testing.TB, cfg Config) *Session {
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
	cfg.Servers = []string{ln.Addr().String()}
	c, err := Open(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Abandon()
		_ = ln.Close()
	})
	return c
}

// BenchmarkGo measures a request's round trip over the loopback interface to a server that only replies. It does so for
// several numbers of connections, and of requests in flight on each. Each reply triggers the next request. On two cores,
// half of the cost is the server's.
func BenchmarkGo(b *testing.B) {
	for _, load := range []struct{ conns, window int }{{1, 1}, {1, 64}, {64, 1}, {8, 64}} {
		b.Run(fmt.Sprintf("conns=%d/inflight=%d", load.conns, load.window), func(b *testing.B) {
			clients := make([]*Session, load.conns)
			for i := range clients {
				clients[i] = openLoopback(b, Config{})
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			ended := make(chan error, load.conns)
			b.ReportAllocs()
			b.ResetTimer()
			for _, c := range clients {
				closedLoop(c, load.window, &left, ended)
			}
			for range clients {
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// closedLoop sends requests until left is used up, and keeps window of them in flight. After the
// last reply it sends that reply's error to ended.
func closedLoop(c *Session, window int, left *atomic.Int64, ended chan<- error) {
	rec := &jute.SetDataRequest{Path: []byte("/bench/node"), Data: make([]byte, 100), Version: -1}
	ctx := context.Background()
	under := 1 // requests in flight; the first is the sync below
	var next func(Reply, error)
	send := func() {
		if left.Add(-1) < 0 {
			return
		}
		under++
		if err := c.Go(ctx, jute.OpSetData, rec, next); err != nil {
			panic(err)
		}
	}
	next = func(_ Reply, err error) {
		under--
		if err == nil {
			send()
		}
		if under == 0 {
			ended <- err
		}
	}
	if err := c.Go(ctx, jute.OpSync, jute.SyncRequest{}, func(r Reply, err error) {
		for range window - 1 {
			send()
		}
		next(r, err)
	}); err != nil {
		panic(err)
	}
}

// BenchmarkDo measures one caller that waits for each reply.
func BenchmarkDo(b *testing.B) {
	c := openLoopback(b, Config{})
	rec := &jute.SetDataRequest{Path: []byte("/bench/node"), Data: make([]byte, 100), Version: -1}
	var resp jute.SetDataResponse
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Do(context.Background(), jute.OpSetData, rec, &resp); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdle measures the memory and the goroutines of a session that only pings, without the
// server's.
func BenchmarkIdle(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go func() { // replies to handshakes, without a goroutine per connection
		in := make([]byte, 256)
		hello := appendFrame(jute.ConnectResponse{TimeOut: 30000, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true})
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(in)
			_, _ = conn.Write(hello)
			defer conn.Close()
		}
	}()
	const sessions = 2000
	for b.Loop() {
		before, goroutines := memory(), runtime.NumGoroutine()
		clients := make([]*Session, sessions)
		for i := range clients {
			if clients[i], err = Open(context.Background(), Config{Servers: []string{ln.Addr().String()}}); err != nil {
				b.Fatal(err)
			}
			clients[i].mu.Lock()
			l := clients[i].link
			write := l.queuePing(0)
			clients[i].mu.Unlock()
			if write {
				l.writeOutput(false)
			}
		}
		runtime.GC() // stacks shrink
		b.ReportMetric(float64(memory()-before)/sessions, "B/session")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/sessions, "goroutines/session")
		for _, c := range clients {
			c.Abandon()
		}
	}
}

// memory returns the bytes in heap and stacks after a garbage collection.
func memory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
