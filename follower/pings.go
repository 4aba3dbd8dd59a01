package follower

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/sessiontracker"
)

const (
	touchesPerPong = 100_000 // about 1.2 MB
	maxProofs      = 64      // proof rounds that wait for an answer; if there are more, the oldest are dropped and fail at the leader
	flushesPerTick = 64      // flushes without a ping: each sends again all touches that are not acknowledged
)

// Pings implements proto.FollowerServer for one leader's stream. It answers a ping with all batches
// not yet acknowledged, each with its age, so a lost reply loses no touch and lengthens no lease.
//
// It refuses a ping of an older term with FailedPrecondition and keeps the batches, because that
// leader's table no longer decides which sessions live. A stream of the same or a newer term
// replaces the one before, which ends with Aborted. A stream that ends without an error tells the
// leader that this member stops. Pings takes no lock that apply holds for long.
//
// When it returns, its two goroutines may still be in Recv and in Send, where one waits for a leader
// that does not read. Both return once the stream has ended, which is when this method has returned.
func (f *Follower) Pings(stream proto.Follower_PingsServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	s := &pingStream{f: f, stream: stream, work: make(chan struct{}, 1)}
	go s.answer(ctx)
	defer cancel()
	defer f.dropStream(s)
	ended := make(chan error, 1)
	go func() { ended <- f.listen(s) }()
	select {
	case err := <-ended:
		return err
	case <-f.leaving:
		return nil
	}
}

// listen takes what the leader sends on a stream until that ends.
func (f *Follower) listen(s *pingStream) error {
	for {
		ping, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.accept(s, ping); err != nil {
			return err
		}
		s.ask(ping)
		f.queueAck(ping)
		f.handleVerdict(ping)
	}
}

// accept makes s the stream of the present leader, or refuses it. A leader may ping before its
// TermStart has been applied here. Then only its term can be checked.
func (f *Follower) accept(s *pingStream, ping *proto.Ping) error {
	if err := f.checkTerm(ping); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ping.Term == f.term.Term.Term && ping.Leader != f.term.Leader:
		return notItsLeader(ping, f.term.Leader)
	case ping.Term < f.term.Term.Term || ping.Term == f.term.Term.Term && ping.Nonce == f.retired:
		return status.Errorf(codes.FailedPrecondition, "ping of term %d, which has ended", ping.Term)
	case s.term == 0 && (f.stream == nil || f.stream.term <= ping.Term):
		s.term = ping.Term
		f.stream = s
	case f.stream != s:
		return status.Error(codes.Aborted, "a newer stream of pings has taken over")
	case s.term != ping.Term:
		return status.Errorf(codes.InvalidArgument, "pings of terms %d and %d on one stream", s.term, ping.Term)
	}
	return nil
}

// checkTerm returns an error unless raft is in the term of a ping and knows no other leader of it. raft
// hears of a term before its leader pings, because the leader has asked for votes, and because it has
// sent entries to observers too. So a leader whose term is not known here is cut off from this member's
// raft, claims a term, or is early: it tries again.
func (f *Follower) checkTerm(ping *proto.Ping) error {
	term := f.cfg.RaftTerm() // before its leader: raft forgets that before it takes a new term
	leader := f.cfg.RaftLeader()
	switch {
	case ping.Term < term:
		return status.Errorf(codes.FailedPrecondition, "ping of term %d in term %d", ping.Term, term)
	case ping.Term > term:
		return status.Errorf(codes.Unavailable, "ping of term %d, of which the log has not heard here: it is in term %d", ping.Term, term)
	case leader != 0 && leader != ping.Leader:
		return notItsLeader(ping, leader)
	}
	return nil
}

// notItsLeader returns the error for a ping of a member that does not lead its term.
func notItsLeader(ping *proto.Ping, leader uint32) error {
	return status.Errorf(codes.FailedPrecondition, "ping of member %d in term %d, which member %d leads", ping.Leader, ping.Term, leader)
}

func (f *Follower) dropStream(s *pingStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stream == s {
		f.stream = nil
	}
}

// flush sends all touches to the present leader at once, if there is one.
func (f *Follower) flush() {
	f.mu.Lock()
	s := f.stream
	f.mu.Unlock()
	if s != nil {
		s.wantFlush()
	}
}

// pongs yields the answer to ping number, in parts if it is long. For number 0 it yields a flush
// that no ping asked for, if there is anything to flush.
func (f *Follower) pongs(number uint64) iter.Seq[*proto.Pong] {
	return func(yield func(*proto.Pong) bool) {
		batches := f.touched.Flush(f.cfg.Monotonic.Now())
		if number == 0 && len(batches) == 0 {
			return
		}
		pong, room := f.pong(number), touchesPerPong
		for _, b := range batches {
			left := len(b.Touched)
			part := f.appendBatch(pong, b, min(left, room))
			for id, timeout := range b.Touched {
				if room == 0 {
					pong.More = true
					if !yield(pong) {
						return
					}
					pong, room = f.pong(number), touchesPerPong
					part = f.appendBatch(pong, b, min(left, room))
				}
				part.Sessions = append(part.Sessions, int64(id))
				part.TimeoutsMs = append(part.TimeoutsMs, uint32(timeout.Milliseconds()))
				room, left = room-1, left-1
			}
		}
		yield(pong)
	}
}

// pong returns an answer without touches. Its applied index is read after the touches of the answer
// were made. A leader that has applied as much therefore knows every session that they name.
func (f *Follower) pong(number uint64) *proto.Pong {
	pong := &proto.Pong{Number: number, Boot: f.cfg.Boot, Disk: f.cfg.Disk(), Applied: f.applied.Load()}
	if number != 0 {
		pong.Marks, pong.ClockMs = f.Marks(), f.cfg.Wall().UnixMilli()
		pong.Unlinked = f.unlinked(f.cfg.Monotonic.Now()) > f.cfg.Tick
	}
	return pong
}

// appendBatch adds a batch with room for n touches to pong, and returns it.
func (f *Follower) appendBatch(pong *proto.Pong, b sessiontracker.Batch, n int) *proto.Batch {
	part := &proto.Batch{
		Number: b.Number, AgeUs: uint64(max(0, f.cfg.Monotonic.Now().Sub(b.Sent).Microseconds())),
		Sessions: make([]int64, 0, n), TimeoutsMs: make([]uint32, 0, n),
	}
	pong.Batches = append(pong.Batches, part)
	return part
}

// pingStream is one leader's stream. Pings receives on it and answer sends, so that a proof waits
// at most for the one message that is being sent.
type pingStream struct {
	f      *Follower
	stream proto.Follower_PingsServer
	term   uint64        // term of its pings; guarded by f.mu until Pings has accepted the first one
	work   chan struct{} // one place: there is something to answer

	mu      sync.Mutex
	number  uint64    // newest ping without an answer; the answer to it covers older ones
	flush   bool      // a flush is to be sent without a ping
	flushed time.Time // when touches were last sent
	proofs  []uint64  // proof rounds without an answer
}

// ask records what a ping asks for.
func (s *pingStream) ask(ping *proto.Ping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number = max(s.number, ping.Number)
	if ping.Proof != 0 {
		if len(s.proofs) == maxProofs {
			s.proofs = append(s.proofs[:0], s.proofs[1:]...)
		}
		s.proofs = append(s.proofs, ping.Proof)
	}
	wake(s.work)
}

func (s *pingStream) wantFlush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush = true
	wake(s.work)
}

// answer sends answers until ctx ends or the stream breaks.
func (s *pingStream) answer(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.work:
		case <-pause.C:
		}
		number, now, later := s.next(time.Now())
		if later > 0 {
			pause.Reset(later)
		}
		if err := s.prove(false); err != nil {
			return // Recv fails as well
		}
		if !now {
			continue
		}
		for pong := range s.f.pongs(number) {
			if err := s.stream.Send(pong); err != nil {
				return
			}
			if err := s.prove(pong.More); err != nil {
				return
			}
		}
	}
}

// next reports whether to send touches now, and returns the ping that they answer (0: none).
// Otherwise it returns how long a flush without a ping has to wait, or 0 if none is wanted.
func (s *pingStream) next(now time.Time) (number uint64, send bool, later time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number == 0 && !s.flush {
		return 0, false, 0
	}
	if s.number == 0 {
		if later = s.f.cfg.Tick/flushesPerTick - now.Sub(s.flushed); later > 0 {
			return 0, false, later
		}
	}
	number = s.number
	s.number, s.flush, s.flushed = 0, false, now
	return number, true, 0
}

// prove answers the proof rounds that wait, unless this member is joining or raft is in a newer
// term. more must be set between the parts of an answer, so that the answer is not taken for
// complete.
func (s *pingStream) prove(more bool) error {
	s.mu.Lock()
	rounds := s.proofs
	s.proofs = nil
	s.mu.Unlock()
	for _, round := range rounds {
		if s.f.cfg.Joining() || s.f.cfg.RaftTerm() > s.term {
			continue
		}
		pong := s.f.pong(0)
		pong.Proof, pong.More = round, more
		if err := s.stream.Send(pong); err != nil {
			return err
		}
	}
	return nil
}
