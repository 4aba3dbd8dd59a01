package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/sessiontracker"
)

const (
	// maxRefusedPerReply limits the refused ids of a reply to the touches that a member keeps at most. The stream of
	// a member that exceeds it is closed.
	maxRefusedPerReply = 2 << 20

	maxAgeUs = 1 << 50 // 35 years: a greater age makes no difference, and this fits into a Duration
)

// pingLoop keeps a stream to one member open until ctx ends.
func (p *pinger) pingLoop(ctx context.Context, m *link, r *route) {
	for ctx.Err() == nil {
		if err := p.runStream(ctx, m, r); ctx.Err() == nil {
			if !m.isHeard(p.cfg.Monotonic.Now(), p.cfg.Tick) { // on another route
				p.logUnreachable(m, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(p.cfg.Tick / 4): // not sooner: the member may be down for hours
			}
		}
	}
}

// runStream opens a stream, pings, and listens until it breaks.
func (p *pinger) runStream(ctx context.Context, m *link, r *route) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	if only := m.openStream(r, cut, p.cfg.Monotonic.Now(), p.cfg.Log.SettledIndex()); only {
		p.compared.forgetMember(m.id)
		p.clocks.forgetMember(m.id)
	}
	defer m.endStream(r)
	to, err := p.cfg.LinkTo(m.id, r.number)
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
		p.sendPings(ctx, m, r, stream)
	}()
	err = p.receivePongs(m, r, stream)
	cut()
	<-sent
	return err
}

// sendPings sends the newest ping, the newest proof round, and acknowledgements. A slow member does not get older
// pings and rounds that it missed. If the stream breaks, receivePongs returns the error.
func (p *pinger) sendPings(ctx context.Context, m *link, r *route, stream proto.Follower_PingsClient) {
	var number, proof uint64 // newest sent on this stream
	for {
		begun, done := p.proofs.newestRounds()
		ping := &proto.Ping{Term: p.cfg.Term, Nonce: p.cfg.Nonce, Leader: p.cfg.Self}
		if n := p.newestPing.Load(); n > number {
			ping.Number, number = n, n
			ping.Verdict, ping.Silences = p.compared.verdictFor(m.id), m.asksForSilences(r, n)
		}
		if begun > done && (begun > proof || ping.Number != 0) { // with each ping: a joining member does not reply yet
			ping.Proof, proof = begun, begun
		}
		if ping.Ack = m.takeAck(r, done); ping.Ack != nil {
			ping.Ack.Commit = p.cfg.Log.SettledIndex()
		}
		if ping.Number != 0 || ping.Proof != 0 || ping.Ack != nil {
			p.lost.appendTo(ping, p.cfg.Monotonic.Now())
			if stream.Send(ping) != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-r.workReady:
		}
	}
}

// pongParts gathers the parts of one reply.
type pongParts struct {
	through         uint64
	refusedSessions []int64
	refusalsUnsure  bool // this member has applied less than the sender
}

// receivePongs reads one member's pongs. When it records the reply to a ping, the touches of that reply are in
// the table.
func (p *pinger) receivePongs(m *link, r *route, stream proto.Follower_PingsClient) error {
	var a pongParts
	for {
		pong, err := stream.Recv()
		if err != nil {
			return err
		}
		if newest := p.newestPing.Load(); pong.Number > newest {
			return fmt.Errorf("leader: member %d replied to ping %d, and the newest is %d", m.id, pong.Number, newest)
		}
		applied, now := p.cfg.AppliedIndex(), p.cfg.Monotonic.Now() // in this order: a life sign says nothing of owners that came after it
		p.lost.heard(m.id, pong.Incarnation, now, applied)
		if back := m.heardFrom(r, now, pong, p.cfg.Tick); !m.hasLeft() {
			if err := p.recordReply(m, pong, back, now); err != nil {
				return err
			}
		}
		if err := p.recordSilences(m, pong, now); err != nil {
			return err
		}
		if err := p.recordTouches(m, &a, pong, now); err != nil {
			return err
		}
		if bare := pong.Number == 0 && len(pong.Batches) == 0; bare || pong.More {
			continue // a pong with only a proof is no part of a reply, but may come between two parts
		}
		if a.through != 0 && !a.refusalsUnsure {
			m.addAck(ack{proof: p.requestProofRound(), boot: pong.Incarnation, through: a.through, refusedSessions: a.refusedSessions})
			m.wake() // the round may be done by now
		}
		a = pongParts{}
		if pong.Number != 0 {
			m.markReplied(pong.Number)
			signal(p.replyArrived)
		}
	}
}

// recordReply records what a member of raft's configuration has sent besides touches: its reply to a proof round,
// its clock and its state hashes.
func (p *pinger) recordReply(m *link, pong *proto.Pong, back bool, now time.Time) error {
	if back {
		p.log.Info("member is back", "peer", m.id)
	}
	if pong.Proof != 0 && p.proofs.recordReply(m.id, proofReply{pong.Disk, pong.Proof}, p.membership.countedMembers) {
		p.membership.wakeAll() // acknowledgements have their proof, and another round may have begun
	}
	if pong.Number != 0 {
		p.clocks.recordClock(m.id, pong.ClockMs, p.cfg.WallClock.Now())
	}
	return p.compareAndLogHashes(m, pong.StateHashes, now)
}

// recordSilences enters into the table for how long a member has not heard its sessions, and for how long lost members were not heard. The
// silences come before the touches of the same reply, which may be newer.
func (p *pinger) recordSilences(m *link, pong *proto.Pong, now time.Time) error {
	if lost := p.lost.recordReport(m.id, pong.Lost, p.membership.voterIDs(), now); len(lost) > 0 {
		p.cfg.Sessions.CountLost(now, lost)
	}
	s := pong.Silences
	if s == nil {
		return nil
	}
	if n := len(s.Sessions); n != len(s.SilentMs) || n != len(s.GapMs) {
		return fmt.Errorf("leader: member %d sent the silences of %d sessions with %d and %d times", m.id, n, len(s.SilentMs), len(s.GapMs))
	}
	p.cfg.Sessions.CountSilences(m.id, pong.Applied, now, sessiontracker.Silences{IDs: s.Sessions, SilentMs: s.SilentMs, GapMs: s.GapMs})
	if s.Last {
		m.markSilencesKnown()
	}
	return nil
}

// recordTouches enters a pong's batches into the table, each touch at the time it was made. It rejects a session that
// the table does not have. There is one exception: if the member has applied more of the log than this one, it
// may know better. Then the reply is neither acknowledged nor rejected, and comes again with the next ping.
func (p *pinger) recordTouches(m *link, a *pongParts, pong *proto.Pong, now time.Time) error {
	behind := pong.Applied > p.cfg.AppliedIndex()
	for _, batch := range pong.Batches {
		if n := len(batch.Sessions); n != len(batch.TimeoutsMs) || n != len(batch.AfterMs) {
			return fmt.Errorf("leader: member %d sent %d sessions with %d timeouts and %d times", m.id, n,
				len(batch.TimeoutsMs), len(batch.AfterMs))
		}
		a.refusedSessions = p.cfg.Sessions.TouchAll(m.id, sessiontracker.Touches{
			First: now.Add(-time.Duration(min(batch.AgeUs, maxAgeUs)) * time.Microsecond),
			IDs:   batch.Sessions, TimeoutsMs: batch.TimeoutsMs, AfterMs: batch.AfterMs,
		}, a.refusedSessions)
		a.through = max(a.through, batch.Number)
	}
	a.refusalsUnsure = a.refusalsUnsure || behind && len(a.refusedSessions) > 0
	if len(a.refusedSessions) > maxRefusedPerReply {
		return fmt.Errorf("leader: member %d sent over %d touches of sessions it does not own", m.id, maxRefusedPerReply)
	}
	return nil
}

// logUnreachable logs that a member is out of reach or has stopped, once until it is back. It logs nothing in
// three cases. A member that rejects pings knows a newer term, and this one is about to end. A member
// that was not heard in this term may be starting: it gets a tick. A member that has left may stop.
func (p *pinger) logUnreachable(m *link, err error) {
	if status.Code(err) == codes.FailedPrecondition || m.hasLeft() ||
		!m.markUnreachable(p.cfg.Monotonic.Now().Sub(p.termBegun) > p.cfg.Tick) {
		return
	}
	if errors.Is(err, io.EOF) {
		p.log.Info("member stops", "peer", m.id)
		return
	}
	p.log.Warn("member is out of reach", "peer", m.id, "err", err)
}
