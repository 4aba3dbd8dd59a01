package stream

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/zk/jute"
)

const (
	testTick    = time.Second
	testTimeout = 10 * time.Second
	patience    = time.Minute // of a test
)

// owner is an Owner that replies to each frame with the same frame, unless a test changes that.
type owner struct {
	Stream
	ended chan Reason

	// Guarded by the stream's lock.
	frame         func(frame []byte) bool
	begin         func() bool
	resume        func()
	await         func(context.Context) bool
	resumed       int // calls of Resume
	frames, bytes int // frames that wait, and their bytes
	due, mute     bool
}

func (o *owner) ServeFrame(frame []byte) bool {
	o.Lock()
	f := o.frame
	o.Unlock()
	return f(frame)
}

func (o *owner) BeginInReader() bool {
	o.Lock()
	f := o.begin
	o.Unlock()
	return f()
}

func (o *owner) WaitingFrames() (frames, bytes int) { return o.frames, o.bytes }
func (o *owner) CanResume() bool                    { return o.due }
func (o *owner) MaySend() bool                      { return !o.mute }

func (o *owner) AwaitPermit(ctx context.Context) bool {
	o.Lock()
	f := o.await
	o.Unlock()
	return f(ctx)
}

func (o *owner) OutputTaken() {}

func (o *owner) StreamEnded(why Reason) { o.ended <- why }

func (o *owner) Resume() {
	o.Lock()
	o.resumed++
	f := o.resume
	o.Unlock()
	if f != nil {
		f()
	}
}

// echo queues the frame.
func (o *owner) echo(frame []byte) bool {
	o.do(func() { o.queue(frame) })
	return true
}

// queue queues a frame. The caller holds the lock.
func (o *owner) queue(content []byte) {
	out := o.Output()
	b, mark := jute.BeginFrame(out.B)
	out.B = jute.EndFrame(append(b, content...), mark)
}

// resumes returns the number of calls of Resume.
func (o *owner) resumes() (n int) {
	o.do(func() { n = o.resumed })
	return n
}

// do runs f under the lock.
func (o *owner) do(f func()) {
	o.Lock()
	defer o.Unlock()
	f()
}

// closeAfter queues a last frame.
func (o *owner) closeAfter(content []byte, why Reason) {
	o.do(func() {
		o.queue(content)
		o.Life.Finish(why)
	})
}

// testGroup returns a group of its own with a budget, for the streams that all returns.
func testGroup(t *testing.T, all func() []*Stream) *Group {
	log := slog.New(slog.DiscardHandler)
	g := &Group{Config: &Config{
		Tick: testTick, HandshakeTimeout: testTimeout, MaxFirstFrame: 1 << 20, MaxFrame: 1 << 20, MaxInFlight: 8, MaxUnread: 1 << 20,
		Budget: NewBudget(16<<20, all, log), BytesIn: new(atomic.Uint64), Logger: log,
	}}
	t.Cleanup(func() {
		g.Close()
		g.Budget.AwaitManager()
		if n := g.Budget.UsedBytes(); n != 0 {
			t.Errorf("%d bytes are still counted after all streams have ended", n)
		}
	})
	return g
}

// client is the other end of a stream. Its methods fail the test if the stream does not do what
// they expect.
type client struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// newOwner returns an owner of one end of a pipe, and the other end. The stream is not served yet.
func newOwner(t *testing.T, change func(*Config)) (*owner, *client) {
	ours, theirs := net.Pipe()
	return ownerOf(t, ours, theirs, change)
}

func ownerOf(t *testing.T, ours, theirs net.Conn, change func(*Config)) (*owner, *client) {
	o := &owner{ended: make(chan Reason, 1)}
	o.frame = o.echo
	g := testGroup(t, func() []*Stream { return []*Stream{&o.Stream} })
	if change != nil {
		change(g.Config)
	}
	o.Init(ours, g, o)
	_ = theirs.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = theirs.Close() })
	return o, &client{theirs, t, bufio.NewReader(theirs)}
}

// opened returns an owner whose stream is open and served, and its client. The stream ends with the
// test.
func opened(t *testing.T, change func(*Config)) (*owner, *client) {
	o, c := newOwner(t, change)
	o.serve(t)
	return o, c
}

func (o *owner) serve(t *testing.T) {
	o.do(func() { o.Open(testTimeout) })
	go o.Serve(true)
	t.Cleanup(func() {
		o.HangUp(ByClient)
		select {
		case <-o.ended:
		case <-time.After(patience):
			t.Error("the stream does not end")
		}
	})
}

// whyEnded waits for the end of the stream and returns the reason.
func (o *owner) whyEnded(t *testing.T) Reason {
	t.Helper()
	select {
	case why := <-o.ended:
		o.ended <- why // for the next call
		return why
	case <-time.After(patience):
		t.Fatal("the stream does not end")
		return 0
	}
}

func (c *client) send(content string) {
	c.t.Helper()
	b, mark := jute.BeginFrame(nil)
	if _, err := c.Write(jute.EndFrame(append(b, content...), mark)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(content string) {
	c.t.Helper()
	frame, err := jute.ReadFrame(c.in, nil, 64<<20)
	if err != nil || string(frame) != content {
		if len(frame) > 50 {
			frame = frame[:50]
		}
		c.t.Fatalf("got %q and %v, want %.50q", frame, err, content)
	}
}

// expectEnd reads the end of the stream, with no byte before it.
func (c *client) expectEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		c.t.Fatalf("got %d bytes and %v, want the end", len(rest), err)
	}
}

// waitFor waits until holds returns true.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the condition never came true")
		}
	}
}
