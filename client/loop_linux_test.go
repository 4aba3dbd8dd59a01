package client

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/jute"
)

// served opens a Client that the fake's Loop serves. It returns the Client and the server's end of
// its connection.
func (f *fake) served(cfg Config) (c *Client, p *peer) {
	f.t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute // no server seems silent on a slow machine, and attempts are close together
	}
	c = f.open(cfg, func() {
		p = <-f.peers
		p.accept()
	})
	if !c.linkOf().looped {
		f.t.Fatal("the loop has not taken the connection")
	}
	return c, p
}

func (c *Client) linkOf() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// settles sends a request, answers it, and calls check on the Loop when the Loop handles the reply.
// When settles returns, the Loop has handled everything that arrived before.
func (p *peer) settles(c *Client, check func()) {
	p.t.Helper()
	over := make(chan struct{})
	if err := c.Ready(ctx); err != nil {
		p.t.Fatal(err)
	}
	if err := c.Go(ctx, jute.OpSync, nil, func(Reply, error) {
		check()
		close(over)
	}); err != nil {
		p.t.Fatal(err)
	}
	p.reply(p.want(jute.OpSync).Xid, 1, jute.OK, nil)
	<-over
}

// Replies of all sizes, split at any byte, reach the functions of their requests in order. A link
// that is idle afterwards keeps no buffer that it was lent.
func TestLoopPipelining(t *testing.T) {
	f := looped(t)
	c, p := f.served(Config{})
	l := c.linkOf()
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 100, smallRead, readSize - 40, readSize, loopRead, 3*loopRead + 5, loopReads * loopRead}
	const requests = 200
	sent := make([][]byte, requests)
	next := 0
	over := make(chan struct{})
	for i := range requests {
		size := i
		if i%5 == 0 {
			size += sizes[i/5%len(sizes)]
		}
		sent[i] = bytes.Repeat([]byte{byte(i)}, size)
		if err := c.Go(ctx, jute.OpGetData, jute.GetDataRequest{Path: []byte("/")}, func(r Reply, err error) {
			var resp jute.GetDataResponse
			if err == nil {
				err = r.Into(&resp)
			}
			if i != next || err != nil || r.Zxid != int64(i) || !bytes.Equal(resp.Data, sent[i]) {
				t.Errorf("reply %d, want %d: zxid %d, %d bytes of %d, %v", i, next, r.Zxid, len(resp.Data), len(sent[i]), err)
			}
			if next++; next == requests {
				close(over)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	var out []byte
	for i := range requests {
		r := p.want(jute.OpGetData)
		out = append(out, appendFrame(jute.ReplyHeader{Xid: r.Xid, Zxid: int64(i)}, jute.GetDataResponse{Data: sent[i]})...)
	}
	for len(out) > 0 {
		n := min(len(out), 1+rng.IntN([]int{3, 100, 5000, 3 << 20}[rng.IntN(4)]))
		if _, err := p.Write(out[:n]); err != nil {
			t.Fatal(err)
		}
		out = out[n:]
	}
	<-over
	p.settles(c, func() {}) // after it the link is idle
	p.settles(c, func() {
		if l.lent != nil {
			t.Error("the idle link keeps the buffer that it was lent")
		}
	})
}

// Bytes that the socket does not take at once are written when it has room again, each byte once
// and in order. Callers that wait for room then continue.
func TestLoopPartialWrites(t *testing.T) {
	f := looped(t)
	c, p := f.served(Config{})
	const requests, size = 40, 1<<20 - 200
	sent := make(chan error, 1)
	go func() {
		for i := range requests {
			if err := c.Go(ctx, jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Data: bytes.Repeat([]byte{byte(i)}, size-100*i)}, func(Reply, error) {}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	until(c, func() bool { return c.link.full && len(c.waiting) > 0 })
	for i := range requests {
		var req jute.SetDataRequest
		r := p.want(jute.OpSetData)
		d := jute.NewDecoder(r.body)
		req.Decode(&d)
		if r.Xid != int32(i+1) || !bytes.Equal(req.Data, bytes.Repeat([]byte{byte(i)}, size-100*i)) {
			t.Fatalf("request %d: xid %d, %d bytes", i, r.Xid, len(req.Data))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	until(c, func() bool { return !c.link.full && !c.link.writing && c.link.rest() == 0 })
}

// until waits until is returns true. It holds the Client's lock while it calls is.
func until(c *Client, is func() bool) {
	for {
		c.mu.Lock()
		yes := is()
		c.mu.Unlock()
		if yes {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Idle sessions ping. If a server falls silent, the session resumes at the next server and sets its
// watches again. The Loop serves the new connection, too.
func TestLoopPings(t *testing.T) {
	f := looped(t)
	var h heard
	pings := make(chan time.Duration, 100)
	c, a := f.served(Config{
		Timeout: 300 * time.Millisecond, Pinged: func(d time.Duration) { pings <- d },
		State: func(s State, why error) { h.add("%v %v", s, errors.Is(why, errSilent)) },
	})
	if err := c.Go(ctx, jute.OpExists, jute.ExistsRequest{Path: []byte("/w"), Watch: true}, func(Reply, error) {}); err != nil {
		t.Fatal(err)
	}
	a.reply(a.want(jute.OpExists).Xid, 5, jute.OK, jute.ExistsResponse{})
	for range 3 {
		a.reply(a.want(jute.OpPing).Xid, 5, jute.OK, nil)
		if d := <-pings; d <= 0 || d > time.Minute {
			t.Errorf("a ping of %v", d)
		}
	}
	a.want(jute.OpPing) // not answered
	var b *peer
	for b = a; b.addr == "a"; {
		b = <-f.peers
	}
	if req := b.accept(); req.SessionID != fakeSession || req.LastZxidSeen != 5 {
		t.Errorf("handshake: %+v", req)
	}
	b.reply(b.want(jute.OpSetWatches).Xid, 5, jute.OK, nil)
	b.reply(b.want(jute.OpPing).Xid, 5, jute.OK, nil)
	<-pings
	if l := c.linkOf(); l == nil || !l.looped || l.addr != "b" {
		t.Error("the second connection is not served by the loop")
	}
	if got, want := h.take(), []string{"connected false", "disconnected true", "connected false"}; !slices.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
}

// If the Loop itself was held up, it does not take a server for silent that has answered in the
// meantime.
func TestLoopHeldUp(t *testing.T) {
	f := looped(t)
	var h heard
	a, pa := f.served(Config{})
	b, pb := f.served(Config{State: func(s State, why error) { h.add("%v", s) }})
	pb.settles(b, func() {}) // from here on the Loop serves it
	held, over := make(chan struct{}), make(chan struct{})
	if err := a.Go(ctx, jute.OpSync, nil, func(Reply, error) {
		close(held)
		<-over
	}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	if err := b.Go(ctx, jute.OpSync, nil, func(_ Reply, err error) { answered <- err }); err != nil {
		t.Fatal(err)
	}
	r := pb.want(jute.OpSync)
	pa.reply(pa.want(jute.OpSync).Xid, 1, jute.OK, nil)
	<-held
	pb.reply(r.Xid, 1, jute.OK, nil)
	// This is as if the Loop had been paused for longer than the timeout, and now looked at b
	// before reading anything.
	b.linkOf().heard.Store(int64(b.now() - 2*time.Minute))
	f.loop.mu.Lock()
	for i := range f.loop.looks {
		f.loop.looks[i].at = 0
	}
	f.loop.mu.Unlock()
	close(over)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	pb.settles(b, func() {})
	if got := h.take(); !slices.Equal(got, []string{"connected"}) {
		t.Errorf("states %q", got)
	}
}

// If more bytes arrive at once than one turn reads, the Loop reads the rest without another event,
// because the kernel reports the bytes only once.
func TestLoopTurn(t *testing.T) {
	f := looped(t)
	f.loop.shared = make([]byte, 64) // one turn fills it eight times
	c, p := f.served(Config{})
	const requests = 200
	answered := make(chan error, requests)
	var out []byte
	for i := range requests {
		if err := c.Go(ctx, jute.OpSync, nil, func(_ Reply, err error) { answered <- err }); err != nil {
			t.Fatal(err)
		}
		out = append(out, appendFrame(jute.ReplyHeader{Xid: p.want(jute.OpSync).Xid, Zxid: int64(i)})...)
	}
	if _, err := p.Write(out); err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		select {
		case err := <-answered:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second): // long before anything else would wake the Loop
			t.Fatalf("%d of %d replies were read", i, requests)
		}
	}
}

// A Loop calls the functions of all its Clients one at a time, even if these functions send
// requests. All sessions can be closed at the same time, and none loses its connection.
func TestLoopServesMany(t *testing.T) {
	const clients, window, rounds = 50, 4, 100
	loop := openLoop(t)
	all := make([]*Client, clients)
	var wait sync.WaitGroup
	count := 0 // changed only by functions on the Loop, so it needs no lock
	states := &heard{}
	for i := range all {
		c := openLoopback(t, Config{Loop: loop, State: func(s State, _ error) {
			if s != Connected {
				states.add("%v", s)
			}
		}})
		all[i] = c
		left := rounds
		var next func(Reply, error)
		next = func(_ Reply, err error) {
			if err != nil {
				t.Error(err)
			}
			count++
			if left--; left >= 0 {
				if err := c.Go(ctx, jute.OpSetData, jute.SetDataRequest{Path: []byte("/")}, next); err != nil {
					t.Error(err)
				}
				return
			}
			wait.Done()
		}
		wait.Add(window)
		for range window {
			if err := c.Go(ctx, jute.OpSync, nil, next); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait.Wait()
	if want := clients * (rounds + window); count != want {
		t.Errorf("%d functions ran, want %d", count, want)
	}
	for _, c := range all {
		wait.Go(func() {
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := states.take(); slices.Contains(got, "disconnected") || len(got) != clients {
		t.Errorf("states %q", got)
	}
}

// When a Loop is closed, its Clients go on with goroutines of their own.
func TestLoopClosed(t *testing.T) {
	f := looped(t)
	c, a := f.served(Config{})
	lost := make(chan error, 1)
	if err := c.Go(ctx, jute.OpSync, nil, func(_ Reply, err error) { lost <- err }); err != nil {
		t.Fatal(err)
	}
	a.want(jute.OpSync)
	f.loop.Close()
	if err := <-lost; !errors.Is(err, ErrConnectionLost) {
		t.Errorf("the request in flight: %v", err)
	}
	a.ended()
	b := <-f.peers
	b.accept()
	go func() { b.reply(b.want(jute.OpSync).Xid, 1, jute.OK, jute.SyncResponse{}) }()
	if err := c.Sync(ctx, "/"); err != nil {
		t.Error(err)
	}
	if c.linkOf().looped {
		t.Error("the closed loop serves the new connection")
	}
}

// Invalid bytes end the connection and nothing else: the client connects again.
func TestLoopHostileBytes(t *testing.T) {
	f := looped(t)
	c, p := f.served(Config{})
	if _, err := p.Write([]byte{0x7f, 0xff, 0xff, 0xff, 1}); err != nil {
		t.Fatal(err)
	}
	p = <-f.peers
	p.accept()
	p.settles(c, func() {})
}

// If a connection is not a socket of the operating system, goroutines serve it.
func TestLoopWithoutSocket(t *testing.T) {
	pipes := newFake(t)
	loop := openLoop(t)
	opened := make(chan *Client)
	go func() {
		c, err := Open(ctx, Config{Servers: []string{"a"}, Dial: pipes.dial, Loop: loop})
		if err != nil {
			t.Error(err)
		}
		opened <- c
	}()
	p := <-pipes.peers
	p.accept()
	c := <-opened
	defer c.Abandon()
	if c.linkOf().looped {
		t.Error("the loop serves a pipe")
	}
	go func() { p.reply(p.want(jute.OpSync).Xid, 1, jute.OK, jute.SyncResponse{}) }()
	if err := c.Sync(ctx, "/"); err != nil {
		t.Error(err)
	}
}

// The queue returns looks in the order of their times.
func TestLookQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var q lookQueue
	var want []time.Duration
	for range 500 {
		at := time.Duration(rng.IntN(300))
		q.push(look{at: at})
		want = append(want, at)
		if rng.IntN(3) == 0 {
			slices.Sort(want)
			if got := q.pop().at; got != want[0] {
				t.Fatalf("got %d, want %d", got, want[0])
			}
			want = want[1:]
		}
	}
	slices.Sort(want)
	for _, at := range want {
		if got := q.pop().at; got != at {
			t.Fatalf("got %d, want %d", got, at)
		}
	}
	if len(q) != 0 {
		t.Errorf("%d looks are left", len(q))
	}
}
