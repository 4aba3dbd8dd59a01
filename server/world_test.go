package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	self     = 1 // the member that a world's server belongs to
	other    = 2 // another member, whose transactions tests make up
	testBoot = 77
	testTick = time.Second
	nonce    = 5
)

// fakeMember is a Member with a log of its own. It applies submitted transactions to a real state, at once or when the
// test says so.
type fakeMember struct {
	state *znode.State
	srv   *Server
	drawn sync.RWMutex // a test holds it so that no id can be drawn

	mu       sync.Mutex
	index    uint64
	seq      map[uint32]uint64 // by member
	waiters  map[uint64]znode.Waiter
	pending  []*proto.Txn // submitted, not applied
	syncs    []znode.Waiter
	held     bool // nothing is applied
	sessions jute.SessionID
	touches  map[jute.SessionID]int
	detached map[uint64]jute.SessionID
	mute     atomic.Bool                 // Vouched returns false
	vouch    func(context.Context) error // called by Vouch; if nil, Vouch succeeds
	vouches  int
	stall    chan struct{} // if not nil, Submit waits until it is closed
	entryEnd func()        // called under the tree's lock when an entry is applied; may be nil

	numLookedUp atomic.Int64 // calls of IndexToAwait

	stored  map[string]uint64 // by path, for IndexToAwait and IndexToRead
	awaited chan uint64       // gets the index of each AwaitIndex, which then waits until applied has a value
	applied chan struct{}

	hasLease  bool     // reads need no Sync
	dependsOn []string // the paths of IndexToRead
	readIndex uint64   // of the last SyncRead

	reconfigured *znode.Result // of every reconfig, instead of what the state makes of it; may be nil
}

func newFakeMember() *fakeMember { return newFakeMemberWithHistory(testHistory) }

// newFakeMemberWithHistory is newFakeMember with another limit of the history of changes, in bytes.
func newFakeMemberWithHistory(history int64) *fakeMember {
	m := &fakeMember{
		seq: map[uint32]uint64{}, waiters: map[uint64]znode.Waiter{}, sessions: self << 56,
		touches: map[jute.SessionID]int{}, detached: map[uint64]jute.SessionID{},
	}
	m.state = znode.New(znode.Config{Self: self, Hooks: m, ChangeHistory: history})
	m.apply(&proto.Txn{Op: int32(jute.OpTermStart), Body: encode(&proto.TermStart{Leader: self, Nonce: nonce})})
	for _, id := range []uint32{self, other} {
		m.apply(&proto.Txn{Member: id, Incarnation: testBoot, Op: int32(jute.OpAnnounce), Body: encode(&proto.Announce{})})
	}
	return m
}

func encode(m protobuf.Message) []byte {
	b, err := protobuf.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// apply makes an entry of txns and applies it.
func (m *fakeMember) apply(txns ...*proto.Txn) {
	m.index++
	m.state.Lock()
	entry := &proto.Entry{Format: znode.FormatLevel, Term: 1, Nonce: nonce, TimeMs: 1000, Txns: txns}
	err := m.state.ApplyEntry(m.index, 1, entry)
	m.state.Unlock()
	if err != nil {
		panic(err)
	}
	if m.srv != nil {
		m.srv.FlushApplied()
	}
}

func (m *fakeMember) AwaitNewSessionID(context.Context) (jute.SessionID, error) {
	m.drawn.RLock()
	defer m.drawn.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	return m.sessions, nil
}

func (m *fakeMember) TryNewSessionID() (jute.SessionID, bool) {
	if !m.drawn.TryRLock() {
		return 0, false
	}
	defer m.drawn.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	return m.sessions, true
}

func (m *fakeMember) Touch(id jute.SessionID, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touches[id]++
}

func (m *fakeMember) IsVouched(jute.SessionID) bool {
	return !m.mute.Load() // without mu, because the caller may hold it: apply sends queued replies
}

func (m *fakeMember) Vouch(ctx context.Context, _ jute.SessionID) error {
	m.mu.Lock()
	m.vouches++
	vouch := m.vouch
	m.mu.Unlock()
	if vouch == nil {
		return nil
	}
	return vouch(ctx)
}

func (m *fakeMember) Submit(ctx context.Context, txn *proto.Txn, w znode.Waiter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stall := m.stall; stall != nil {
		m.mu.Unlock()
		select {
		case <-stall:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.enqueue(self, txn, w)
	if !m.held {
		m.flush(len(m.pending))
	}
	return nil
}

func (m *fakeMember) TrySubmit(txn *proto.Txn, w znode.Waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stall != nil {
		return false
	}
	m.enqueue(self, txn, w)
	if !m.held {
		m.flush(len(m.pending))
	}
	return true
}

func (m *fakeMember) IndexToRead(path []byte) (index uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dependsOn = append(m.dependsOn, string(path))
	return m.stored[string(path)], m.hasLease
}

func (m *fakeMember) SyncRead(conn uint64, index uint64, w znode.Waiter) {
	m.mu.Lock()
	m.readIndex = index
	m.mu.Unlock()
	m.Sync(conn, 0, w)
}

func (m *fakeMember) IndexToAwait(path []byte) uint64 {
	m.numLookedUp.Add(1)
	return m.stored[string(path)]
}

func (m *fakeMember) AwaitIndex(_ context.Context, index uint64) {
	m.awaited <- index
	<-m.applied
}

// setStall lets Submit block until stall is closed.
func (m *fakeMember) setStall(stall chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stall = stall
}

// inject submits a transaction of a client of another member, or of the leader (member 0).
func (m *fakeMember) inject(member uint32, txn *proto.Txn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enqueue(member, txn, nil)
	if !m.held {
		m.flush(len(m.pending))
	}
}

func (m *fakeMember) enqueue(member uint32, txn *proto.Txn, w znode.Waiter) {
	if txn.Member = member; member != 0 {
		m.seq[member]++
		txn.Incarnation, txn.Seq = testBoot, m.seq[member]
	}
	if w != nil {
		m.waiters[txn.Seq] = w
	}
	m.pending = append(m.pending, txn)
}

// flush applies the next n transactions, as one entry. The caller holds mu.
func (m *fakeMember) flush(n int) {
	if n > 0 {
		txns := m.pending[:n]
		m.pending = m.pending[n:]
		m.apply(txns...)
	}
	if len(m.pending) == 0 {
		m.finishSyncs()
	}
}

func (m *fakeMember) finishSyncs() {
	if len(m.syncs) == 0 {
		return // so the test may hold the tree's lock
	}
	m.state.RLock()
	defer m.state.RUnlock()
	for _, w := range m.syncs {
		w.ReceiveResult(&znode.Result{})
	}
	m.syncs = nil
}

// hold keeps submitted transactions from being applied, until release.
func (m *fakeMember) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

func (m *fakeMember) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = false
	m.flush(len(m.pending))
}

// step applies one transaction while the rest is held.
func (m *fakeMember) step() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flush(1)
}

// countForwarded returns the number of transactions that this member has put into the log.
func (m *fakeMember) countForwarded() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seq[self]
}

func (m *fakeMember) countSubmitted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

func (m *fakeMember) Sync(_ uint64, _ jute.SessionID, w znode.Waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncs = append(m.syncs, w)
	if !m.held {
		m.flush(len(m.pending))
	}
}

func (m *fakeMember) Detach(id jute.SessionID, conn uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detached[conn] = id
}

func (m *fakeMember) wasDetached(id jute.SessionID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.detached {
		if d == id {
			return true
		}
	}
	return false
}

func (m *fakeMember) touched(id jute.SessionID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.touches[id]
}

func (m *fakeMember) silence(mute bool, vouch func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vouch = vouch
	m.mute.Store(mute)
}

// The methods below are the Hooks: what a follower does and reports to the server.

func (m *fakeMember) TermStarted(znode.Term, znode.LeaderCause) {}
func (m *fakeMember) MemberAnnounced(uint32, uint64, uint64)    {}
func (m *fakeMember) SessionOpened(znode.Session)               {}
func (m *fakeMember) TxnDropped(*proto.Txn)                     {}
func (m *fakeMember) ServerListChanged(znode.ServerList)        {}
func (m *fakeMember) QuotaExceeded(znode.ExceededQuota)         {}

func (m *fakeMember) SessionAttached(s znode.Session, old znode.SessionOwner) {
	m.srv.SessionAttached(s, old)
}
func (m *fakeMember) SnapshotRestored() { m.srv.StateRestored() }

func (m *fakeMember) SessionClosed(s znode.Session, end znode.SessionEnd) {
	m.srv.SessionClosed(s, end)
}

func (m *fakeMember) SessionSwept(id jute.SessionID, last bool) {
	if last {
		m.srv.SessionSwept(id)
	}
}

func (*fakeMember) NodesRemoved(znode.Removal, []string) {}

func (m *fakeMember) EntryFinished(uint64) {
	if m.entryEnd != nil {
		m.entryEnd()
	}
}

func (m *fakeMember) TxnApplied(txn *proto.Txn, r *znode.Result) {
	if txn.Member != self {
		return
	}
	if jute.Op(txn.Op) == jute.OpReconfig && m.reconfigured != nil {
		zxid := r.Zxid
		*r = *m.reconfigured
		r.Zxid = zxid
	}
	if w := m.waiters[txn.Seq]; w != nil {
		delete(m.waiters, txn.Seq)
		w.ReceiveResult(r)
	}
}

// world is a server over a fakeMember, and a way to connect to it.
type world struct {
	*fakeMember
	tb   testing.TB
	dial func() net.Conn
}

// newWorld starts a server that listens in memory, or on loopback if tcp.
func newWorld(tb testing.TB, tcp bool, change func(*Config)) *world {
	tb.Helper()
	return newWorldOf(tb, newFakeMember(), tcp, change)
}

// newWorldOf is newWorld with a member.
func newWorldOf(tb testing.TB, m *fakeMember, tcp bool, change func(*Config)) *world {
	tb.Helper()
	cfg := Config{
		Member: m, State: m.state, Tick: testTick, ConnBase: 1 << 40,
		SuperDigest: "super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
		Commands:    fakeCommands{},
	}
	if change != nil {
		change(&cfg)
	}
	srv, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m.srv = srv
	w := &world{fakeMember: m, tb: tb}
	var l net.Listener
	if tcp {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			tb.Fatal(err)
		}
		w.dial = func() net.Conn {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				tb.Fatal(err)
			}
			return c
		}
	} else {
		pipes := newPipeListener()
		l, w.dial = pipes, pipes.dial
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, l) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("Serve: %v", err)
		}
		if n := srv.streamConfig.Budget.UsedBytes(); n != 0 {
			tb.Errorf("%d bytes are still counted after all connections have ended", n)
		}
	})
	return w
}

// takeTurn takes a turn for work of another connection.
func (w *world) takeTurn(of *admission.FairTurn) *admission.Turn {
	w.tb.Helper()
	turn, err := of.Take(w.tb.Context(), "somebody else", 1)
	if err != nil {
		w.tb.Fatal(err)
	}
	return turn
}

// pipeListener accepts connections in memory.
type pipeListener struct {
	conns chan net.Conn
	fails chan error // errors that Accept returns
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), fails: make(chan error), done: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
	case <-l.done:
		_ = ours.Close()
	}
	return ours
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.fails:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// client is a raw connection. Its methods fail the test if the server does not do what they expect.
type client struct {
	net.Conn
	tb       testing.TB
	in       *bufio.Reader
	xid      int32
	id       jute.SessionID
	password []byte
	timeout  int32
}

type record interface{ Append([]byte) []byte }

// patience is the time that a client waits for the server.
const patience = time.Minute

func (w *world) open() *client {
	c := w.dial()
	w.tb.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{Conn: c, tb: w.tb, in: bufio.NewReader(c)}
}

// connect opens a connection with a new session.
func (w *world) connect() *client {
	w.tb.Helper()
	c := w.open()
	c.hello(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true})
	if c.id == 0 {
		w.tb.Fatal("no session")
	}
	return c
}

// resume opens a connection that takes over a session.
func (w *world) resume(old *client) *client {
	w.tb.Helper()
	c := w.open()
	c.hello(jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password, HasReadOnly: true})
	return c
}

// hello makes the handshake and keeps what is granted.
func (c *client) hello(req jute.ConnectRequest) jute.ConnectResponse {
	c.tb.Helper()
	c.send(req)
	return c.welcome()
}

func (c *client) welcome() jute.ConnectResponse {
	c.tb.Helper()
	frame, err := c.read()
	if err != nil {
		c.tb.Fatalf("handshake: %v", err)
	}
	var res jute.ConnectResponse
	d := jute.NewDecoder(frame)
	res.Decode(&d)
	if d.Err() != nil || len(d.Rest()) > 0 {
		c.tb.Fatalf("handshake answered % x", frame)
	}
	c.id, c.password, c.timeout = res.SessionID, bytes.Clone(res.Passwd), res.TimeOut
	return res
}

// frameOf returns records as one frame.
func frameOf(records ...record) []byte {
	b, mark := jute.BeginFrame(nil)
	for _, r := range records {
		b = r.Append(b)
	}
	return jute.EndFrame(b, mark)
}

func (c *client) send(records ...record) {
	c.tb.Helper()
	c.write(frameOf(records...))
}

func (c *client) write(b []byte) {
	c.tb.Helper()
	if _, err := c.Write(b); err != nil {
		c.tb.Fatalf("write: %v", err)
	}
}

// request sends a request under the next xid.
func (c *client) request(op jute.Op, records ...record) {
	c.tb.Helper()
	c.xid++
	c.send(append([]record{jute.RequestHeader{Xid: c.xid, Op: op}}, records...)...)
}

func (c *client) read() ([]byte, error) { return jute.ReadFrame(c.in, nil, 64<<20) }

// reply reads a reply or an event.
func (c *client) reply() (jute.ReplyHeader, []byte) {
	c.tb.Helper()
	frame, err := c.read()
	if err != nil {
		c.tb.Fatalf("read: %v", err)
	}
	var h jute.ReplyHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	if d.Err() != nil {
		c.tb.Fatalf("frame without a header: % x", frame)
	}
	return h, d.Rest()
}

// call sends a request and returns its reply. Events before the reply fail the test.
func (c *client) call(op jute.Op, records ...record) (jute.ReplyHeader, []byte) {
	c.tb.Helper()
	c.request(op, records...)
	h, body := c.reply()
	if h.Xid != c.xid {
		c.tb.Fatalf("%v: reply to %d, want %d", op, h.Xid, c.xid)
	}
	return h, body
}

// must is call for requests that succeed.
func (c *client) must(op jute.Op, records ...record) []byte {
	c.tb.Helper()
	h, body := c.call(op, records...)
	if h.Err != jute.OK {
		c.tb.Fatalf("%v: %v", op, h.Err)
	}
	return body
}

// expect reads the reply to the request sent as xid.
func (c *client) expect(xid int32, code jute.Code) jute.ReplyHeader {
	c.tb.Helper()
	h, body := c.reply()
	if h.Xid != xid || h.Err != code {
		c.tb.Fatalf("reply to %d: %v, want %d: %v", h.Xid, h.Err, xid, code)
	}
	if code != jute.OK && len(body) > 0 {
		c.tb.Fatalf("reply to %d: body after %v: % x", xid, code, body)
	}
	return h
}

// expectEvent reads an event and returns its zxid.
func (c *client) expectEvent(t jute.EventType, path string) int64 {
	c.tb.Helper()
	h, body := c.reply()
	var e jute.WatcherEvent
	d := jute.NewDecoder(body)
	e.Decode(&d)
	if h.Xid != jute.XidNotification || h.Err != jute.OK || d.Err() != nil ||
		e.Type != t || e.State != jute.StateSyncConnected || string(e.Path) != path {
		c.tb.Fatalf("got xid %d, %v, %v %s, want event %v %s", h.Xid, h.Err, e.Type, e.Path, t, path)
	}
	return h.Zxid
}

// soon is the time in which a connection must end. It is much shorter than the idle timeout.
const soon = 8 * time.Second

// expectClosed reads the end of the connection, with no byte before it.
func (c *client) expectClosed() {
	c.tb.Helper()
	_ = c.SetReadDeadline(time.Now().Add(soon))
	b, err := c.in.ReadByte()
	switch {
	case err == nil:
		c.tb.Fatalf("got byte %x, want the connection closed", b)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
	default:
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			c.tb.Fatal("the connection stays open")
		} // any other error is a reset, which also closes the connection
	}
}

// expectSilence fails if the server sends anything for d.
func (c *client) expectSilence(d time.Duration) {
	c.tb.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	_, err := c.in.Peek(1)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		c.tb.Fatalf("read: %v, want silence for %v", err, d)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
}

// The records that tests send.

func create(path, data string, mode jute.CreateMode) record {
	return jute.CreateRequest{Path: []byte(path), Data: []byte(data), ACL: jute.OpenACL, Flags: mode}
}

func setData(path, data string) record {
	return jute.SetDataRequest{Path: []byte(path), Data: []byte(data), Version: -1}
}

func getData(path string, watch bool) record {
	return jute.GetDataRequest{Path: []byte(path), Watch: watch}
}

func exists(path string, watch bool) record {
	return jute.ExistsRequest{Path: []byte(path), Watch: watch}
}

func auth(scheme, text string) record {
	return jute.AuthPacket{Scheme: []byte(scheme), Auth: []byte(text)}
}

type raw []byte

func (r raw) Append(b []byte) []byte { return append(b, r...) }

// fakeCommands knows two commands: ruok, and stmk, which repeats its argument again and again.
type fakeCommands struct{}

func (fakeCommands) IsCommand(command string) bool { return command == "ruok" || command == "stmk" }

func (fakeCommands) WriteReply(word string, argument io.Reader, w io.Writer) error {
	if word == "ruok" {
		_, err := io.WriteString(w, "imok")
		return err
	}
	var arg [8]byte
	if _, err := io.ReadFull(argument, arg[:]); err != nil {
		return err
	}
	for range 1 << 20 { // 8 MiB
		if _, err := w.Write(arg[:]); err != nil {
			return err
		}
	}
	return nil
}

// testHistory is the limit of the history of changes in tests, in bytes.
const testHistory = 1 << 20
