package leader

import (
	"context"
	"time"
)

// Ensemble is what the leader knows of the other members by the log, which goes other ways
// than pings and writes do, and how it hands leadership over.
type Ensemble interface {
	// Reached lists the other members that vote and have answered the log within d. It
	// takes no lock that apply holds.
	Reached(d time.Duration) []uint32
	// Heir picks the one of them that is to lead next, but none that has led a short while
	// ago. It returns 0 if there is none. It takes no lock that apply holds.
	Heir(reached []uint32) uint32
	// HandOver asks raft to hand leadership over to a member, and waits until that has
	// happened, ctx ends or it is clear that it will not.
	HandOver(ctx context.Context, to uint32) error
}

// fitness shows whether this leader can do its work. raft goes on as long as its own port
// works, even if pings, proofs or writes do not arrive. Only expireLoop uses it.
type fitness struct {
	proving uint64    // the round that was under way, or next, when last looked
	proved  time.Time // when none was under way, or another was
}

// weigh hands over, in the background, if this leader has been unable to lead for the sync
// limit, and another member may be able to. Unable means that most of the members that the
// log reaches, itself included, are deaf to it, or that no proof round gets done while one
// of them is. A pause of this process proves nothing: every member is given the same time again.
func (l *Leader) weigh(now time.Time, late bool) {
	limit := time.Duration(l.cfg.SyncLimit) * l.cfg.Tick
	begun, done := l.proofs.state()
	if late || begun == done || begun != l.fitness.proving {
		l.fitness.proving, l.fitness.proved = begun, now
	}
	if late {
		for _, m := range l.links {
			m.excuse(now)
		}
		return
	}
	if l.cfg.Ensemble == nil {
		return
	}
	reached := l.cfg.Ensemble.Reached(l.cfg.Tick)
	deaf := 0
	for _, id := range reached {
		if m := l.links[id]; m != nil && m.deaf(now) >= limit {
			deaf++
		}
	}
	unproved := now.Sub(l.fitness.proved) >= limit
	if 2*deaf <= len(reached)+1 && (deaf == 0 || !unproved) {
		return
	}
	heir := l.cfg.Ensemble.Heir(reached)
	if heir == 0 {
		return
	}
	select {
	case l.handOver <- handOver{heir, len(reached), deaf, unproved}:
	default: // one is under way
	}
}

// handOver is a decision to hand over, and what it rests on.
type handOver struct {
	to            uint32
	reached, deaf int
	unproved      bool
}

// handOverLoop hands over when weigh says so. The term ends with raft's leadership; if the
// heir does not take it, this leader goes on.
func (l *Leader) handOverLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case h := <-l.handOver:
			l.log.Warn("this leader hands over: the log reaches members that do not answer its pings, or cannot send it writes",
				"to", h.to, "reached", h.reached, "deaf", h.deaf, "unproved", h.unproved)
			if err := l.cfg.Ensemble.HandOver(ctx, h.to); err != nil && ctx.Err() == nil {
				l.log.Warn("leadership not handed over", "to", h.to, "err", err)
			}
		}
	}
}

// deaf is for how long the member has not said that it can reach this leader.
func (m *link) deaf(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.fine)
}

func (m *link) excuse(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fine = now
}
