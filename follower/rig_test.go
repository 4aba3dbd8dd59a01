package follower

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	tick    = 2 * time.Second
	self    = 3
	ourBoot = 77
	timeout = 3 * tick
)

// rig is a Follower with surroundings in memory: a state that follows the rules for incarnations and numbers, and
// members that may lead.
type rig struct {
	t      *testing.T
	f      *Follower
	state  *fakeState
	raft   fakeRaft
	probed atomic.Int64 // probes without an answer

	mu       sync.Mutex
	leaders  map[uint32]*fakeLeader
	dials    []time.Time
	cut      []jute.SessionID
	conns    []uint64 // that were cut
	damages  []string
	disputes []string
	marks    map[uint32]func(ctx context.Context) (*proto.StateHashes, error) // what the other members answer; none: it is down
	asks     int
	ran      chan error
}

// fakeRaft is the raft of member self, in an ensemble of members 1, 2 and self unless it has voters.
type fakeRaft struct {
	term    atomic.Uint64
	leader  atomic.Uint32
	joining atomic.Bool
	voters  atomic.Pointer[[]uint32]
}

// inTerm returns the raft of member self, which is in a term.
func inTerm(term uint64) *fakeRaft {
	f := new(fakeRaft)
	f.term.Store(term)
	return f
}

func (*fakeRaft) DiskID() uint64            { return 7 }
func (f *fakeRaft) Term() uint64            { return f.term.Load() }
func (f *fakeRaft) Leader() uint32          { return f.leader.Load() }
func (f *fakeRaft) IsJoining() bool         { return f.joining.Load() }
func (*fakeRaft) LastLead(uint64) time.Time { return time.Time{} }

func (f *fakeRaft) Voters() []uint32 {
	if voters := f.voters.Load(); voters != nil {
		return *voters
	}
	return []uint32{1, 2, self}
}

// fakeState has the parts of the state that apply needs: the rules of the log.
type fakeState struct {
	sync.RWMutex
	index, cursor, boot uint64
	term                znode.Term
	highest             jute.SessionID
	marks               []znode.StateHash
	log                 []*proto.Txn // that have run, of our boot
}

func (s *fakeState) Index() uint64                                  { return s.index }
func (s *fakeState) Term() znode.Term                               { return s.term }
func (s *fakeState) MemberIncarnation(uint32) (boot, cursor uint64) { return s.boot, s.cursor }
func (s *fakeState) HighestSession(uint32) jute.SessionID           { return s.highest }
func (s *fakeState) StateHashes() []znode.StateHash                 { return s.marks }

const testSyncLimit = 5

// bubble runs test in a bubble with a Follower that runs.
func bubble(t *testing.T, change func(*Config), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, state: &fakeState{}, leaders: map[uint32]*fakeLeader{}, ran: make(chan error, 1)}
		cfg := Config{
			Self: self, Boot: ourBoot, Tick: tick, SyncLimit: testSyncLimit, State: r.state, Clients: r, Raft: &r.raft, Peers: r, WallClock: time.Now,
			OnDamage: r.damaged, OnDivergence: r.disputed,
		}
		if change != nil {
			change(&cfg)
		}
		var err error
		if r.f, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { r.ran <- r.f.Run(ctx) }()
		test(t, r)
		stop()
		if err := <-r.ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// Probe replies for every member that leads, unless the member is mute. It closes nothing.
func (r *rig) Probe(ctx context.Context, id uint32) error {
	r.mu.Lock()
	l := r.leaders[id]
	r.mu.Unlock()
	if l == nil {
		return errors.New("unreachable")
	}
	if l.mute.Load() {
		ctx, cancel := context.WithTimeout(ctx, tick)
		defer cancel()
		<-ctx.Done()
		r.probed.Add(1)
		return ctx.Err()
	}
	return nil
}

func (r *rig) DropConnection(id jute.SessionID, conn uint64, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.conns = append(r.cut, id), append(r.conns, conn)
}

func (r *rig) damaged(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.damages = append(r.damages, why)
}

func (r *rig) disputed(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disputes = append(r.disputes, why)
}

// StateHashes returns a member's marks.
func (r *rig) StateHashes(ctx context.Context, id uint32) (*proto.StateHashes, error) {
	r.mu.Lock()
	answer := r.marks[id]
	r.asks++
	r.mu.Unlock()
	if answer == nil {
		return nil, errors.New("unreachable")
	}
	return answer(ctx)
}

func (r *rig) cutSoFar() []jute.SessionID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.cut)
}

func (r *rig) Leader(_ context.Context, id uint32) (proto.LeaderClient, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials = append(r.dials, time.Now())
	l := r.leaders[id]
	if l == nil {
		return nil, errors.New("unreachable")
	}
	return l, nil
}

// lead makes a member lead from a TermStart on, which is applied here.
func (r *rig) lead(id uint32, term uint64) *fakeLeader {
	l := &fakeLeader{nonce: 1000 + term}
	r.mu.Lock()
	r.leaders[id] = l
	r.mu.Unlock()
	r.start(id, term, l.nonce)
	synctest.Wait()
	return l
}

// start applies a TermStart.
func (r *rig) start(id uint32, term, nonce uint64) {
	r.raft.term.Store(max(term, r.raft.term.Load()))
	r.raft.leader.Store(id)
	r.state.Lock()
	defer r.state.Unlock()
	r.state.index++
	r.state.term = znode.Term{Term: term, Nonce: nonce, Leader: id, Index: r.state.index}
	r.f.TermStarted(r.state.term, znode.LeaderCause{Kind: znode.LeaderDied, Former: 9})
	r.f.EntryFinished(r.state.index)
}

// commit applies as one entry what l received and what has not been applied from its streams yet,
// limit transactions at most. Apply's results are OK, with a timeout for sessions.
func (r *rig) commit(l *fakeLeader, limit int) {
	r.t.Helper()
	synctest.Wait()
	r.apply(l.take(limit)...)
	synctest.Wait()
}

func (r *rig) apply(txns ...*proto.Txn) {
	r.state.Lock()
	defer r.state.Unlock()
	r.state.index++
	for _, txn := range txns {
		r.run(txn)
	}
	r.f.EntryFinished(r.state.index)
}

func (r *rig) run(txn *proto.Txn) {
	s := r.state
	if jute.Op(txn.Op) == jute.OpAnnounce {
		var a proto.Announce
		if err := protobuf.Unmarshal(txn.Body, &a); err != nil {
			r.t.Error(err)
		}
		if a.Replaces == s.boot && txn.Incarnation != s.boot {
			s.boot, s.cursor = txn.Incarnation, 0
			r.f.MemberAnnounced(txn.Member, s.boot, a.Replaces)
		}
		return
	}
	if txn.Incarnation != s.boot || txn.Seq != s.cursor+1 {
		r.f.TxnDropped(txn)
		return
	}
	s.cursor++
	s.log = append(s.log, txn)
	res := &znode.Result{}
	if isHandshake(txn) {
		res.Session = znode.Session{ID: jute.SessionID(txn.Session), Timeout: timeout, Owner: znode.SessionOwner{Member: self, Conn: txn.Conn}}
	}
	r.f.TxnApplied(txn, res)
}

// announced makes member 1 lead in term 1 and brings the announcement into the state.
func (r *rig) announced() *fakeLeader {
	r.t.Helper()
	l := r.lead(1, 1)
	r.commit(l, 1)
	if r.state.boot != ourBoot {
		r.t.Fatalf("boot %d is current, want %d", r.state.boot, ourBoot)
	}
	return l
}

// submit submits a transaction that does not have to wait.
func (r *rig) submit(conn uint64, op jute.Op, body string) *heard {
	r.t.Helper()
	w := &heard{}
	txn := &proto.Txn{Session: int64(conn), Conn: conn, Op: int32(op), Body: []byte(body)}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Millisecond)
	defer cancel()
	if err := r.f.Submit(ctx, txn, w); err != nil {
		r.t.Fatalf("submit %s: %v", body, err)
	}
	return w
}

// session makes a session with the id of its connection, sent now and applied after delay.
func (r *rig) session(l *fakeLeader, conn uint64, delay time.Duration) jute.SessionID {
	r.t.Helper()
	r.submit(conn, jute.OpCreateSession, "new")
	synctest.Wait()
	time.Sleep(delay)
	r.commit(l, 1)
	return jute.SessionID(conn)
}

// heard counts results.
type heard struct {
	mu sync.Mutex
	n  int
}

func (h *heard) ReceiveResult(*znode.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
}

func (h *heard) times() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// fakeLeader is a member's Leader service. It keeps what it receives and returns it in order, as a
// log would: what was sent twice is there twice.
type fakeLeader struct {
	nonce  uint64
	sync   func(ctx context.Context) (uint64, error)
	lease  func(req *proto.SyncRequest, reply *proto.SyncReply) // completes replies; nil: it grants no leases
	refuse bool                                                 // streams
	mute   atomic.Bool                                          // no probe is answered

	mu      sync.Mutex
	got     []*proto.Txn
	taken   int
	stream  *forwardStream
	streams int
	wrong   int // messages for another term
}

func (l *fakeLeader) Forward(ctx context.Context, _ ...grpc.CallOption) (proto.Leader_ForwardClient, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams++
	if l.refuse {
		return nil, status.Error(codes.FailedPrecondition, "not leading")
	}
	l.stream = &forwardStream{l: l, ctx: ctx, broken: make(chan struct{})}
	return l.stream, nil
}

func (l *fakeLeader) Sync(ctx context.Context, req *proto.SyncRequest, _ ...grpc.CallOption) (*proto.SyncReply, error) {
	if req.Nonce != l.nonce || l.sync == nil {
		return nil, status.Error(codes.FailedPrecondition, "not leading")
	}
	index, err := l.sync(ctx)
	reply := &proto.SyncReply{Index: index}
	if l.lease != nil && err == nil {
		l.lease(req, reply)
	}
	return reply, err
}

func (l *fakeLeader) HandOver(context.Context, *proto.HandOverRequest, ...grpc.CallOption) (*proto.HandOverReply, error) {
	return nil, status.Error(codes.Unimplemented, "not in this test")
}

// take returns the transactions that were received since the last take.
func (l *fakeLeader) take(limit int) []*proto.Txn {
	l.mu.Lock()
	defer l.mu.Unlock()
	txns := l.got[l.taken:]
	txns = txns[:min(limit, len(txns))]
	l.taken += len(txns)
	return txns
}

// sent returns the bodies of what has been received since the last call, and skips it.
func (l *fakeLeader) sent() (bodies []string) {
	synctest.Wait()
	for _, txn := range l.take(1 << 20) {
		bodies = append(bodies, string(txn.Body))
	}
	return bodies
}

// breakStream ends the stream that is open.
func (l *fakeLeader) breakStream() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.stream.broken)
}

type forwardStream struct {
	grpc.ClientStream
	l      *fakeLeader
	ctx    context.Context
	broken chan struct{}
}

func (s *forwardStream) Send(m *proto.Forwarded) error {
	select {
	case <-s.broken:
		return io.EOF
	case <-s.ctx.Done():
		return io.EOF
	default:
	}
	m = protobuf.CloneOf(m)
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if m.Nonce != s.l.nonce || m.Member != self || m.Incarnation != ourBoot {
		s.l.wrong++
	}
	s.l.got = append(s.l.got, m.Txns...)
	return nil
}

func (s *forwardStream) RecvMsg(any) error {
	select {
	case <-s.broken:
		return status.Error(codes.Unavailable, "broken")
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *forwardStream) CloseAndRecv() (*proto.ForwardEnd, error) { return nil, s.RecvMsg(nil) }
