package follower

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// lapsesPerTick is the number of checks in a tick of the leases with unacknowledged touches. A connection
	// is closed at most one such interval late.
	lapsesPerTick = 8

	touchesPerPong = 100_000 // about 1.4 MB
)

// renewer keeps leases valid. It reports the touches of this member's clients to the leader, renews their
// leases when the leader acknowledges that, and closes the connections whose leases are lost. Make one
// with newRenewer. It is safe for concurrent use.
type renewer struct {
	cfg        *Config
	log        *slog.Logger
	leases     *leases
	leadership *leadership

	touches      sessiontracker.TouchMap
	acks         ackQueue
	appliedIndex atomic.Uint64
	counters     counters
}

func newRenewer(cfg *Config, log *slog.Logger, leases *leases, leadership *leadership) *renewer {
	return &renewer{cfg: cfg, log: log, leases: leases, leadership: leadership, acks: newAckQueue(cfg.Boot)}
}

// vouch implements Follower.Vouch.
func (r *renewer) vouch(ctx context.Context, id jute.SessionID) error {
	e, err := r.leases.startVouchWait(id, r.cfg.Monotonic.Now())
	if e == nil {
		return err
	}
	defer r.leases.stopVouchWait(id, e)
	if timeout, late := r.leases.takeExpiredOnGrant(id); late {
		r.touches.Touch(id, timeout, r.cfg.Monotonic.Now())
	}
	for _, s := range r.leadership.pingStreams() {
		s.wantFlush()
	}
	defer r.counters.vouchWaits.AddSince(time.Now())
	select {
	case <-e.done:
		return e.err
	case <-r.cfg.Monotonic.After(r.cfg.Tick / 2):
		return ErrNotVouched
	case <-ctx.Done():
		return fmt.Errorf("follower: vouch for session %s: %w", id, ctx.Err())
	}
}

// flushAsPongs yields the reply to a ping, in parts if it is long. Without a ping it yields a flush, if there is anything
// to flush.
func (r *renewer) flushAsPongs(due pingReply) iter.Seq[*proto.Pong] {
	return func(yield func(*proto.Pong) bool) {
		number, batches := due.number, r.touches.Flush(r.cfg.Monotonic.Now())
		if number == 0 && len(batches) == 0 {
			return
		}
		lost := r.leadership.lostReport(due.silencesNonce)
		// Before the term's start is applied here, a session may have been given to another member.
		if due.silencesNonce != 0 && due.silencesNonce == r.leadership.currentTerm().Nonce {
			for pong := range r.silencesAsPongs(number, batches) {
				pong.Lost, lost = lost, nil
				if !yield(pong) {
					return
				}
			}
		}
		pong, room := r.newPong(number), touchesPerPong
		if due.silencesNonce != 0 {
			pong.Lost = lost
		}
		for _, b := range batches {
			left := len(b.Touches)
			part := r.appendBatch(pong, b, min(left, room))
			for id, t := range b.Touches {
				if room == 0 {
					pong.More = true
					if !yield(pong) {
						return
					}
					pong, room = r.newPong(number), touchesPerPong
					part = r.appendBatch(pong, b, min(left, room))
				}
				part.Sessions = append(part.Sessions, int64(id))
				part.TimeoutsMs = append(part.TimeoutsMs, t.TimeoutMs)
				part.AfterMs = append(part.AfterMs, t.AfterMs)
				room, left = room-1, left-1
			}
		}
		yield(pong)
	}
}

// silencesAsPongs yields parts of a reply with the silences of all sessions of this member. batches are the unacknowledged
// ones. It visits each session once, and sends about 15 bytes for each: once in a term, while its leader asks for them.
func (r *renewer) silencesAsPongs(number uint64, batches []sessiontracker.TouchBatch) iter.Seq[*proto.Pong] {
	return func(yield func(*proto.Pong) bool) {
		applied := r.appliedIndex.Load() // before the sessions are read: they are at least as new
		for _, b := range batches {
			r.leases.noteHeard(b)
		}
		sessions, gaps := r.leases.heardSessions(), r.leadership.leaderlessTimes()
		for rest := sessions; ; {
			part := rest[:min(len(rest), touchesPerPong)]
			rest = rest[len(part):]
			pong := r.newPong(number)
			pong.Applied, pong.More, pong.Silences = applied, true, r.leases.silences(part, gaps)
			pong.Silences.Last = len(rest) == 0
			if !yield(pong) || pong.Silences.Last {
				return
			}
		}
	}
}

// newPong returns a reply without touches. Its applied index is read after the touches of the reply were made,
// so a leader that has applied as much knows all their sessions.
func (r *renewer) newPong(number uint64) *proto.Pong {
	pong := &proto.Pong{Number: number, Incarnation: r.cfg.Boot, Disk: r.cfg.Raft.DiskID(), Applied: r.appliedIndex.Load()}
	if number != 0 {
		pong.StateHashes, pong.ClockMs = stateHashes(r.cfg.State), r.cfg.WallClock().UnixMilli()
		pong.Unlinked = r.leadership.unreachedFor(r.cfg.Monotonic.Now()) > r.cfg.Tick
	}
	return pong
}

// stateHashes returns the digests by which this member is compared with the others. It takes no lock.
func stateHashes(state State) *proto.StateHashes {
	marks := state.StateHashes()
	m := &proto.StateHashes{
		Version: znode.DigestVersion,
		Indexes: make([]uint64, len(marks)), Digests: make([]uint64, len(marks)),
	}
	for i, mark := range marks {
		m.Indexes[i], m.Digests[i] = mark.Index, mark.Digest
	}
	return m
}

// appendBatch adds a batch with room for n touches to pong, and returns it.
func (r *renewer) appendBatch(pong *proto.Pong, b sessiontracker.TouchBatch, n int) *proto.Batch {
	part := &proto.Batch{
		Number: b.Number, AgeUs: uint64(max(0, r.cfg.Monotonic.Now().Sub(b.FirstTouch).Microseconds())),
		Sessions: make([]int64, 0, n), TimeoutsMs: make([]uint32, 0, n), AfterMs: make([]uint32, 0, n),
	}
	pong.Batches = append(pong.Batches, part)
	return part
}

// ackLoop handles acknowledgements when they are due. Apply does not do it itself, because a batch
// may hold a hundred thousand sessions.
func (r *renewer) ackLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.acks.work:
		}
		for {
			a, ok := r.acks.takeRefusals(r.leadership.currentTerm().Nonce)
			if !ok {
				break
			}
			r.closeRefusedConns(r.touches.BatchesThrough(a.through), a.refusedSessions)
		}
		for a, ok := r.acks.takeDue(r.appliedIndex.Load()); ok; a, ok = r.acks.takeDue(r.appliedIndex.Load()) {
			r.renewAcknowledged(a, r.leadership.currentTerm())
		}
	}
}

// renewAcknowledged renews the leases of the sessions in the acknowledged batches, except refused ones. An
// acknowledgement of an earlier term than t does not count: its touches are kept and will be sent to the
// present leader.
func (r *renewer) renewAcknowledged(a ack, t *term) {
	if a.nonce != t.Nonce {
		return
	}
	batches := r.touches.BatchesThrough(a.through)
	refused := make(map[jute.SessionID]bool, len(a.refusedSessions))
	for _, id := range a.refusedSessions {
		refused[jute.SessionID(id)] = true
	}
	now := r.cfg.Monotonic.Now()
	for _, b := range batches {
		r.counters.ackDelays.Add(now.Sub(b.SentAt))
		r.leases.renewTouched(b, refused)
	}
	r.touches.AckThrough(a.through) // after the leases know their touches: a later leader hears of one or the other
	if !a.refusalsCut {
		r.closeRefusedConns(batches, a.refusedSessions)
	}
}

// closeRefusedConns closes the connections of refused sessions, if the refusal may concern their present leases: see
// leases.endRefused.
func (r *renewer) closeRefusedConns(batches []sessiontracker.TouchBatch, refused []int64) {
	cut := 0
	for _, id := range refused {
		id := jute.SessionID(id)
		first := slices.IndexFunc(batches, func(b sessiontracker.TouchBatch) bool { return b.HasTouch(id) })
		if first < 0 {
			continue
		}
		if conn, cutIt := r.leases.endRefused(id, batches[first].SentAt); cutIt {
			r.cfg.Clients.DropConnection(id, conn, ErrRefused)
			cut++
		}
	}
	if cut > 0 {
		r.counters.refusedSessions.Add(uint64(cut))
		r.log.Info("sessions refused by the leader, their connections closed", "count", cut)
	}
}

// closeConnsLoop closes the connections of clients that were heard from, but have no valid lease any
// more because nothing was acknowledged. There may be no reply to such a client that would find this out.
// The client still has a tenth of its timeout to find another member. The loop costs nothing while
// acknowledgements come. Otherwise it costs time for each touch that waits for one.
func (r *renewer) closeConnsLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-r.cfg.Monotonic.After(r.cfg.Tick / lapsesPerTick):
			r.closeLapsedConns(now)
			r.closeUnlinkedConns(now)
		}
	}
}

func (r *renewer) closeLapsedConns(now time.Time) {
	if r.touches.FlushedBefore(now.Add(-r.cfg.Tick)) {
		// two pings are missing: flush, so that touches count from now, whichever leader learns of them later
		r.touches.Flush(now)
	}
	// A touch that waits for longer than one and a half ping intervals has missed a ping. Without a
	// stream it cannot be acknowledged at all.
	since := now.Add(-r.cfg.Tick * 3 / 4)
	if len(r.leadership.pingStreams()) == 0 {
		since = now
	}
	cut := 0
	for id := range r.touches.UnackedSessionsBefore(since) {
		if conn, ended := r.leases.endIfExpired(id, now); ended {
			r.cfg.Clients.DropConnection(id, conn, ErrNotVouched)
			cut++
		}
	}
	if cut > 0 {
		r.counters.lapsedLeases.Add(uint64(cut))
		r.log.Warn("sessions heard and not acknowledged, their connections closed", "count", cut)
	}
}

// closeUnlinkedConns closes the connections of all clients if raft reaches the leader, but this member has
// not reached the leader's service for the sync limit. While that lasts, writes wait here, even if
// pings keep the sessions alive. Other members may reach the leader. If there is no leader, closeUnlinkedConns
// closes nothing, because no other member would be better. A connection whose lease has ended is not closed again.
func (r *renewer) closeUnlinkedConns(now time.Time) {
	r.leadership.resetUnreachedWithoutRaft(now)
	if r.leadership.unreachedFor(now) < time.Duration(r.cfg.SyncLimit)*r.cfg.Tick {
		return
	}
	held := r.leases.endAll(ErrNoLink)
	for id, conn := range held {
		r.cfg.Clients.DropConnection(id, conn, ErrNoLink)
	}
	if len(held) > 0 {
		r.counters.unlinkedConns.Add(uint64(len(held)))
		r.log.Warn("no link to the leader for the sync limit: clients' connections closed", "count", len(held))
	}
}
