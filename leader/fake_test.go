package leader

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

const (
	tick    = 2 * time.Second
	timeout = 7 * time.Second
	parting = 5 * time.Second
	term    = 7
	nonce   = 4711
)

// fakeLog applies every entry after a delay: it removes the expired sessions from the table.
type fakeLog struct {
	table   *sessiontracker.GlobalTable
	start   time.Time
	delay   time.Duration // from Propose to apply
	hang    bool          // never answers
	block   chan struct{} // Propose does not return until this is closed
	expired func(id jute.SessionID)
	swept   func()
	fail    int // the future of this entry (from 1) fails at once

	mu       sync.Mutex
	proposed []*proto.Entry
	begun    []time.Time // when proposed
	sizes    []int
	from     [][]uint32 // the members whose clients wait for each entry
	applied  []*proto.Txn
	closed   map[jute.SessionID]time.Duration // since start, when decided: when it was proposed
	commit   uint64
	stored   uint64 // the last index that was proposed
	flight   []flying
	most     int  // entries on their way at a time
	slowDisk bool // entries are on the leader's disk when they are applied, and otherwise at once
}

type flying struct {
	entry  *proto.Entry
	future *fakeFuture
}

type fakeFuture struct {
	done chan struct{}
	err  error
}

func (f *fakeFuture) Done() <-chan struct{} { return f.done }
func (f *fakeFuture) Error() error          { return f.err }

var errLost = errors.New("leadership lost")

// testFormat is the highest format of entries that all members know.
const testFormat = 7

func (f *fakeLog) Propose(data []byte, from []uint32) Future {
	if f.block != nil {
		<-f.block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	entry := &proto.Entry{}
	if err := pb.Unmarshal(data, entry); err != nil {
		panic(err)
	}
	f.proposed = append(f.proposed, entry)
	f.stored = max(f.stored, f.commit) + 1
	f.begun = append(f.begun, time.Now())
	f.sizes = append(f.sizes, len(data))
	f.from = append(f.from, from)
	for _, txn := range entry.Txns {
		if txn.Op == int32(jute.OpExpire) {
			f.closed[jute.SessionID(txn.Session)] = time.Since(f.start)
		}
	}
	future := &fakeFuture{done: make(chan struct{})}
	switch {
	case len(f.proposed) == f.fail:
		future.err = errLost
		close(future.done)
	case !f.hang:
		f.flight = append(f.flight, flying{entry, future})
		after(f.delay, f.applyOldest)
		f.most = max(f.most, len(f.flight))
	}
	return future
}

// after runs f in a goroutine of its own when d is over, and at once if d is 0. For 0 it makes no
// timer. In a bubble such a timer fires at once, on the thread that makes it. When two threads make
// one at the same time, the race detector crashes (go1.26).
func after(d time.Duration, f func()) {
	if d == 0 {
		go f()
		return
	}
	time.AfterFunc(d, f)
}

func (f *fakeLog) applyOldest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, future := f.flight[0].entry, f.flight[0].future
	f.flight = f.flight[1:]
	f.commit++
	f.applied = append(f.applied, entry.Txns...)
	for _, txn := range entry.Txns {
		if txn.Op == int32(jute.OpExpire) {
			f.table.RemoveSession(jute.SessionID(txn.Session))
			f.expired(jute.SessionID(txn.Session))
		}
		if txn.Op == int32(jute.OpSweep) {
			f.swept()
		}
	}
	close(future.done)
}

func (f *fakeLog) SettledIndex() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slowDisk {
		return f.commit
	}
	return max(f.stored, f.commit)
}

func (f *fakeLog) GrantRead(uint64, uint32, uint64, LeaseRequest) (lease time.Duration, index uint64) {
	return 0, 0
}

func (f *fakeLog) ReturnRead(uint64, uint32, uint64, LeaseRequest) {}

// when returns the time after the start at which the session's expiry was proposed.
func (f *fakeLog) when(id jute.SessionID) (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.closed[id]
	return at, ok
}

// fakeMember replies to pings as a follower does, after a delay.
type fakeMember struct {
	id      uint32
	touched sessiontracker.TouchMap
	delay   time.Duration

	mu      sync.Mutex
	silent  bool                        // gets nothing and sends nothing
	refuse  error                       // the error of a dial
	joining bool                        // answers no proof
	change  func(pong *proto.Pong) bool // changes a pong before it is sent; false: it is not sent
	applied uint64
	acks    []*proto.Ack
	pings   []uint64       // numbers
	verdict *proto.Verdict // the last one told
	dialled int
	stream  *fakeStream
}

type fakeStream struct {
	grpc.ClientStream
	m   *fakeMember
	ctx context.Context
	out chan *proto.Pong
	end chan struct{} // closed: the member has ended the stream without an error
}

func (m *fakeMember) Pings(ctx context.Context, _ ...grpc.CallOption) (proto.Follower_PingsClient, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dialled++
	if m.refuse != nil {
		return nil, m.refuse
	}
	m.stream = &fakeStream{m: m, ctx: ctx, out: make(chan *proto.Pong, 1000), end: make(chan struct{})}
	return m.stream, nil
}

func (s *fakeStream) Recv() (*proto.Pong, error) {
	select {
	case pong := <-s.out:
		return pong, nil
	case <-s.end:
		return nil, io.EOF
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) Send(ping *proto.Ping) error {
	if s.ctx.Err() != nil {
		return io.EOF
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.silent {
		return nil
	}
	if ping.Term != term || ping.Nonce != nonce || ping.Leader != 1 {
		panic("ping of another term")
	}
	if ping.Ack != nil {
		s.m.acks = append(s.m.acks, ping.Ack)
		s.m.touched.AckThrough(ping.Ack.Through)
	}
	if ping.Verdict != nil {
		s.m.verdict = ping.Verdict
	}
	if ping.Number == 0 && ping.Proof == 0 {
		return nil
	}
	pong := &proto.Pong{Incarnation: 77, Applied: s.m.applied, ClockMs: time.Now().UnixMilli()}
	if !s.m.joining {
		pong.Proof = ping.Proof
	}
	if ping.Number != 0 {
		s.m.pings = append(s.m.pings, ping.Number)
		pong.Number, pong.Batches = ping.Number, s.m.batches()
	}
	if s.m.change == nil || s.m.change(pong) {
		after(s.m.delay, func() { s.out <- pong })
	}
	return nil
}

func (m *fakeMember) batches() (batches []*proto.Batch) {
	now := time.Now()
	for _, b := range m.touched.Flush(now) {
		batch := &proto.Batch{Number: b.Number, AgeUs: uint64(now.Sub(b.FirstTouch).Microseconds())}
		for id, t := range b.Touches {
			batch.Sessions = append(batch.Sessions, int64(id))
			batch.TimeoutsMs = append(batch.TimeoutsMs, t.TimeoutMs)
			batch.AfterMs = append(batch.AfterMs, t.AfterMs)
		}
		batches = append(batches, batch)
	}
	return batches
}

// flush sends the touches at once, without a ping.
func (m *fakeMember) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream.out <- &proto.Pong{Incarnation: 77, Applied: m.applied, Batches: m.batches()}
}

func (m *fakeMember) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *fakeMember) dials() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dialled
}

func (m *fakeMember) acked() []*proto.Ack {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.acks)
}

// fakeForward is a member's stream of writes, as the leader sees it.
type fakeForward struct {
	grpc.ServerStream
	ctx context.Context
	in  chan *proto.Forwarded
}

func (s *fakeForward) Context() context.Context             { return s.ctx }
func (s *fakeForward) SendAndClose(*proto.ForwardEnd) error { return nil }
func (s *fakeForward) Recv() (*proto.Forwarded, error) {
	select {
	case f, ok := <-s.in:
		if !ok {
			return nil, io.EOF
		}
		return f, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// records keeps the log records.
type records struct {
	slog.Handler
	mu   sync.Mutex
	seen []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, record.Message)
	return nil
}

func (r *records) count(message string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if s == message {
			n++
		}
	}
	return n
}

// ensemble is a Leader on member 1. All members are voters unless a test says otherwise.
type ensemble struct {
	*Leader
	t         *testing.T
	servers   atomic.Pointer[[]Member] // raft's configuration
	raft      atomic.Uint64            // raft's term
	answering atomic.Pointer[[]uint32] // the servers that answer
	log       *fakeLog
	table     *sessiontracker.GlobalTable
	members   []*fakeMember // from index 1: those of the first configuration
	all       []*fakeMember // and those that may join
	records   *records
	start     time.Time
	applied   atomic.Uint64
	nodes     fakeNodes
	stop      context.CancelFunc
	ended     chan error // the error that Run returned
	streams   sync.WaitGroup
}

func session(id jute.SessionID, member uint32) sessiontracker.TrackedSession {
	return sessiontracker.TrackedSession{ID: id, Timeout: timeout, OwnerMember: member, OwnerIndex: uint64(id)}
}

// mostMembers is the largest number of members in a test.
const mostMembers = 7

// configure sets these voters and observers in raft's configuration. It does not notify the leader.
func (e *ensemble) configure(voters, observers []uint32) {
	var all []Member
	for _, id := range voters {
		all = append(all, Member{ID: id, Voter: true})
	}
	for _, id := range observers {
		all = append(all, Member{ID: id})
	}
	e.servers.Store(&all)
}

// link returns the fake member.
func (e *ensemble) link(id uint32, _ int) (Link, error) { return e.all[id], nil }

// ensembleRaft is the raft of the leader of an ensemble.
type ensembleRaft struct {
	ensemble *ensemble
	diskID   uint64
}

func (r *ensembleRaft) DiskID() uint64    { return r.diskID }
func (r *ensembleRaft) Term() uint64      { return r.ensemble.raft.Load() }
func (r *ensembleRaft) Members() []Member { return *r.ensemble.servers.Load() }

// addRoute gives the leader two routes to each member. Number n to member m.id leads to m, and the others to the fake members.
func (e *ensemble) addRoute(n int, m *fakeMember) {
	e.cfg.Routes = 2
	e.membership.links.Store(nil)
	e.membership.renewLinks(e.start)
	e.cfg.LinkTo = func(id uint32, number int) (Link, error) {
		if id == m.id && number == n {
			return m, nil
		}
		return e.all[id], nil
	}
}

// newEnsemble returns an ensemble of three whose leader does not run yet.
func newEnsemble(t *testing.T, sessions ...sessiontracker.TrackedSession) *ensemble {
	t.Helper()
	return newEnsembleOf(t, []uint32{1, 2, 3}, nil, sessions...)
}

// newEnsembleOf is newEnsemble with these voters and observers.
func newEnsembleOf(t *testing.T, voters, observers []uint32, sessions ...sessiontracker.TrackedSession) *ensemble {
	t.Helper()
	start := time.Now()
	e := &ensemble{t: t, start: start, records: &records{}, all: make([]*fakeMember, mostMembers+1), ended: make(chan error, 1)}
	e.table = sessiontracker.NewGlobalTable(start, tick, slices.Values(sessions))
	e.log = &fakeLog{table: e.table, start: start, delay: time.Millisecond, closed: map[jute.SessionID]time.Duration{}, commit: 100}
	for id := range e.all {
		e.all[id] = &fakeMember{id: uint32(id)}
	}
	e.members = e.all[:1+len(voters)+len(observers)]
	e.configure(voters, observers)
	e.raft.Store(term)
	e.answering.Store(&[]uint32{1, 2, 3})
	var err error
	e.Leader, err = New(Config{
		Self: 1, Raft: &ensembleRaft{ensemble: e, diskID: 1}, Term: term, Nonce: nonce, EntryFormat: func() uint32 { return testFormat }, Tick: tick, SyncLimit: 5, PartingTime: parting, WallClock: NewClock(time.Now), Log: e.log,
		Sessions: e.table, LinkTo: e.link, ReachableServers: func(*proto.Txn) []uint32 { return *e.answering.Load() }, AppliedIndex: e.applied.Load, Nodes: &e.nodes, Logger: slog.New(e.records),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.log.expired = e.RecordExpired
	e.log.swept = func() { e.nodes.leave(-1) }
	return e
}

// run makes the leader run until the test has ended.
func (e *ensemble) run() {
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.t.Cleanup(stop) // so that a test that fails says why
	go func() { e.ended <- e.Run(ctx) }()
	synctest.Wait()
}

// end stops the leader, which is not a failure.
func (e *ensemble) end() {
	e.t.Helper()
	e.stop()
	if err := <-e.ended; err != nil {
		e.t.Errorf("Run: %v", err)
	}
	e.streams.Wait()
}

// at sleeps until a time after the start.
func (e *ensemble) at(d time.Duration) {
	time.Sleep(time.Until(e.start.Add(d)))
	synctest.Wait()
}

// forward opens a stream of writes. close ends it from the member's side.
func (e *ensemble) forward(size int) (stream *fakeForward, ended <-chan error, hangUp context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	e.t.Cleanup(cancel)
	s := &fakeForward{ctx: ctx, in: make(chan *proto.Forwarded, size)}
	end := make(chan error, 1)
	e.streams.Go(func() {
		end <- e.Forward(s)
		cancel() // as gRPC does when a handler returns
	})
	return s, end, cancel
}

// writes returns a message of transactions with these seqs, each with size bytes of body.
func writes(member uint32, size int, seqs ...uint64) *proto.Forwarded {
	f := &proto.Forwarded{Member: member, Incarnation: 77, Nonce: nonce}
	for _, seq := range seqs {
		f.Txns = append(f.Txns, &proto.Txn{
			Member: member, Incarnation: 77, Seq: seq, Session: 1, Op: int32(jute.OpSetData), Body: make([]byte, size),
		})
	}
	return f
}
