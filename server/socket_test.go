package server

import (
	"bytes"
	"strings"
	"testing"

	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// If a client sends many requests and reads late, its socket is full, and a flusher takes over in
// the middle of a reply.
func TestLateReader(t *testing.T) {
	w := newWorld(t, true, nil)
	c := w.connect()
	data := strings.Repeat("x", 100_000)
	c.must(jute.OpCreate, create("/a", data, 0))
	const n = 100
	first := c.xid + 1
	for range n {
		c.request(jute.OpGetData, getData("/a", false))
	}
	waitFor(t, func() bool { return w.unsentBytes() >= stream.HighWater }) // the socket takes no more
	for i := range n {
		h, body := c.reply()
		if h.Xid != first+int32(i) || h.Err != jute.OK || !bytes.Contains(body, []byte(data)) {
			t.Fatalf("reply %d: %+v with %d bytes", i, h, len(body))
		}
	}
}

// unsentBytes returns the number of bytes of replies and events that the clients have not read.
func (w *world) unsentBytes() int {
	n := 0
	for _, c := range w.srv.conns.all() {
		c.stream.Lock()
		n += c.stream.UnsentBytes()
		c.stream.Unlock()
	}
	return n
}
