package stream

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// looped returns an owner of one end of a TCP connection, and the other end. The stream is in a
// loop.
func looped(t *testing.T) (*owner, *client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	theirs, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	o, c := ownerOf(t, ours, theirs, nil)
	o.serve(t)
	o.sendUntilInLoop(c)
	return o, c
}

func (o *owner) inLoop() (in bool) {
	o.do(func() { in = o.State().InLoop })
	return in
}

// sendUntilInLoop lets the client send frames until the stream is in a loop. If the last bytes of a stream are still
// being sent when its reader checks, it stays out of the loop until the next frame.
func (o *owner) sendUntilInLoop(c *client) {
	c.t.Helper()
	waitFor(c.t, func() bool {
		c.send("calm")
		c.expect("calm")
		return o.inLoop()
	})
}

// A quiet stream is served by a loop. Complete frames of one read get their replies together, and the beginning of
// another frame is kept.
func TestLoop(t *testing.T) {
	o, c := looped(t)
	var inLoop []bool
	frame := func(frame []byte) bool {
		in := o.InLoop()
		o.do(func() { inLoop = append(inLoop, in) })
		return o.echo(frame)
	}
	o.do(func() { o.frame = frame })
	_, _ = c.Write([]byte("\x00\x00\x00\x03one\x00\x00\x00\x03two\x00\x00\x00\x05thr"))
	c.expect("one")
	c.expect("two")
	waitFor(t, func() (kept bool) {
		o.do(func() { kept = o.State().PartialFrame })
		return kept
	})
	_, _ = c.Write([]byte("ee"))
	c.expect("three")
	if !o.inLoop() {
		t.Error("the stream has left its loop")
	}
	o.do(func() {
		if want := []bool{true, true, true}; !slices.Equal(inLoop, want) {
			t.Errorf("served by a loop: %v, want %v", inLoop, want)
		}
	})
}

// A stream that would have to wait leaves its loop, and comes back when it is quiet.
func TestDemote(t *testing.T) {
	long := strings.Repeat("x", 2*LoopBuffer)
	for _, tt := range []struct {
		name string
		do   func(o *owner, c *client)
	}{
		{"a long frame", func(_ *owner, c *client) {
			c.send(long)
			c.expect(long)
		}},
		{"Later", func(o *owner, c *client) {
			frame := func(frame []byte) bool {
				frame = bytes.Clone(frame)
				later := func() bool {
					if o.InLoop() {
						c.t.Error("the loop itself runs what was left for later")
					}
					return o.echo(frame)
				}
				if !o.InLoop() {
					return later()
				}
				o.LeaveToReader(later)
				return true
			}
			o.do(func() { o.frame = frame })
			c.send("later")
			c.expect("later")
			c.send("after")
			c.expect("after")
			o.do(func() { o.frame = o.echo })
		}},
		{"no permit", func(o *owner, c *client) {
			o.do(func() { o.await = func(context.Context) bool { return true } })
			o.do(func() { o.mute = true })
			c.send("asked")
			c.expect("asked")
			o.do(func() { o.mute = false })
		}},
		{"due", func(o *owner, c *client) {
			o.do(func() { o.resume = func() { o.do(func() { o.due = false; o.queue([]byte("resumed")) }) } })
			o.do(func() { o.due = true })
			c.send("first")
			c.expect("first")
			c.expect("resumed")
		}},
		{"inserted bytes", func(o *owner, c *client) {
			o.do(func() {
				out := o.Output()
				out.B = append(out.B, 0, 0, 0, 2)
				out.Insert(len(out.B), []byte("in"))
			})
			o.Flush()
			c.expect("in")
		}},
		{"a client that reads late", func(o *owner, c *client) {
			n := 0
			for ; o.inLoop(); n++ { // until the socket is full
				o.do(func() { o.queue([]byte(long)) })
				o.Flush()
			}
			for range n {
				c.expect(long)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, c := looped(t)
			tt.do(o, c)
			if o.inLoop() {
				t.Error("the stream has not left its loop")
			}
			o.sendUntilInLoop(c)
		})
	}
}

// Each kind of end also ends a stream in a loop.
func TestLoopEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(o *owner, c *client)
		why  Reason
	}{
		{"Drop", func(o *owner, _ *client) { o.Drop(NumReasons) }, NumReasons},
		{"HangUp", func(o *owner, _ *client) { o.HangUp(NumReasons) }, NumReasons},
		{"Finish", func(o *owner, c *client) {
			frame := func([]byte) bool {
				o.closeAfter([]byte("bye"), NumReasons)
				return false
			}
			o.do(func() { o.frame = frame })
			c.send("last")
			c.expect("bye")
			c.send("thrown away")
			c.expectEnd()
			o.do(func() {
				if o.HasEnded() {
					c.t.Error("the client saw the end only when the stream had ended, not after the reply")
				}
			})
		}, NumReasons},
		{"the client closes", func(_ *owner, c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite() }, ByClient},
		{"length too long", func(_ *owner, c *client) { _, _ = c.Write([]byte{0x7f, 0, 0, 0}) }, BadFrame},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, c := looped(t)
			tt.end(o, c)
			c.expectEnd()
			_ = c.Close()
			if why := o.whyEnded(t); why != tt.why {
				t.Errorf("ended for reason %d, want %d", why, tt.why)
			}
		})
	}
}

// The last bytes wait in the socket for the end of the stream, and leave together with it.
func TestWriteLast(t *testing.T) {
	a, dial := acceptorOf(t, "127.0.0.1:0")
	c := dial("127.0.0.1")
	sock, err := a.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	waits := func() (n int32) {
		const notSent = 0x894b // SIOCOUTQNSD of Linux, which package syscall lacks
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(sock.fd), notSent, uintptr(unsafe.Pointer(&n))); errno != 0 {
			t.Fatal(errno)
		}
		return n
	}
	if n, err := writeLast(sock.fd, []byte("bye")); n != 3 || err != nil {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	if n := waits(); n != 3 {
		t.Errorf("%d bytes wait for the end, want 3", n)
	}
	shutdownWrite(sock.fd)
	if n := waits(); n != 0 {
		t.Errorf("%d bytes wait after the end", n)
	}
	if got, err := io.ReadAll(c); string(got) != "bye" || err != nil {
		t.Errorf("the client got %q, %v", got, err)
	}
}

// An idle stream in a loop has no memory besides its own: no buffer, timer, channel or condition.
func TestIdleStreamHasNoMemory(t *testing.T) {
	o, c := looped(t)
	if !o.DropAfter(time.Hour, Idle) {
		t.Fatal("the stream has ended")
	}
	o.do(func() {
		if o.Life.limitTimer == nil {
			t.Error("there is no time limit")
		}
		o.Open(time.Hour)
	})
	o.sendUntilInLoop(c)
	o.do(func() {
		if o.Life.limitTimer != nil || o.Life.context.done != nil || o.Life.changed.cond != nil {
			t.Errorf("timer %v, channel %v, condition %v", o.Life.limitTimer, o.Life.context.done, o.Life.changed.cond)
		}
		if in := o.reader.input; in.peekBuffer != nil || in.pooledBuffer != nil || o.reader.frame != nil || o.output.queued != nil {
			t.Errorf("the stream has a buffer: %+v, frame %v, output %v", in, o.reader.frame, o.output.queued)
		}
	})
}
