package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// Replies of all sizes, split at any byte, reach the functions of their requests in order.
func TestPipelining(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		const requests = 600
		rng := rand.New(rand.NewPCG(1, 2))
		sizes := []int{0, 1, 100, smallRead, readSize - 40, readSize, 3*readSize + 5, 1 << 20}
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		sent := make([][]byte, requests)
		next := 0
		for i := range requests {
			sent[i] = bytes.Repeat([]byte{byte(i)}, sizes[0])
			if rng.IntN(4) == 0 {
				sent[i] = bytes.Repeat([]byte{byte(i)}, sizes[rng.IntN(len(sizes)-i%2)])
			}
			path := fmt.Appendf(nil, "/%d", i)
			if err := c.Go(ctx, jute.OpGetData, jute.GetDataRequest{Path: path}, func(r Reply, err error) {
				var resp jute.GetDataResponse
				if err == nil {
					err = r.DecodeBody(&resp)
				}
				if i != next || err != nil || r.Zxid != int64(i) || !bytes.Equal(resp.Data, sent[i]) || resp.Stat.Version != int32(i) {
					t.Errorf("reply %d, want %d: zxid %d, %d bytes of %d, %v", i, next, r.Zxid, len(resp.Data), len(sent[i]), err)
				}
				next++
			}); err != nil {
				t.Fatal(err)
			}
		}
		var out []byte
		for i := range requests {
			r := p.want(jute.OpGetData)
			if want := fmt.Sprintf("/%d", i); r.Xid != int32(i+1) || string(r.body[4:len(r.body)-1]) != want {
				t.Fatalf("request %d: xid %d, path %s", i, r.Xid, r.body[4:])
			}
			out = append(out, appendFrame(jute.ReplyHeader{Xid: r.Xid, Zxid: int64(i)}, jute.GetDataResponse{Data: sent[i], Stat: jute.Stat{Version: int32(i)}})...)
		}
		for len(out) > 0 {
			n := min(len(out), 1+rng.IntN([]int{3, 100, 5000, 200_000}[rng.IntN(4)]))
			if _, err := p.Write(out[:n]); err != nil {
				t.Fatal(err)
			}
			out = out[n:]
		}
		synctest.Wait()
		if next != requests || c.link.lent == nil && len(c.link.buf) != smallRead {
			t.Errorf("%d replies, then a buffer of %d", next, len(c.link.buf))
		}
		// An idle client returns the buffer that it was lent.
		p.reply(p.want(jute.OpPing).Xid, 1, jute.OK, nil)
		synctest.Wait()
		p.reply(p.want(jute.OpPing).Xid, 1, jute.OK, nil)
		synctest.Wait()
		if c.link.lent != nil || len(c.link.buf) != smallRead {
			t.Errorf("an idle link keeps a buffer of %d", len(c.link.buf))
		}
	})
}

// Requests that have queued up go out in one write.
func TestOneWriteForMany(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		for range 10 {
			if err := c.Go(ctx, jute.OpSync, jute.SyncRequest{}, func(Reply, error) {
				time.Sleep(time.Millisecond) // gives a writer time to run
				_ = c.Go(ctx, jute.OpSync, jute.SyncRequest{}, func(Reply, error) {})
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first request is being written, and the server does not read
		}
		time.Sleep(12 * time.Second) // long enough for a ping, but none is sent during a write
		const size = 4 + 8 + 4
		b := make([]byte, 1000)
		for _, want := range []int{1 * size, 9 * size} {
			if n, _ := p.Read(b); n != want {
				t.Errorf("%d bytes in one write, want %d", n, want)
			}
		}
		// Ten replies arrive in one read. The requests that their functions send go out together,
		// too.
		var replies []byte
		for i := range 10 {
			replies = append(replies, appendFrame(jute.ReplyHeader{Xid: int32(i + 1), Zxid: 1})...)
		}
		if _, err := p.Write(replies); err != nil {
			t.Fatal(err)
		}
		if n, _ := p.Read(b); n != 10*size {
			t.Errorf("%d bytes in one write, want %d", n, 10*size)
		}
	})
}

// At most MaxInFlight requests are in flight. The next one waits for a reply or for the end of its
// context.
func TestMaxInFlight(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{MaxInFlight: 3}, func() {
			p = <-f.peers
			p.accept()
		})
		again := true // the first function that runs sends two more requests
		nothing := func(Reply, error) {}
		done := func(Reply, error) {
			if again {
				again = false
				for range 2 {
					if err := c.Go(ctx, jute.OpSync, nil, nothing); err != nil {
						t.Error(err)
					}
				}
			}
		}
		for range 3 {
			if err := c.Go(ctx, jute.OpSync, nil, done); err != nil {
				t.Fatal(err)
			}
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		if err := c.Go(limited, jute.OpExists, nil, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fourth request: %v, want DeadlineExceeded", err)
		}
		cancel()
		if len(c.roomWaiters) != 0 {
			t.Error("a caller that has given up is still in the queue")
		}
		passed := make(chan error, 3)
		for range 3 {
			go func() { passed <- c.Go(ctx, jute.OpExists, nil, nothing) }()
		}
		synctest.Wait() // all three wait
		reply := func(op jute.Op) {
			t.Helper()
			p.reply(p.want(op).Xid, 1, jute.OK, nil)
			synctest.Wait()
		}
		for i, want := range []int{0, 0, 1} { // the function of the first reply sends two requests
			reply(jute.OpSync)
			if len(passed) != want {
				t.Errorf("%d callers continued after %d replies, want %d", len(passed), i+1, want)
			}
		}
		// A lost connection releases all callers that wait.
		_ = p.Close()
		synctest.Wait()
		var got []error
		for range 3 {
			got = append(got, <-passed)
		}
		if got[0] != nil || !errors.Is(got[1], ErrNotConnected) || !errors.Is(got[2], ErrNotConnected) {
			t.Errorf("the waiting callers returned %v", got)
		}
	})
}

// A function that the reader calls may exceed the limit, because otherwise the reader would wait
// for itself.
func TestSendFromWatchAndState(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		var c *Session
		var sent []error
		nothing := func(Reply, error) {}
		send := func() {
			sent = append(sent, c.Go(ctx, jute.OpSync, nil, nothing))
			time.Sleep(time.Millisecond) // gives a writer time to run
			sent = append(sent, c.Go(ctx, jute.OpSync, nil, nothing))
		}
		c = f.open(Config{
			MaxInFlight: 2,
			OnEvent:     func(jute.WatcherEvent, int64) { send() },
			OnState: func(s Change) {
				if s.State == Reconnected {
					send()
				}
			},
		}, func() {
			p = <-f.peers
			p.accept()
		})
		for range 2 {
			if err := c.Go(ctx, jute.OpSync, nil, nothing); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			p.want(jute.OpSync)
		}
		synctest.Wait() // the writer has ended
		p.event(jute.EventNodeCreated, "/a", 1)
		const size = 4 + 8
		if n, _ := p.Read(make([]byte, 100)); n != 2*size {
			t.Errorf("%d bytes in one write, want %d", n, 2*size)
		}
		_ = p.Close()
		p = <-f.peers
		p.accept()
		for range 2 {
			p.want(jute.OpSync)
		}
		synctest.Wait()
		if len(sent) != 4 || errors.Join(sent...) != nil {
			t.Errorf("sent: %v", sent)
		}
	})
}

// If a caller's turn comes just as its context ends, it passes the turn on to the next caller.
func TestTurnPassedOn(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		c := f.open(Config{MaxInFlight: 1}, func() { (<-f.peers).accept() })
		ended, cancel := context.WithCancel(ctx)
		passed := make(chan struct{})
		wait := func(ctx context.Context, then func()) {
			c.mu.Lock()
			if err := c.awaitRequestRoom(ctx); err == nil {
				c.mu.Unlock()
			}
			then()
		}
		go wait(ended, func() {})
		synctest.Wait()
		go wait(ctx, func() { close(passed) })
		synctest.Wait()
		c.mu.Lock()
		cancel() // wakes the first caller, which then waits for the lock
		c.wakeRoomWaiter()
		c.mu.Unlock()
		start := time.Now()
		<-passed
		if d := time.Since(start); d != 0 {
			t.Errorf("the next caller waited for %v", d)
		}
	})
}

// If the server does not read, the Session accepts requests only until its buffers are full. A write
// in progress does not hide that the server is silent.
func TestUnsentBound(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		c := f.open(Config{MaxRequest: MaxRequest}, func() { (<-f.peers).accept() })
		data := make([]byte, 1<<20)
		var taken atomic.Int64
		var refused error
		over := make(chan struct{})
		start := time.Now()
		lost := 0
		go func() {
			defer close(over)
			for range 100 {
				if refused = c.Go(ctx, jute.OpSetData, jute.SetDataRequest{Data: data}, func(_ Reply, err error) {
					if errors.Is(err, ErrConnectionLost) {
						lost++
					}
				}); refused != nil {
					return
				}
				taken.Add(1)
			}
		}()
		time.Sleep(time.Second)
		if n := taken.Load(); n > 10 { // 4 MiB are being written and 4 wait; one request may exceed each limit
			t.Errorf("%d MiB were accepted", n)
		}
		<-over
		if d := time.Since(start); d != 20*time.Second || !errors.Is(refused, ErrNotConnected) {
			t.Errorf("after %v: %v", d, refused)
		}
		synctest.Wait()
		if n := taken.Load(); int64(lost) != n {
			t.Errorf("%d of %d requests were lost, want all", lost, n)
		}
	})
}

// A caller that waits because too many bytes are unsent continues when the server reads them.
func TestUnsentBoundEnds(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{MaxRequest: MaxRequest}, func() {
			p = <-f.peers
			p.accept()
		})
		over := make(chan error, 1)
		go func() {
			var err error
			for range 20 {
				err = errors.Join(err, c.Go(ctx, jute.OpSetData, jute.SetDataRequest{Data: make([]byte, 1<<20-100)}, func(Reply, error) {}))
			}
			over <- err
		}()
		time.Sleep(time.Second) // until the caller waits
		for range 20 {
			p.want(jute.OpSetData)
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// A Do returns when its context ends. A reply that arrives later is dropped. It does not reach
// another call through reused memory.
func TestContextEndsInDo(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := c.get(limited, "/late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("late: %v", err)
		}
		if _, err := c.get(limited, "/never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that has ended: %v", err)
		}
		type result struct {
			data []byte
			err  error
		}
		got := make(chan result, 1)
		get := func(path string) {
			data, err := c.get(ctx, path)
			got <- result{data, err}
		}
		go get("/a")
		p.reply(p.want(jute.OpGetData).Xid, 1, jute.OK, jute.GetDataResponse{Data: []byte("late")})
		p.reply(p.want(jute.OpGetData).Xid, 2, jute.OK, jute.GetDataResponse{Data: []byte("here")})
		first := <-got
		go get("/b")
		p.reply(p.want(jute.OpGetData).Xid, 2, jute.OK, jute.GetDataResponse{Data: []byte("this")})
		second := <-got
		if first.err != nil || string(first.data) != "here" || second.err != nil || string(second.data) != "this" {
			t.Errorf("%q %v, %q %v", first.data, first.err, second.data, second.err)
		}
	})
}

// After the greatest xid, the numbers start again at 1.
func TestXidWraps(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		c.mu.Lock()
		c.xid = 1<<31 - 2
		c.mu.Unlock()
		for range 2 {
			if err := c.Go(ctx, jute.OpSync, nil, func(Reply, error) {}); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := p.request().Xid, p.request().Xid; a != 1<<31-1 || b != 1 {
			t.Errorf("xids %d and %d", a, b)
		}
	})
}

// hostile holds bytes that no server sends, each under the name of its fault.
var hostile = map[string][]byte{
	"length below 0":         {0xff, 0xff, 0xff, 0xff},
	"length above the limit": {0x7f, 0, 0, 0},
	"frame without a header": appendFrame(jute.ErrorResponse{}),
	"reply to another":       appendFrame(jute.ReplyHeader{Xid: 9}),
	"reply to nothing":       append(appendFrame(jute.ReplyHeader{Xid: 1}), appendFrame(jute.ReplyHeader{Xid: 2})...),
	"setWatches of nobody":   appendFrame(jute.ReplyHeader{Xid: jute.XidSetWatches}),
	"auth of nobody":         appendFrame(jute.ReplyHeader{Xid: jute.XidAuth}),
	"event cut short":        appendFrame(jute.ReplyHeader{Xid: jute.XidNotification}, jute.ErrorResponse{}),
	"unknown xid":            appendFrame(jute.ReplyHeader{Xid: -99}),
}

// If invalid bytes arrive on a connection, the client drops it and resumes the session at another
// server.
func TestHostileBytes(t *testing.T) {
	for name, nonsense := range hostile {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, f *fake) {
				var p *peer
				var why []error
				c := f.open(Config{OnState: func(s Change) { why = append(why, s.Err) }}, func() {
					p = <-f.peers
					p.accept()
				})
				if err := c.Go(ctx, jute.OpSync, nil, func(Reply, error) {}); err != nil {
					t.Fatal(err)
				}
				p.want(jute.OpSync)
				if _, err := p.Write(nonsense); err != nil {
					t.Fatal(err)
				}
				p.ended()
				(<-f.peers).accept()
				synctest.Wait()
				if len(why) != 4 || !errors.Is(why[2], ErrProtocol) || why[3] != nil {
					t.Errorf("states: %v", why)
				}
			})
		})
	}
}

// The length of a frame alone does not make the client allocate memory for it: it only lends the larger buffer.
func TestPromisedLength(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		if _, err := p.Write(append([]byte{0x03, 0, 0, 0}, make([]byte, 2*readSize)...)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(c.link.buf); n > longReadSize {
			t.Errorf("a buffer of %d bytes", n)
		}
	})
}

// FuzzReplies sends arbitrary bytes to a Session after the handshake, while four kinds of requests
// are in flight. The Session must drop the connection or wait, and every request must end exactly
// once.
func FuzzReplies(f *testing.F) {
	for _, b := range hostile {
		f.Add(b, uint8(3))
	}
	f.Add(appendFrame(jute.ReplyHeader{Xid: 1, Zxid: 5}, jute.GetDataResponse{Data: []byte("x")}), uint8(1))
	f.Add(append(appendFrame(jute.ReplyHeader{Xid: 1, Zxid: 5}), appendFrame(jute.ReplyHeader{Xid: 2, Zxid: 6}, MultiRequest(nil))...), uint8(40))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		if len(b) > 4<<10 {
			return
		}
		within(t, func(t *testing.T, f *fake) {
			var p *peer
			c := f.open(Config{OnEvent: func(jute.WatcherEvent, int64) {}}, func() {
				p = <-f.peers
				p.accept()
			})
			ended := make([]int, 4)
			for i, rec := range []struct {
				op   jute.Op
				rec  Record
				into Readable
			}{
				{jute.OpGetData, jute.GetDataRequest{Path: []byte("/a"), Watch: true}, new(jute.GetDataResponse)},
				{jute.OpMulti, MultiRequest(nil), new(MultiResponse)},
				{jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/a")}, new(jute.ErrorResponse)},
				{jute.OpGetChildren2, jute.GetChildrenRequest{Path: []byte("/a")}, new(jute.GetChildren2Response)},
			} {
				if err := c.Go(ctx, rec.op, rec.rec, func(r Reply, err error) {
					if ended[i]++; err == nil {
						_ = r.DecodeBody(rec.into)
					}
				}); err != nil {
					t.Fatal(err)
				}
				p.request()
			}
			for len(b) > 0 {
				n := min(len(b), int(step)+1)
				if _, err := p.Write(b[:n]); err != nil {
					break
				}
				b = b[n:]
			}
			synctest.Wait()
			c.Abandon()
			for i, n := range ended {
				if n != 1 {
					t.Errorf("request %d ended %d times", i, n)
				}
			}
		})
	})
}

// A caller that gives up gets the reason, whatever it waits for.
func TestCallersGiveUp(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		defer c.Abandon()
		go func() {
			for {
				if _, err := jute.ReadFrame(p.r, nil, 1<<20); err != nil {
					return
				}
			}
		}()
		for name, call := range map[string]func(ctx context.Context) error{
			"addAuth": func(ctx context.Context) error { return c.AddAuth(ctx, Auth{Scheme: "digest", Auth: []byte("a:b")}) },
			"get":     func(ctx context.Context) error { _, err := c.get(ctx, "/a"); return err },
			"set":     func(ctx context.Context) error { _, err := c.set(ctx, "/a"); return err },
			"sync":    c.sync,
		} {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			stop()
		}
	})
}

// DoSynced sends its sync on the connection of its read. If the connection breaks between their replies, the read has
// none.
func TestSyncedReadOnOneConnection(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		done := make(chan error, 1)
		go func() {
			_, err := c.DoSynced(ctx, jute.OpGetData, jute.GetDataRequest{Path: []byte("/a")}, &jute.GetDataResponse{})
			done <- err
		}()
		sync := p.want(jute.OpSync)
		if get := p.want(jute.OpGetData); get.Xid != sync.Xid+1 {
			t.Errorf("the read has the number %d after %d", get.Xid, sync.Xid)
		}
		p.reply(sync.Xid, 1, jute.OK, jute.SyncResponse{Path: []byte("/")})
		_ = p.Close()
		if err := <-done; !errors.Is(err, ErrConnectionLost) {
			t.Errorf("error %v, want %v", err, ErrConnectionLost)
		}
	})
}
