package stream

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The owner gets frames one by one, however they were cut on their way. The client gets the bytes
// that the owner queues, in order.
func TestFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		sizes := []int{0, 1, peekSize, readSize, LoopBuffer, 900_000}
		go func() {
			for _, n := range sizes {
				c.send(strings.Repeat("x", n))
			}
		}()
		total := 0
		for _, n := range sizes {
			c.expect(strings.Repeat("x", n))
			total += n + LengthSize
		}
		go func() {
			for _, b := range []byte("\x00\x00\x00\x02hi") {
				_, _ = c.Write([]byte{b})
			}
		}()
		c.expect("hi")
		if n := o.group.BytesIn.Load(); n != uint64(total+2+LengthSize) {
			t.Errorf("%d bytes read, want %d", n, total+2+LengthSize)
		}
		synctest.Wait()
		o.do(func() {
			if s := o.State(); s != (State{}) || o.HoldsBuffers() {
				t.Errorf("an idle stream has %+v", s)
			}
		})
	})
}

// No frame is served before a stream is opened.
func TestNotOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newOwner(t, nil)
		go o.Serve(true)
		c.send("early")
		synctest.Wait()
		o.do(func() {
			if n := o.UnsentBytes(); n != 0 {
				t.Errorf("%d bytes are queued before the stream is open", n)
			}
			o.Open(testTimeout)
		})
		c.expect("early")
		_ = c.Close()
		o.whyEnded(t)
	})
}

// A stream with MaxInFlight frames, or MaxWaitingBytes bytes of them, serves no more until the owner says
// that there are fewer.
func TestFull(t *testing.T) {
	for name, hold := range map[string]func(o *owner){
		"frames": func(o *owner) { o.frames = o.group.MaxInFlight },
		"bytes":  func(o *owner) { o.bytes = MaxWaitingBytes },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, c := opened(t, nil)
				served := 0
				frame := func(frame []byte) bool {
					served++
					o.do(func() { hold(o); o.queue(frame) })
					return true
				}
				o.do(func() { o.frame = frame })
				c.send("first")
				c.send("second")
				c.expect("first")
				synctest.Wait()
				if served != 1 {
					t.Errorf("%d frames served, want 1", served)
				}
				o.do(func() {
					if o.IsReading() {
						t.Error("a full stream is read")
					}
					o.frames, o.bytes = 0, 0
					o.Life.WakeWaiters()
				})
				c.expect("second")
				o.do(func() { o.frames, o.bytes = 0, 0; o.UpdateAccount() })
			})
		})
	}
}

// No byte is sent without the owner's permit. When the owner grants it, the bytes are sent. When the owner denies it,
// the stream ends.
func TestPermit(t *testing.T) {
	for _, given := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o, c := opened(t, nil)
			asked := 0
			await := func(context.Context) bool {
				asked++
				time.Sleep(testTick / 2)
				return given
			}
			o.do(func() { o.await = await })
			o.do(func() { o.mute = true })
			begun := time.Now()
			c.send("hello")
			if !given {
				c.expectEnd()
				if why := o.whyEnded(t); why != NotVouched {
					t.Errorf("ended for reason %d", why)
				}
			} else if c.expect("hello"); time.Since(begun) != testTick/2 {
				t.Errorf("it took %v", time.Since(begun))
			}
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// Inserted bytes are sent between the bytes queued before them and after them.
func TestInsert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		big := bytes.Repeat([]byte("0123456789"), 2*MaxWrite/10)
		o.do(func() {
			out := o.Output()
			n := len(big) + 2
			out.B = append(out.B, byte(n>>24), byte(n>>16), byte(n>>8), byte(n), '<')
			out.Insert(len(out.B), big)
			out.B = append(out.B, '>')
			o.queue([]byte("next"))
			if want := LengthSize + n + LengthSize + 4; o.UnsentBytes() != want {
				t.Errorf("%d bytes unsent, want %d", o.UnsentBytes(), want)
			}
		})
		o.Flush()
		c.expect("<" + string(big) + ">")
		c.expect("next")
	})
}

// When the client has read all that it was sent, an owner with work that is due is resumed.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		o.do(func() { o.resume = func() { o.do(func() { o.due = false; o.queue([]byte("resumed")) }) } })
		o.do(func() { o.due = true })
		c.send("first")
		c.expect("first")
		c.expect("resumed")
		synctest.Wait()
		if n := o.resumes(); n != 1 {
			t.Errorf("resumed %d times", n)
		}
	})
}

// A ResumeLater during a Resume is not lost, and does not start a second Resume at the same time.
func TestResumeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := opened(t, nil)
		hang := make(chan struct{})
		o.do(func() { o.resume = func() { <-hang } })
		o.do(func() {
			o.ResumeLater() // without effect: nothing is due
			o.due = true
			o.ResumeLater()
		})
		synctest.Wait()
		o.do(o.ResumeLater)
		synctest.Wait()
		if n := o.resumes(); n != 1 {
			t.Errorf("Resume called %d times, want 1", n)
		}
		o.do(func() { o.resume = func() { o.do(func() { o.due = false; o.queue([]byte("resumed")) }) } })
		hang <- struct{}{}
		c.expect("resumed")
		synctest.Wait()
		if n := o.resumes(); n != 2 {
			t.Errorf("Resume called %d times, want 2", n)
		}
	})
}

// A stream ends after the owner's goroutines, and waits for nothing else.
func TestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := opened(t, nil)
		hang := make(chan struct{})
		o.do(func() { o.Life.Go(func() { <-hang }) })
		o.Drop(NumReasons)
		synctest.Wait()
		if len(o.ended) > 0 {
			t.Error("the stream ended before a goroutine of its owner")
		}
		close(hang)
		o.whyEnded(t)
	})
}

// Wait returns when its condition is over, when the stream ends, or after the time that a client
// may be silent. The client is not read meanwhile.
func TestWait(t *testing.T) {
	const silence = testTimeout + IdleSlack*testTick
	for _, tt := range []struct {
		name string
		end  func(o *owner)
		goes bool
		took time.Duration
	}{
		{"come", func(o *owner) { o.do(func() { o.frames = 0; o.Life.WakeWaiters() }) }, true, 0},
		{"dropped", func(o *owner) { o.Drop(NumReasons) }, false, 0},
		{"last reply", func(o *owner) { o.do(func() { o.Life.Finish(NumReasons) }) }, false, 0},
		{"silent", func(*owner) {}, false, silence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, c := opened(t, nil)
				done := make(chan bool, 1)
				waits := func([]byte) (goes bool) {
					o.do(func() {
						o.frames = 1
						goes = o.WaitWhile(func() bool { return o.frames > 0 })
						o.frames = 0
					})
					done <- goes
					return false
				}
				o.do(func() { o.frame = waits })
				begun := time.Now()
				c.send("wait")
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("Wait did not wait")
				}
				tt.end(o)
				if goes := <-done; goes != tt.goes || time.Since(begun) != tt.took {
					t.Errorf("goes on after %v: %v, want after %v: %v", time.Since(begun), goes, tt.took, tt.goes)
				}
			})
		})
	}
}

// halfEnd is an end of a pipe that pretends to close its sending side, as a socket can.
type halfEnd struct{ net.Conn }

func (halfEnd) CloseWrite() error { return nil }
