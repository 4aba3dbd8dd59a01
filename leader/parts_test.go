package leader

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/metrics"
	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// The tests below show that the parts of a Leader work without one.

var quiet = slog.New(slog.DiscardHandler)

// fixedRaft is the raft of a leader, without a disk.
type fixedRaft struct {
	term    uint64
	members []Member
}

func (*fixedRaft) DiskID() uint64      { return 0 }
func (r *fixedRaft) Term() uint64      { return r.term }
func (r *fixedRaft) Members() []Member { return r.members }

// testMembership returns the membership of voters. raft's term is raftTerm.
func testMembership(cfg *Config, raftTerm uint64, voters ...uint32) *membership {
	members := make([]Member, 0, len(voters))
	for _, id := range voters {
		members = append(members, Member{ID: id, Disk: uint64(id), Voter: true})
	}
	cfg.Raft = &fixedRaft{raftTerm, members}
	m := &membership{cfg: cfg}
	m.renewLinks(time.Now())
	return m
}

// A member that has left keeps its link while it is parting, and gets another one when it comes back.
func TestMembershipRenews(t *testing.T) {
	cfg := &Config{Tick: tick, PartingTime: parting, Term: term}
	m := testMembership(cfg, term+1, 1, 2)
	old := m.presentLinks()[2]
	all := cfg.Raft.Members()
	cfg.Raft = &fixedRaft{term + 1, all[:1]}
	now := time.Now()
	m.renewLinks(now)
	if l := m.links.Load(); len(l.members) != 1 || l.parting[2] != old || !old.hasLeft() {
		t.Errorf("after member 2 has left: %+v", l)
	}
	m.renewLinks(now.Add(parting))
	if l := m.links.Load(); len(l.parting) != 0 || m.isMember(2) || len(m.voterIDs()) != 1 {
		t.Errorf("after it has parted: %+v", l)
	}
	cfg.Raft = &fixedRaft{term + 1, all}
	m.renewLinks(now)
	if l := m.presentLinks()[2]; l == nil || l == old {
		t.Error("the link of a member that comes back is the old one")
	}
	if m.countedMembers() != nil {
		t.Error("the configuration of a later term counts")
	}
}

// A receiver takes messages of its term from members, and none of anybody else or after the term.
func TestReceiver(t *testing.T) {
	r := &receiver{
		tenure:     &tenure{term: term, nonce: nonce, over: make(chan struct{})},
		membership: testMembership(&Config{}, term, 1, 2), intake: newIntake(new(metrics.Sizes), nil),
	}
	stream := func() *forwarding { return &forwarding{cancel: func(error) {}} }
	open := stream()
	if err := r.acceptMessage(open, writes(2, 10, 1)); err != nil {
		t.Fatal(err)
	}
	wrongNonce := writes(2, 10, 2)
	wrongNonce.Nonce++
	for name, tt := range map[string]struct {
		stream  *forwarding
		message *proto.Forwarded
		code    codes.Code
	}{
		"another term":               {open, wrongNonce, codes.FailedPrecondition},
		"not a member":               {stream(), writes(3, 10, 1), codes.InvalidArgument},
		"of another member's stream": {open, writes(1, 10, 1), codes.InvalidArgument},
	} {
		if err := r.acceptMessage(tt.stream, tt.message); status.Code(err) != tt.code {
			t.Errorf("%s: %v, want %v", name, err, tt.code)
		}
	}
	close(r.tenure.over)
	if err := r.acceptMessage(open, writes(2, 10, 2)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("after the term: %v", err)
	}
	if txns, _ := r.intake.takeTxns(10, 1<<20); len(txns) != 1 {
		t.Errorf("%d transactions taken, want 1", len(txns))
	}
}

// What is due is taken only after the round is decided, and no more is decided until all of it is taken. The pause after
// an entry lasts as long as the entry took.
func TestRemovalsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seeds := []sessiontracker.TrackedSession{session(1, 1), session(2, 1), session(3, 1)}
		table := sessiontracker.NewGlobalTable(time.Now(), tick, func(yield func(sessiontracker.TrackedSession) bool) {
			for _, s := range seeds {
				if !yield(s) {
					return
				}
			}
		})
		e := &expiry{sessions: table}
		nodes := &fakeNodes{}
		nodes.leave(1)
		r := &removals{cfg: &Config{Nodes: nodes, Monotonic: monotonic.System{}}, expiry: e}
		var due bool
		for !due {
			time.Sleep(tick / 2)
			_, due = e.advanceTable(time.Now())
		}
		if got := e.takeDue(10); got != nil || !e.hasUndecided.Load() {
			t.Errorf("took %v before the round was decided; watched %t", got, e.hasUndecided.Load())
		}
		e.releaseDue()
		if _, due := e.advanceTable(time.Now()); due {
			t.Error("due again while the round is decided")
		}
		if got := e.takeDue(2); len(got) != 2 || !e.dueReleased.Load() {
			t.Errorf("took %d of 3; still deciding: %t", len(got), e.dueReleased.Load())
		}
		r.unswept.Store(true)
		begun := time.Now()
		time.Sleep(time.Second)
		r.startPause(begun)
		if sweeps, due := r.takeRemovals(time.Now().Add(time.Second - 1)); sweeps || due != nil {
			t.Errorf("in the pause: sweeps %t, %v", sweeps, due)
		}
		if sweeps, due := r.takeRemovals(time.Now().Add(time.Second)); !sweeps || len(due) != 1 || e.dueReleased.Load() {
			t.Errorf("after the pause: sweeps %t, %d due, still deciding: %t", sweeps, len(due), e.dueReleased.Load())
		}
	})
}

// Expired sessions are counted once, with their lateness by table time.
func TestExpiredReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := sessiontracker.NewGlobalTable(time.Now(), tick, func(func(sessiontracker.TrackedSession) bool) {})
		e := &expiryReporter{log: quiet, clock: monotonic.System{}, sessions: table, counters: new(Counters)}
		e.sealedExpiries = []sessiontracker.OverdueSession{{TrackedSession: session(4, 1)}, {TrackedSession: session(5, 1)}}
		e.recordApplied(jute.SessionID(5)) // the client of 4 has come back
		for range 2 {
			e.reportApplied()
		}
		if late, n := e.counters.ExpiryLateness.Buckets().Count, e.counters.Expired.Load(); late != 1 || n != 1 {
			t.Errorf("counted %d and %d late, want 1 each", n, late)
		}
	})
}

// A leader hands over if most of the members that raft reaches have not heard it, or could not forward, for the sync
// limit.
func TestHealthHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raft := &fakeEnsemble{reached: []uint32{2, 3}, heir: 2, start: time.Now()}
		cfg := &Config{Self: 1, Tick: tick, SyncLimit: 5, Ensemble: raft}
		h := &health{cfg: cfg, log: quiet, membership: testMembership(cfg, term, 1, 2, 3), proofs: newProofs(), provedAt: time.Now(), decisions: make(chan transferDecision)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = h.handOverLoop(ctx) }()
		for want, wait := range []time.Duration{5*tick - 1, 1} {
			time.Sleep(wait)
			synctest.Wait()
			h.handOverIfUnable(time.Now(), false)
			synctest.Wait()
			if got := len(raft.when()); got != want {
				t.Errorf("%v: handed over %d times, want %d", time.Since(raft.start), got, want)
			}
		}
	})
}

// A pinger enters the touches of a member into the table, and acknowledges them once a round has proved that it leads.
func TestPingerAcknowledges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member := &fakeMember{id: 2}
		table := sessiontracker.NewGlobalTable(time.Now(), tick, func(yield func(sessiontracker.TrackedSession) bool) { yield(session(9, 2)) })
		cfg := &Config{
			Self: 1, Term: term, Nonce: nonce, Tick: tick, PartingTime: parting, WallClock: NewClock(time.Now), Monotonic: monotonic.System{},
			Log: &fakeLog{commit: 100}, Sessions: table, AppliedIndex: func() uint64 { return 0 },
			LinkTo: func(uint32, int) (Link, error) { return member, nil }, Routes: 1,
		}
		membership := testMembership(cfg, term, 2)
		p := &pinger{
			cfg: cfg, log: quiet, termBegun: time.Now(), membership: membership, proofs: newProofs(),
			lost: newLostMembers(cfg, new(atomic.Uint64), time.Now()), compared: newComparison(cfg),
			clocks: newClocks(cfg, quiet, membership), intake: newIntake(new(metrics.Sizes), nil),
			membersChanged: make(chan struct{}, 1), replyArrived: make(chan struct{}, 1),
		}
		member.change = func(pong *proto.Pong) bool { pong.Disk = 2; return true }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.memberLoop(ctx) }()
		time.Sleep(tick)
		member.touched.Touch(9, timeout, time.Now())
		number := p.pingAll()
		synctest.Wait()
		if heard, _ := table.LastHeard(9, time.Now()); heard.Ago != 0 || !p.allReplied(number, time.Now()) {
			t.Errorf("heard %v ago; answered: %t", heard.Ago, p.allReplied(number, time.Now()))
		}
		if acks := member.acked(); len(acks) != 1 || acks[0].Commit != 100 {
			t.Errorf("acknowledgements %v, want one", acks)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A reaper removes nothing until a majority of the clocks agrees with this member's.
func TestReaperAwaitsClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := &fakeNodes{paths: []string{"/a", "/b"}}
		cfg := &Config{Self: 1, WallClock: NewClock(time.Now), Nodes: nodes, Reaping: Reaping{Interval: time.Minute, PerMinute: 600}}
		clocks := newClocks(cfg, quiet, testMembership(cfg, term, 1, 2, 3))
		r := &reaper{cfg: cfg, log: quiet, clocks: clocks, intake: newIntake(new(metrics.Sizes), nil)}
		for id, want := range []int{0, 0, 2} {
			if id > 0 {
				clocks.recordClock(uint32(id), time.Now().UnixMilli(), time.Now())
			}
			if n, err := r.reapRound(t.Context()); n != want || err != nil {
				t.Errorf("%d clocks agree: %d removed, %v; want %d", id, n, err, want)
			}
		}
	})
}
