package session

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// dialed opens a Session that is connected by a socket. It returns the Session and the server's end of its
// connection.
func dialed(t *testing.T) (c *Session, p *peer) {
	t.Helper()
	f := withSockets(t)
	c = f.open(Config{Timeout: time.Minute}, func() { // no server seems silent on a slow machine
		p = <-f.peers
		p.accept()
	})
	return c, p
}

// Replies of all sizes, split at any byte, reach the functions of their requests in order. A link
// that is idle afterwards keeps no buffer that it was lent.
func TestSocketPipelining(t *testing.T) {
	c, p := dialed(t)
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 100, smallRead, readSize - 40, readSize, 3*readSize + 5, 1 << 20}
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
				err = r.DecodeBody(&resp)
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
	for _, idle := range []bool{false, true} { // the link is idle after the first reply
		over := make(chan struct{})
		if err := c.Go(ctx, jute.OpSync, nil, func(Reply, error) {
			if idle && l.lent != nil {
				t.Error("the idle link keeps the buffer that it was lent")
			}
			close(over)
		}); err != nil {
			t.Fatal(err)
		}
		p.reply(p.want(jute.OpSync).Xid, 1, jute.OK, nil)
		<-over
	}
}

// The goroutine that sends one of few requests writes it: when Go returns, nothing is left to be written.
func TestSenderWrites(t *testing.T) {
	c, p := dialed(t)
	for range gatherFrom - 1 {
		if err := c.Go(ctx, jute.OpSync, nil, func(Reply, error) {}); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		if l := c.link; l.writeRunning || len(l.unwritten) > 0 || len(l.out) > 0 {
			t.Errorf("writing: %v, with %d and %d bytes left", l.writeRunning, len(l.unwritten), len(l.out))
		}
		c.mu.Unlock()
		p.want(jute.OpSync)
	}
}

// A request that follows many without replies is not written by its caller. It is sent all the same.
func TestManyAreGathered(t *testing.T) {
	c, p := dialed(t)
	for number := 1; number <= 2*gatherFrom; number++ {
		c.mu.Lock()
		l, _, write, err := c.queueRequest(outgoing{op: jute.OpSync, done: func(Reply, error) {}})
		if want := number < gatherFrom; write != want || err != nil {
			t.Errorf("request %d: its caller writes: %v, error %v", number, write, err)
		}
		if write {
			l.writeOutput(false)
		}
	}
	for range 2 * gatherFrom {
		p.want(jute.OpSync)
	}
	until(c, func() bool { return !c.link.writeRunning && len(c.link.out) == 0 })
}

// Bytes that the socket does not take at once are written when it has room again, each byte once
// and in order. Callers that wait for room then continue.
func TestFullSocket(t *testing.T) {
	c, p := dialed(t)
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
	until(c, func() bool { return c.link.writeRunning && len(c.roomWaiters) > 0 })
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
	until(c, func() bool { return !c.link.writeRunning && len(c.link.unwritten) == 0 })
}

// until waits until is returns true. It holds the Session's lock while it calls is.
func until(c *Session, is func() bool) {
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

// A socket returns what has arrived, and then the reason why nothing more will. A write that may not
// wait takes what there is room for, and leaves errors to the next write that may wait.
func TestWire(t *testing.T) {
	ours, theirs, err := withSockets(t).pair()
	if err != nil {
		t.Fatal(err)
	}
	w := newNonblockingConn(ours)
	b := make([]byte, 10)
	read := func(want string, reason error) {
		t.Helper()
		if n, err := w.Read(b); string(b[:n]) != want || !errors.Is(err, reason) {
			t.Errorf("read %q, %v, want %q, %v", b[:n], err, want, reason)
		}
	}
	go func() { _, _ = theirs.Write([]byte("hello")) }() // Read may have to wait
	read("hello", nil)
	_ = ours.SetReadDeadline(time.Unix(1, 0))
	read("", os.ErrDeadlineExceeded)
	_ = ours.SetReadDeadline(time.Time{})
	full := 0
	for n := -1; n != 0; full += n {
		if n, err = w.write(make([]byte, 1<<20), false); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := io.CopyN(io.Discard, theirs, int64(full)); err != nil {
		t.Errorf("%d of %d bytes have arrived: %v", n, full, err)
	}
	_ = theirs.Close()
	read("", io.EOF)
	_ = w.Close()
	read("", net.ErrClosed)
	if n, err := w.write(b, false); n != 0 || err != nil {
		t.Errorf("closed: %d bytes were written, %v", n, err)
	}
	if _, err := w.write(b, true); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
