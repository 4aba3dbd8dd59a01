package wire

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func noStall() error { return nil }

// stream is a pipeline over a fake connection, with the log that it reports.
type stream struct {
	*pipeline
	t                  *testing.T
	wire               *wire
	commit, last, term atomic.Uint64
}

// wire is raft's pipeline. Only one request at a time may be sent on it.
type wire struct {
	busy   atomic.Bool
	pause  time.Duration
	sent   chan *raft.AppendEntriesRequest
	done   chan raft.AppendFuture
	closed atomic.Bool
}

func (w *wire) AppendEntries(req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if w.busy.Swap(true) {
		panic("two requests at a time")
	}
	defer w.busy.Store(false)
	time.Sleep(w.pause)
	if w.closed.Load() {
		return nil, raft.ErrPipelineShutdown
	}
	w.sent <- req
	return &wireFuture{req: req}, nil
}

func (w *wire) Consumer() <-chan raft.AppendFuture { return w.done }
func (w *wire) Close() error                       { w.closed.Store(true); return nil }

type wireFuture struct {
	fakeFuture
	req *raft.AppendEntriesRequest
}

func (f *wireFuture) Request() *raft.AppendEntriesRequest { return f.req }

func newStream(t *testing.T) *stream {
	s := &stream{t: t, wire: &wire{sent: make(chan *raft.AppendEntriesRequest, 1000), done: make(chan raft.AppendFuture)}}
	s.pipeline = newPipeline(s.wire, func() (uint64, uint64, uint64) { return s.commit.Load(), s.last.Load(), s.term.Load() }, noStall)
	t.Cleanup(func() { s.Close() })
	return s
}

// send makes raft send the entries from first to last, in term 5.
func (s *stream) send(first, last, commit uint64) *raft.AppendEntriesRequest {
	s.t.Helper()
	req := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ID: []byte("1"), Addr: []byte("m1:1"), ProtocolVersion: 3},
		Term:      5, PrevLogEntry: first - 1, PrevLogTerm: 4, LeaderCommitIndex: commit,
	}
	for i := first; i <= last; i++ {
		req.Entries = append(req.Entries, &raft.Log{Index: i, Term: 5})
	}
	s.last.Store(max(s.last.Load(), last))
	if _, err := s.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
		s.t.Fatal(err)
	}
	return <-s.wire.sent
}

// told moves the commit index and returns the notice that is sent, or nil if none is.
func (s *stream) told(commit uint64) *raft.AppendEntriesRequest {
	s.commit.Store(commit)
	s.committed()
	return s.sentNext()
}

// sentNext returns the next request that was sent, or nil.
func (s *stream) sentNext() *raft.AppendEntriesRequest {
	synctest.Wait()
	select {
	case req := <-s.wire.sent:
		return req
	default:
		return nil
	}
}

// answer answers a request and returns the answer that raft gets.
func (s *stream) answer(req *raft.AppendEntriesRequest, success bool, err error) raft.AppendFuture {
	s.wire.done <- &wireFuture{fakeFuture{err: err, resp: raft.AppendEntriesResponse{Success: success}}, req}
	synctest.Wait()
	select {
	case f := <-s.Consumer():
		return f
	default:
		return nil
	}
}

// A commit notice continues what was sent last, and raft does not see it.
func TestCommitNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		if s.told(9) != nil {
			t.Error("a notice before anything was sent")
		}
		first := s.send(10, 12, 9)
		for _, commit := range []uint64{10, 12} {
			got := s.told(commit)
			if got == nil {
				t.Fatalf("no notice of commit %d", commit)
			}
			if got.Term != 5 || string(got.Addr) != "m1:1" || string(got.ID) != "1" || got.ProtocolVersion != 3 ||
				got.PrevLogEntry != 12 || got.PrevLogTerm != 5 || len(got.Entries) != 0 || got.LeaderCommitIndex != commit {
				t.Errorf("notice of commit %d: %+v", commit, got)
			}
			if f := s.answer(got, true, nil); f != nil {
				t.Errorf("raft got the answer to a notice: %+v", f.Request())
			}
		}
		if f := s.answer(first, true, nil); f == nil || f.Request() != first {
			t.Errorf("raft got %v for its own request", f)
		}
		if s.told(12) != nil {
			t.Error("told twice")
		}
		heard := s.send(13, 13, 12)
		s.answer(heard, true, nil)
		if s.told(12) != nil {
			t.Error("told what entries had told")
		}
	})
}

// When no notice is sent, and what is sent instead.
func TestNoCommitNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.answer(s.send(10, 12, 9), true, nil)

		s.last.Store(20)
		if got := s.told(12); got != nil {
			t.Errorf("a notice although there are entries to be sent: %+v", got)
		}
		entries := s.send(13, 20, 9) // made up before the commit
		notice := s.sentNext()
		if notice == nil || notice.LeaderCommitIndex != 12 || notice.PrevLogEntry != 20 {
			t.Fatalf("behind the entries: %+v, want a notice of 12", notice)
		}
		if s.told(13) != nil {
			t.Error("a second notice before the first was answered")
		}
		s.answer(entries, true, nil)
		s.answer(notice, true, nil)
		s.answer(s.sentNext(), true, nil)
		s.term.Store(6) // deposed; the new leader has committed other entries
		if got := s.told(20); got != nil {
			t.Errorf("a notice in another term: %+v", got)
		}
		s.term.Store(5)
		if got := s.told(20); got == nil {
			t.Error("no notice in its own term")
		}
	})
}

// Whatever the leader's commit index, a notice never reports a commit of entries that were not
// sent.
func TestNoticeIsClamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.send(10, 12, 9)
		if got := s.told(15); got == nil || got.LeaderCommitIndex != 12 { // 15, with a log to 12: cannot be
			t.Errorf("told %+v, want 12", got)
		}
	})
}

// A notice that was delayed because of requests under way, or of another notice, is sent later.
func TestNoticeIsMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		var under []*raft.AppendEntriesRequest
		for i := uint64(1); i <= maxUnanswered+1; i++ {
			under = append(under, s.send(i, i, 0))
		}
		if s.told(1) != nil {
			t.Error("a notice into a pipeline that is full")
		}
		s.answer(under[0], true, nil)
		notice := <-s.wire.sent
		if notice.LeaderCommitIndex != 1 {
			t.Errorf("told %d, want 1", notice.LeaderCommitIndex)
		}
		if s.told(2) != nil {
			t.Error("two notices under way")
		}
		s.answer(notice, true, nil)
		if notice = <-s.wire.sent; notice.LeaderCommitIndex != 2 {
			t.Errorf("told %d, want 2", notice.LeaderCommitIndex)
		}
	})
}

// A bad answer to a notice ends the pipeline, like a bad answer to entries.
func TestBadNoticeEndsPipeline(t *testing.T) {
	for name, err := range map[string]error{"refused": nil, "failed": errors.New("broken pipe")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t)
				s.term.Store(5)
				s.send(1, 1, 0)
				if f := s.answer(s.told(1), false, err); f == nil {
					t.Error("raft is not told")
				}
				if !s.wire.closed.Load() {
					t.Error("the pipeline is open")
				}
			})
		})
	}
}

// A notice that cannot be sent ends the pipeline.
func TestUnsentNoticeEndsPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.send(1, 1, 0)
		s.wire.closed.Store(true)
		s.told(1)
		s.told(1)
		if _, err := s.AppendEntries(&raft.AppendEntriesRequest{Term: 5}, nil); err == nil {
			t.Error("raft's request after it was sent")
		}
	})
}

// Entries and notices are sent one at a time, commits are reported in order and none beyond what
// was sent, and raft gets all answers to its own requests, in order.
func TestNoticesBesideEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.wire.pause = time.Microsecond
		s.term.Store(5)
		const n = 2000
		notices := 0
		var all sync.WaitGroup
		all.Go(func() { // the follower; in the end it knows that all is committed
			var told, held uint64
			for told < n {
				req := <-s.wire.sent
				if len(req.Entries) == 0 {
					notices++
				}
				held = max(held, req.PrevLogEntry+uint64(len(req.Entries)))
				if req.LeaderCommitIndex < told || req.LeaderCommitIndex > held {
					t.Errorf("told of commit %d after %d, with %d entries", req.LeaderCommitIndex, told, held)
				}
				told = req.LeaderCommitIndex
				s.wire.done <- &wireFuture{fakeFuture{resp: raft.AppendEntriesResponse{Success: true}}, req}
			}
		})
		all.Go(func() { // the leader's replication, some entries ahead
			for i := uint64(1); i <= n; i++ {
				for s.commit.Load()+i%7+1 < i {
					time.Sleep(time.Microsecond)
				}
				s.last.Store(i)
				req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: i - 1, PrevLogTerm: 5, Entries: []*raft.Log{{Index: i, Term: 5}}, LeaderCommitIndex: s.commit.Load()}
				if _, err := s.AppendEntries(req, nil); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() { // the leader commits what the follower has answered
			for i := uint64(1); i <= n; i++ {
				if f := <-s.Consumer(); f.Request().PrevLogEntry != i-1 || len(f.Request().Entries) != 1 {
					t.Errorf("answer %d: %+v", i, f.Request())
				}
				s.commit.Store(i)
				s.committed()
				if i%3 == 0 {
					time.Sleep(3 * time.Microsecond)
				}
			}
		})
		all.Wait()
		if notices < n/10 {
			t.Errorf("%d notices for %d entries", notices, n)
		}
	})
}
