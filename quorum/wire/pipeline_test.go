package wire

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// plainSource is the source of a leader that may send all entries, whose commits are all released, and which gives no early commit.
type plainSource struct {
	settled  func(index uint64) uint64 // as in Durability.LimitToSettled
	position func() (commit, last, term uint64)
}

func (p plainSource) logPosition() (commit, last, term uint64) { return p.position() }

func (p plainSource) clampCommit(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	return (&Transport{cfg: Config{Durability: fixedDurability{settled: p.settled}}}).clampCommit(req)
}

func (plainSource) limitToReleased(_, index uint64) uint64            { return index }
func (plainSource) earlyCommit(*raft.AppendEntriesRequest) uint64     { return 0 }
func (plainSource) directPart(*raft.AppendEntriesRequest) *directPart { return nil }
func (plainSource) noteAccepted(*raft.AppendEntriesRequest)           {}
func (plainSource) mayLead() error                                    { return nil }
func (plainSource) mayReceive(*raft.AppendEntriesRequest) bool        { return true }

// stream is a pipeline to a member whose part the test takes, with the log that it reports.
type stream struct {
	*pipeline
	t                  *testing.T
	far                *far
	commit, last, term atomic.Uint64
	given              atomic.Uint64 // the word that is given of each request; 0: none
	direct             atomic.Pointer[directPart]
	queued             atomic.Uint64 // the first entry that is not on the leader's disk; 0: all are
	stalls             atomic.Bool   // the leader may send nothing
}

func (s *stream) position() (commit, last, term uint64) {
	return s.commit.Load(), s.last.Load(), s.term.Load()
}

// streamSource is the source of a stream that its test changes.
type streamSource struct {
	stallingSource
	stream *stream
}

func (s streamSource) earlyCommit(*raft.AppendEntriesRequest) uint64 { return s.stream.given.Load() }

func (s streamSource) directPart(*raft.AppendEntriesRequest) *directPart {
	d := s.stream.direct.Load()
	if d == nil {
		return nil
	}
	part := *d
	return &part
}

// durable implements Durability.LimitToSettled.
func (s *stream) durable(index uint64) uint64 {
	if queued := s.queued.Load(); queued > 0 {
		return min(index, queued-1)
	}
	return index
}

func newStream(t *testing.T) *stream {
	s := &stream{t: t}
	d := &dialer{streamLayer: newPipes(func(c net.Conn) { s.far = newFar(t, c) }), callTimeout: time.Minute, addressOf: nowhere}
	conn, err := d.getConn("m2:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil { // of a request before the pipeline
		t.Fatal(err)
	}
	s.pipeline = newPipeline(conn, raft.AppendEntriesRequest{}, new(sync.Map), streamSource{stallingSource{plainSource{s.durable, s.position}, &s.stalls}, s}, nil)
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
	return <-s.far.sent
}

// told moves the commit index and returns the notice that is sent, or nil if none is.
func (s *stream) told(commit uint64) *raft.AppendEntriesRequest {
	s.commit.Store(commit)
	s.signalCommit()
	return s.sentNext()
}

// sentNext returns the next request that was sent, or nil.
func (s *stream) sentNext() *raft.AppendEntriesRequest {
	synctest.Wait()
	select {
	case req := <-s.far.sent:
		return req
	default:
		return nil
	}
}

// answer replies to the oldest request without a reply, and returns the reply that raft gets. If text is not empty, it
// is the text of an error.
func (s *stream) answer(success bool, text string) raft.AppendFuture {
	s.far.answer(success, text)
	synctest.Wait()
	select {
	case f := <-s.Consumer():
		return f
	default:
		return nil
	}
}

// isTo reports whether f is the reply to a request that has come.
func isTo(f raft.AppendFuture, req *raft.AppendEntriesRequest) bool {
	return f != nil && f.Request().PrevLogEntry == req.PrevLogEntry && len(f.Request().Entries) == len(req.Entries)
}

// A leader that begins to stall while a request or a notice waits for the connection does not send it.
func TestStallBeforeASend(t *testing.T) {
	for _, notice := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(t)
			s.send(1, 1, 0)
			s.answer(true, "")
			s.sendSlot <- struct{}{} // another request is being sent
			var err error
			if notice {
				s.commit.Store(1)
				s.signalCommit()
			} else {
				go func() {
					_, err = s.AppendEntries(&raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 1}, new(raft.AppendEntriesResponse))
				}()
			}
			synctest.Wait()
			s.stalls.Store(true)
			<-s.sendSlot
			if got := s.sentNext(); got != nil {
				t.Errorf("notice %t: %+v was sent", notice, got)
			}
			select {
			case <-s.closed:
				if !notice {
					t.Error("a request has closed the pipeline")
				}
			default:
				if notice || !errors.Is(err, errStarting) {
					t.Errorf("notice %t: the pipeline is open, with the error %v", notice, err)
				}
			}
		})
	}
}

// Close passes a failure on, which ends raft's reader if its sender has ended without a word to it.
func TestClosedPipelineEndsItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		_ = s.Close()
		if f := <-s.Consumer(); f.Response().Success || f.Error() == nil || len(f.Request().Entries) > 0 {
			t.Errorf("the reader gets %+v", f)
		}
	})
}

// A pipeline passes its first bad reply on as no success, and closes, which frees its sender.
func TestPipelineEndsAtFirstFailure(t *testing.T) {
	for name, fail := range map[string]func(s *stream){
		"refused": func(s *stream) { s.far.answer(false, "") },
		"failed":  func(s *stream) { s.far.answer(true, "broken disk") },
		"broken":  func(s *stream) { s.far.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t)
				first, second := s.send(1, 1, 0), s.send(2, 2, 0)
				if f := s.answer(true, ""); !isTo(f, first) || !f.Response().Success || f.Error() != nil {
					t.Errorf("the good answer: %+v", f)
				}
				select {
				case <-s.far.ended:
					t.Fatal("closed after a good answer")
				default:
				}
				done, long := make(chan bool), []*raft.Log{{Index: 3, Term: 5, Data: make([]byte, 1<<20)}}
				go func() {
					var err error
					for i := uint64(3); err == nil; i++ {
						_, err = s.AppendEntries(&raft.AppendEntriesRequest{Term: 5, PrevLogEntry: i, Entries: long}, new(raft.AppendEntriesResponse))
					}
					close(done)
				}()
				synctest.Wait()
				fail(s)
				if f := <-s.Consumer(); !isTo(f, second) || f.Response().Success {
					t.Errorf("the bad answer: %+v", f)
				}
				<-s.far.ended
				<-done
			})
		})
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
			if commit == 10 {
				if f := s.answer(true, ""); !isTo(f, first) {
					t.Errorf("raft got %v for its own request", f)
				}
			}
			if f := s.answer(true, ""); f != nil {
				t.Errorf("raft got the answer to a notice: %+v", f.Request())
			}
		}
		if s.told(12) != nil {
			t.Error("told twice")
		}
		s.send(13, 13, 12)
		s.answer(true, "")
		if s.told(12) != nil {
			t.Error("told what entries had told")
		}
	})
}

// A pipeline reports a commit that came before it was open, of entries that the follower has accepted outside of it.
func TestPipelineContinuesAfterAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newStream(t)
		first.term.Store(5)
		accepted := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("1"), Addr: []byte("m1:1"), ProtocolVersion: 3}, Term: 5, PrevLogEntry: 11, PrevLogTerm: 4, LeaderCommitIndex: 9, Entries: []*raft.Log{{Index: 12, Term: 5}}}
		var replies serverReplies
		replies.recordReply("2", 12)
		replies.recordAccepted("2", &accepted)
		replies.recordReply("2", 12) // to a heartbeat
		first.last.Store(12)
		first.commit.Store(12)
		conn, err := first.conn.dialer.getConn("m2:1") // a pipeline has a connection of its own
		if err != nil {
			t.Fatal(err)
		}
		p := newPipeline(conn, replies.lastAccepted("2"), new(sync.Map), plainSource{first.durable, first.position}, nil)
		defer p.Close()
		if got := first.sentNext(); got == nil || got.LeaderCommitIndex != 12 || got.PrevLogEntry != 12 || got.PrevLogTerm != 5 || got.Term != 5 {
			t.Errorf("told %+v, want commit 12", got)
		}
	})
}

// The request after one whose entries were all left out (awaitThenTrimUncommitted) does not keep their memory.
func TestContinueAfterKeepsNoEntries(t *testing.T) {
	batch := []*raft.Log{{Index: 12, Term: 5}}
	for n := range 2 {
		next := continueAfter(&raft.AppendEntriesRequest{PrevLogEntry: 11, PrevLogTerm: 4, Entries: batch[:n]})
		if next.Entries != nil || next.PrevLogEntry != 11+uint64(n) || next.PrevLogTerm != 4+uint64(n) {
			t.Errorf("after %d entries: %+v", n, next)
		}
	}
}

// When no notice is sent, and what is sent instead.
func TestNoCommitNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.send(10, 12, 9)
		s.answer(true, "")

		s.last.Store(20)
		if got := s.told(12); got != nil {
			t.Errorf("a notice although there are entries to be sent: %+v", got)
		}
		entries := s.send(13, 20, 9) // made up before the commit
		if entries.LeaderCommitIndex != 12 {
			t.Errorf("the entries report commit %d, want 12", entries.LeaderCommitIndex)
		}
		if got := s.told(12); got != nil {
			t.Errorf("told twice: %+v", got)
		}
		s.term.Store(6) // deposed; the new leader has committed other entries
		if got := s.told(20); got != nil {
			t.Errorf("a notice in another term: %+v", got)
		}
		late := s.send(21, 22, 9)
		if late.LeaderCommitIndex != 9 {
			t.Errorf("entries of an earlier term report commit %d of a later one", late.LeaderCommitIndex)
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

// Neither entries nor notices report a commit that counts a copy which is not on the leader's disk yet. When
// it is there, a notice reports it.
func TestCommitsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.queued.Store(11)
		if req := s.send(10, 11, 9); req.LeaderCommitIndex != 9 {
			t.Errorf("entries report commit %d, want 9", req.LeaderCommitIndex)
		}
		s.answer(true, "")
		if got := s.told(11); got == nil || got.LeaderCommitIndex != 10 {
			t.Errorf("told %+v, want 10", got)
		}
		s.answer(true, "")
		if got := s.told(11); got != nil {
			t.Errorf("told once more, without need: %+v", got)
		}
		if req := s.send(12, 12, 11); req.LeaderCommitIndex != 10 {
			t.Errorf("entries report commit %d, want 10", req.LeaderCommitIndex)
		}
		s.answer(true, "")
		s.queued.Store(12)
		if got := s.told(12); got == nil || got.LeaderCommitIndex != 11 {
			t.Errorf("told %+v, want 11", got)
		}
		s.answer(true, "")
		s.queued.Store(0)
		if got := s.told(12); got == nil || got.LeaderCommitIndex != 12 {
			t.Errorf("told %+v, want 12", got)
		}
	})
}

// A notice that was delayed because of another one is sent when that is answered.
func TestNoticeIsMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		s.send(1, 3, 0)
		if got := s.told(1); got == nil || got.LeaderCommitIndex != 1 {
			t.Errorf("told %+v, want 1", got)
		}
		if s.told(2) != nil {
			t.Error("two notices under way")
		}
		s.answer(true, "") // to the entries
		if s.sentNext() != nil {
			t.Error("a second notice before the first was answered")
		}
		s.answer(true, "") // to the notice
		if got := s.sentNext(); got == nil || got.LeaderCommitIndex != 2 {
			t.Errorf("told %+v, want 2", got)
		}
	})
}

// The memory of the requests in flight is limited. A reply makes room for further ones, also one to another long request.
func TestBytesInAFullPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.term.Store(5)
		const size, fit = 1<<20 - disk.QueuedCallOverhead, maxInFlightBytes >> 20
		var sent atomic.Int64
		go func() {
			for i := uint64(1); ; i++ {
				req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: i - 1, Entries: []*raft.Log{{Index: i, Term: 5, Data: make([]byte, size)}}}
				if _, err := s.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
					return
				}
				sent.Add(1)
			}
		}()
		for i := range int64(fit) {
			if req := <-s.far.sent; len(req.Entries) != 1 {
				t.Fatalf("request %d has %d entries", i, len(req.Entries))
			}
		}
		for round := range int64(3) {
			if req := s.sentNext(); req != nil || sent.Load() != fit-1+round {
				t.Fatalf("%d MiB are in flight, and %d more requests were taken", fit, sent.Load()-fit)
			}
			if f := s.answer(true, ""); f == nil || len(f.Request().Entries) != 1 {
				t.Fatalf("raft is told %+v", f)
			}
			if req := s.sentNext(); req == nil {
				t.Fatal("a reply made no room")
			}
		}
	})
}

// A bad reply to a notice ends the pipeline, like a bad reply to entries.
func TestBadNoticeEndsPipeline(t *testing.T) {
	for name, text := range map[string]string{"refused": "", "failed": "broken disk"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t)
				s.term.Store(5)
				s.send(1, 1, 0)
				s.told(1)
				s.answer(true, "")
				if f := s.answer(text != "", text); f == nil || f.Response().Success {
					t.Errorf("raft is told %+v", f)
				}
				<-s.far.ended
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
		s.answer(true, "")
		s.far.conn.Close()
		s.told(1)
		select {
		case <-s.closed:
		default:
			t.Error("the pipeline is open")
		}
		if _, err := s.AppendEntries(&raft.AppendEntriesRequest{Term: 5}, new(raft.AppendEntriesResponse)); err == nil {
			t.Error("raft's request after it was sent")
		}
	})
}

// Entries and notices are sent one at a time, commits are reported in order and none beyond the sent entries, and raft
// gets all replies to its own requests, in order.
func TestNoticesBesideEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.far.pause.Store(int64(time.Microsecond))
		s.term.Store(5)
		const n = 2000
		notices := 0
		var all sync.WaitGroup
		all.Go(func() { // the follower; in the end it knows that all is committed
			var told, held uint64
			for told < n {
				req := <-s.far.sent
				if len(req.Entries) == 0 {
					notices++
				}
				held = max(held, req.PrevLogEntry+uint64(len(req.Entries)))
				if req.LeaderCommitIndex < told || req.LeaderCommitIndex > held {
					t.Errorf("told of commit %d after %d, with %d entries", req.LeaderCommitIndex, told, held)
				}
				told = req.LeaderCommitIndex
				s.far.answer(true, "")
			}
		})
		all.Go(func() { // the leader's replication, some entries ahead
			for i := uint64(1); i <= n; i++ {
				for s.commit.Load()+i%7+1 < i {
					time.Sleep(time.Microsecond)
				}
				s.last.Store(i)
				req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: i - 1, PrevLogTerm: 5, Entries: []*raft.Log{{Index: i, Term: 5}}, LeaderCommitIndex: s.commit.Load()}
				if _, err := s.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
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
				s.signalCommit()
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

// A reply has callTimeout, from when its request was sent and the reply before it has come. While no request is in flight, the connection
// may be silent for any time.
func TestTimeOfReplies(t *testing.T) {
	inStream := func(name string, test func(t *testing.T, s *stream, limit time.Duration)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t)
				s.term.Store(5)
				test(t, s, s.conn.dialer.callTimeout+transferTime(0))
			})
		})
	}
	reply := func(t *testing.T, s *stream, req *raft.AppendEntriesRequest) {
		t.Helper()
		if f := s.answer(true, ""); !isTo(f, req) || !f.Response().Success {
			t.Fatalf("a reply that is in time: %+v", f)
		}
	}
	inStream("silent while nothing is in flight", func(t *testing.T, s *stream, limit time.Duration) {
		time.Sleep(2 * limit)
		reply(t, s, s.send(1, 1, 0))
		time.Sleep(2 * limit)
		reply(t, s, s.send(2, 2, 0))
	})
	inStream("each has its time", func(t *testing.T, s *stream, limit time.Duration) {
		first, second := s.send(1, 1, 0), s.send(2, 2, 0)
		time.Sleep(limit - time.Millisecond)
		reply(t, s, first)
		time.Sleep(limit - time.Millisecond)
		reply(t, s, second)
	})
	inStream("a waiting mark begins it anew", func(t *testing.T, s *stream, limit time.Duration) {
		s.conn.takesFrames.Store(true)
		req := s.send(1, 1, 0)
		for range 3 {
			time.Sleep(limit - time.Millisecond)
			if _, err := s.far.conn.Write([]byte{waitingMark}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(limit - time.Millisecond)
		s.far.answerFrame(true)
		if f := pendingFuture(s); f == nil || f.Request().Entries[0].Index != req.Entries[0].Index || !f.Response().Success {
			t.Fatalf("a reply in time after waiting marks: %+v", f)
		}
	})
	inStream("late", func(t *testing.T, s *stream, limit time.Duration) {
		req := s.send(1, 1, 0)
		time.Sleep(limit / 2)
		s.send(2, 2, 0) // gives the first one no more time
		time.Sleep(limit/2 - time.Millisecond)
		if f := pendingFuture(s); f != nil {
			t.Fatalf("the reply is not late, and raft gets %+v", f)
		}
		time.Sleep(2 * time.Millisecond)
		if f := pendingFuture(s); !isTo(f, req) || f.Response().Success {
			t.Errorf("the reply is late, and raft gets %+v", f)
		}
		<-s.closed
	})
}

// pendingFuture returns the future that a pipeline has passed to raft by now, or nil.
func pendingFuture(s *stream) raft.AppendFuture {
	synctest.Wait()
	select {
	case f := <-s.Consumer():
		return f
	default:
		return nil
	}
}
