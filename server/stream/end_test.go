package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each kind of end decides how much of the queued bytes the client gets, and the reason that the owner gets.
func TestEnds(t *testing.T) {
	const own = NumReasons
	for _, tt := range []struct {
		name string
		end  func(o *owner, c *client)
		got  string // what the client gets before the end
		why  Reason
	}{
		{"Drop", func(o *owner, _ *client) { o.Drop(own) }, "", own},
		{"Drop again", func(o *owner, _ *client) { o.Drop(own); o.Drop(own + 1) }, "", own},
		{"Drop, with frames queued", func(o *owner, _ *client) { o.do(func() { o.queue([]byte("late")); o.DropLocked(own) }) }, "", own},
		{"HangUp", func(o *owner, _ *client) { o.HangUp(own) }, "", own},
		{"Finish", func(o *owner, c *client) { o.closeAfter([]byte("bye"), own); o.Flush() }, "\x00\x00\x00\x03bye", own},
		{"Drop after Finish", func(o *owner, c *client) { o.closeAfter([]byte("bye"), own); o.Drop(own + 1) }, "", own},
		{"the client closes", func(_ *owner, c *client) { _ = c.Close() }, "", ByClient},
		{"the client closes, last reply under way", func(o *owner, c *client) {
			o.closeAfter([]byte("bye"), own)
			_ = c.Close()
			synctest.Wait()
			o.Flush()
		}, "", own},
		{"length too long", func(_ *owner, c *client) { _, _ = c.Write([]byte{0x7f, 0, 0, 0}) }, "", BadFrame},
		{"silence", func(*owner, *client) { time.Sleep(testTimeout + (IdleSlack+1)*testTick) }, "", Idle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, c := opened(t, nil)
				c.send("before")
				c.expect("before")
				tt.end(o, c)
				if got, _ := io.ReadAll(c.in); string(got) != tt.got { // the error says that the pipe was closed at this end
					t.Errorf("the client got %q, want %q", got, tt.got)
				}
				_ = c.Close()
				if why := o.whyEnded(t); why != tt.why {
					t.Errorf("ended for reason %d, want %d", why, tt.why)
				}
				if err := o.Life.Context().Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("its context has %v", err)
				}
				o.do(func() {
					if s := o.State(); s != (State{}) || o.HoldsBuffers() {
						t.Errorf("left behind: %+v", s)
					}
				})
			})
		})
	}
}

// After the last reply the client has LingerTime to close its side. Bytes that it sends meanwhile
// are dropped, and the stream has no large buffer meanwhile.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o, c := ownerOf(t, halfEnd{ours}, theirs, nil)
		frame := func([]byte) bool {
			o.closeAfter([]byte("bye"), NumReasons)
			return false
		}
		o.do(func() { o.frame = frame })
		o.serve(t)
		c.send("last")
		c.expect("bye")
		synctest.Wait()
		if o.reader.input.pooledBuffer != nil {
			t.Error("a large buffer is held while the client may close")
		}
		c.send("more")
		synctest.Wait()
		begun := time.Now()
		if why := o.whyEnded(t); why != NumReasons {
			t.Errorf("ended for reason %d", why)
		}
		if took := time.Since(begun); took != LingerTime {
			t.Errorf("it took %v, want %v", took, LingerTime)
		}
	})
}

// HangUp closes the socket even while the owner hangs in Frame.
func TestHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		hang := make(chan struct{})
		frame := func([]byte) bool {
			<-hang
			return true
		}
		o.do(func() { o.frame = frame })
		c.send("stuck")
		synctest.Wait()
		o.HangUp(NumReasons)
		c.expectEnd()
		if len(o.ended) > 0 {
			t.Error("the stream ended while its owner was serving a frame")
		}
		close(hang)
		o.whyEnded(t)
	})
}

// polite is a connection that says goodbye before it closes, as crypto/tls does.
type polite struct{ net.Conn }

func (p polite) NetConn() net.Conn { return p.Conn }

func (p polite) Close() error {
	_ = p.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(p.Conn, "goodbye")
	return p.Conn.Close()
}

// A client that reads gets the goodbye of TLS. One that does not read does not keep the stream for longer
// than CloseNotifyTime.
func TestFarewell(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			o, c := ownerOf(t, polite{ours}, theirs, nil)
			o.serve(t)
			begun, want := time.Now(), CloseNotifyTime
			o.Drop(NumReasons)
			if reads {
				want = 0
				if got, err := io.ReadAll(c.in); string(got) != "goodbye" || err != nil {
					t.Errorf("the client got %q and %v", got, err)
				}
			}
			o.whyEnded(t)
			if took := time.Since(begun); took != want {
				t.Errorf("it reads: %t; the end took %v, want %v", reads, took, want)
			}
		})
	}
}

// A Limit ends a stream in time. A later Limit replaces it, and Open removes it.
func TestLimit(t *testing.T) {
	const own, other = NumReasons, NumReasons + 1
	for _, tt := range []struct {
		name string
		do   func(o *owner)
		why  Reason
		at   time.Duration
	}{
		{"one", func(o *owner) { o.DropAfter(time.Second, own) }, own, time.Second},
		{"a shorter one", func(o *owner) { o.DropAfter(2*time.Second, own); o.DropAfter(time.Second, other) }, other, time.Second},
		{"a longer one", func(o *owner) { o.DropAfter(time.Second, own); o.DropAfter(2*time.Second, other) }, other, 2 * time.Second},
		{"opened", func(o *owner) {
			o.DropAfter(time.Second, own)
			o.do(func() { o.Open(testTimeout) })
		}, Idle, testTimeout + IdleSlack*testTick},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, _ := newOwner(t, nil)
				begun := time.Now()
				tt.do(o)
				go o.Serve(true)
				if why := o.whyEnded(t); why != tt.why {
					t.Errorf("ended for reason %d, want %d", why, tt.why)
				}
				if took := time.Since(begun); took != tt.at {
					t.Errorf("ended after %v, want %v", took, tt.at)
				}
				if o.DropAfter(time.Hour, own) {
					t.Error("a stream that has ended has a limit")
				}
			})
		})
	}
}

// In an exchange there are no frames: both sides send bytes until it is finished.
func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newOwner(t, nil)
		go func() {
			word, ok := o.PeekWord()
			plain := o.Plain()
			var rest [3]byte
			_, err := io.ReadFull(plain, rest[:])
			if string(word[:]) != "word" || !ok || string(rest[:]) != "arg" || err != nil {
				t.Errorf("read %q, %v, then %q and %v", word, ok, rest, err)
			}
			_, _ = io.WriteString(plain, "answer")
			o.FinishPlain(NumReasons)
			o.Serve(false)
		}()
		_, _ = io.WriteString(c, "wordarg")
		if got, err := io.ReadAll(c.in); string(got) != "answer" || err != nil {
			t.Errorf("got %q and %v", got, err)
		}
		if why := o.whyEnded(t); why != NumReasons {
			t.Errorf("ended for reason %d", why)
		}
	})
}

// A client that reads nothing is dropped a tick after its timeout. A client that leaves more unread
// than it may is dropped at once.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := opened(t, nil)
		begun := time.Now()
		o.echo([]byte("unread"))
		o.Flush()
		if why := o.whyEnded(t); why != SlowReader {
			t.Errorf("ended for reason %d", why)
		}
		if took := time.Since(begun); took != testTimeout+testTick {
			t.Errorf("ended after %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		const size = 100
		o, _ := opened(t, func(c *Config) { c.MaxUnread = 3 * (LengthSize + size) })
		for i := range 4 {
			o.do(func() {
				if o.HasEnded() {
					t.Errorf("dropped with %d frames unread", i)
				}
				o.queue([]byte(strings.Repeat("x", size)))
				o.LimitUnread()
			})
		}
		if why := o.whyEnded(t); why != SlowReader {
			t.Errorf("ended for reason %d", why)
		}
	})
}
