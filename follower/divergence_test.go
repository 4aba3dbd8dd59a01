package follower

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/znode"
)

// replyWithDigest returns the reply of a member that has a digest at index 7.
func replyWithDigest(digest uint64) *proto.StateHashes {
	return &proto.StateHashes{Version: znode.DigestVersion, Indexes: []uint64{3, 7}, Digests: []uint64{33, digest}}
}

// setReplies sets the marks with which the members reply.
func (r *rig) setReplies(marks map[uint32]*proto.StateHashes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = map[uint32]func(context.Context) (*proto.StateHashes, error){}
	for id, m := range marks {
		r.marks[id] = func(context.Context) (*proto.StateHashes, error) { return m, nil }
	}
}

// verdictCounts returns how often the member was reported as damaged and as disputed, and how often the others were queried.
func (r *rig) verdictCounts() (damages, disputes, asks int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.damages), len(r.disputes), r.asks
}

// accused is a member of three, of raft's term 2, that has marked index 7.
func accused(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.raft.term.Store(2)
		r.state.marks = []znode.StateHash{{Index: 3, Digest: 33}, {Index: 7, Digest: 77}}
		test(t, r)
	})
}

// A verdict counts if it is about the present state, and not from a leader whose term is over.
func TestVerdict(t *testing.T) {
	tests := []struct {
		name  string
		v     *proto.Verdict
		term  uint64
		taken bool
	}{
		{"of a mark that is here", &proto.Verdict{Index: 7, Own: 77, Theirs: 1, Agree: 2, Members: 3}, 2, true},
		{"of another digest there", &proto.Verdict{Index: 7, Own: 78, Theirs: 1}, 2, false},
		{"of an index that is not marked", &proto.Verdict{Index: 8, Own: 77, Theirs: 1}, 2, false},
		{"of no difference", &proto.Verdict{Index: 7, Own: 77, Theirs: 77}, 2, false},
		{"none", nil, 2, false},
		{"from an old leader", &proto.Verdict{Index: 7, Own: 77, Theirs: 1}, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			accused(t, func(t *testing.T, r *rig) {
				r.setReplies(map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: replyWithDigest(1)})
				s := r.pings(tt.term, 11)
				s.ping(&proto.Ping{Number: 1, Verdict: tt.v})
				s.hangUp()
				damages, disputes, asks := r.verdictCounts()
				if got := damages > 0; got != tt.taken || got != (asks > 0) || disputes > 0 {
					t.Fatalf("taken %t after %d questions, want %t; %d disputes", got, asks, tt.taken, disputes)
				}
				const why = "after log entry 7 this member's state has the digest 000000000000004d, that of 2 of 3 members has 0000000000000001"
				if tt.taken && r.damages[0] != why {
					t.Errorf("because %q", r.damages[0])
				}
			})
		})
	}
}

// A member retires only if a majority of the ensemble itself confirms the verdict. If a majority has
// its state, nothing happens, whatever the leader says. Otherwise it serves no more for the moment.
func TestVerdictNeedsAMajority(t *testing.T) {
	other := func(change func(*proto.StateHashes)) *proto.StateHashes {
		m := replyWithDigest(1)
		change(m)
		return m
	}
	tests := []struct {
		name              string
		theirs            uint64 // as the leader says
		marks             map[uint32]*proto.StateHashes
		leader            uint32
		damaged, disputed bool
	}{
		{"both confirm", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: replyWithDigest(1)}, 1, true, false},
		{"the leader lies", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: replyWithDigest(77)}, 1, false, false},
		{"the leader alone confirms", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1)}, 1, false, true},
		{"the leader does not confirm", 1, map[uint32]*proto.StateHashes{2: replyWithDigest(1)}, 1, false, true},
		{"three different states", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: replyWithDigest(2)}, 1, false, true},
		{"another state than the leader says", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(2), 2: replyWithDigest(2)}, 1, false, true},
		{"nobody answers, and the verdict is of digest 0", 0, nil, 1, false, true},
		{"other version", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: other(func(m *proto.StateHashes) { m.Version-- })}, 1, false, true},
		{"without marks", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: nil}, 1, false, true},
		{"not so far yet", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: other(func(m *proto.StateHashes) { m.Indexes[1] = 6 })}, 1, false, true},
		{"fewer digests than indexes", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: other(func(m *proto.StateHashes) { m.Digests = m.Digests[:1] })}, 1, false, true},
		{"of itself, confirmed", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1), 2: replyWithDigest(1)}, self, true, false},
		{"of itself, not confirmed", 1, map[uint32]*proto.StateHashes{1: replyWithDigest(1)}, self, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			accused(t, func(t *testing.T, r *rig) {
				r.setReplies(tt.marks)
				s := r.pings(2, 11)
				s.leader = tt.leader
				s.ping(&proto.Ping{Number: 1, Verdict: &proto.Verdict{Index: 7, Own: 77, Theirs: tt.theirs, Agree: 2, Members: 3}})
				s.hangUp()
				if damages, disputes, _ := r.verdictCounts(); damages > 0 != tt.damaged || disputes > 0 != tt.disputed {
					t.Errorf("damaged %d, disputed %d times; want %t, %t", damages, disputes, tt.damaged, tt.disputed)
				}
			})
		})
	}
}

// While the others are queried, pings get their replies, and no second query begins. The replies count only if the state
// and the term are still the verdict's. The wait for a member that does not reply ends after a tick.
func TestVerdictIsJudgedAside(t *testing.T) {
	tests := []struct {
		name    string
		change  func(r *rig)
		damages int
	}{
		{"nothing changes", func(*rig) {}, 1},
		{"a snapshot has replaced the state", func(r *rig) { r.state.marks = []znode.StateHash{{Index: 7, Digest: 1}} }, 0},
		{"the leader is deposed", func(r *rig) { r.raft.term.Store(3) }, 0},
	}
	verdict := &proto.Verdict{Index: 7, Own: 77, Theirs: 1, Agree: 2, Members: 3}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			accused(t, func(t *testing.T, r *rig) {
				release := make(chan struct{})
				slow := func(context.Context) (*proto.StateHashes, error) {
					<-release
					return replyWithDigest(1), nil
				}
				r.marks = map[uint32]func(context.Context) (*proto.StateHashes, error){1: slow, 2: slow}
				s := r.pings(2, 11)
				for i := range uint64(20) {
					s.ping(&proto.Ping{Number: i + 1, Verdict: verdict})
					s.pong(0)
				}
				if _, _, asks := r.verdictCounts(); asks != 2 {
					t.Errorf("%d questions are under way, want one to each of the others", asks)
				}
				tt.change(r)
				close(release)
				if damages, disputes, _ := r.verdictCounts(); damages != tt.damages || disputes > 0 {
					t.Errorf("damaged %d times, want %d; disputed %d times", damages, tt.damages, disputes)
				}
				s.cancel()
				_ = s.code() // it waits for the end
			})
		})
	}
	t.Run("nobody answers", func(t *testing.T) {
		accused(t, func(t *testing.T, r *rig) {
			mute := func(ctx context.Context) (*proto.StateHashes, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			r.marks = map[uint32]func(context.Context) (*proto.StateHashes, error){1: mute, 2: mute}
			s := r.pings(2, 11)
			for i := range uint64(120) { // 12 ticks
				s.ping(&proto.Ping{Number: i + 1, Verdict: verdict})
				s.pong(0)
				time.Sleep(tick / 10)
			}
			damages, disputes, asks := r.verdictCounts()
			if damages > 0 || disputes != 8 || asks != 2*(disputes+1) { // one more is under way
				t.Errorf("in 12 ticks: damaged %d times, disputed %d times, %d questions; a question lasts a tick and the pause half of one",
					damages, disputes, asks)
			}
			s.hangUp()
		})
	})
}

// A verdict is checked again when the leader repeats it: a member that could not confirm it may be able to now.
func TestVerdictIsJudgedAgain(t *testing.T) {
	accused(t, func(t *testing.T, r *rig) {
		all := map[uint32]*proto.StateHashes{1: replyWithDigest(1)}
		r.setReplies(maps.Clone(all))
		s := r.pings(2, 11)
		repeat := func(number uint64) {
			s.ping(&proto.Ping{Number: number, Verdict: &proto.Verdict{Index: 7, Own: 77, Theirs: 1}})
			s.pong(0)
		}
		repeat(1)
		if damages, disputes, _ := r.verdictCounts(); damages > 0 || disputes != 1 {
			t.Fatalf("one member away: damaged %d, disputed %d times", damages, disputes)
		}
		all[2] = replyWithDigest(1)
		r.setReplies(all)
		repeat(2)
		time.Sleep(tick / checksPerTick)
		if damages, disputes, _ := r.verdictCounts(); damages != 1 || disputes != 1 {
			t.Errorf("it is back: damaged %d, disputed %d times", damages, disputes)
		}
		s.hangUp()
	})
}

// A wrong leader is logged at its first verdict, and then once per interval while it repeats the verdict.
func TestWrongLeaderIsLoggedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDivergence(&Config{
			Self: self, Tick: tick, State: &fakeState{marks: []znode.StateHash{{Index: 7, Digest: 77}}},
			Raft: inTerm(2), Peers: allWithDigest(77),
		}, slog.New(slog.NewTextHandler(&out, nil)))
		begun := time.Now()
		for _, step := range []struct {
			at    time.Duration
			lines int // until then
		}{{0, 1}, {0, 1}, {wrongLeaderInterval - 1, 1}, {wrongLeaderInterval, 2}, {2*wrongLeaderInterval - 1, 2}, {2 * wrongLeaderInterval, 3}} {
			time.Sleep(time.Until(begun.Add(step.at)))
			d.verifyVerdict(t.Context(), verdictReport{&proto.Verdict{Index: 7, Own: 77, Theirs: 1}, 2, 1})
			if n := strings.Count(out.String(), "check the leader"); n != step.lines {
				t.Errorf("after %v: %d lines, want %d\n%s", step.at, n, step.lines, out.String())
			}
		}
	})
}

// A verdict about an observer is checked with the voters alone, and the observer is not one of them. The current list of
// voters is used.
func TestVerdictOfAnObserver(t *testing.T) {
	four := func(digests ...uint64) map[uint32]*proto.StateHashes {
		marks := map[uint32]*proto.StateHashes{}
		for i, digest := range digests {
			if id := []uint32{1, 2, 4, 5}[i]; digest != 0 {
				marks[id] = replyWithDigest(digest)
			}
		}
		return marks
	}
	tests := []struct {
		name              string
		voters            []uint32
		marks             map[uint32]*proto.StateHashes
		damaged, disputed bool
	}{
		{"most voters confirm", []uint32{1, 2, 4}, four(1, 1), true, false},
		{"one voter confirms, and an observer", []uint32{1, 2, 4}, four(1, 0, 0, 1), false, true},
		{"half of the voters confirm", []uint32{1, 2, 4, 5}, four(1, 1), false, true},
		{"most voters have the observer's state", []uint32{1, 2, 4}, four(1, 77, 77), false, false},
		{"half of the voters have it", []uint32{1, 2, 4, 5}, four(1, 77, 77), false, true},
		{"one voter of three has it", []uint32{1, 2, 4}, four(1, 77), false, true},
		{"the leader is the only voter", []uint32{1}, four(1), true, false},
		{"no voters are known", nil, four(1, 1, 1, 1), false, true},
		{"as a voter", []uint32{1, 2, self}, four(1, 77), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.raft.term.Store(2)
				r.state.marks = []znode.StateHash{{Index: 3, Digest: 33}, {Index: 7, Digest: 77}}
				r.raft.voters.Store(&tt.voters)
				r.setReplies(tt.marks)
				s := r.pings(2, 11)
				s.ping(&proto.Ping{Number: 1, Verdict: &proto.Verdict{Index: 7, Own: 77, Theirs: 1}})
				s.hangUp()
				damages, disputes, asks := r.verdictCounts()
				if damages > 0 != tt.damaged || disputes > 0 != tt.disputed {
					t.Errorf("damaged %d, disputed %d times; want %t, %t", damages, disputes, tt.damaged, tt.disputed)
				}
				others := len(slices.DeleteFunc(slices.Clone(tt.voters), func(id uint32) bool { return id == self }))
				if asks != others {
					t.Errorf("%d members were asked, want the other voters, %d", asks, others)
				}
			})
		})
	}
}

// allWithDigest are members whose states have one digest.
func allWithDigest(digest uint64) Peers {
	r := &rig{marks: map[uint32]func(context.Context) (*proto.StateHashes, error){}}
	for id := range uint32(self) {
		r.marks[id] = func(context.Context) (*proto.StateHashes, error) { return replyWithDigest(digest), nil }
	}
	return r
}

// A divergence needs no more than its Config: a verdict of which a majority has the digest is passed to Damaged.
func TestDivergence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var damages []string
		d := newDivergence(&Config{
			Self: self, Tick: tick, State: &fakeState{marks: []znode.StateHash{{Index: 7, Digest: 77}}},
			Raft: inTerm(2), Peers: allWithDigest(1),
			OnDamage:     func(why string) { damages = append(damages, why) },
			OnDivergence: func(why string) { t.Error("disputed: " + why) },
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = d.checkLoop(ctx) }()
		d.queueVerdict(&proto.Ping{Term: 2, Leader: 1, Verdict: &proto.Verdict{Index: 7, Own: 78, Theirs: 1}})
		d.queueVerdict(&proto.Ping{Term: 2, Leader: 1, Verdict: &proto.Verdict{Index: 7, Own: 77, Theirs: 1}})
		synctest.Wait()
		if len(damages) != 1 {
			t.Errorf("damaged %d times, want once: %q", len(damages), damages)
		}
	})
}
