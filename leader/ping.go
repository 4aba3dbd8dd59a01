package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
)

const (
	// maxRefused is how many refused ids go in one acknowledgement: 0.8 MB, below gRPC's
	// 4 MiB. The rest comes in further ones, and only the last says what it acknowledges.
	maxRefused = 100_000

	// maxAnswerRefused is how many refused ids an answer may leave: as many touches as a
	// member ever lets wait. A member past it is cut off.
	maxAnswerRefused = 2 << 20

	maxAgeUs = 1 << 50 // 35 years: what is older is no younger, and a Duration holds it
)

// link is the leader's side of one member's pings.
type link struct {
	id   uint32
	wake chan struct{} // there may be something to send; capacity 1

	mu       sync.Mutex
	answered uint64    // newest ping that was answered in full
	heard    time.Time // when the member last said anything, or was given another chance
	lost     bool      // and logged
	linked   bool      // has said something on the stream that is open
	behind   uint64    // what was committed when that was opened
	synced   bool      // has applied as much since
	acks     []ack     // oldest first; at most one for each of three rounds: done, under way, next
	cut      context.CancelFunc
	fine     time.Time     // when it last answered, and could reach this leader, or was given another chance
	redial   time.Time     // when its connection is given up unless it speaks
	patience time.Duration // how long it is waited for after that
}

// ack is an acknowledgement that waits for its proof.
type ack struct {
	proof   uint64
	boot    uint64
	through uint64
	refused []int64
}

// pingLoop keeps a stream to one member, for as long as the term lasts.
func (l *Leader) pingLoop(ctx context.Context, m *link, to Link) error {
	for ctx.Err() == nil {
		if err := l.talk(ctx, m, to); ctx.Err() == nil {
			l.lose(m, err)
			select {
			case <-ctx.Done():
			case <-time.After(l.cfg.Tick / 4): // not faster: the member may be gone for hours
			}
		}
	}
	return nil // stepping down is not a failure
}

// talk opens a stream, and pings and listens until it breaks.
func (l *Leader) talk(ctx context.Context, m *link, to Link) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	m.open(cut, time.Now(), l.cfg.Log.CommitIndex())
	l.compared.forget(m.id)
	l.clocks.forget(m.id)
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

// send sends what there is to say: the newest ping, the newest round of proof, and
// acknowledgements. What a slow member missed of the first two it need not hear. If the
// stream breaks, receive learns why.
func (l *Leader) send(ctx context.Context, m *link, stream proto.Follower_PingsClient) {
	var number, proof uint64 // newest sent on this stream
	for {
		begun, done := l.proofs.state()
		ping := &proto.Ping{Term: l.cfg.Term, Nonce: l.cfg.Nonce, Leader: l.cfg.Self}
		if n := l.asked.Load(); n > number {
			ping.Number, number = n, n
			ping.Verdict = l.compared.verdict(m.id)
		}
		if begun > done && (begun > proof || ping.Number != 0) { // again with each ping: a member that joins answers none, and then does
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
	unsure  bool // of what was refused: this member is behind the other one
}

// receive listens to one member. When it notes that a ping is answered, the touches of
// the answer are in the table.
func (l *Leader) receive(m *link, stream proto.Follower_PingsClient) error {
	var a answer
	for {
		pong, err := stream.Recv()
		if err != nil {
			return err
		}
		now := time.Now()
		if m.hear(now, pong, l.cfg.Tick) {
			l.log.Info("member is back", "member", m.id)
		}
		if pong.Proof != 0 && l.proofs.answer(m.id, pong.Proof) {
			l.wakeAll() // acknowledgements have their proof, and another round may have begun
		}
		if err := l.touch(m, &a, pong, now); err != nil {
			return err
		}
		if err := l.compare(m, pong.Marks, now); err != nil {
			return err
		}
		if bare := pong.Number == 0 && len(pong.Batches) == 0; bare || pong.More {
			continue // a proof alone neither is an answer nor ends the one between whose parts it comes
		}
		if a.through != 0 && !a.unsure {
			m.addAck(ack{proof: l.prove(), boot: pong.Boot, through: a.through, refused: a.refused})
			signal(m.wake) // the round may be done by now
		}
		a = answer{}
		if pong.Number != 0 {
			l.clocks.tell(m.id, pong.ClockMs, l.cfg.Clock.Now())
			m.answer(pong.Number)
			signal(l.answered)
		}
	}
}

// touch puts a pong's batches into the table, each at the time of its first sending. A
// session that the table does not know is refused; but if the member has applied more of
// the log than this one, it may know better: then the answer is neither acknowledged nor
// refused, and comes again with the next ping.
func (l *Leader) touch(m *link, a *answer, pong *proto.Pong, now time.Time) error {
	behind := pong.Applied > l.cfg.Applied()
	for _, batch := range pong.Batches {
		if len(batch.Sessions) != len(batch.TimeoutsMs) {
			return fmt.Errorf("leader: member %d sent %d sessions with %d timeouts", m.id, len(batch.Sessions), len(batch.TimeoutsMs))
		}
		at := now.Add(-time.Duration(min(batch.AgeUs, maxAgeUs)) * time.Microsecond)
		if m.id == l.cfg.Self { // touched the table already, when they were made: since the ping before
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

// lose logs that a member cannot be heard, once until it is back.
func (l *Leader) lose(m *link, err error) {
	m.mu.Lock()
	known := m.lost
	m.lost = true
	m.mu.Unlock()
	if !known {
		l.log.Warn("member is out of reach", "member", m.id, "err", err)
	}
}

// open notes that a stream is being opened. What was to be acknowledged on the old one
// will be sent again.
func (m *link) open(cut context.CancelFunc, now time.Time, commit uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut, m.acks = cut, nil
	m.linked, m.synced, m.behind = false, false, commit
	if m.heard.IsZero() {
		m.heard = now
	}
}

// hear notes that the member said something, how far it has come and whether it can reach
// this leader, and reports whether it had been lost.
func (m *link) hear(now time.Time, pong *proto.Pong, tick time.Duration) (back bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.linked, m.synced = true, m.synced || pong.Applied >= m.behind
	m.patience, m.redial = tick, now.Add(tick)
	if pong.Number != 0 && !pong.Unlinked {
		m.fine = now
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

// addAck queues an acknowledgement. An answer holds all that is not acknowledged: a later
// one for the same proof replaces it.
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

// takeAck returns the next acknowledgement whose proof is done, or nil.
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
