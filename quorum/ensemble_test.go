package quorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

const (
	testHeartbeat  = 200 * time.Millisecond
	testStallLimit = 3 * time.Second
)

// testSegment is the size of a file of the log in tests, in bytes. A start reads and writes one of them.
const testSegment = 128 << 10

// testAddr is an address in a test's network.
type testAddr string

func (testAddr) Network() string  { return "tcp" }
func (a testAddr) String() string { return string(a) }

// memNetwork connects members by pipes. Every listener reports the same bound address, like
// processes that listen on a wildcard.
type memNetwork struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	cut       map[[2]uint32]bool // no connections between these
	refused   map[[2]uint32]bool // from one member to another: connections are refused as if nothing listened
	dying     map[[2]uint32]int  // from one member to another: so many connections are taken, and end when something is said
	unheard   map[[2]uint32]bool // from one member to another: nothing answers those that dial
	mute      map[[2]uint32]bool // from one member to another: what is written gets nowhere, nor does a close
	open      map[*memConn]bool
	wrote     map[[2]uint32]int64
	muteAt    map[[2]uint32]int64 // mutes once this many bytes have been written since
	unmuted   chan struct{}
	rate      map[[2]uint32]int64 // bytes a second from the first to the second, on each connection; 0: no limit
}

func newMemNetwork(t *testing.T) *memNetwork {
	n := &memNetwork{
		listeners: map[string]*memListener{}, cut: map[[2]uint32]bool{}, mute: map[[2]uint32]bool{},
		refused: map[[2]uint32]bool{}, unheard: map[[2]uint32]bool{}, dying: map[[2]uint32]int{},
		open: map[*memConn]bool{}, wrote: map[[2]uint32]int64{}, muteAt: map[[2]uint32]int64{}, unmuted: make(chan struct{}),
		rate: map[[2]uint32]int64{},
	}
	t.Cleanup(n.close)
	return n
}

func (n *memNetwork) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.unmuted)
	for c := range n.open {
		c.Conn.Close()
	}
}

type memListener struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemListener() *memListener {
	return &memListener{accept: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *memNetwork) listen(addr string) *memListener {
	l := newMemListener()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

func (l *memListener) Addr() net.Addr { return testAddr("0.0.0.0:3888") }
func (l *memListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (n *memNetwork) dial(from, to uint32) wire.DialFunc {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		n.mu.Lock()
		way := [2]uint32{from, to}
		l, cut, refused, unheard := n.listeners[addr], n.cut[way], n.refused[way], n.unheard[way]
		dying := n.dying[way] > 0
		n.dying[way]--
		n.mu.Unlock()
		switch {
		case dying:
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 1))
				_ = theirs.Close()
			}()
			return n.wrap(ours, from, to), nil
		case cut:
			return nil, errors.New("no route")
		case unheard:
			<-ctx.Done()
			return nil, ctx.Err()
		case l == nil || refused:
			return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
		}
		a, b := net.Pipe()
		select {
		case l.accept <- n.wrap(b, to, from):
			return n.wrap(a, from, to), nil
		case <-l.closed:
			return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type memConn struct {
	net.Conn
	net      *memNetwork
	from, to uint32
}

func (n *memNetwork) wrap(c net.Conn, from, to uint32) net.Conn {
	m := &memConn{Conn: c, net: n, from: from, to: to}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[m] = true
	return m
}

func (c *memConn) pair() [2]uint32 { return [2]uint32{c.from, c.to} }

func (c *memConn) muted(n int) bool {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.wrote[c.pair()] += int64(n)
	if at, ok := c.net.muteAt[c.pair()]; ok && c.net.wrote[c.pair()] > at {
		c.net.mute[c.pair()] = true
	}
	return c.net.mute[c.pair()]
}

func (c *memConn) Write(p []byte) (int, error) {
	if c.muted(len(p)) {
		<-c.net.unmuted
		return 0, net.ErrClosed
	}
	c.net.mu.Lock()
	rate := c.net.rate[c.pair()]
	c.net.mu.Unlock()
	if rate == 0 {
		n, err := c.Conn.Write(p)
		return n, c.explain(err)
	}
	written := 0
	for piece := range slices.Chunk(p, 16<<10) {
		time.Sleep(time.Duration(len(piece)) * time.Second / time.Duration(rate))
		n, err := c.Conn.Write(piece)
		if written += n; err != nil {
			return written, c.explain(err)
		}
	}
	return written, nil
}

// The kernel sets a deadline whatever the other side has done. It sets none once this side has closed the connection.
func (c *memConn) SetDeadline(t time.Time) error { return c.unlessClosed(c.Conn.SetDeadline(t)) }

func (c *memConn) SetReadDeadline(t time.Time) error {
	return c.unlessClosed(c.Conn.SetReadDeadline(t))
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	return c.unlessClosed(c.Conn.SetWriteDeadline(t))
}

func (c *memConn) unlessClosed(error) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if !c.net.open[c] {
		return net.ErrClosed
	}
	return nil
}

// explain turns the error of a write to an end that the other side has closed into the kernel's.
func (c *memConn) explain(err error) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if errors.Is(err, io.ErrClosedPipe) && c.net.open[c] {
		return syscall.EPIPE
	}
	return err
}

// limitRate limits each connection from a to b to the given bytes a second; 0: no limit.
func (n *memNetwork) limitRate(a, b uint32, rate int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate[[2]uint32{a, b}] = rate
	n.wrote[[2]uint32{a, b}] = 0
}

// bytesSent returns the number of bytes that a has written to b since narrow.
func (n *memNetwork) bytesSent(a, b uint32) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wrote[[2]uint32{a, b}]
}

func (c *memConn) Close() error {
	if c.muted(0) {
		return nil
	}
	c.net.mu.Lock()
	delete(c.net.open, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}

// partition closes and forbids connections between a and b; heal allows them.
func (n *memNetwork) partition(a, b uint32) {
	n.mu.Lock()
	n.cut[[2]uint32{a, b}], n.cut[[2]uint32{b, a}] = true, true
	n.mu.Unlock()
	n.reset(a, b)
	n.reset(b, a)
}

// reset closes a's end of each connection between a and b. Either may open new ones at once.
func (n *memNetwork) reset(a, b uint32) {
	n.mu.Lock()
	var gone []*memConn
	for c := range n.open {
		if c.pair() == [2]uint32{a, b} {
			gone = append(gone, c)
		}
	}
	n.mu.Unlock()
	for _, c := range gone {
		c.Close()
	}
}

// set changes an entry of cut, refused or unheard for connections that member from dials to member to.
func (n *memNetwork) set(ways map[[2]uint32]bool, from, to uint32, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ways[[2]uint32{from, to}] = is
}

func (n *memNetwork) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// machine records the entries that it applies.
type machine struct {
	mu       sync.Mutex
	Index    uint64
	Commands []string
	Newer    bool   // in a snapshot: a newer version wrote it
	refuse   string // Apply fails at this command
	restored int
	restores time.Duration // how long Restore takes
	gaps     []uint64
	hold     <-chan struct{}      // see machineSnapshot
	at       map[string]time.Time // when a command was applied in this process
}

func (m *machine) Apply(batch []CommittedEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	for _, c := range batch {
		command := string(c.Data)
		if c.Data != nil && m.refuse == command {
			return fmt.Errorf("machine refuses %q", command)
		}
		if c.Index <= m.Index {
			m.gaps = append(m.gaps, c.Index)
		}
		m.Index = c.Index
		if c.Data != nil {
			m.Commands = append(m.Commands, command)
			m.at[command] = time.Now()
		}
	}
	return nil
}

type machineSnapshot struct {
	bytes.Buffer
	index uint64
	hold  <-chan struct{} // it is written when this is closed; nil: at once
}

// Zxid returns the index with a bit of an epoch.
func (s *machineSnapshot) Zxid() int64 { return 1<<32 | int64(s.index) }

func (s *machineSnapshot) WriteTo(w io.Writer) (int64, error) {
	if s.hold != nil {
		<-s.hold
	}
	return s.Buffer.WriteTo(w)
}

func (*machineSnapshot) Release() {}

func (m *machine) Snapshot() (Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &machineSnapshot{index: m.Index, hold: m.hold}
	return s, json.NewEncoder(s).Encode(m)
}

func (m *machine) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	restores := m.restores
	m.mu.Unlock()
	time.Sleep(restores)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restored++
	m.Commands = nil
	return errors.Join(json.Unmarshal(b, m), m.newer())
}

func (m *machine) newer() error {
	if m.Newer {
		return fmt.Errorf("%w: version 9", disk.ErrNewerFormat)
	}
	return nil
}

func (m *machine) ReadLease() (lease time.Duration, index uint64) { return 0, math.MaxUint64 - 1 }

func (m *machine) OwnReadLease() time.Duration { return 0 }

func (m *machine) ReadLeaseOf([]byte) (time.Duration, bool) { return 0, false }

func (m *machine) Verify(r io.Reader) (disk.SnapshotContents, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return disk.SnapshotContents{}, err
	}
	var other machine
	err = errors.Join(json.Unmarshal(b, &other), other.newer())
	return disk.SnapshotContents{Index: other.Index, Term: 1}, err
}

func (m *machine) commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.Commands)
}

// ensemble runs members in a bubble.
type ensemble struct {
	t       *testing.T
	net     *memNetwork
	peers   []wire.Peer
	members map[uint32]*testMember
	mu      sync.Mutex // guards members' node for Ask
}

type testMember struct {
	id      uint32
	stores  disk.Stores
	dir     string
	node    *Node
	machine *machine
	cancel  context.CancelFunc
	done    chan struct{}
	err     error     // of Run
	server  wire.Peer // as raft knows it, with the disk of the last start
	adjust  func(*Config)
	seeds   []wire.Peer // its server lines; nil: all members

	restores time.Duration // how long its machine takes to restore a snapshot
}

func newEnsemble(t *testing.T, members int) *ensemble {
	e := &ensemble{t: t, net: newMemNetwork(t), members: map[uint32]*testMember{}}
	for id := uint32(1); id <= uint32(members); id++ {
		e.peers = append(e.peers, wire.Peer{ID: id, Addr: fmt.Sprintf("m%d:3888", id)})
		e.members[id] = &testMember{id: id, stores: memStores()}
	}
	t.Cleanup(e.stopAll)
	return e
}

func memStores() disk.Stores {
	s := raft.NewInmemStore()
	return disk.Stores{Log: s, Stable: s, Snapshots: raft.NewInmemSnapshotStore()}
}

// start opens and runs members.
func (e *ensemble) start(ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		if err := e.tryStart(id); err != nil {
			e.t.Fatalf("member %d: %v", id, err)
		}
	}
}

func (e *ensemble) tryStart(id uint32) error {
	m := e.members[id]
	lines := e.peers
	if m.seeds != nil {
		lines = m.seeds
	}
	book := wire.NewAddressBook(id, lines)
	l := e.stream(book, e.net.listen(e.peers[id-1].Addr))
	m.machine = &machine{restores: m.restores}
	cfg := Config{
		MemberID: id, Peers: lines, AddressBook: book, Stores: m.stores, StreamLayer: l,
		StateMachine: m.machine, SendHello: e.helloAs(id), HeartbeatTimeout: testHeartbeat, StallLimit: testStallLimit, Logger: testLogger(id), SegmentBytes: testSegment,
	}
	if m.dir != "" {
		cfg.Stores, cfg.DataDir = disk.Stores{}, m.dir
	}
	if m.adjust != nil {
		m.adjust(&cfg)
	}
	node, err := Open(cfg)
	if err != nil {
		l.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.mu.Lock()
	m.node, m.cancel, m.done, m.err, m.server = node, cancel, make(chan struct{}), nil, node.status.selfPeer()
	e.mu.Unlock()
	go func() {
		defer close(m.done)
		m.err = node.Run(ctx)
		l.Close()
	}()
	return nil
}

// stream is the StreamLayer of a member's raft.
func (e *ensemble) stream(book *wire.AddressBook, inner net.Listener) *wire.Stream {
	id, hello := book.Self().ID, wire.NewHello(book)
	l := wire.NewListener(inner, hello, nil)
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		for _, p := range e.peers {
			if p.Addr == addr {
				return e.net.dial(id, p.ID)(ctx, addr)
			}
		}
		return nil, errors.New("no such host")
	}
	return wire.NewStream(l, hello, dial)
}

func testLogger(id uint32) *slog.Logger {
	if os.Getenv("QUORUM_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("id", id)
}

// helloAs is the members' Hello without gRPC.
func (e *ensemble) helloAs(from uint32) func(context.Context, wire.Peer) (*proto.HelloReply, error) {
	return func(_ context.Context, p wire.Peer) (*proto.HelloReply, error) {
		e.net.mu.Lock()
		cut := e.net.cut[[2]uint32{from, p.ID}]
		e.net.mu.Unlock()
		e.mu.Lock()
		defer e.mu.Unlock()
		if cut {
			return nil, errors.New("unavailable")
		}
		return hello(e.members[from].node, e.members[p.ID].node)
	}
}

// hello is a Hello from one node, or from nil as long as it is opened, to another one, or to nil if that does not run.
func hello(from, to *Node) (*proto.HelloReply, error) {
	if to == nil {
		return nil, errors.New("unavailable")
	}
	ensemble, _ := to.record.EnsembleID()
	if from != nil {
		theirs, _ := from.record.EnsembleID()
		if theirs != ensemble && theirs != (wire.EnsembleID{}) && ensemble != (wire.EnsembleID{}) {
			return nil, wire.ErrOtherEnsemble // as the hello of a connection has it
		}
		to.reachability.RecordContact(PeerContact{Peer: from.status.selfPeer(), EnsembleID: theirs, HasData: from.HasData()})
	}
	rival := ""
	if from != nil {
		rival = to.reachability.DescribeRivals(from.status.selfPeer().ID)
	}
	return &proto.HelloReply{
		Rival: rival, Member: to.status.selfPeer().ID, Disk: uint64(to.DiskID()), Ensemble: ensemble[:], Configuration: message(to.status.Servers()),
		ConfigHash: serverListHash(to.cfg.AddressBook), HasData: to.HasData(), OnlyBeginning: to.IsOnlyBeginning(), Joining: to.IsJoining(),
		LastIndex: to.status.LastIndex(), LastTerm: to.status.LastTerm(),
	}, nil
}

// message returns servers as a reply has them.
func message(servers []wire.Peer) *proto.Configuration {
	all := &proto.Configuration{}
	for _, s := range servers {
		all.Servers = append(all.Servers, &proto.ConfiguredServer{Member: s.ID, Disk: uint64(s.DiskID), Address: s.Addr, Voter: !s.Observer})
	}
	return all
}

var errKilled = errors.New("killed")

// kill ends a member without a graceful stop.
func (e *ensemble) kill(id uint32) {
	e.t.Helper()
	e.members[id].node.failure.endMember(errKilled)
	if err := e.awaitEnd(id); !errors.Is(err, errKilled) {
		e.t.Errorf("member %d: Run: %v, want it killed", id, err)
	}
}

// mustRun fails the test unless the members run, because a test of a member that has ended proves
// nothing.
func (e *ensemble) mustRun(ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		m := e.members[id]
		if m.node == nil {
			e.t.Fatalf("member %d does not run", id)
		}
		select {
		case <-m.done:
			e.t.Fatalf("member %d has ended: %v", id, m.err)
		default:
		}
	}
}

// awaitEnd waits for Run and returns its error.
func (e *ensemble) awaitEnd(id uint32) error {
	e.t.Helper()
	m := e.members[id]
	select {
	case <-m.done:
	case <-time.After(time.Minute):
		e.t.Fatalf("member %d still runs after a minute", id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m.node = nil
	return m.err
}

func (e *ensemble) stop(id uint32) {
	e.t.Helper()
	e.members[id].cancel()
	if err := e.awaitEnd(id); err != nil {
		e.t.Errorf("member %d: Run: %v", id, err)
	}
}

func (e *ensemble) wipe(id uint32) { e.members[id].stores = memStores() }

// servers returns all members as raft knows them.
func (e *ensemble) servers() (all []wire.Peer) {
	for _, p := range e.peers {
		all = append(all, e.members[p.ID].server)
	}
	return all
}

func (e *ensemble) stopAll() {
	for _, id := range slices.Sorted(maps.Keys(e.members)) {
		if m := e.members[id]; m.node != nil {
			m.cancel()
			<-m.done
		}
	}
}

// handOver makes a leader hand over. raft may forget a hand-over when leadership is lost meanwhile,
// so it has a time limit.
func (e *ensemble) handOver(id uint32) {
	n := e.members[id].node
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.electionTimeout)
	defer cancel()
	if err := n.transfer.ToAny(ctx); err != nil {
		e.t.Logf("hand-over by member %d: %v", id, err)
	}
}

// wait polls until cond holds: every 5 ms at first, then less and less often, because some conditions
// read files and become true after thousands of such steps.
func (e *ensemble) wait(what string, cond func() bool) {
	e.t.Helper()
	for begin := time.Now(); !cond(); time.Sleep(max(5*time.Millisecond, time.Since(begin)/20)) {
		if time.Since(begin) > time.Minute {
			e.t.Fatalf("waited a minute for %s", what)
		}
	}
}

// leader waits until one of ids leads and has committed in its term, and all of ids know it.
func (e *ensemble) leader(ids ...uint32) uint32 {
	e.t.Helper()
	var leader uint32
	e.wait("a leader", func() bool {
		leader = e.members[ids[0]].node.status.LeaderID()
		for _, id := range ids {
			if n := e.members[id].node; n.status.LeaderID() != leader {
				return false
			}
		}
		return leader != 0 && slices.Contains(ids, leader) && e.members[leader].node.status.IsLeader()
	})
	return leader
}

// begin starts a new ensemble, and waits until all members vote.
func (e *ensemble) begin() {
	e.t.Helper()
	ids := slices.Sorted(maps.Keys(e.members))
	e.start(ids...)
	first := e.members[ids[0]].node
	e.wait("the first one to lead", first.status.IsLeader)
	if err := first.Propose([]byte("a"), nil).Error(); err != nil {
		e.t.Fatal(err)
	}
	e.wait("all to vote", func() bool { return len(first.status.VoterIDs()) == len(ids) })
	e.awaitApplied([]string{"a"}, ids...)
	for _, id := range ids {
		e.awaitJoined(id)
	}
}

// propose commits data through the leader among ids.
func (e *ensemble) propose(data string, ids ...uint32) {
	e.t.Helper()
	e.wait("commit of "+data, func() bool {
		p := e.members[e.leader(ids...)].node.Propose([]byte(data), nil)
		return p.Error() == nil
	})
}

// awaitApplied waits until the members have applied exactly these commands.
func (e *ensemble) awaitApplied(want []string, ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		m := e.members[id].machine
		e.wait(fmt.Sprintf("member %d to apply %d commands (it had %d)", id, len(want), len(m.commands())), func() bool {
			return slices.Equal(m.commands(), want)
		})
	}
}

// awaitJoined waits until a member has come in, and has stored that: a member that is stopped before comes in again, with the next
// entry of a term.
func (e *ensemble) awaitJoined(id uint32) {
	e.t.Helper()
	e.wait("member to have joined", func() bool {
		n := e.members[id].node
		return !n.IsJoining() && !n.record.IsCopying()
	})
}

// logBuffer is a log that the test reads while others write it.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
