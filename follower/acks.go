package follower

import (
	"context"
	"slices"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// maxAcks bounds the acknowledgements that wait for apply. When there are more, the last two are
// merged.
const maxAcks = 64

// ack is an acknowledgement. It counts once commit has been applied here, but its refusals take
// effect at once. A long list of refused sessions comes in several parts, and only the last part
// has a through.
type ack struct {
	nonce   uint64 // the nonce of the leader's term
	own     bool   // this member led it
	through uint64
	commit  uint64
	refused []int64
	heeded  bool // whether the refused sessions have been cut
}

// queueAck queues a ping's acknowledgement. It ignores one that is for another boot.
func (f *Follower) queueAck(ping *proto.Ping) {
	if ping.Ack == nil || ping.Ack.Boot != f.cfg.Boot {
		return
	}
	a := ack{nonce: ping.Nonce, through: ping.Ack.Through, commit: ping.Ack.Commit, refused: ping.Ack.Refused}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.acks); n > 0 && f.acks[n-1].nonce != a.nonce {
		f.acks = nil // these are of an earlier leader
	}
	if n := len(f.acks); n == maxAcks || n > 0 && f.acks[n-1].through == 0 {
		f.acks[n-1].merge(a)
	} else {
		f.acks = append(f.acks, a)
	}
	wake(f.acked)
}

// merge makes a and b one acknowledgement, which counts when both would. The list of refused
// sessions is a new one, because ackLoop may be reading the old one without a lock.
func (a *ack) merge(b ack) {
	a.through = max(a.through, b.through)
	a.commit = max(a.commit, b.commit)
	a.heeded = false
	a.refused = slices.Concat(a.refused, b.refused)
	slices.Sort(a.refused)
	a.refused = slices.Compact(a.refused)
}

// ackLoop handles acknowledgements when they are due. Apply does not do it itself, because a batch
// may hold a hundred thousand sessions.
func (f *Follower) ackLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.acked:
		}
		for a, ok := f.nextRefusals(); ok; a, ok = f.nextRefusals() {
			f.cutRefused(f.touched.Through(a.through), a.refused)
		}
		for a, ok := f.dueAck(); ok; a, ok = f.dueAck() {
			f.acknowledge(a)
		}
	}
}

// nextRefusals returns an acknowledgement whose refused sessions have not been cut yet. The
// refusals need not wait for its commit. They may rest on entries that this member has not applied
// yet: the session may have moved to another member, perhaps with a shorter timeout.
func (f *Follower) nextRefusals() (ack, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.acks {
		a := &f.acks[i]
		if !a.heeded && a.through != 0 && a.nonce == f.term.Nonce && len(a.refused) > 0 {
			a.heeded = true
			return *a, true
		}
	}
	return ack{}, false
}

// dueAck removes and returns the first acknowledgement if its commit has been applied.
// Acknowledgements of an earlier leader do not count: the touches they name are still kept and will
// be sent to the present leader.
func (f *Follower) dueAck() (ack, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.acks) > 0 && f.acks[0].through != 0 && f.acks[0].commit <= f.applied.Load() {
		a := f.acks[0]
		f.acks = f.acks[1:]
		if a.nonce == f.term.Nonce {
			a.own = f.term.Leader == f.cfg.Self
			return a, true
		}
	}
	return ack{}, false
}

// acknowledge renews the leases of the sessions in the acknowledged batches, except those that were
// refused.
func (f *Follower) acknowledge(a ack) {
	batches := f.touched.Ack(a.through)
	refused := make(map[jute.SessionID]bool, len(a.refused))
	for _, id := range a.refused {
		refused[jute.SessionID(id)] = true
	}
	now := f.cfg.Monotonic.Now()
	for _, b := range batches {
		f.count.flushed.Add(now.Sub(b.Sent))
		sent := b.Sent
		if a.own { // our own table counts from the touch itself, which came after the previous flush
			sent = sent.Add(-f.cfg.Tick / 2)
		}
		f.leases.renew(b.Touched, sent, refused)
	}
	if !a.heeded {
		f.cutRefused(batches, a.refused)
	}
}

// cutRefused cuts the connections of the sessions that were refused, if the refusal may concern
// their present leases: see leases.refuse.
func (f *Follower) cutRefused(batches []sessiontracker.Batch, refused []int64) {
	cut := 0
	for _, id := range refused {
		id := jute.SessionID(id)
		first := slices.IndexFunc(batches, func(b sessiontracker.Batch) bool { return b.Holds(id) })
		if first < 0 {
			continue
		}
		if conn, cutIt := f.leases.refuse(id, batches[first].Sent); cutIt {
			f.cfg.Clients.Cut(id, conn, ErrRefused)
			cut++
		}
	}
	if cut > 0 {
		f.count.refused.Add(uint64(cut))
		f.log.Info("sessions refused by the leader, their connections closed", "count", cut)
	}
}
