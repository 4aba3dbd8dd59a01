package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// fake is a network of servers, whose part the test takes. A Session that dials one gets one end of a pipe, and the test
// gets the other end as a peer. If there is a listener, a socket takes the place of the pipe. A server that is down
// rejects connections.
type fake struct {
	t     *testing.T
	ln    net.Listener // nil: pipes
	mu    sync.Mutex
	down  map[string]bool
	dials []string
	peers chan *peer

	began     time.Time
	suspended atomic.Int64 // time during which the machine was suspended, and timers stood still
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, down: map[string]bool{}, peers: make(chan *peer, 64), began: time.Now()}
}

// clock is the Clock of the machine. It begins at 1 ns: 0 stands for no time.
func (f *fake) clock() time.Duration {
	return time.Since(f.began) + time.Duration(f.suspended.Load()) + 1
}

// suspend suspends the machine for d.
func (f *fake) suspend(d time.Duration) { f.suspended.Add(int64(d)) }

func (f *fake) dial(_ context.Context, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, addr)
	if f.down[addr] {
		return nil, errors.New("refused")
	}
	ours, theirs, err := f.pair()
	if err != nil {
		return nil, err
	}
	f.peers <- &peer{Conn: theirs, t: f.t, addr: addr, r: bufio.NewReader(theirs)}
	return ours, nil
}

// pair returns the two ends of a new connection. The lock is held.
func (f *fake) pair() (ours, theirs net.Conn, err error) {
	if f.ln == nil {
		ours, theirs = net.Pipe()
		return ours, theirs, nil
	}
	if ours, err = net.Dial("tcp", f.ln.Addr().String()); err != nil {
		return nil, nil, err
	}
	theirs, err = f.ln.Accept()
	return ours, theirs, err
}

// withSockets returns a fake whose connections are sockets.
func withSockets(t *testing.T) *fake {
	f := newFake(t)
	var err error
	if f.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.ln.Close() })
	return f
}

// both runs a test twice: over pipes, in a bubble, and over sockets.
func both(t *testing.T, test func(t *testing.T, f *fake)) {
	t.Run("pipes", func(t *testing.T) { within(t, test) })
	t.Run("sockets", func(t *testing.T) { test(t, withSockets(t)) })
}

// peer is the server's end of one connection.
type peer struct {
	net.Conn
	t    *testing.T
	addr string
	r    *bufio.Reader
}

// request is a frame from a client: a header, and the bytes after it.
type request struct {
	jute.RequestHeader
	body []byte
}

// frame reads a frame, or fails the test.
func (p *peer) frame() []byte {
	p.t.Helper()
	f, err := jute.ReadFrame(p.r, nil, 1<<20)
	if err != nil {
		p.t.Fatalf("server %s: read: %v", p.addr, err)
	}
	return f
}

func (p *peer) connectRequest() (r jute.ConnectRequest) {
	p.t.Helper()
	d := jute.NewDecoder(p.frame())
	r.Decode(&d)
	if d.Err() != nil {
		p.t.Fatal(d.Err())
	}
	return r
}

const fakeSession = jute.SessionID(0x1234)

// accept replies to a handshake with a session of the requested timeout. It returns
// the client's request.
func (p *peer) accept() jute.ConnectRequest {
	p.t.Helper()
	req := p.connectRequest()
	p.write(jute.ConnectResponse{TimeOut: req.TimeOut, SessionID: fakeSession, Passwd: []byte("0123456789abcdef"), HasReadOnly: true})
	return req
}

// rejectHandshake replies to a handshake like a server that does not know the session, and closes the connection.
func (p *peer) rejectHandshake() {
	p.t.Helper()
	p.connectRequest()
	p.write(jute.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: true})
	_ = p.Close()
}

func (p *peer) write(rec Record) {
	p.t.Helper()
	if err := jute.WriteFrame(p.Conn, rec.Append(nil)); err != nil {
		p.t.Fatalf("server %s: write: %v", p.addr, err)
	}
}

func (p *peer) request() (r request) {
	p.t.Helper()
	d := jute.NewDecoder(p.frame())
	r.Decode(&d)
	r.body = d.Rest()
	if d.Err() != nil {
		p.t.Fatal(d.Err())
	}
	return r
}

// want reads a request, and fails the test unless its operation is op.
func (p *peer) want(op jute.Op) request {
	p.t.Helper()
	r := p.request()
	if r.Op != op {
		p.t.Fatalf("server %s: got %v, want %v", p.addr, r.Op, op)
	}
	return r
}

// reply sends a reply. If rec is nil, the reply has no record.
func (p *peer) reply(xid int32, zxid int64, code jute.Code, rec Record) {
	p.t.Helper()
	b := jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}.Append(nil)
	if rec != nil {
		b = rec.Append(b)
	}
	if err := jute.WriteFrame(p.Conn, b); err != nil {
		p.t.Fatalf("server %s: write: %v", p.addr, err)
	}
}

func (p *peer) event(typ jute.EventType, path string, zxid int64) {
	p.t.Helper()
	p.reply(jute.XidNotification, zxid, jute.OK, jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: []byte(path)})
}

// ended waits for the client to close the connection.
func (p *peer) ended() {
	p.t.Helper()
	if _, err := p.r.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("server %s: %v, want the end of the connection", p.addr, err)
	}
}

// heard collects what a Session reports, as lines.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// open opens a Session while play acts as the server. Unless cfg says otherwise, the servers are a
// and b, and the timeout is 30 s.
func (f *fake) open(cfg Config, play func()) *Session {
	f.t.Helper()
	cfg.Dial, cfg.Clock = f.dial, f.clock
	if cfg.Servers == nil {
		cfg.Servers = []string{"a", "b"}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	var c *Session
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		c, err = Open(context.Background(), cfg)
	}()
	play()
	<-opened
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Abandon)
	return c
}

// appendFrame returns a frame that holds recs.
func appendFrame(recs ...Record) []byte {
	b, mark := jute.BeginFrame(nil)
	for _, r := range recs {
		b = r.Append(b)
	}
	return jute.EndFrame(b, mark)
}

// sync, get and set are requests of tests.
func (c *Session) sync(ctx context.Context) error {
	_, err := c.Do(ctx, jute.OpSync, jute.SyncRequest{Path: []byte("/")}, nil)
	return err
}

func (c *Session) get(ctx context.Context, path string) ([]byte, error) {
	var resp jute.GetDataResponse
	_, err := c.Do(ctx, jute.OpGetData, jute.GetDataRequest{Path: []byte(path)}, &resp)
	return resp.Data, err
}

func (c *Session) set(ctx context.Context, path string) (jute.Stat, error) {
	var resp jute.SetDataResponse
	_, err := c.Do(ctx, jute.OpSetData, jute.SetDataRequest{Path: []byte(path), Version: -1}, &resp)
	return resp.Stat, err
}
