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
	maxProofs      = 64      // rounds that wait for an answer; of more, the oldest are dropped and fail at the leader
	flushesPerTick = 64      // unasked: each sends again what is not acknowledged
)

// Pings implements proto.FollowerServer for one leader's stream. It answers a ping with
// all batches not yet acknowledged, each with its age: a lost reply loses no touch and
// lengthens no lease. A ping of an older term is refused with FailedPrecondition and the
// batches are kept, since that leader's table no longer decides who lives. A stream of
// the same or a newer term takes the place of the one before, which ends with Aborted.
// It takes no lock that apply holds for long.
//
// When it returns, its sender may still be in Send, where it waits for a leader that reads
// nothing. Send returns once the stream has ended, which is when this method has returned.
func (f *Follower) Pings(stream proto.Follower_PingsServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	s := &pingStream{f: f, stream: stream, work: make(chan struct{}, 1)}
	go s.answer(ctx)
	defer cancel()
	defer f.dropStream(s)
	for {
		ping, err := stream.Recv()
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
		f.hear(ping)
		f.judged(ping.Verdict)
	}
}

// accept makes s the stream of the present leader, or refuses it. A leader may ping
// before its TermStart has been applied here; then its term is all there is to go by.
func (f *Follower) accept(s *pingStream, ping *proto.Ping) error {
	if term := f.cfg.RaftTerm(); ping.Term < term {
		return status.Errorf(codes.FailedPrecondition, "ping of term %d in term %d", ping.Term, term)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
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

// pongs yields the answer to a ping, in parts if it is long, or, for number 0, an
// unasked flush, if there is anything to flush.
func (f *Follower) pongs(number uint64) iter.Seq[*proto.Pong] {
	return func(yield func(*proto.Pong) bool) {
		batches := f.touched.Flush(time.Now())
		if number == 0 && len(batches) == 0 {
			return
		}
		pong, room := f.pong(number), touchesPerPong
		for _, b := range batches {
			left := len(b.Touched)
			part := appendBatch(pong, b, min(left, room))
			for id, timeout := range b.Touched {
				if room == 0 {
					pong.More = true
					if !yield(pong) {
						return
					}
					pong, room = f.pong(number), touchesPerPong
					part = appendBatch(pong, b, min(left, room))
				}
				part.Sessions = append(part.Sessions, int64(id))
				part.TimeoutsMs = append(part.TimeoutsMs, uint32(timeout.Milliseconds()))
				room, left = room-1, left-1
			}
		}
		yield(pong)
	}
}

// pong returns an answer without touches. The index in it is read after the touches in
// it were made: a leader that has applied as much knows every session they name.
func (f *Follower) pong(number uint64) *proto.Pong {
	pong := &proto.Pong{Number: number, Boot: f.cfg.Boot, Applied: f.applied.Load()}
	if number != 0 {
		pong.Marks, pong.ClockMs = f.marks(), f.cfg.Wall().UnixMilli()
		pong.Unlinked = f.unlinked(time.Now()) > f.cfg.Tick
	}
	return pong
}

// appendBatch begins a batch with room for n touches.
func appendBatch(pong *proto.Pong, b sessiontracker.Batch, n int) *proto.Batch {
	part := &proto.Batch{
		Number: b.Number, AgeUs: uint64(max(0, time.Since(b.Sent).Microseconds())),
		Sessions: make([]int64, 0, n), TimeoutsMs: make([]uint32, 0, n),
	}
	pong.Batches = append(pong.Batches, part)
	return part
}

// pingStream is one leader's stream. Its pings are taken by Pings and answered by
// answer, so that a proof waits at most for one message that is under way.
type pingStream struct {
	f      *Follower
	stream proto.Follower_PingsServer
	term   uint64        // of its pings; guarded by f.mu until Pings has accepted the first
	work   chan struct{} // one place: something has been asked

	mu      sync.Mutex
	number  uint64    // of the newest ping without an answer; an answer to it covers older ones
	flush   bool      // an unasked flush is wanted
	flushed time.Time // when touches were last sent
	proofs  []uint64  // rounds without an answer
}

// ask notes what a ping wants.
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

// next reports whether touches are to be sent now, in answer to which ping (0: none),
// and how long an unasked flush has to wait, if one does.
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

// prove answers the rounds that wait, unless this member may not or raft has gone on.
// more: between the parts of an answer, which is not to be taken for complete.
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
