package server

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// The window knows the counts of the last 50 to 60 seconds: in a steady stream, after a burst, in the silence after it, and
// of a connection that is younger than that.
func TestRateWindow(t *testing.T) {
	const s = time.Second
	type count struct {
		at    time.Duration
		n     int
		bytes int
	}
	var steady []count
	for at := time.Duration(0); at < 1000*s; at += s / 10 {
		steady = append(steady, count{at, 1, 100})
	}
	burst := []count{{203 * s, 10_000, 1 << 20}}
	for _, tt := range []struct {
		name      string
		began, at time.Duration
		counts    []count
		want      clients.Recent
	}{
		{"nothing", 100 * s, 130 * s, nil, clients.Recent{Span: 30 * s}},
		{"steady, at the end of a slot", 0, 999*s + 999*time.Millisecond, steady, clients.Recent{Requests: 600, Bytes: 60_000, Span: 60*s - time.Millisecond}},
		{"steady, within a slot", 0, 1003 * s, steady, clients.Recent{Requests: 500, Bytes: 50_000, Span: 53 * s}},
		{"a burst, at once", 0, 203 * s, burst, clients.Recent{Requests: 10_000, Bytes: 1 << 20, Span: 53 * s}},
		{"a burst, 55 s later", 0, 258 * s, burst, clients.Recent{Requests: 10_000, Bytes: 1 << 20, Span: 58 * s}},
		{"a burst, and a minute of silence", 0, 263 * s, burst, clients.Recent{Span: 53 * s}},
		{"a burst, and a day of silence", 0, 24 * time.Hour, burst, clients.Recent{Span: 50 * s}},
		{"younger than a minute", 203 * s, 215 * s, burst, clients.Recent{Requests: 10_000, Bytes: 1 << 20, Span: 12 * s}},
		{"in the server's first minute", 0, 25 * s, []count{{1 * s, 3, 30}, {11 * s, 4, 40}}, clients.Recent{Requests: 7, Bytes: 70, Span: 25 * s}},
		{"a time before the present slot", 0, 220 * s, []count{{219 * s, 1, 10}, {203 * s, 2, 20}}, clients.Recent{Requests: 3, Bytes: 30, Span: 50 * s}},
		{"more bytes than a slot holds", 0, 219 * s, []count{{203 * s, 1, math.MaxInt64}, {213 * s, 1, math.MaxUint32}, {213 * s, 1, 7}}, clients.Recent{Requests: 3, Bytes: 2 * math.MaxUint32, Span: 59 * s}},
	} {
		var w rateWindow
		for _, c := range tt.counts {
			w.addBytes(c.bytes)
			for range c.n {
				w.addRequest(c.at)
			}
		}
		if got := w.recent(tt.at, tt.began); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// A connection counts its requests, and the bytes of requests, replies and events, whatever way they take. It forgets
// them within a minute. The reset of the counters leaves the rates alone.
func TestConnectionRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, watcher := w.connect(), w.connect()
		watcher.must(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/"), Mode: jute.AddWatchPersistent})
		shown := func(number uint64) clients.Recent {
			synctest.Wait()
			for one := range w.srv.Listing().Connections() {
				if one.Number == number {
					return one.Recent
				}
			}
			t.Fatalf("there is no connection %d", number)
			return clients.Recent{}
		}
		if got := shown(1); got.Requests != 1 || got.Bytes != 0 {
			t.Errorf("after the handshake: %+v", got)
		}
		before := shown(2)
		sent := uint64(0)
		request := func(op jute.Op, r record) {
			sent += uint64(len(frameOf(jute.RequestHeader{Op: op}, r)))
			sent += uint64(len(c.must(op, r)) + replyHeaderSize)
		}
		request(jute.OpSetData, setData("/", "0123456789"))
		request(jute.OpGetData, getData("/", false))
		request(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
		if got := shown(1); got.Requests != 4 || got.Bytes != sent {
			t.Errorf("after 3 requests: %+v, want %d bytes", got, sent)
		}
		watcher.expectEvent(jute.EventNodeDataChanged, "/")
		if got, event := shown(2), uint64(replyHeaderSize+4+4+4+1); got.Requests != before.Requests || got.Bytes != before.Bytes+event {
			t.Errorf("after an event: %+v, was %+v", got, before)
		}
		w.srv.Listing().ResetTraffic()
		if got := shown(1); got.Requests != 4 || got.Bytes != sent {
			t.Errorf("after a reset of the counters: %+v", got)
		}
		_ = c.SetDeadline(time.Time{})
		for range 20 {
			time.Sleep(3 * time.Second)
			c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
			c.expect(jute.XidPing, jute.OK)
		}
		got := shown(1)
		pings := uint64(got.Span / (3 * time.Second))
		if got.Requests < pings || got.Requests > pings+1 || got.Bytes != got.Requests*(frameOverhead+replyHeaderSize) {
			t.Errorf("a minute of pings later: %+v, want %d requests and no more", got, pings)
		}
	})
}

// replyHeaderSize is the size of a reply without a record.
const replyHeaderSize = lengthSize + 16

// The window fits into what Go's allocator rounds a connection up to: 1,152 bytes, as before there were rates.
func TestConnSize(t *testing.T) {
	const sizeClass = 1152
	if size := unsafe.Sizeof(conn{}); size > sizeClass {
		t.Errorf("a connection has %d bytes, and takes more than %d of memory", size, sizeClass)
	}
	if size := unsafe.Sizeof(rateWindow{}); size != 56 {
		t.Errorf("the window has %d bytes; its comment says 56", size)
	}
}

// BenchmarkRateWindow measures what the rates cost each request, with the 20 bytes of a ping and of its reply.
func BenchmarkRateWindow(b *testing.B) {
	var w rateWindow
	at := time.Hour
	for b.Loop() {
		w.addBytes(frameOverhead)
		w.addBytes(replyHeaderSize)
		w.addRequest(at)
		at += time.Microsecond
	}
}
