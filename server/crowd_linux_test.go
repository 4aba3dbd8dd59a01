package server

import (
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"rollcall/operator/logs/logtest"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// crowdEach is the number of clients of a crowd that have sent the same bytes.
const crowdEach = 100

// firstBytes returns byte strings that a client may have sent by the time of another event.
func firstBytes() [][]byte {
	patient := newcomer
	patient.TimeOut = int32(patience.Milliseconds())
	hello := frameOf(patient)
	more := frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpCreate}, create("/a", "", 0))
	return [][]byte{
		nil,
		hello[:2],
		hello[:len(hello)/2],
		hello,
		append(hello[:len(hello):len(hello)], more[:len(more)/2]...),
		append(hello[:len(hello):len(hello)], more...),
		{0, 0, 4, 0}, // the longest first frame
		[]byte("st"),
		[]byte("stmk"), // a word that waits for its argument
	}
}

// crowded lets a crowd in, and none of it is dropped for being slow.
func crowded(c *Config) {
	c.MaxTimeout = patience
	c.Limits.MaxClientConns, c.Limits.Handshake = -1, patience
}

// crowd opens many connections in the states of firsts, and returns them when the server has accepted all. Their
// sessions wait for the log.
func (w *world) crowd(t *testing.T) []*client {
	t.Helper()
	before := w.srv.Stats()
	w.hold()
	var all []*client
	for range crowdEach {
		for _, first := range firstBytes() {
			c := w.open()
			c.write(first)
			all = append(all, c)
		}
	}
	waitFor(t, func() bool {
		s := w.srv.Stats()
		return s.Connections == before.Connections+len(all) && s.Handshakes == before.Handshakes+3*crowdEach &&
			s.Received == before.Received+4*crowdEach
	})
	return all
}

// A server that stops in the middle of many handshakes leaves no goroutine and no descriptor behind.
func TestCrowdStops(t *testing.T) {
	files, routines := openDescriptors(t), runtime.NumGoroutine()
	t.Run("crowd", func(t *testing.T) {
		w := newWorld(t, true, crowded)
		w.crowd(t)
	})
	waitFor(t, func() bool { return openDescriptors(t) <= files && runtime.NumGoroutine() <= routines })
}

// openDescriptors returns the number of open files of this process.
func openDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Clients that reset their connections in the middle of a handshake are forgotten at once. Only those that have sent a
// request too are read no further until the log has their sessions.
func TestCrowdResets(t *testing.T) {
	w := newWorld(t, true, crowded)
	other := w.connectInLoops(t, 1)[0]
	for _, c := range w.crowd(t) {
		_ = c.Conn.(*net.TCPConn).SetLinger(0) // Close resets the connection
		_ = c.Close()
	}
	other.must(jute.OpExists, exists("/", false))
	waitFor(t, func() bool { return w.srv.Stats().Connections == 1+crowdEach })
	waitFor(t, func() bool { return w.srv.createSlots.Taken() == crowdEach }) // the others have given their places back
	w.release()
	waitFor(t, func() bool { return w.srv.Stats().Connections == 1 })
	other.must(jute.OpCreate, create("/b", "", 0))
	if n := w.countLooped(); n != 1 {
		t.Errorf("%d connections in loops, want 1", n)
	}
}

// Without free descriptors the server accepts no client and continues to serve the connected ones, in a loop or not. It
// accepts again as soon as a descriptor is free.
func TestWithoutDescriptors(t *testing.T) {
	var log logtest.Buffer
	w := newWorld(t, true, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	old := w.connectInLoops(t, 1)[0]
	more := lastDescriptor(t)
	c := w.open()
	c.send(newcomer)
	waitFor(t, func() bool { return strings.Contains(log.String(), "accept4: too many open files") })
	old.must(jute.OpCreate, create("/a", strings.Repeat("x", 2*stream.LoopBuffer), 0)) // leaves the loop
	for range 2 * stream.PromoteAfterFrames {
		old.must(jute.OpExists, exists("/a", false)) // and cannot return
	}
	if n := w.countLooped(); n != 0 {
		t.Errorf("%d connections in loops, want none", n)
	}
	more()
	if c.welcome(); c.id == 0 {
		t.Error("no session")
	}
	w.loops(t, old, 2)
}

// lastDescriptor has this process run out of descriptors after one more, until more is called or the test ends.
func lastDescriptor(t *testing.T) (more func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	next, err := syscall.Dup(0) // the least number that is free
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(next)
	set := func(most uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: limit.Max}); err != nil {
			t.Error(err)
		}
	}
	set(uint64(next) + 1)
	t.Cleanup(func() { set(limit.Cur) })
	return func() { set(limit.Cur) }
}
