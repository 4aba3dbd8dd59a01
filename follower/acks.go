package follower

import (
	"context"
	"slices"
	"time"

	"rollcall/jute"
	"rollcall/proto"
)

// maxAcks bounds the acknowledgements that wait for apply. Past it the newest takes the
// next one in.
const maxAcks = 64

// ack is an acknowledgement that counts once commit has been applied here. A long list
// of refused sessions comes in several, of which only the last has a through.
type ack struct {
	nonce   uint64 // of the leader's term
	own     bool   // this member led it
	through uint64
	commit  uint64
	refused []int64
}

// hear takes in a ping's acknowledgement. One for another boot is ignored.
func (f *Follower) hear(ping *proto.Ping) {
	if ping.Ack == nil || ping.Ack.Boot != f.cfg.Boot {
		return
	}
	a := ack{nonce: ping.Nonce, through: ping.Ack.Through, commit: ping.Ack.Commit, refused: ping.Ack.Refused}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.acks); n > 0 && f.acks[n-1].nonce != a.nonce {
		f.acks = nil // of a leader before this one
	}
	if n := len(f.acks); n == maxAcks || n > 0 && f.acks[n-1].through == 0 {
		f.acks[n-1].merge(a)
	} else {
		f.acks = append(f.acks, a)
	}
	wake(f.acked)
}

// merge makes one acknowledgement of two, which counts when both would.
func (a *ack) merge(b ack) {
	a.through = max(a.through, b.through)
	a.commit = max(a.commit, b.commit)
	a.refused = append(a.refused, b.refused...)
	slices.Sort(a.refused)
	a.refused = slices.Compact(a.refused)
}

// ackLoop counts acknowledgements when their time has come. Not apply itself: a batch
// may hold a hundred thousand sessions.
func (f *Follower) ackLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.acked:
		}
		for a, ok := f.dueAck(); ok; a, ok = f.dueAck() {
			f.acknowledge(a)
		}
	}
}

// dueAck removes and returns the first acknowledgement if its commit has been applied.
// Those of a leader other than the present one do not count: what they acknowledge is
// still kept and will be sent to the present one.
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

// acknowledge renews the leases of the sessions in the acknowledged batches and cuts the
// connections of those that were refused.
func (f *Follower) acknowledge(a ack) {
	batches := f.touched.Ack(a.through)
	refused := make(map[jute.SessionID]bool, len(a.refused))
	for _, id := range a.refused {
		refused[jute.SessionID(id)] = true
	}
	first := make(map[jute.SessionID]time.Time, len(refused)) // sending of the oldest batch that held it
	for _, b := range batches {
		sent := b.Sent
		if a.own { // our own table counts from the touch, which came after the flush before
			sent = sent.Add(-f.cfg.Tick / 2)
		}
		f.leases.renew(b.Touched, sent, refused)
		for id := range refused {
			if _, ok := first[id]; !ok {
				if _, held := b.Touched[id]; held {
					first[id] = b.Sent
				}
			}
		}
	}
	cut := 0
	for id, sent := range first {
		if conn, ended := f.leases.refuse(id, sent); ended {
			f.cfg.Clients.Cut(id, conn, ErrRefused)
			cut++
		}
	}
	if cut > 0 {
		f.log.Info("sessions refused by the leader, their connections closed", "count", cut)
	}
}
