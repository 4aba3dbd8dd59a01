package follower

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"rollcall/proto"
)

const (
	// proof rounds that wait for a reply; if there are more, the oldest are dropped and fail at the leader
	maxProofs      = 64
	flushesPerTick = 64 // flushes without a ping: each sends again all touches that are not acknowledged
)

// Pings implements proto.FollowerServer for one leader's stream. The reply to a ping has all batches not yet
// acknowledged, each with its age, so a lost reply loses no touch and lengthens no lease.
//
// Pings rejects a ping of an older term with FailedPrecondition and keeps the batches, because that
// leader's table no longer decides which sessions live. A leader has several streams, on connections of their own, which
// carry the same pings. A stream of a newer term replaces those before, and one more than maxLeaderStreams the oldest;
// they end with Aborted. A stream that ends without an error shows the leader that this member stops. Pings takes no lock that apply holds for long.
//
// When it returns, its two goroutines may still be in Recv and in Send, where one waits for a leader
// that does not read. Both return once the stream has ended, which is when this method has returned.
func (f *Follower) Pings(stream proto.Follower_PingsServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	s := &pingStream{renewer: f.renewer, stream: stream, work: make(chan struct{}, 1)}
	go s.replyLoop(ctx)
	defer cancel()
	defer f.leadership.dropStream(s)
	ended := make(chan error, 1)
	go func() { ended <- s.receivePings(f) }()
	select {
	case err := <-ended:
		return err
	case <-f.leaving:
		return nil
	}
}

// receivePings receives until the stream ends or a ping is rejected.
func (s *pingStream) receivePings(f *Follower) error {
	for {
		ping, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.leadership.acceptPing(s, ping); err != nil {
			return err
		}
		s.queueReplyTo(ping)
		if err := f.renewer.acks.queueAckFrom(ping); err != nil {
			return err
		}
		f.divergence.queueVerdict(ping)
	}
}

// pingStream is one leader's stream. receivePings receives on it and replyLoop sends, so that a proof waits at most
// for the one message that is being sent.
type pingStream struct {
	renewer *renewer
	stream  proto.Follower_PingsServer
	term    uint64        // of its pings; guarded by leadership.mu until the first one is accepted
	work    chan struct{} // one place: a reply may be due

	mu            sync.Mutex
	pendingPing   uint64    // newest ping without a reply, which covers older ones
	wantsSilences uint64    // nonce of a pending ping that asks for silences; 0: none does
	flushWanted   bool      // without a ping
	lastFlush     time.Time // when touches were last sent
	pendingProofs []uint64  // rounds without a reply
}

func (s *pingStream) queueReplyTo(ping *proto.Ping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pendingPing = max(s.pendingPing, ping.Number)
	if ping.Silences && ping.Number != 0 {
		s.wantsSilences = ping.Nonce
	}
	if ping.Proof != 0 {
		if len(s.pendingProofs) == maxProofs {
			s.pendingProofs = append(s.pendingProofs[:0], s.pendingProofs[1:]...)
		}
		s.pendingProofs = append(s.pendingProofs, ping.Proof)
	}
	signal(s.work)
}

func (s *pingStream) wantFlush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushWanted = true
	signal(s.work)
}

// replyLoop sends replies until ctx ends or the stream breaks.
func (s *pingStream) replyLoop(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.work:
		case <-pause.C:
		}
		due, now, later := s.takeDueReply(time.Now())
		if later > 0 {
			pause.Reset(later)
		}
		if err := s.sendProofReplies(false); err != nil {
			return // Recv fails as well
		}
		if !now {
			continue
		}
		for pong := range s.renewer.flushAsPongs(due) {
			if err := s.stream.Send(pong); err != nil {
				return
			}
			if err := s.sendProofReplies(pong.More); err != nil {
				return
			}
		}
	}
}

// pingReply is what to reply.
type pingReply struct {
	number        uint64 // of the ping; 0: a flush without one
	silencesNonce uint64 // of the term whose leader asks for silences; 0: none does
}

// takeDueReply reports whether to send touches now, and returns what the reply is to be. Otherwise it returns the time
// until a flush without a ping may be sent, or 0 if none is wanted.
func (s *pingStream) takeDueReply(now time.Time) (due pingReply, send bool, later time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pendingPing == 0 && !s.flushWanted {
		return pingReply{}, false, 0
	}
	if s.pendingPing == 0 {
		if later = s.renewer.cfg.Tick/flushesPerTick - now.Sub(s.lastFlush); later > 0 {
			return pingReply{}, false, later
		}
	}
	due = pingReply{s.pendingPing, s.wantsSilences}
	s.pendingPing, s.wantsSilences, s.flushWanted, s.lastFlush = 0, 0, false, now
	return due, true, 0
}

// sendProofReplies replies to the pending proof rounds, unless this member is joining or raft is in a newer
// term. more must be set between the parts of a reply to a ping, so that it does not look complete.
func (s *pingStream) sendProofReplies(more bool) error {
	s.mu.Lock()
	rounds := s.pendingProofs
	s.pendingProofs = nil
	s.mu.Unlock()
	for _, round := range rounds {
		if s.renewer.cfg.Raft.IsJoining() || s.renewer.cfg.Raft.Term() > s.term {
			continue
		}
		pong := s.renewer.newPong(0)
		pong.Proof, pong.More = round, more
		if err := s.stream.Send(pong); err != nil {
			return err
		}
	}
	return nil
}
