package wire

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// The leader gives its word up to the last entry of a request, or the last one on its disk, under all of its conditions.
func TestEarlyCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := leaderless(t) // 1, 2 and 3 vote
		term := r.CurrentTerm()
		durable, committed := uint64(100), true
		tr := newTestTransport(t, newPipes(nil))
		tr.cfg.LocalServer = server(1, "m1:1")
		tr.cfg.Durability = fixedDurability{durable: func(index uint64) uint64 { return min(index, durable) }}
		tr.cfg.ConfigurationCommitted = func() bool { return committed }
		request := func(prevTerm uint64, entries ...*raft.Log) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 9, PrevLogTerm: prevTerm, Entries: entries}
		}
		two := []*raft.Log{{Index: 10, Term: term}, {Index: 11, Term: term}}
		if got := tr.earlyCommitTo(named(2), request(term)); got != 0 {
			t.Errorf("a word of %d before raft runs", got)
		}
		tr.cfg.Raft = func() *raft.Raft { return r }
		for _, tt := range []struct {
			name      string
			to        raft.ServerID
			req       *raft.AppendEntriesRequest
			durable   uint64
			committed bool
			want      uint64
		}{
			{"a notice", named(2), request(term), 100, true, 9},
			{"entries", named(3), request(term-1, two...), 100, true, 11},
			{"entries that the disk does not have", named(2), request(term, two...), 10, true, 10},
			{"an entry of an earlier term", named(2), request(term - 1), 100, true, 0},
			{"a configuration that is not committed", named(2), request(term), 100, false, 0},
			{"a server without a vote", named(4), request(term), 100, true, 0},
			{"this member", named(1), request(term), 100, true, 0},
		} {
			durable, committed = tt.durable, tt.committed
			if got := tr.earlyCommitTo(tt.to, tt.req); got != tt.want {
				t.Errorf("%s: a word of %d, want %d", tt.name, got, tt.want)
			}
		}
		durable, committed = 100, true
		later := request(term - 1)
		later.Term = term - 1
		if got := tr.earlyCommitTo(named(2), later); got != 0 {
			t.Errorf("a word of %d of a term that is over", got)
		}
		tr.cfg.LocalServer = server(4, "m4:1")
		if got := tr.earlyCommitTo(named(2), request(term)); got != 0 {
			t.Errorf("a word of %d of a leader without a vote", got)
		}
	})
}

// Two servers are a majority if they are two of at most three voters.
func TestTwoAreMajority(t *testing.T) {
	for name, tt := range map[string]struct {
		voters, others []uint32
		want           bool
	}{
		"two voters":                  {[]uint32{1, 2}, nil, true},
		"three voters":                {[]uint32{1, 2, 3}, nil, true},
		"three voters, two observers": {[]uint32{1, 2, 3}, []uint32{4, 5}, true},
		"four voters":                 {[]uint32{1, 2, 3, 4}, nil, false},
		"five voters":                 {[]uint32{1, 2, 3, 4, 5}, nil, false},
		"one votes alone":             {[]uint32{1}, []uint32{2}, false},
		"the leader has no vote":      {[]uint32{2, 3}, []uint32{1}, false},
		"the follower has no vote":    {[]uint32{1, 3}, []uint32{2}, false},
		"the leader has left":         {[]uint32{2, 3, 4}, nil, false},
	} {
		var c raft.Configuration
		for _, id := range tt.voters {
			c.Servers = append(c.Servers, raft.Server{ID: named(id), Suffrage: raft.Voter})
		}
		for _, id := range tt.others {
			c.Servers = append(c.Servers, raft.Server{ID: named(id), Suffrage: raft.Nonvoter})
		}
		if got := areMajority(c, named(1), named(2)); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// The word goes with entries and in notices, beside the index that a majority has. A commit that it has reported is not
// reported again, and one beyond it is.
func TestEarlyCommitIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.conn.takesFrames.Store(true)
		s.term.Store(5)
		s.given.Store(11)
		if req := s.send(10, 12, 9); req.LeaderCommitIndex != 11 || s.far.majority.Load() != 9 {
			t.Errorf("entries report commit %d and majority %d, want the word of 11, and 9", req.LeaderCommitIndex, s.far.majority.Load())
		}
		s.given.Store(12)
		if got := s.told(9); got == nil || got.LeaderCommitIndex != 12 || got.PrevLogEntry != 12 || s.far.majority.Load() != 9 {
			t.Errorf("told %+v, want the word of 12", got)
		}
		if got := s.told(9); got != nil {
			t.Errorf("told twice: %+v", got)
		}
		s.term.Store(6)
		s.given.Store(13)
		if late := s.send(13, 13, 9); late.LeaderCommitIndex != 9 {
			t.Errorf("entries of a term that is over report commit %d", late.LeaderCommitIndex)
		}
	})
}

// A follower gets no word in MessagePack: it could not distinguish it from a commit that a majority has.
func TestNoEarlyCommitInMessagePack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.given.Store(11)
		if req := s.send(10, 12, 9); req.LeaderCommitIndex != 9 {
			t.Errorf("entries report commit %d, want 9", req.LeaderCommitIndex)
		}
		s.answer(true, "")
		if got := s.told(9); got != nil {
			t.Errorf("told %+v", got)
		}
	})
}

// A follower that has the word, and acknowledges in time, gets no notice of the commit. One whose acknowledgement is
// late gets it. From then on it gets the notice at once, until it acknowledges entries before it hears that they are
// committed.
func TestLateAckGetsTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.conn.takesFrames.Store(true)
		s.term.Store(5)
		commits := func(index uint64) (atOnce bool) {
			s.commit.Store(index)
			if atOnce = s.commits.needsCommit(index); atOnce {
				s.signalCommit()
			}
			return atOnce
		}
		acks := func() {
			s.far.answerFrame(true)
			synctest.Wait()
			<-s.Consumer()
		}
		s.given.Store(100)
		s.send(10, 10, 9)
		if commits(10) {
			t.Error("a notice before the acknowledgement is late")
		}
		acks()
		time.Sleep(2 * slowAck)
		if got := s.sentNext(); got != nil || s.commits.needsCommit(10) {
			t.Errorf("an acknowledgement in time is followed by %+v", got)
		}
		s.send(11, 11, 9)
		if commits(11) {
			t.Error("a notice before the acknowledgement is late")
		}
		time.Sleep(slowAck)
		if got := s.sentNext(); got == nil || s.far.majority.Load() != 11 {
			t.Errorf("a late acknowledgement is followed by %+v", got)
		}
		acks() // by the notice
		s.send(12, 12, 11)
		if !commits(12) {
			t.Error("no notice at once, although the disk is late")
		}
		if got := s.sentNext(); got == nil || s.far.majority.Load() != 12 {
			t.Errorf("the notice is %+v", got)
		}
		acks()
		s.send(13, 13, 12)
		acks() // by the disk
		s.send(14, 14, 12)
		if commits(14) {
			t.Error("a notice at once, although the disk is well again")
		}
	})
}

// Each entry has its own time to be acknowledged, also one that is committed shortly before that of an earlier one is over.
func TestEachAckHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var signals atomic.Int64
		k := newToldCommits(new(raft.AppendEntriesRequest), func() { signals.Add(1) })
		defer k.stop()
		k.noteSent(100, 0)
		const step = slowAck - slowAck/10
		for index := uint64(1); index <= 20; index++ {
			if k.needsCommit(index) {
				t.Fatalf("a notice of %d at once", index)
			}
			time.Sleep(step)
			k.noteAcked(index)
		}
		if k.needsCommit(21); signals.Load() != 0 {
			t.Fatalf("%d acknowledgements are late, although each took %v", signals.Load(), step)
		}
		time.Sleep(2 * slowAck)
		if synctest.Wait(); signals.Load() != 1 {
			t.Errorf("an acknowledgement that does not come is late %d times", signals.Load())
		}
	})
}

// Members that were notified of a commit by the leader's word are not woken for it once more.
func TestCommitWakesNobodyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, two, three := leads(t)
		two.conn.takesFrames.Store(true)
		two.given.Store(7)
		two.signalCommit()
		if got := two.sentNext(); got == nil || got.LeaderCommitIndex != 7 {
			t.Fatalf("told %+v, want the word of 7", got)
		}
		two.commits.noteAcked(7)
		for _, s := range []*stream{two, three} { // their loops hold a signal and wait, so the next one stays
			s.sendSlot <- struct{}{}
			s.signalCommit()
		}
		synctest.Wait()
		tr.NotifyCommitted(7, []uint32{2})
		if len(two.commitSignal) != 0 || len(three.commitSignal) != 1 {
			t.Errorf("of the commit are woken: %d for member 2, which was told, and %d for member 3", len(two.commitSignal), len(three.commitSignal))
		}
		for _, s := range []*stream{two, three} {
			<-s.sendSlot
		}
	})
}
