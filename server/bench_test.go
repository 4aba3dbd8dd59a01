package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// BenchmarkReply measures requests through the whole server over a pipe, from the write of the
// request to the read of the reply. The log applies at once. As many requests are in flight as the
// window says.
func BenchmarkReply(b *testing.B) {
	data := strings.Repeat("x", 100)
	for _, bb := range []struct {
		name string
		op   jute.Op
		rec  record
	}{
		{"ping", jute.OpPing, raw(nil)},
		{"exists", jute.OpExists, exists("/bench", false)},
		{"getData", jute.OpGetData, getData("/bench", false)},
		{"getChildren of 100", jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/bench")}},
		{"setData", jute.OpSetData, setData("/bench", data)},
		{"sync", jute.OpSync, jute.SyncRequest{Path: []byte("/bench")}},
		{"multi of check and setData", jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{
			{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte("/bench"), Version: -1}},
			{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/bench"), Data: []byte(data), Version: -1}},
		}))},
	} {
		for _, window := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/window=%d", bb.name, window), func(b *testing.B) {
				w := newWorld(b, false, nil)
				c := w.connect()
				c.must(jute.OpCreate, create("/bench", data, 0))
				for i := range 100 {
					c.must(jute.OpCreate, create(fmt.Sprintf("/bench/node-%02d", i), data, 0))
				}
				_ = c.SetDeadline(time.Time{})
				c.stream(frameOf(jute.RequestHeader{Xid: 1, Op: bb.op}, bb.rec), window)
			})
		}
	}
}

// stream sends b.N requests, window of them in one write, and reads the replies.
func (c *client) stream(request []byte, window int) {
	b := c.tb.(*testing.B)
	requests := []byte(strings.Repeat(string(request), window))
	more := make(chan int) // how many to send; unbuffered, as is the pipe
	defer close(more)
	go func() {
		for n := range more {
			if _, err := c.Write(requests[:n*len(request)]); err != nil {
				return // the read of the replies fails, too
			}
		}
	}()
	var reply []byte
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		n := min(left, window)
		more <- n
		for range n {
			var err error
			if reply, err = jute.ReadFrame(c.in, reply, 1<<20); err != nil {
				b.Fatal(err)
			}
			if code := reply[12:16]; string(code) != "\x00\x00\x00\x00" {
				b.Fatalf("%x", reply)
			}
		}
		left -= n
	}
	b.StopTimer()
}

// BenchmarkEvent measures one write, from its request until 1 or 100 connections with persistent
// watches have received the event.
func BenchmarkEvent(b *testing.B) {
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			w := newWorld(b, false, func(c *Config) { c.Limits.MaxClientConns = -1 })
			c := w.connect()
			c.must(jute.OpCreate, create("/bench", "x", 0))
			heard := make(chan error, watchers)
			for range watchers {
				e := w.connect()
				e.must(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/bench"), Mode: jute.AddWatchPersistent})
				_ = e.SetDeadline(time.Time{})
				go func() {
					var frame []byte
					for {
						var err error
						frame, err = jute.ReadFrame(e.in, frame, 1<<20)
						if heard <- err; err != nil {
							return // the benchmark is over
						}
					}
				}()
			}
			_ = c.SetDeadline(time.Time{})
			request := frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpSetData}, setData("/bench", "x"))
			var reply []byte
			b.ReportAllocs()
			for b.Loop() {
				c.write(request)
				var err error
				if reply, err = jute.ReadFrame(c.in, reply, 1<<20); err != nil {
					b.Fatal(err)
				}
				for range watchers {
					if err := <-heard; err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
