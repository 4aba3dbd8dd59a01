package follower

import (
	"context"
	"sync"
	"time"
)

// probesPerTick is how often in a tick the leader is asked to answer, on the connection on which
// this member forwards. Writes are answered only through the log, so only a probe tells a
// connection that the network has dropped from an idle one.
const probesPerTick = 2

// probeLoop probes the leader of t while a link to it is open, until ctx ends. A probe may take a
// tick. If it fails, Config.Probe has closed the connection, and the link ends with it.
func (f *Follower) probeLoop(ctx context.Context, t *term) {
	for ctx.Err() == nil {
		probe, cancel := context.WithTimeout(ctx, f.cfg.Tick)
		err := f.cfg.Probe(probe, t.Leader)
		cancel()
		if err == nil {
			t.reach(f.cfg.Monotonic.Now())
		}
		select {
		case <-ctx.Done():
		case <-time.After(f.cfg.Tick / probesPerTick):
		}
	}
}

// reached is when the leader of a term last answered a probe, or when raft last had no contact with
// it.
type reached struct {
	mu sync.Mutex
	at time.Time
}

func (r *reached) reach(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = now
}

// since returns how long ago that was.
func (r *reached) since(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.at)
}

// unlinked returns for how long this member has not reached the Leader service of the leader that
// it knows. It returns 0 if it knows none in raft's term, or leads itself.
func (f *Follower) unlinked(now time.Time) time.Duration {
	t := f.leadership()
	if t.Leader == f.cfg.Self || !f.isCurrent(t) {
		return 0
	}
	return t.reached.since(now)
}

// cutUnlinked closes the connections of all clients if raft reaches the leader, but this member has
// not reached the leader's service for the sync limit. While that lasts, writes wait here, even if
// pings keep the sessions alive. Through another member the clients may reach the leader. If there is
// no leader, cutUnlinked closes nothing, because no other member would be better.
func (f *Follower) cutUnlinked(now time.Time) {
	if t := f.leadership(); f.cfg.RaftLeader() != t.Leader {
		t.reach(now)
	}
	if f.unlinked(now) < time.Duration(f.cfg.SyncLimit)*f.cfg.Tick {
		return
	}
	held := f.leases.all()
	for id, conn := range held {
		f.cfg.Clients.Cut(id, conn, ErrNoLink)
	}
	if len(held) > 0 {
		f.count.unlinked.Add(uint64(len(held)))
		f.log.Warn("no link to the leader for the sync limit: clients' connections closed", "count", len(held))
	}
}
