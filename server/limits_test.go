package server

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// A limit below zero is rejected, unless it means that there is no limit.
func TestNegativeLimits(t *testing.T) {
	m := newFakeMember()
	for i := range reflect.TypeFor[Limits]().NumField() {
		cfg := Config{Member: m, State: m.state, Tick: testTick}
		name, field := reflect.TypeFor[Limits]().Field(i).Name, reflect.ValueOf(&cfg.Limits).Elem().Field(i)
		if !field.CanInt() {
			continue
		}
		field.SetInt(-1)
		if _, err := New(cfg); (err == nil) != strings.HasSuffix(name, "Conns") {
			t.Errorf("%s of -1: %v", name, err)
		}
	}
}

func TestConnectionLimits(t *testing.T) {
	tests := []struct {
		name   string
		limits Limits
		many   int // connections that are accepted
		reason string
	}{
		{"of an address", Limits{MaxClientConns: 3}, 3, "max_client_cnxns"},
		{"of an address by default", Limits{}, 60, "max_client_cnxns"},
		{"of all", Limits{MaxClientConns: -1, MaxConns: 5}, 5, "max_cnxns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, true, func(c *Config) { c.Limits = tt.limits })
			var clients []*client
			for range tt.many {
				clients = append(clients, w.connect())
			}
			w.open().expectClosed()
			if n := w.srv.Stats().EndedByReason[tt.reason]; n != 1 {
				t.Errorf("%d refusals counted, want 1", n)
			}
			_ = clients[0].Close()
			waitFor(t, func() bool { return w.srv.Stats().Connections < tt.many })
			w.connect()
		})
	}
}

func TestNoConnectionLimit(t *testing.T) {
	w := newWorld(t, true, func(c *Config) { c.Limits = Limits{MaxClientConns: -1} })
	for range 100 {
		w.connect()
	}
}

// A multi may have as many operations as fit its request, and a multiRead, too. Only what takes apply too long is rejected before the log:
// more deletes than MaxMultiSteps. The connection stays.
func TestMultiLimit(t *testing.T) {
	for name, tcp := range map[string]bool{"memory": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tcp, nil)
			multi := func(op jute.Op, n int) raw {
				ops := make([]jute.MultiOp, n)
				for i := range ops {
					ops[i] = jute.MultiOp{
						Op: op, Create: jute.CreateRequest{Path: []byte("/n-"), ACL: jute.OpenACL, Flags: jute.PersistentSequential},
						Check: jute.CheckVersionRequest{Path: []byte("/"), Version: -1}, SetData: jute.SetDataRequest{Path: []byte("/"), Version: -1},
						Delete: jute.DeleteRequest{Path: []byte("/none"), Version: -1}, GetData: jute.GetDataRequest{Path: []byte("/")},
					}
				}
				return jute.AppendMulti(nil, ops)
			}
			zxid := func() int64 {
				w.state.RLock()
				defer w.state.RUnlock()
				return w.state.Zxid()
			}
			c := w.connect()
			for op, most := range map[jute.Op]int{jute.OpCheck: 58_000, jute.OpCreate: 19_000, jute.OpSetData: 45_000} {
				c.must(jute.OpMulti, multi(op, 10_001))
				c.must(jute.OpMulti, multi(op, most))
			}
			c.must(jute.OpMultiRead, multi(jute.OpGetData, 69_000))
			most := znode.MaxMultiSteps / znode.MultiOpSteps(jute.OpDelete, 1)
			if h, _ := c.call(jute.OpMulti, multi(jute.OpDelete, most)); h.Err != jute.OK { // the results have the code
				t.Errorf("%d deletes: %v", most, h.Err)
			}
			before := zxid()
			if h, _ := c.call(jute.OpMulti, multi(jute.OpDelete, most+1)); h.Err != jute.BadArguments {
				t.Errorf("%d deletes: %v, want %v", most+1, h.Err, jute.BadArguments)
			}
			if after := zxid(); after != before {
				t.Errorf("zxid %#x, was %#x: the multi is in the log", after, before)
			}
			c.must(jute.OpMulti, multi(jute.OpCheck, 1))
			many := w.connect() // compared with lists, each identity takes time
			for i := range DefaultMaxIdentities - 1 {
				many.must(jute.OpAuth, auth("digest", fmt.Sprintf("u%d:p", i)))
			}
			many.must(jute.OpMulti, multi(jute.OpCreate, 10_001))
			most = znode.MaxMultiSteps / znode.MultiOpSteps(jute.OpCreate, DefaultMaxIdentities)
			many.must(jute.OpMulti, multi(jute.OpCreate, most))
			if h, _ := many.call(jute.OpMulti, multi(jute.OpCreate, most+1)); h.Err != jute.BadArguments {
				t.Errorf("%d creates of a client with many identities: %v, want %v", most+1, h.Err, jute.BadArguments)
			}
		})
	}
}

// A client that reads no events is closed when it has left too many bytes of them unread.
func TestUnreadEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unread = 64 << 10
		w := newWorld(t, false, func(c *Config) { c.Limits.MaxUnread = unread })
		c, writer := w.connect(), w.connect()
		const nodes = 1000
		for i := range nodes {
			path := fmt.Sprintf("/%s%d", strings.Repeat("x", 100), i)
			writer.must(jute.OpCreate, create(path, "", 0))
			c.must(jute.OpGetData, getData(path, true))
		}
		for i := range nodes {
			writer.must(jute.OpSetData, setData(fmt.Sprintf("/%s%d", strings.Repeat("x", 100), i), "y"))
		}
		if rest, _ := io.ReadAll(c.in); len(rest) > unread {
			t.Errorf("%d bytes came", len(rest))
		}
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["slow_reader"]; n != 1 {
			t.Errorf("%d slow readers counted, want 1", n)
		}
	})
}

// A client may leave MaxUnread bytes of events unread, and not one more.
func TestUnreadEventsToTheByte(t *testing.T) {
	const events = 10
	path := func(i int) string { return fmt.Sprintf("/node%02d", i) }
	size := len(frameOf(jute.ReplyHeader{}, jute.WatcherEvent{Path: []byte(path(0))}))
	for less, ends := range map[int]uint64{0: 0, 1: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, func(c *Config) { c.Limits.MaxUnread = events*size - less })
			c, writer := w.connect(), w.connect()
			for i := range events {
				writer.must(jute.OpCreate, create(path(i), "", 0))
				c.must(jute.OpGetData, getData(path(i), true))
			}
			synctest.Wait() // the server no longer counts the last reply, which the client has read
			for i := range events {
				writer.must(jute.OpSetData, setData(path(i), "y"))
			}
			synctest.Wait()
			if n := w.srv.Stats().EndedByReason["slow_reader"]; n != ends {
				t.Errorf("%d bytes unread, at most %d allowed: %d slow readers, want %d", events*size, events*size-less, n, ends)
			}
		})
	}
}

// A multiRead continues while its results have MaxUnread bytes, and ends when they have one more.
func TestMultiReadToTheByte(t *testing.T) {
	get := jute.MultiOp{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte("/n")}}
	one := len(jute.GetDataResponse{Data: []byte("data")}.Append(jute.MultiHeader{}.Append(nil)))
	for less, code := range map[int]jute.Code{0: jute.OK, 1: jute.MarshallingError} {
		c := newWorld(t, false, func(c *Config) { c.Limits.MaxUnread = one - less }).connect()
		c.must(jute.OpCreate, create("/n", "data", 0))
		if h, _ := c.call(jute.OpMultiRead, raw(jute.AppendMulti(nil, []jute.MultiOp{get, get}))); h.Err != code {
			t.Errorf("a second result after %d bytes, at most %d allowed: %v, want %v", one, one-less, h.Err, code)
		}
	}
}

// A multiRead takes no memory for operations that are decoded together, which would be 25 times as much as the request has.
func TestMultiReadMemory(t *testing.T) {
	const ops, perOp = 1000, 16 // bytes that one operation may take; a decoded one takes hundreds
	w := newWorld(t, false, nil)
	w.connect().must(jute.OpCreate, create("/n", "", 0))
	read := make([]jute.MultiOp, ops)
	for i := range read {
		read[i] = jute.MultiOp{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte("/n")}}
	}
	r := &request{op: jute.OpMultiRead, body: jute.AppendMulti(nil, read)}
	s, out := session{tree: w.state, limits: &w.srv.cfg.Limits}, stream.Buffer{B: make([]byte, 0, 1<<20)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	code := s.multiRead(&out, r)
	runtime.ReadMemStats(&after)
	if code != jute.OK {
		t.Fatal(code)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > ops*perOp {
		t.Errorf("a multiRead of %d operations takes %d bytes beside its reply, want at most %d", ops, n, ops*perOp)
	}
}

// A client that requests much and reads nothing is closed. Until then the server makes little more for it than
// stream.HighWater.
func TestUnreadReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		const size = 100 << 10
		c.must(jute.OpCreate, create("/big", strings.Repeat("x", size), 0))
		go func() {
			for i := range 1000 {
				_, err := c.Write(frameOf(jute.RequestHeader{Xid: int32(i), Op: jute.OpGetData}, getData("/big", false)))
				if err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		for _, k := range w.srv.conns.all() {
			k.stream.Lock()
			if n := k.stream.UnsentBytes(); n < stream.HighWater || n > stream.HighWater+2*size {
				t.Errorf("%d bytes unsent", n)
			}
			k.stream.Unlock()
		}
		time.Sleep(time.Duration(c.timeout)*time.Millisecond + 2*testTick)
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["slow_reader"]; n != 1 {
			t.Errorf("%d slow readers counted, want 1", n)
		}
	})
}

// A client gets all replies, however much it requests before it reads, and also if the reads had to wait for a write.
func TestManyLargeReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpCreate, create("/big", strings.Repeat("x", 100<<10), 0))
		w.hold()
		c.request(jute.OpSetData, setData("/", ""))
		go func() {
			for i := range 300 {
				_, _ = c.Write(frameOf(jute.RequestHeader{Xid: int32(i + 3), Op: jute.OpGetData}, getData("/big", false)))
			}
		}()
		synctest.Wait()
		w.release()
		synctest.Wait()
		c.expect(2, jute.OK)
		for i := range 300 {
			c.expect(int32(i+3), jute.OK)
		}
	})
}

// A connection is not read beyond MaxInFlight requests. A connection with none in flight is always
// read.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8
		w := newWorld(t, false, func(c *Config) { c.Limits.MaxInFlight = limit })
		c, quiet := w.connect(), w.connect()
		w.hold()
		go func() {
			for i := range 3 * limit {
				_, _ = c.Write(frameOf(jute.RequestHeader{Xid: int32(i + 1), Op: jute.OpSetData}, setData("/", "x")))
			}
		}()
		synctest.Wait()
		if n := w.countSubmitted(); n != limit {
			t.Errorf("%d writes were read, want %d", n, limit)
		}
		if n := w.srv.Stats().OutstandingRequests; n != limit {
			t.Errorf("%d requests outstanding, want %d", n, limit)
		}
		quiet.must(jute.OpPing)
		w.release()
		for i := range 3 * limit {
			c.expect(int32(i+1), jute.OK)
		}
	})
}

// A silent connection is closed some ticks after its session's timeout, with or without a leader.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, pinging := w.connect(), w.connect()
		w.hold()
		late := w.open() // its reader already waits when the session is created
		late.send(jute.ConnectRequest{TimeOut: c.timeout})
		synctest.Wait()
		w.release()
		late.welcome()
		for range 12 {
			time.Sleep(time.Second)
			pinging.must(jute.OpPing)
		}
		c.expectSilence(time.Microsecond)
		for range 2 {
			time.Sleep(time.Second)
			pinging.must(jute.OpPing)
		}
		c.expectClosed()
		late.expectClosed()
		synctest.Wait() // the server counts a connection after it has closed it
		if n := w.srv.Stats().EndedByReason["idle"]; n != 2 {
			t.Errorf("%d idle connections counted, want 2", n)
		}
		pinging.must(jute.OpPing)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		const n, over = 10, 5 * time.Second
		var clients []*client
		for range n {
			clients = append(clients, w.connect())
		}
		go w.srv.Drain(t.Context(), over)
		time.Sleep(over/2 - time.Millisecond)
		synctest.Wait()
		if left := w.srv.Stats().Connections; left != n/2 {
			t.Errorf("%d connections are left halfway, want %d", left, n/2)
		}
		w.open().expectClosed()
		time.Sleep(over / 2)
		for _, c := range clients {
			c.expectClosed()
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.srv.Drain(ended, time.Hour) // there is nothing to wait for
	})
}

// CloseOldest closes the connections that are open longest, at a steady pace. New ones are taken meanwhile, and the sessions stay.
func TestCloseOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		const n, closing, over = 6, 4, 4 * time.Second
		w.open() // it has no session, so it is nobody's client
		var clients []*client
		for range n {
			clients = append(clients, w.connect())
		}
		closed := 0
		go func() { closed = w.srv.CloseOldest(t.Context(), closing, over) }()
		for i := range closing {
			synctest.Wait()
			if got := w.srv.Stats().EndedByReason["rebalanced"]; got != uint64(i)+1 {
				t.Errorf("after %d s: %d closed", i, got)
			}
			time.Sleep(over / closing)
		}
		synctest.Wait()
		for _, c := range clients[:closing] {
			c.expectClosed()
		}
		late := w.connect()
		for _, c := range append(clients[closing:], late) {
			c.must(jute.OpGetData, getData("/", false))
		}
		if st := w.srv.Stats(); closed != closing || st.Sessions != n-closing+1 || st.EndedByReason["rebalanced"] != closing {
			t.Errorf("closed %d, %d clients left, %v", closed, st.Sessions, st.EndedByReason)
		}
		if got := w.srv.CloseOldest(t.Context(), 10*n, 0); got != n-closing+1 {
			t.Errorf("closed %d of all", got)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.connect()
		w.connect()
		if got := w.srv.CloseOldest(ended, 2, time.Hour); got != 1 {
			t.Errorf("closed %d after the end of the context", got)
		}
	})
}

// An idle connection holds no buffer.
func TestIdleHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpCreate, create("/a", strings.Repeat("x", 50<<10), 0))
		c.must(jute.OpGetData, getData("/a", false))
		synctest.Wait()
		for _, k := range w.srv.conns.all() {
			k.stream.Lock()
			if s := k.stream.State(); s != (stream.State{}) || k.stream.HoldsBuffers() || k.replies.queue.first != nil {
				t.Errorf("stream %+v, queue %v", s, k.replies.queue)
			}
			k.stream.Unlock()
		}
	})
}

func TestNewChecksConfig(t *testing.T) {
	m := newFakeMember()
	good := Config{Member: m, State: m.state, Tick: time.Second}
	tests := map[string]func(*Config){
		"no member":         func(c *Config) { c.Member = nil },
		"no state":          func(c *Config) { c.State = nil },
		"no tick":           func(c *Config) { c.Tick = 0 },
		"min above max":     func(c *Config) { c.MinTimeout, c.MaxTimeout = 2*time.Second, time.Second },
		"huge buffer":       func(c *Config) { c.Limits.MaxBuffer = 1 << 30 },
		"tiny buffer":       func(c *Config) { c.Limits.MaxBuffer = 10 },
		"negative inflight": func(c *Config) { c.Limits.MaxInFlight = -1 },
	}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range tests {
		cfg := good
		spoil(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestStats(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connect()
	c.must(jute.OpPing)
	word := w.open()
	word.write([]byte("ruok"))
	if _, err := io.ReadAll(word); err != nil {
		t.Fatal(err)
	}
	_ = word.Close() // the server waits a second for it
	waitFor(t, func() bool { return w.srv.Stats().Connections == 1 })
	s := w.srv.Stats()
	if s.Received != 3 || s.Sent != 3 || s.Latency.Count != 1 || s.Latency.Max < s.Latency.Min || s.Latency.Avg <= 0 ||
		s.EndedByReason["word"] != 1 {
		t.Errorf("stats %+v", s)
	}
	c.must(jute.OpCreate, create("/a", "x", 0))
	c.must(jute.OpExists, exists("/a", true))
	c.request(jute.OpSetData, setData("/a", "y"))
	c.expectEvent(jute.EventNodeDataChanged, "/a")
	c.expect(c.xid, jute.OK)
	s = w.srv.Stats()
	if s.Handshakes != 1 || s.ReadLatency.Count != 2 || s.UpdateLatency.Count != 2 || s.Latency.Count != 4 {
		t.Errorf("stats %+v, want 2 reads and 2 updates after 1 handshake", s)
	}
	if _, nameless := s.EndedByReason[""]; nameless || len(s.EndedByReason) != int(numReasons) {
		t.Errorf("connections ended by %d reasons with names, want %d: %v", len(s.EndedByReason), numReasons, s.EndedByReason)
	}
	for class, buckets := range s.RequestLatency {
		if want := map[string]uint64{"connect": 1, "ping": 1, "write": 2, "read": 1}[class]; buckets.Count != want {
			t.Errorf("%d requests of class %s, want %d", buckets.Count, class, want)
		}
	}
	if !maps.Equal(s.EventsByType, map[string]uint64{"created": 0, "deleted": 0, "changed": 1, "children": 0}) {
		t.Errorf("events %v, want one", s.EventsByType)
	}
	const header, stat, event = 16, 68, 16 + 4 + 4 + 4 + 2
	if replies := uint64(4*header + 4 + 2 + 2*stat); s.ReplyBytes != replies || s.EventBytes != event ||
		s.ResponseSizes.Last != header+stat || s.ResponseSizes.Min != header || s.ResponseSizes.Max != header+stat {
		t.Errorf("stats %+v, want %d bytes of replies and %d of events", s, replies, event)
	}
	const create, exists, set = (4 + 2) + (4 + 1) + 4 + 4 + (4 + 5) + (4 + 6) + 4, 4 + 2 + 1, 4 + 2 + 4 + 1 + 4
	if want := uint64(4 + 45 + 4*(4+8) + create + exists + set); s.BytesIn != want {
		t.Errorf("%d bytes read, want %d", s.BytesIn, want)
	}
	w.srv.ResetStats()
	if s := w.srv.Stats(); s.EndedByReason["word"] != 1 || s.EventsByType["changed"] != 1 || s.RequestLatency["connect"].Count != 1 {
		t.Errorf("a reset has set to zero what is counted since New: %v, %v, %d connects",
			s.EndedByReason, s.EventsByType, s.RequestLatency["connect"].Count)
	}
	if s := w.srv.Stats(); s.Received != 0 || s.Latency.Count != 0 || s.ReadLatency.Count != 0 || s.ResponseSizes.Last != -1 ||
		s.Connections != 1 {
		t.Errorf("stats after a reset %+v", s)
	}
	c.must(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
	if s = w.srv.Stats(); s.ReadLatency.Count != 1 || s.UpdateLatency.Count != 0 {
		t.Errorf("a sync makes %d reads and %d updates, want 1 and 0: it changes nothing", s.ReadLatency.Count, s.UpdateLatency.Count)
	}
}

func TestHostOf(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:2181": "127.0.0.1", "[::1]:2181": "::1", "[::ffff:10.0.0.1]:1": "10.0.0.1", "[fe80::1%eth0]:1": "fe80::1",
	} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			if !strings.Contains(addr, "%") {
				t.Fatal(err)
			}
			continue
		}
		if got := hostOf(a); got != want {
			t.Errorf("hostOf(%s) = %s, want %s", addr, got, want)
		}
	}
}
