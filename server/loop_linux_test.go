package server

import (
	"bytes"
	"context"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// countStreams returns the number of connections that have a stream with a state for which holds is true.
func (w *world) countStreams(holds func(stream.State) bool) int {
	n := 0
	for _, c := range w.srv.conns.all() {
		c.stream.Lock()
		if holds(c.stream.State()) {
			n++
		}
		c.stream.Unlock()
	}
	return n
}

// countLooped returns the number of connections in loops.
func (w *world) countLooped() int {
	return w.countStreams(func(s stream.State) bool { return s.InLoop })
}

// connectInLoops opens n connections and returns when all of them are in loops.
func (w *world) connectInLoops(t *testing.T, n int) []*client {
	t.Helper()
	var all []*client
	for len(all) < n {
		all = append(all, w.connect())
		w.loops(t, all[len(all)-1], len(all))
	}
	return all
}

// loops lets c send requests until n connections are in loops. If the last reply of a connection is
// still being sent when its reader checks, the connection stays out of the loop until its next
// request.
func (w *world) loops(t *testing.T, c *client, n int) {
	t.Helper()
	waitFor(t, func() bool {
		c.must(jute.OpWhoAmI)
		return w.countLooped() == n
	})
}

// settled waits until a connection that has left its loop is back in it.
func (w *world) settled(t *testing.T, c *client, n int) {
	t.Helper()
	for range stream.PromoteAfterFrames {
		c.must(jute.OpWhoAmI)
	}
	w.loops(t, c, n)
}

// A quiet connection is served by its loop, whatever it requests.
func TestLoop(t *testing.T) {
	const batch = 20
	w := newWorld(t, true, nil)
	all := w.connectInLoops(t, 2)
	a, b := all[0], all[1]
	a.must(jute.OpCreate, create("/a", "1", 0))
	b.must(jute.OpGetData, getData("/a", true))
	a.must(jute.OpSetData, setData("/a", "2"))
	b.expectEvent(jute.EventNodeDataChanged, "/a")
	first := b.xid + 1
	var many []byte
	for i := range int32(batch) { // the last of them comes in two parts
		many = append(many, frameOf(jute.RequestHeader{Xid: first + i, Op: jute.OpGetData}, getData("/a", false))...)
	}
	b.xid += batch
	cut := len(many) - 10
	b.write(many[:cut])
	for i := range int32(batch - 1) {
		b.expect(first+i, jute.OK)
	}
	waitFor(t, func() bool { return w.countPartialFrames() == 1 })
	b.write(many[cut:])
	b.expect(b.xid, jute.OK)
	b.must(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
	if n := w.countLooped(); n != 2 {
		t.Errorf("%d connections in loops, want 2", n)
	}
	a.must(jute.OpCloseSession)
	a.expectClosed()
	_, _ = a.Close(), b.Close() // the server waits a second for a
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
	if ended := w.srv.Stats().EndedByReason; ended["session_closed"] != 1 || ended["client"] != 1 {
		t.Errorf("ended: %v", ended)
	}
}

// countPartialFrames returns the number of connections in loops that have a part of a frame.
func (w *world) countPartialFrames() int {
	return w.countStreams(func(s stream.State) bool { return s.PartialFrame })
}

// A request that is too long for the loop's buffer goes through a reader, and so do the next ones.
func TestLoopLongFrame(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connectInLoops(t, 1)[0]
	data := strings.Repeat("x", 2*stream.LoopBuffer)
	c.must(jute.OpCreate, create("/a", data, 0))
	if n := w.countLooped(); n != 0 {
		t.Errorf("%d connections in loops, want none", n)
	}
	if body := c.must(jute.OpGetData, getData("/a", false)); !bytes.Contains(body, []byte(data)) {
		t.Error("the data that were read differ from those that were written")
	}
	w.settled(t, c, 1)
	c.write([]byte{0x7f, 0, 0, 0})
	c.expectClosed()
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["bad_frame"] == 1 })
}

// A client that does not read its replies leaves the loop, and still gets all of them.
func TestLoopSlowReader(t *testing.T) {
	w := newWorld(t, true, nil)
	all := w.connectInLoops(t, 2)
	c := all[0]
	data := strings.Repeat("x", 50_000)
	c.must(jute.OpCreate, create("/a", data, 0))
	const n = 200
	first := c.xid + 1
	for range n {
		c.request(jute.OpGetData, getData("/a", false))
	}
	waitFor(t, func() bool { return w.unsentBytes() >= stream.HighWater && w.countLooped() == 1 })
	all[1].must(jute.OpWhoAmI)
	for i := range n {
		h, body := c.reply()
		if h.Xid != first+int32(i) || h.Err != jute.OK || !bytes.Contains(body, []byte(data)) {
			t.Fatalf("reply %d: %+v with %d bytes", i, h, len(body))
		}
	}
	w.settled(t, c, 2)
}

// If a socket takes only a part of a write of the loop, a flusher sends the rest.
func TestLoopFullSocket(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connectInLoops(t, 1)[0]
	data := strings.Repeat("0123456789", 500)
	c.must(jute.OpCreate, create("/a", data, 0))
	const batch = 40 // their replies are less than stream.HighWater
	first, n := c.xid+1, int32(0)
	for w.countLooped() == 1 {
		before := w.srv.Stats().Received
		for range batch {
			c.request(jute.OpGetData, getData("/a", false))
		}
		n += batch
		// A request is counted before the loop writes the replies, and only then does it know whether they fit.
		waitFor(t, func() bool { return w.srv.Stats().Received == before+batch && w.countServed() == 0 })
	}
	for i := range n {
		h, body := c.reply()
		if h.Xid != first+i || h.Err != jute.OK || !bytes.Contains(body, []byte(data)) {
			t.Fatalf("reply %d: %+v with %d bytes", i, h, len(body))
		}
	}
	w.settled(t, c, 1)
}

// A write for which the member has no room waits. The other connections of its loop do not.
func TestLoopFullMember(t *testing.T) {
	w := newWorld(t, true, nil)
	all := w.connectInLoops(t, 1+runtime.GOMAXPROCS(0)) // so that another connection is in the loop of the first one
	stall := make(chan struct{})
	w.setStall(stall)
	all[0].request(jute.OpCreate, create("/a", "", 0))
	all[0].request(jute.OpExists, exists("/a", false))
	waitFor(t, func() bool { return w.countLooped() == len(all)-1 })
	for _, c := range all[1:] {
		c.must(jute.OpWhoAmI)
	}
	w.setStall(nil)
	close(stall)
	all[0].expect(all[0].xid-1, jute.OK)
	all[0].expect(all[0].xid, jute.OK)
	w.settled(t, all[0], len(all))
}

// A write after a sync waits for its turn outside of the loop.
func TestLoopTurn(t *testing.T) {
	w := newWorld(t, true, nil)
	all := w.connectInLoops(t, 1+runtime.GOMAXPROCS(0))
	w.hold()
	c := all[0]
	c.request(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
	c.request(jute.OpCreate, create("/a", "", 0))
	c.request(jute.OpExists, exists("/a", false))
	waitFor(t, func() bool { return w.countLooped() == len(all)-1 })
	for _, c := range all[1:] {
		c.must(jute.OpWhoAmI)
	}
	if n := w.countSubmitted(); n != 0 {
		t.Errorf("%d writes submitted before the sync is answered", n)
	}
	w.release()
	for i := range int32(3) {
		c.expect(c.xid-2+i, jute.OK)
	}
}

// The loop does not read more requests of a connection than may be in flight.
func TestLoopFullQueue(t *testing.T) {
	w := newWorld(t, true, func(c *Config) { c.Limits.MaxInFlight = 4 })
	all := w.connectInLoops(t, 2)
	c := all[0]
	w.hold()
	for range 10 {
		c.request(jute.OpSetData, setData("/none", ""))
	}
	waitFor(t, func() bool { return w.countLooped() == 1 && w.countSubmitted() == 4 })
	w.release()
	for i := range int32(10) {
		c.expect(c.xid-9+i, jute.NoNode)
	}
}

// If the member does not vouch for a reply at once, the connection leaves its loop.
func TestLoopVouch(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connectInLoops(t, 1)[0]
	w.silence(true, nil) // the member vouches only when asked
	c.must(jute.OpWhoAmI)
	if n := w.countLooped(); n != 0 {
		t.Errorf("%d connections in loops, want none", n)
	}
	w.silence(false, nil)
	w.settled(t, c, 1)
	w.silence(true, func(context.Context) error { return context.Canceled })
	c.request(jute.OpWhoAmI)
	c.expectClosed()
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["not_vouched"] == 1 })
}

// A silent connection in a loop ends some ticks after its session's timeout.
func TestLoopIdle(t *testing.T) {
	t.Parallel() // it waits for real time
	w := newWorld(t, true, func(c *Config) { c.Tick = 150 * time.Millisecond })
	w.connectInLoops(t, 1)[0].expectClosed()
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["idle"] == 1 && w.srv.Stats().Connections == 0 })
}

// A close of the session does not leave the loop, whatever the client sends after it. The
// exceptions are a client that closes its side before it is answered, and one that sends too much
// before that.
func TestLoopCloseSession(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(c *client) // runs before the answer
		behind int             // bytes that are sent after the answer
		looped int
	}{
		{"at once", func(*client) {}, 0, 1},
		{"with bytes behind", func(c *client) { c.write(make([]byte, 3*stream.LoopBuffer)) }, 3 * stream.LoopBuffer, 1},
		{"with too many behind", func(c *client) { c.write(make([]byte, stream.LingerBytes+1)) }, 0, 0},
		{"with too many behind the answer", func(*client) {}, 16 * stream.LingerBytes, 1},
		{"in a hurry", func(c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite() }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, true, nil)
			client := w.connectInLoops(t, 1)[0]
			w.hold()
			client.request(jute.OpCloseSession)
			waitFor(t, func() bool { return w.srv.Stats().OutstandingRequests == 1 })
			c.before(client)
			waitFor(t, func() bool { return w.countLooped() == c.looped })
			w.release()
			client.expect(client.xid, jute.OK)
			client.expectClosed()
			if c.behind > 0 {
				if _, err := client.Write(make([]byte, c.behind)); (err != nil) != (c.behind > stream.LingerBytes) {
					t.Errorf("%d bytes after the answer: %v", c.behind, err)
				}
			}
			_ = client.Close()
			waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
			if ended := w.srv.Stats().EndedByReason; ended["session_closed"] != 1 {
				t.Errorf("ended: %v", ended)
			}
		})
	}
}

// A client that has the reply to its closeSession has a second to close its side.
func TestLoopLinger(t *testing.T) {
	t.Parallel() // it waits for real time
	w := newWorld(t, true, func(c *Config) { c.Tick = 150 * time.Millisecond })
	c := w.connectInLoops(t, 1)[0]
	c.must(jute.OpCloseSession)
	c.expectClosed()
	waitFor(t, func() bool {
		return w.srv.Stats().EndedByReason["session_closed"] == 1 && w.srv.Stats().Connections == 0
	})
}

// Apply ends a connection in a loop without waiting for the loop.
func TestLoopCut(t *testing.T) {
	w := newWorld(t, true, nil)
	all := w.connectInLoops(t, 2)
	next := w.resume(all[0])
	all[0].expectClosed()
	w.inject(0, &proto.Txn{Op: int32(jute.OpExpire), Session: int64(all[1].id), Body: encode(&proto.Expire{OwnerIndex: w.since(all[1])})})
	all[1].expectClosed()
	next.must(jute.OpWhoAmI)
	waitFor(t, func() bool {
		s := w.srv.Stats()
		return s.Connections == 1 && s.EndedByReason["session_moved"] == 1 && s.EndedByReason["session_gone"] == 1
	})
}

// While apply hangs with the tree's lock, a loop hangs, too. Its clients lose their connections all
// the same.
func TestLoopCutAll(t *testing.T) {
	w := newWorld(t, true, nil)
	all := w.connectInLoops(t, 2*runtime.GOMAXPROCS(0)) // each loop has two
	w.state.Lock()
	unlock := sync.OnceFunc(w.state.Unlock)
	defer unlock()
	for _, c := range all {
		c.request(jute.OpExists, exists("/", false))
	}
	waitFor(t, func() bool { return w.countServed() > 0 })
	w.srv.DropAll()
	for _, c := range all {
		c.expectClosed()
	}
	unlock()
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
}

// countServed returns the number of connections that the loops serve at the moment.
func (w *world) countServed() int {
	return w.countStreams(func(s stream.State) bool { return s.Serving })
}

// However a connection comes into a loop and ends, its descriptor is closed.
func TestLoopFiles(t *testing.T) {
	w := newWorld(t, true, nil)
	_ = w.connectInLoops(t, 1)[0].Close() // the loops' own files are open from here on
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
	before := openFiles(t)
	all := w.connectInLoops(t, 40)
	for i, c := range all {
		switch i % 4 {
		case 0:
			_ = c.Close()
		case 1:
			c.must(jute.OpCloseSession)
			c.expectClosed()
		case 2:
			c.must(jute.OpCreate, create("/a"+c.id.String(), strings.Repeat("x", stream.LoopBuffer), 0))
		}
	}
	w.srv.DropAll()
	for _, c := range all {
		_ = c.Close()
	}
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 })
	if n := openFiles(t); n != before {
		t.Errorf("%d open files, %d before", n, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
