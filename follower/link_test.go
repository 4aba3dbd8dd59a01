package follower

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Nothing but the announcement is sent before it has been applied. Then the connections are served
// in turn, those that open or close a session first, and numbers count up in that order.
func TestOrder(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, body := range []string{"a1", "a2", "a3"} {
			r.submit(1, jute.OpCreate, body)
		}
		r.submit(2, jute.OpCreate, "b1")
		r.submit(2, jute.OpCloseSession, "b2")
		r.submit(3, jute.OpCreate, "c1")
		r.submit(4, jute.OpCreateSession, "d1")
		r.submit(5, jute.OpAttach, "e1")
		l := r.lead(1, 1)
		if ops := l.take(10); len(ops) != 1 || jute.Op(ops[0].Op) != jute.OpAnnounce || ops[0].Seq != 0 || ops[0].Incarnation != ourBoot {
			t.Fatalf("before the announcement was applied: %v", ops)
		}
		r.apply(l.got...)
		synctest.Wait()
		var got []string
		for i, txn := range l.take(100) {
			got = append(got, string(txn.Body))
			if txn.Seq != uint64(i+1) || txn.Incarnation != ourBoot || txn.Member != self {
				t.Errorf("%s has seq %d, boot %d, member %d", txn.Body, txn.Seq, txn.Incarnation, txn.Member)
			}
		}
		// b2 is at the head of its lane once b1 has been taken.
		if want := "d1 e1 a1 b1 b2 c1 a2 a3"; strings.Join(got, " ") != want {
			t.Errorf("sent %v, want %s", got, want)
		}
		if l.wrong != 0 {
			t.Errorf("%d messages name another member, boot or term", l.wrong)
		}
	})
}

// A new term's leader gets all that has not been applied, in order, and new writes after it. The
// log then has each of them once.
func TestNewTermSendsAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		old := r.announced()
		var waiters []*heard
		for i := range 5 {
			waiters = append(waiters, r.submit(1, jute.OpCreate, fmt.Sprint("w", i)))
		}
		r.commit(old, 2)
		next := r.lead(2, 2)
		if old.stream.ctx.Err() == nil {
			t.Error("the stream to the old leader is still open")
		}
		waiters = append(waiters, r.submit(1, jute.OpCreate, "w5"))
		if got, want := next.sent(), []string{"w2", "w3", "w4", "w5"}; !slices.Equal(got, want) {
			t.Errorf("the next leader got %v, want %v", got, want)
		}
		if got := old.sent(); len(got) != 3 {
			t.Errorf("the old leader had %v beyond what was applied", got)
		}
		r.apply(next.got...)
		r.apply(next.got...) // and again: all but the first are dropped
		if n := len(r.state.log); n != 6 {
			t.Errorf("%d writes applied, want 6", n)
		}
		for i, w := range waiters {
			if w.times() != 1 {
				t.Errorf("w%d heard %d times", i, w.times())
			}
		}
		if n := r.f.Stats().ResentTxns; n != 3 {
			t.Errorf("counted %d sent again, want 3", n)
		}
		if got := r.lead(3, 3).sent(); len(got) != 0 {
			t.Errorf("sent again although applied: %v", got)
		}
	})
}

// A stream that breaks within a term is opened again, and all that is unapplied is sent again on
// it.
func TestBrokenStream(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		for i := range 4 {
			r.submit(uint64(i), jute.OpCreate, fmt.Sprint("w", i))
		}
		r.commit(l, 1)
		l.take(10)
		l.breakStream()
		time.Sleep(tick / 20)
		if got, want := l.sent(), []string{"w1", "w2", "w3"}; !slices.Equal(got, want) {
			t.Errorf("the new stream carried %v, want %v", got, want)
		}
		if l.streams != 2 {
			t.Errorf("%d streams, want 2", l.streams)
		}
	})
}

// Attempts to connect to a leader that rejects them get further and further apart, up to half a tick. The next term's
// leader is tried at once.
func TestBackoff(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.leaders[1] = nil // unreachable
		r.start(1, 1, 1001)
		time.Sleep(10 * tick)
		synctest.Wait()
		var longest time.Duration
		for i, at := range r.dials[1:] {
			gap := at.Sub(r.dials[i])
			if gap < longest {
				t.Errorf("try %d after %v, the one before after %v", i, gap, longest)
			}
			longest = gap
		}
		if n := len(r.dials); longest != tick/2 || n > 30 || r.dials[1].Sub(r.dials[0]) != tick/200 {
			t.Errorf("%d tries, %v to %v apart", n, r.dials[1].Sub(r.dials[0]), longest)
		}
		if l := r.lead(2, 2); l.streams != 1 {
			t.Errorf("the next leader was tried %d times at once", l.streams)
		}
	})
}

// TermStarts of a log that is being replayed have no effect: raft's term is above theirs.
func TestReplayedTerms(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.raft.term.Store(5)
		r.state.boot = 9
		r.f.MemberAnnounced(self, 9, 0)
		for term := range uint64(4) {
			r.lead(1, term+1)
		}
		// An earlier process of this member wrote this; our waiters must not get the result.
		w := r.submit(1, jute.OpCreate, "ours")
		r.apply(&proto.Txn{Member: self, Incarnation: 9, Seq: 1, Conn: 1, Op: int32(jute.OpCreate)})
		time.Sleep(tick)
		synctest.Wait()
		if len(r.dials) != 0 || w.times() != 0 {
			t.Errorf("dialled %d times, heard %d times", len(r.dials), w.times())
		}
		l := r.lead(2, 5)
		r.commit(l, 1)
		r.commit(l, 1)
		if w.times() != 1 || r.state.cursor != 1 {
			t.Errorf("heard %d times, cursor %d", w.times(), r.state.cursor)
		}
	})
}

// Creates and attaches of a connection that has ended are not sent, or are sent again as empty
// transactions with their numbers. Writes and closes are kept.
func TestDetachedConnection(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxInFlight = 2 }, func(t *testing.T, r *rig) {
		l := r.announced()
		var useless []*heard
		useless = append(useless, r.submit(1, jute.OpCreateSession, "create"))
		useless = append(useless, r.submit(2, jute.OpAttach, "attach"))
		synctest.Wait()
		useless = append(useless, r.submit(3, jute.OpAttach, "unsent"))
		useless = append(useless, r.submit(5, jute.OpCreateSession, "unsent"))
		write := r.submit(3, jute.OpCreate, "write")
		bye := r.submit(4, jute.OpCloseSession, "close")
		for conn := range uint64(6) {
			r.f.Detach(jute.SessionID(conn), conn)
		}
		if got, want := l.sent(), []string{"create", "attach"}; !slices.Equal(got, want) {
			t.Fatalf("sent %v, want %v", got, want)
		}
		next := r.lead(2, 2)
		got := next.take(10)
		if len(got) != 2 {
			t.Fatalf("sent again: %v", got)
		}
		for i, txn := range got {
			if jute.Op(txn.Op) != jute.OpEmpty || txn.Seq != uint64(i+1) || txn.Incarnation != ourBoot || txn.Member != self ||
				len(txn.Body) != 0 || txn.Session != 0 {
				t.Errorf("sent again: %v", txn)
			}
		}
		r.apply(got...)
		if got, want := next.sent(), []string{"close", "write"}; !slices.Equal(got, want) {
			t.Errorf("then sent %v, want %v", got, want)
		}
		next.taken -= 2
		r.commit(next, 2)
		for i, w := range useless {
			if w.times() != 0 {
				t.Errorf("waiter %d of a connection that is gone heard a result", i)
			}
		}
		if write.times() != 1 || bye.times() != 1 {
			t.Errorf("the write was heard %d times, the close %d times", write.times(), bye.times())
		}
		if n := len(r.f.outbox.lanes); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
	})
}

// A create that reached the log before its connection ended makes no lease.
func TestDetachedBeforeApplied(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		w := r.submit(1, jute.OpCreateSession, "create")
		synctest.Wait()
		r.f.Detach(1, 1)
		r.commit(l, 1)
		if r.f.IsVouched(1) || w.times() != 0 || r.state.cursor != 1 {
			t.Errorf("vouched for: %t, heard %d times, cursor %d", r.f.IsVouched(1), w.times(), r.state.cursor)
		}
	})
}

func TestAnnounce(t *testing.T) {
	replaces := func(txn *proto.Txn) uint64 {
		var a proto.Announce
		if err := protobuf.Unmarshal(txn.Body, &a); err != nil || jute.Op(txn.Op) != jute.OpAnnounce {
			t.Errorf("not an announcement: %v", txn)
		}
		return a.Replaces
	}
	t.Run("first", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, r *rig) {
			l := r.lead(1, 1)
			if got := l.take(9); len(got) != 1 || replaces(got[0]) != 0 {
				t.Errorf("sent %v, want one announcement that replaces none", got)
			}
		})
	})
	t.Run("restart", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, r *rig) {
			r.f.MemberAnnounced(self, 5, 0)
			r.f.MemberAnnounced(self, 6, 5)
			r.f.MemberAnnounced(1, 8, 0) // another member's
			l := r.lead(1, 1)
			if got := l.take(9); len(got) != 1 || replaces(got[0]) != 6 {
				t.Errorf("sent %v, want one announcement that replaces 6", got)
			}
			// It is lost with its term.
			l = r.lead(2, 2)
			if got := l.take(9); len(got) != 1 || replaces(got[0]) != 6 {
				t.Errorf("sent %v in the next term, want one announcement that replaces 6", got)
			}
		})
	})
	t.Run("overtaken", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, r *rig) {
			l := r.lead(1, 1)
			r.apply(&proto.Txn{Member: self, Incarnation: 5, Op: int32(jute.OpAnnounce)})
			synctest.Wait()
			got := l.take(9)
			if len(got) != 2 || replaces(got[0]) != 0 || replaces(got[1]) != 5 {
				t.Errorf("sent %v, want announcements that replace 0, then 5", got)
			}
			r.apply(got...)
			if r.state.boot != ourBoot {
				t.Errorf("boot %d is current", r.state.boot)
			}
		})
	})
}

// A process that sees another announced after its own stops, and does not announce itself again.
func TestReplaced(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		w := r.submit(1, jute.OpCreate, "ours")
		synctest.Wait()
		body, _ := protobuf.Marshal(&proto.Announce{Replaces: ourBoot})
		r.apply(&proto.Txn{Member: self, Incarnation: 99, Op: int32(jute.OpAnnounce), Body: body})
		err := <-r.ran
		if !errors.Is(err, ErrReplaced) {
			t.Errorf("Run: %v, want ErrReplaced", err)
		}
		if got := l.take(9); len(got) != 1 {
			t.Errorf("sent %v, want the write", got)
		}
		r.apply(&proto.Txn{Member: self, Incarnation: 99, Seq: 1, Conn: 1, Op: int32(jute.OpCreate)})
		if w.times() != 0 {
			t.Error("the other process's write was taken for ours")
		}
		var told announcement
		if r.f.incarnation.refreshAnnouncement(&told) {
			t.Error("would announce itself again")
		}
		r.ran <- nil
	})
}

func TestNewSession(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		ahead := jute.SessionID(uint64(time.Now().Add(time.Hour).UnixMilli())<<24>>8 | self<<56)
		r.state.highest = ahead
		ctx, cancel := context.WithTimeout(t.Context(), tick)
		defer cancel()
		if id, err := r.f.AwaitNewSessionID(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the announcement: %s, %v", id, err)
		}
		drawn := make(chan jute.SessionID)
		go func() {
			id, err := r.f.AwaitNewSessionID(t.Context())
			if err != nil {
				t.Error(err)
			}
			drawn <- id
		}()
		r.announced()
		if id := <-drawn; id != ahead+1 {
			t.Errorf("drew %s, want %s", id, ahead+1)
		}
		if id, _ := r.f.AwaitNewSessionID(t.Context()); id != ahead+2 {
			t.Errorf("drew %s, want %s", id, ahead+2)
		}
	})
}

// The writes that are sent and not applied never exceed the bounds.
func TestInFlightBounds(t *testing.T) {
	bounds := map[string]func(*Config){
		"count": func(c *Config) { c.MaxInFlight = 3 },
		"bytes": func(c *Config) { c.MaxInFlightBytes = 2*(txnOverhead+2) + 1 },
	}
	for name, bound := range bounds {
		t.Run(name, func(t *testing.T) {
			bubble(t, bound, func(t *testing.T, r *rig) {
				l := r.announced()
				for i := range 6 {
					r.submit(1, jute.OpCreate, fmt.Sprint("w", i))
				}
				for i := range 3 {
					synctest.Wait()
					if got, want := len(l.got)-1, i+3; got != want {
						t.Errorf("sent %d with %d applied, want %d", got, i, want)
					}
					r.commit(l, 1)
				}
			})
		})
	}
}

// One message never exceeds its bounds.
func TestMessageBounds(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		out := newOutbox(r.f.cfg)
		out.mayNumber = true
		for range maxMessageTxns + 10 {
			if err := out.submit(t.Context(), &proto.Txn{Conn: 1, Op: 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
		big := make([]byte, maxMessageBytes/2)
		for range 4 {
			if err := out.submit(t.Context(), &proto.Txn{Conn: 1, Op: 1, Body: big}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []int{maxMessageTxns, 12, 2, 0} {
			if got := len(out.takeSendable(nil, time.Now())); got != want {
				t.Errorf("message %d has %d transactions, want %d", i, got, want)
			}
		}
	})
}

// The loss of a link that has worked is logged as a warning. A new leader that is not ready yet is no warning. A leader
// that has stepped down is none either, nor is its rejection of the next link, because the next term begins.
func TestLinkReport(t *testing.T) {
	const (
		leads   = "level=INFO msg=\"the leader is another member\" leader=2 term=7 cause=\"member 3 died\"\n"
		lost    = "level=WARN msg=\"link to the leader lost\" leader=2 term=7\n"
		missing = "level=WARN msg=\"no link to the leader\" leader=2 term=7\n"
	)
	refused := status.Error(codes.FailedPrecondition, "this member does not lead")
	tests := []struct {
		name   string
		leader uint32
		after  time.Duration // when the link ends, from the first try on
		lived  bool
		err    error
		want   string
	}{
		{"it works and breaks", 2, tick, true, errors.New("EOF"), leads + lost},
		{"the leader is not ready", 2, tick / 2, false, refused, leads},
		{"the leader is not ready for long", 2, 2 * tick, false, refused, leads + missing},
		{"the leader steps down", 2, tick, true, refused, leads},
		{"a new term", 2, tick, true, errNewTerm, leads},
		{"this member leads", self, tick / 2, false, refused, ""},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			brief := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == "err" {
					return slog.Attr{}
				}
				return a
			}
			r := linkReport{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: brief})), self: self, gracePeriod: tick}
			term := newTerm(znode.Term{Term: 7, Leader: tt.leader}, time.Now())
			term.why = znode.LeaderCause{Kind: znode.LeaderDied, Former: 3}
			r.linkStarted(term, time.Now())
			time.Sleep(tt.after)
			r.linkEnded(tt.lived, tt.err)
			r.linkStarted(term, time.Now())
			time.Sleep(tick / 2)
			r.linkEnded(false, tt.err) // is the same again
			if got := out.String(); got != tt.want {
				t.Errorf("%s: logged %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

// A forwarder sends the outbox to the leader of the current term, and all of it again to the next one.
func TestForwarder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raft fakeRaft
		leaders := &rig{leaders: map[uint32]*fakeLeader{1: {nonce: 11}, 2: {nonce: 12}}}
		cfg := &Config{
			Self: self, Boot: ourBoot, Tick: tick, State: &fakeState{}, Peers: leaders, WallClock: time.Now,
			Monotonic: monotonic.System{}, MaxInFlight: 10, MaxInFlightBytes: 1 << 20, MaxQueued: 10, MaxQueuedBytes: 1 << 20,
		}
		log := slog.New(slog.DiscardHandler)
		out, incarnation, leadership := newOutbox(*cfg), newIncarnation(cfg, log), testLeadership(&raft)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- newForwarder(cfg, log, out, incarnation, leadership).run(ctx) }()
		incarnation.observeBoot(ourBoot)
		out.allowNumbering()
		if !out.trySubmit(&proto.Txn{Conn: 1, Op: int32(jute.OpCreate), Body: []byte("a")}, nil) {
			t.Fatal("no room")
		}
		for id := uint32(1); id <= 2; id++ {
			raft.term.Store(uint64(id))
			leadership.startTerm(znode.Term{Term: uint64(id), Nonce: 10 + uint64(id), Leader: id, Index: uint64(id)}, znode.LeaderCause{})
			time.Sleep(tick)
			if got := leaders.leaders[id].sent(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("leader %d got %v", id, got)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
