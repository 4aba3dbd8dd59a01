package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

const (
	// maxRefused is how many refused ids go into one acknowledgement: 0.8 MB, below gRPC's 4 MiB.
	// The rest goes into further ones, and only the last says which batches it acknowledges.
	maxRefused = 100_000

	// maxAnswerRefused is how many refused ids an answer may cause: as many as the touches that a
	// member ever keeps. The stream of a member that exceeds it is closed.
	maxAnswerRefused = 2 << 20

	maxAgeUs = 1 << 50 // 35 years: a greater age makes no difference, and this fits into a Duration
)

// link is the leader's side of one member's pings.
type link struct {
	id   uint32
	wake chan struct{} // there may be something to send; capacity 1

	mu       sync.Mutex
	answered uint64    // newest ping that was answered in full
	heard    time.Time // when the member last sent anything, or got a new deadline
	lost     bool      // it is out of reach or has stopped, which has been logged
	met      bool      // it has sent something in this term
	linked   bool      // it has sent something on the open stream
	behind   uint64    // the commit index when the stream was opened
	synced   bool      // it has applied that much since
	acks     []ack     // oldest first; at most one for each of three rounds: done, under way, next
	cut      context.CancelFunc
	fineAt   time.Time     // when it last answered and said that it can reach this leader, or got a new deadline
	redial   time.Time     // when its connection is closed unless it sends something
	patience time.Duration // how long it gets after that
	left     time.Time     // when it was seen that it has left raft's configuration; zero: it has not
}

// ack is an acknowledgement that waits for its proof.
type ack struct {
	proof   uint64
	boot    uint64
	through uint64
	refused []int64
}

// pingLoop keeps a stream to one member open until ctx ends, with the term or because the member has
// gone.
func (l *Leader) pingLoop(ctx context.Context, m *link) {
	for ctx.Err() == nil {
		if err := l.runStream(ctx, m); ctx.Err() == nil {
			l.markLost(m, err)
			select {
			case <-ctx.Done():
			case <-time.After(l.cfg.Tick / 4): // not sooner: the member may be down for hours
			}
		}
	}
}

// runStream opens a stream, pings, and listens until it breaks.
func (l *Leader) runStream(ctx context.Context, m *link) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	m.streamOpened(cut, l.cfg.Monotonic.Now(), l.cfg.Log.CommitIndex())
	l.compared.forget(m.id)
	l.clocks.forget(m.id)
	to, err := l.cfg.Link(m.id)
	if err != nil {
		return err
	}
	stream, err := to.Pings(ctx)
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		l.send(ctx, m, stream)
	}()
	err = l.receive(m, stream)
	cut()
	<-sent
	return err
}

// send sends what is due: the newest ping, the newest proof round, and acknowledgements. A slow
// member does not get older pings and rounds that it missed. If the stream breaks, receive returns
// the reason.
func (l *Leader) send(ctx context.Context, m *link, stream proto.Follower_PingsClient) {
	var number, proof uint64 // newest sent on this stream
	for {
		begun, done := l.proofs.state()
		ping := &proto.Ping{Term: l.cfg.Term, Nonce: l.cfg.Nonce, Leader: l.cfg.Self}
		if n := l.asked.Load(); n > number {
			ping.Number, number = n, n
			ping.Verdict = l.compared.verdict(m.id)
		}
		if begun > done && (begun > proof || ping.Number != 0) { // sent again with each ping: a member that joins does not answer until it has joined
			ping.Proof, proof = begun, begun
		}
		if ping.Ack = m.takeAck(done); ping.Ack != nil {
			ping.Ack.Commit = l.cfg.Log.CommitIndex()
		}
		if ping.Number != 0 || ping.Proof != 0 || ping.Ack != nil {
			if stream.Send(ping) != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
	}
}

// answer gathers the parts of one answer.
type answer struct {
	through uint64
	refused []int64
	unsure  bool // whether the refusals are unsure, because this member has applied less than the other one
}

// receive listens to one member. When it records that a ping is answered, the touches of the answer
// are in the table.
func (l *Leader) receive(m *link, stream proto.Follower_PingsClient) error {
	var a answer
	for {
		pong, err := stream.Recv()
		if err != nil {
			return err
		}
		now := l.cfg.Monotonic.Now()
		if back := m.heardFrom(now, pong, l.cfg.Tick); !m.parts() {
			if err := l.countIn(m, pong, back, now); err != nil {
				return err
			}
		}
		if err := l.touch(m, &a, pong, now); err != nil {
			return err
		}
		if bare := pong.Number == 0 && len(pong.Batches) == 0; bare || pong.More {
			continue // a pong with only a proof is not an answer. It may come between two parts of one, and does not end it
		}
		if a.through != 0 && !a.unsure {
			m.addAck(ack{proof: l.prove(), boot: pong.Boot, through: a.through, refused: a.refused})
			signal(m.wake) // the round may be done by now
		}
		a = answer{}
		if pong.Number != 0 {
			m.answer(pong.Number)
			signal(l.answered)
		}
	}
}

// countIn counts what a member of raft's configuration has sent besides touches: that it is back, its answer
// to a proof round, its clock and its marks.
func (l *Leader) countIn(m *link, pong *proto.Pong, back bool, now time.Time) error {
	if back {
		l.log.Info("member is back", "peer", m.id)
	}
	if pong.Proof != 0 && l.proofs.answer(m.id, proof{pong.Disk, pong.Proof}, l.configuration) {
		l.wakeAll() // acknowledgements have their proof, and another round may have begun
	}
	if pong.Number != 0 {
		l.clocks.record(m.id, pong.ClockMs, l.cfg.Clock.Now())
	}
	return l.compare(m, pong.Marks, now)
}

// touch enters a pong's batches into the table, each at the time it was first sent. It refuses a
// session that the table does not know. There is one exception: if the member has applied more of
// the log than this one, it may know better. Then the answer is neither acknowledged nor refused,
// and comes again with the next ping.
func (l *Leader) touch(m *link, a *answer, pong *proto.Pong, now time.Time) error {
	behind := pong.Applied > l.cfg.Applied()
	for _, batch := range pong.Batches {
		if len(batch.Sessions) != len(batch.TimeoutsMs) {
			return fmt.Errorf("leader: member %d sent %d sessions with %d timeouts", m.id, len(batch.Sessions), len(batch.TimeoutsMs))
		}
		at := now.Add(-time.Duration(min(batch.AgeUs, maxAgeUs)) * time.Microsecond)
		if m.id == l.cfg.Self { // its touches entered the table when they were made, which was after the ping before
			at = at.Add(-l.cfg.Tick / 2)
		}
		a.refused = l.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, a.refused)
		a.through = max(a.through, batch.Number)
	}
	a.unsure = a.unsure || behind && len(a.refused) > 0
	if len(a.refused) > maxAnswerRefused {
		return fmt.Errorf("leader: member %d sent over %d touches of sessions it does not own", m.id, maxAnswerRefused)
	}
	return nil
}

// markLost logs that a member is out of reach or has stopped, once until it is back. It logs nothing in
// three cases. A member that refuses pings knows a newer term, and this one is about to end. A member
// that has not answered in this term may be starting: it gets a tick. A member that has left may stop.
func (l *Leader) markLost(m *link, err error) {
	if status.Code(err) == codes.FailedPrecondition || m.parts() || !m.lose(l.cfg.Monotonic.Now().Sub(l.begun) > l.cfg.Tick) {
		return
	}
	if errors.Is(err, io.EOF) {
		l.log.Info("member stops", "peer", m.id)
		return
	}
	l.log.Warn("member is out of reach", "peer", m.id, "err", err)
}

// lose records that the member is lost, if it was there before in this term, or must be by now. It
// reports whether that is new.
func (m *link) lose(must bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost || !m.met && !must {
		return false
	}
	m.lost = true
	return true
}

// streamOpened records that a stream is being opened. Touches that were to be acknowledged on the
// old one will be sent again.
func (m *link) streamOpened(cut context.CancelFunc, now time.Time, commit uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut, m.acks = cut, nil
	m.linked, m.synced, m.behind = false, false, commit
	if m.heard.IsZero() {
		m.heard = now
	}
}

// heardFrom records that the member sent something, how far it has applied the log and whether it
// can reach this leader. It reports whether the member had been out of reach.
func (m *link) heardFrom(now time.Time, pong *proto.Pong, tick time.Duration) (back bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.met, m.linked, m.synced = true, true, m.synced || pong.Applied >= m.behind
	m.patience, m.redial = tick, now.Add(tick)
	if pong.Number != 0 && !pong.Unlinked {
		m.fineAt = now
	}
	back = m.lost
	m.heard, m.lost = now, false
	return back
}

func (m *link) answer(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered = max(m.answered, number)
}

// addAck queues an acknowledgement. An answer holds all that is not acknowledged, so a later
// acknowledgement for the same proof replaces the earlier one.
func (m *link) addAck(a ack) {
	slices.Sort(a.refused)
	a.refused = slices.Compact(a.refused)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.acks); n > 0 && m.acks[n-1].proof == a.proof {
		m.acks = m.acks[:n-1]
	}
	m.acks = append(m.acks, a)
}

// takeAck removes and returns the next acknowledgement whose proof is done, or nil.
func (m *link) takeAck(done uint64) *proto.Ack {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.acks) == 0 || m.acks[0].proof > done {
		return nil
	}
	a := &m.acks[0]
	if len(a.refused) > maxRefused {
		part := &proto.Ack{Boot: a.boot, Refused: a.refused[:maxRefused]}
		a.refused = a.refused[maxRefused:]
		return part
	}
	whole := &proto.Ack{Boot: a.boot, Through: a.through, Refused: a.refused}
	m.acks = slices.Delete(m.acks, 0, 1)
	return whole
}
