package follower

import (
	"context"
	"io"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// fakePings is a leader's stream. A pong is taken only when the test takes it.
type fakePings struct {
	grpc.ServerStream
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	leader uint32
	term   uint64
	nonce  uint64
	pings  chan *proto.Ping
	pongs  chan *proto.Pong
	ended  chan error
}

func (s *fakePings) Context() context.Context { return s.ctx }

func (s *fakePings) Recv() (*proto.Ping, error) {
	select {
	case ping, ok := <-s.pings:
		if !ok {
			return nil, io.EOF
		}
		return ping, nil
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *fakePings) Send(pong *proto.Pong) error {
	select {
	case s.pongs <- pong:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// pings opens a stream, as the leader of term would, and sends the first ping.
func (r *rig) pings(term, nonce uint64) *fakePings {
	s := &fakePings{t: r.t, leader: 1, term: term, nonce: nonce, pings: make(chan *proto.Ping), pongs: make(chan *proto.Pong), ended: make(chan error, 1)}
	s.ctx, s.cancel = context.WithCancel(r.t.Context())
	go func() {
		err := r.f.Pings(s)
		s.cancel() // as gRPC does
		s.ended <- err
	}()
	return s
}

func (s *fakePings) ping(p *proto.Ping) {
	s.t.Helper()
	p.Term, p.Nonce, p.Leader = s.term, s.nonce, s.leader
	select {
	case s.pings <- p:
	case <-s.ctx.Done():
		s.t.Error("the stream has ended before a ping")
	}
	synctest.Wait()
}

// pong returns the next message, which must come within d.
func (s *fakePings) pong(d time.Duration) *proto.Pong {
	s.t.Helper()
	synctest.Wait()
	select {
	case pong := <-s.pongs:
		return pong
	default:
	}
	select {
	case pong := <-s.pongs:
		return pong
	case <-time.After(d):
		s.t.Fatalf("no pong within %v", d)
		return nil
	}
}

// silent fails the test if a message is there.
func (s *fakePings) silent() {
	s.t.Helper()
	synctest.Wait()
	select {
	case pong := <-s.pongs:
		s.t.Errorf("sent %v", pong)
	default:
	}
}

// code waits for the end of the stream.
func (s *fakePings) code() codes.Code {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return status.Code(err)
	case <-time.After(tick):
		s.t.Fatal("the stream goes on")
		return 0
	}
}

// flushed returns the touches in a pong: batch number → sessions.
func flushed(pong *proto.Pong) map[uint64][]int64 {
	got := map[uint64][]int64{}
	for _, b := range pong.Batches {
		got[b.Number] = slices.Sorted(slices.Values(b.Sessions))
	}
	return got
}

func wantFlushed(t *testing.T, pong *proto.Pong, want map[uint64][]int64) {
	t.Helper()
	if got := flushed(pong); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("flushed %v, want %v", got, want)
	}
}

// A ping is answered with all batches that are not acknowledged, each with the time since it was
// first sent.
func TestPing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		s.ping(&proto.Ping{Number: 1})
		pong := s.pong(0)
		if pong.Number != 1 || pong.Incarnation != ourBoot || pong.Applied != r.state.index || len(pong.Batches) != 0 ||
			pong.More || pong.Proof != 0 {
			t.Errorf("answered %v", pong)
		}
		r.f.Touch(1, timeout)
		r.f.Touch(2, 2*timeout)
		s.ping(&proto.Ping{Number: 2})
		pong = s.pong(0)
		wantFlushed(t, pong, map[uint64][]int64{1: {1, 2}})
		for i, id := range pong.Batches[0].Sessions {
			if got, want := pong.Batches[0].TimeoutsMs[i], uint32(id)*uint32(timeout.Milliseconds()); got != want {
				t.Errorf("session %d with timeout %d ms, want %d", id, got, want)
			}
		}
		if pong.Batches[0].AgeUs != 0 {
			t.Errorf("age %d of a new batch", pong.Batches[0].AgeUs)
		}
		time.Sleep(time.Second)
		r.f.Touch(3, timeout)
		s.ping(&proto.Ping{Number: 3})
		s.pong(0)
		time.Sleep(time.Second)

		// A new stream gets it all as well, with the age of the first sending.
		s2 := r.pings(1, 1001)
		defer s2.cancel()
		s2.ping(&proto.Ping{Number: 1})
		pong = s2.pong(0)
		wantFlushed(t, pong, map[uint64][]int64{1: {1, 2}, 2: {3}})
		if a, b := pong.Batches[0].AgeUs, pong.Batches[1].AgeUs; a != 2e6 || b != 1e6 {
			t.Errorf("ages %d and %d µs, want 2 s and 1 s", a, b)
		}
		s2.ping(&proto.Ping{Number: 2, Ack: &proto.Ack{Incarnation: ourBoot, Through: 1}})
		s2.pong(0)
		s2.ping(&proto.Ping{Number: 3})
		wantFlushed(t, s2.pong(0), map[uint64][]int64{2: {3}})
		s2.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 2}})
		s2.silent() // a bare acknowledgement wants no answer
		s2.ping(&proto.Ping{Number: 4})
		if pong := s2.pong(0); len(pong.Batches) != 0 {
			t.Errorf("sent again after the acknowledgement: %v", flushed(pong))
		}
		close(s2.pings)
		if code := s2.code(); code != codes.OK {
			t.Errorf("the stream ended with %v", code)
		}
		if n := len(r.f.leadership.pingStreams()); n != 1 {
			t.Errorf("%d streams are kept, want the first, which is open", n)
		}
	})
}

// A long reply comes in parts, and a proof may come between them.
func TestLongAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		for id := range jute.SessionID(150_000) {
			r.f.Touch(id, timeout)
		}
		s := r.pings(1, 1001)
		defer s.cancel()
		s.ping(&proto.Ping{Number: 1})
		var parts []*proto.Pong
		parts = append(parts, s.pong(0))
		for id := range jute.SessionID(100_000) {
			r.f.Touch(id, timeout)
		}
		parts = append(parts, s.pong(0))
		s.silent()
		s.ping(&proto.Ping{Number: 2})
		parts = append(parts, s.pong(0))
		synctest.Wait()
		s.ping(&proto.Ping{Proof: 5}) // the second part is on its way
		parts = append(parts, s.pong(0))
		if pong := s.pong(0); pong.Proof != 5 || pong.Number != 0 || !pong.More {
			t.Errorf("no proof after the part that was on its way, or one that seems to end the answer: %d, %t", pong.Number, pong.More)
		}
		for more := true; more; more = parts[len(parts)-1].More {
			parts = append(parts, s.pong(0))
		}
		s.silent()
		want := []struct {
			number uint64
			more   bool
			sizes  map[uint64]int
		}{
			{1, true, map[uint64]int{1: 100_000}},
			{1, false, map[uint64]int{1: 50_000}},
			{2, true, map[uint64]int{1: 100_000}},
			{2, true, map[uint64]int{1: 50_000, 2: 50_000}},
			{2, false, map[uint64]int{2: 50_000}},
		}
		if len(parts) != len(want) {
			t.Fatalf("%d parts, want %d", len(parts), len(want))
		}
		seen := map[int64]int{}
		for i, pong := range parts {
			sizes := map[uint64]int{}
			for _, b := range pong.Batches {
				sizes[b.Number] += len(b.Sessions)
				for _, id := range b.Sessions {
					seen[id]++
				}
			}
			if pong.Number != want[i].number || pong.More != want[i].more || !maps.Equal(sizes, want[i].sizes) {
				t.Errorf("part %d: ping %d, more %t, sizes %v; want %v", i, pong.Number, pong.More, sizes, want[i])
			}
		}
		if len(seen) != 150_000 || seen[0] != 3 || seen[149_999] != 2 {
			t.Errorf("%d sessions, the first %d times, the last %d times", len(seen), seen[0], seen[149_999])
		}
	})
}

// Proof requests get a reply at once, even while the tree's lock is held. A member that is joining does not reply to
// them, and no member does once raft knows of a newer term.
func TestProof(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		r.state.Lock()
		s.ping(&proto.Ping{Proof: 7})
		if pong := s.pong(0); pong.Proof != 7 || pong.Number != 0 || pong.Incarnation != ourBoot || pong.More {
			t.Errorf("answered %v", pong)
		}
		s.ping(&proto.Ping{Number: 1, Proof: 8})
		if pong := s.pong(0); pong.Proof != 8 {
			t.Errorf("answered %v, want the proof first", pong)
		}
		if pong := s.pong(0); pong.Number != 1 {
			t.Errorf("answered %v, want the ping", pong)
		}
		r.state.Unlock()

		r.raft.joining.Store(true)
		s.ping(&proto.Ping{Number: 2, Proof: 9})
		if pong := s.pong(0); pong.Number != 2 || pong.Proof != 0 {
			t.Errorf("answered %v, want the ping alone", pong)
		}
		s.silent()
		r.raft.joining.Store(false)

		s.ping(&proto.Ping{Number: 3}) // its answer is on its way
		s.ping(&proto.Ping{Proof: 10})
		r.raft.term.Store(2)
		s.pong(0)
		s.silent()
	})
}

// Who may ping: the leader of the newest TermStart applied, or of a newer term that raft
// has heard of. A term of which raft has not heard is no reason to leave the leader.
func TestWhoMayPing(t *testing.T) {
	ping := func() *proto.Ping { return &proto.Ping{Number: 1} }
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.raft.term.Store(4)
		refused := func(term, nonce uint64) {
			t.Helper()
			s := r.pings(term, nonce)
			s.ping(ping())
			if code := s.code(); code != codes.FailedPrecondition {
				t.Errorf("term %d: %v, want FailedPrecondition", term, code)
			}
		}
		refused(3, 1)
		r.start(1, 4, 40)
		r.start(1, 4, 41) // the same member opened a term object again
		refused(4, 40)
		known := r.pings(4, 41)
		known.ping(ping())
		known.pong(0)
		var again *fakePings
		for range maxLeaderStreams { // on other connections
			again = r.pings(4, 41)
			again.ping(ping())
			again.pong(0)
		}
		ahead := r.pings(5, 50)
		ahead.ping(ping())
		if code := ahead.code(); code != codes.Unavailable {
			t.Errorf("a term of which raft has not heard: %v, want Unavailable", code)
		}
		again.ping(ping())
		again.pong(0)
		known.ping(ping())
		if code := known.code(); code != codes.Aborted {
			t.Errorf("a stream that was replaced: %v, want Aborted", code)
		}
		r.raft.term.Store(5)
		r.raft.leader.Store(2)
		next := r.pings(5, 50) // its TermStart is not applied here
		next.leader = 2
		next.ping(ping())
		next.pong(0)
		refused(4, 41)
		r.start(2, 5, 50)
		next.ping(ping())
		next.pong(0)
		next.term = 6
		r.raft.term.Store(6)
		next.ping(ping())
		if code := next.code(); code != codes.InvalidArgument {
			t.Errorf("another term on the same stream: %v, want InvalidArgument", code)
		}
		r.start(2, 6, 60)
		r.raft.term.Store(5) // only the TermStart shows it
		refused(5, 50)
	})
}

// A member that does not lead may not ping, whether raft or a TermStart names the leader, and its pings do not end the
// leader's stream. If raft knows no leader yet, any member may be the leader. Then the next ping is checked against the
// leader that is known by that time.
func TestOnlyTheLeaderMayPing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		beat := func(s *fakePings) { s.ping(&proto.Ping{Number: 1}) }
		refused := func(s *fakePings) {
			t.Helper()
			if code := s.code(); code != codes.FailedPrecondition {
				t.Errorf("member %d pings: %v, want FailedPrecondition", s.leader, code)
			}
		}
		other := func() *fakePings {
			s := r.pings(4, 40)
			s.leader = 2
			return s
		}
		r.raft.term.Store(4)
		early := other()
		beat(early)
		early.pong(0)
		r.raft.leader.Store(1)
		beat(early)
		refused(early)

		leader := r.pings(4, 40)
		beat(leader)
		leader.pong(0)
		late := other()
		beat(late)
		refused(late)
		r.start(1, 4, 40)
		r.raft.leader.Store(0) // it was not heard for a moment
		late = other()
		beat(late)
		refused(late)
		beat(leader)
		leader.pong(0)
		leader.hangUp()
	})
}

// An acknowledgement counts once its commit index has been applied here, if it is for this incarnation and comes from
// the current leader.
func TestAck(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		id := r.session(l, 8, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		acked := func() bool {
			synctest.Wait()
			return r.f.IsVouched(id)
		}
		time.Sleep(timeout)
		r.f.Touch(id, timeout)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot + 1, Through: 1}})
		if acked() {
			t.Error("another boot's acknowledgement counts")
		}
		s.nonce = 999
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1}})
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1, Commit: 1 << 40}}) // does not delay other acknowledgements
		if acked() {
			t.Error("the acknowledgement of a leader that is not the present one counts")
		}
		s.nonce = 1001
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1, Commit: r.state.index + 2}})
		if acked() {
			t.Error("counts before its commit is applied")
		}
		r.apply()
		if acked() {
			t.Error("counts before its commit is applied")
		}
		r.apply()
		if !acked() {
			t.Error("does not count although its commit is applied")
		}
	})
}

// A leader pings and reads nothing. Its stream does not stay open: it ends when newer streams have
// taken over, although the sender still waits.
func TestPingsEndsWhileItsSenderWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.raft.term.Store(2)
		old := r.pings(2, 2002)
		old.ping(&proto.Ping{Number: 1}) // the pong is not read
		for range maxLeaderStreams {
			r.pings(2, 2002).ping(&proto.Ping{Number: 1})
		}
		old.ping(&proto.Ping{Number: 2})
		if code := old.code(); code != codes.Aborted {
			t.Errorf("the old stream ended with %v, want Aborted", code)
		}
	})
}

// If there are too many acknowledgements they are merged, and none is lost.
func TestManyAcks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		a, b := r.session(l, 1, 0), r.session(l, 2, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		time.Sleep(timeout)
		r.f.Touch(99, timeout)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		r.f.Touch(a, timeout)
		r.f.Touch(b, timeout)
		s.ping(&proto.Ping{Number: 2})
		s.pong(0)
		for range maxAcks + 9 {
			s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1, Commit: r.state.index + 1}})
		}
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 2, Refused: []int64{int64(b)}, Commit: r.state.index + 2}})
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1, Commit: r.state.index + 1}})
		if n := len(r.f.renewer.acks.pending); n != maxAcks {
			t.Errorf("%d wait, want %d", n, maxAcks)
		}
		r.apply()
		synctest.Wait()
		if r.f.IsVouched(a) {
			t.Error("counts before its commit is applied")
		}
		r.apply()
		synctest.Wait()
		if !r.f.IsVouched(a) || !slices.Equal(r.cut, []jute.SessionID{b}) {
			t.Errorf("vouched for: %t, cut: %v", r.f.IsVouched(a), r.cut)
		}
	})
}

// Batches that are never acknowledged are dropped when they could not renew any lease.
func TestOldBatches(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		r.f.Touch(1, timeout)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		time.Sleep(timeout + 1)
		s.ping(&proto.Ping{Number: 2})
		wantFlushed(t, s.pong(0), nil)
	})
}

// On the member that leads, a touch reaches the leader's table without a ping. It is flushed too.
func TestTouchWhileLeading(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		seeds := []sessiontracker.TrackedSession{{ID: 1, Timeout: timeout, OwnerMember: self}, {ID: 2, Timeout: timeout, OwnerMember: self}}
		table := sessiontracker.NewGlobalTable(time.Now(), tick, slices.Values(seeds))
		r.f.SetSessionTable(table)
		var due []sessiontracker.OverdueSession
		for range 8 { // four ticks; both were due after three or four
			r.f.Touch(1, timeout)
			time.Sleep(tick / 2)
			table.AdvanceIfDue(time.Now())
			due = table.TakeOverdue(due, 9)
		}
		if len(due) != 1 || due[0].ID != 2 {
			t.Errorf("due: %v, want only session 2", due)
		}
		s := r.pings(1, 1001)
		defer s.cancel()
		s.ping(&proto.Ping{Number: 1})
		batches := s.pong(0).Batches
		if len(batches) == 0 {
			t.Error("nothing flushed")
		}
		for _, b := range batches {
			if !slices.Equal(b.Sessions, []int64{1}) {
				t.Errorf("batch of %v, want session 1", b.Sessions)
			}
		}
		r.f.SetSessionTable(nil)
		r.f.Touch(1, timeout)
	})
}

// When this member stops, the stream of pings ends without an error, and so do those that come later.
func TestLeave(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		first := r.pings(1, 1)
		first.ping(&proto.Ping{Number: 1})
		first.pong(tick)
		r.f.EndPings()
		r.f.EndPings()
		if got := first.code(); got != codes.OK {
			t.Errorf("the stream ended with %v", got)
		}
		if got := r.pings(1, 1).code(); got != codes.OK {
			t.Errorf("a later stream ended with %v", got)
		}
	})
}
