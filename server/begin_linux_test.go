package server

import (
	"bytes"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

var newcomer = jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}

// A loop serves a connection from its first byte on, and no reader is needed until it ends.
func TestBeginsInLoop(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.open()
	waitFor(t, func() bool { return w.countLooped() == 1 })
	for _, b := range frameOf(newcomer) {
		c.write([]byte{b})
	}
	if c.welcome(); c.id == 0 {
		t.Fatal("no session")
	}
	again := w.resume(c)
	if again.id != c.id {
		t.Errorf("resumed %v, want %v", again.id, c.id)
	}
	c.expectClosed()
	waitFor(t, func() bool { return w.srv.Stats().Connections == 1 }) // the older one has ended
	again.must(jute.OpCloseSession)
	again.expectClosed()
	if n := w.countLooped(); n != 1 { // until the client closes its side
		t.Errorf("%d connections in loops, want 1", n)
	}
}

// What would hold up the loop is left to a reader: a session's id that cannot be drawn yet, and a create or attach
// that has to wait for room.
func TestBeginWaits(t *testing.T) {
	w := newWorld(t, true, nil)
	old := w.connect()
	attach := jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password, HasReadOnly: true}
	for _, tt := range []struct {
		name string
		req  jute.ConnectRequest
		hold func() (release func())
	}{
		{"for an id", newcomer, func() func() { w.drawn.Lock(); return w.drawn.Unlock }},
		{"for room, with a create", newcomer, w.stalled},
		{"for room, with an attach", attach, w.stalled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			release := tt.hold()
			before := w.srv.Stats().Connections
			c := w.open()
			c.send(tt.req)
			waitFor(t, func() bool {
				return w.srv.Stats().Connections == before+1 && w.countStreams(func(s stream.State) bool { return !s.InLoop }) == 1
			})
			release()
			if c.welcome(); c.id == 0 {
				t.Fatal("no session")
			}
			c.must(jute.OpPing)
			waitFor(t, func() bool { // it goes back into a loop, and an older connection of the session ends
				c.must(jute.OpWhoAmI)
				return w.countStreams(func(s stream.State) bool { return !s.InLoop }) == 0
			})
		})
	}
}

// A client that is ahead of this member waits with a reader, and its password outlives the loop's buffer.
func TestBeginAhead(t *testing.T) {
	w := newWorld(t, true, func(c *Config) { c.Tick = time.Minute })
	old := w.connect()
	w.hold()
	w.inject(other, &proto.Txn{Session: other << 56, Conn: 7, Op: int32(jute.OpCreateSession), Body: encode(&proto.OpenSession{TimeoutMs: 10000, Password: make([]byte, passwordSize)})})
	c := w.open()
	c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password, LastZxidSeen: w.zxid() + 1})
	waitFor(t, func() bool { return w.countStreams(func(s stream.State) bool { return !s.InLoop }) == 1 })
	for range 10 {
		w.open().write(bytes.Repeat([]byte{1}, 1000)) // others use the loop's buffer
	}
	w.release()
	if res := c.welcome(); res.SessionID != old.id {
		t.Errorf("resumed %v, want %v", res.SessionID, old.id)
	}
}

// stalled has Submit wait until release is called.
func (w *world) stalled() (release func()) {
	stall := make(chan struct{})
	w.setStall(stall)
	return func() {
		w.setStall(nil)
		close(stall)
	}
}

// Requests that come with the first frame wait for the session.
func TestBeginPipelined(t *testing.T) {
	w := newWorld(t, true, nil)
	w.hold()
	c := w.open()
	c.write(append(frameOf(newcomer), frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpCreate}, create("/a", "", 0))...))
	waitFor(t, func() bool {
		return w.countSubmitted() == 1 && w.countStreams(func(s stream.State) bool { return !s.InLoop }) == 1
	})
	w.release()
	c.welcome()
	c.expect(1, jute.OK)
	c.must(jute.OpExists, exists("/a", false))
}

// A client that goes away while its session is on its way through the log is forgotten at once.
func TestBeginGivesUp(t *testing.T) {
	w := newWorld(t, true, nil)
	w.hold()
	c := w.open()
	c.send(newcomer)
	waitFor(t, func() bool { return w.countSubmitted() == 1 })
	_ = c.Close()
	waitFor(t, func() bool { return w.srv.Stats().Connections == 0 && w.wasDetached(self<<56+1) })
	if n := w.srv.Stats().EndedByReason["client"]; n != 1 {
		t.Errorf("%d connections were ended by their clients, want 1", n)
	}
	w.release()
}

// A client that sends nothing, or a part of its first frame, has until the end of the handshake.
func TestBeginLate(t *testing.T) {
	const limit = 10 * time.Millisecond
	w := newWorld(t, true, func(c *Config) { c.Limits.Handshake = limit })
	starts := []string{"", "\x00\x00", "\x00\x00\x00\x2d\x00", "\x00\x00\x04\x00\x00"}
	for _, first := range starts {
		begun := time.Now()
		c := w.open()
		c.write([]byte(first))
		c.expectClosed()
		if took := time.Since(begun); took < limit {
			t.Errorf("after %q it was closed in %v, before the limit", first, took)
		}
	}
	waitFor(t, func() bool { return w.srv.Stats().EndedByReason["handshake_timeout"] == uint64(len(starts)) })
}

// A member that serves no sessions drops a client when its first frame has come.
func TestBeginSuspended(t *testing.T) {
	w := newWorld(t, true, nil)
	w.srv.Suspend(Unlisted)
	c := w.open()
	c.send(newcomer)
	c.expectClosed()
	w.srv.Resume(Unlisted)
	w.connect()
}
