package leader

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errGone = status.Error(codes.FailedPrecondition, "leader: the member is not in the ensemble any more")

// Member is a server of raft's latest configuration.
type Member struct {
	ID    uint32
	Voter bool // otherwise an observer, or a member that is still joining: it counts in no majority
}

// MembersChanged says that raft's configuration may be another one. It does not block.
func (l *Leader) MembersChanged() { signal(l.changed) }

// memberLoop keeps a pingLoop running for each member of raft's configuration. It looks at the
// configuration when it is told to and every half tick.
func (l *Leader) memberLoop(ctx context.Context) error {
	ticker := time.NewTicker(l.cfg.Tick / 2)
	defer ticker.Stop()
	running := map[*link]*pinging{}
	defer func() {
		for _, p := range running {
			p.end() // all of them have seen the end of ctx by now, so this waits for the last one only
		}
	}()
	for {
		l.startAndEnd(ctx, running)
		if l.proofs.recount(l.configuration) {
			l.wakeAll()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-l.changed:
		}
		l.renewLinks(time.Now())
	}
}

// pinging is a pingLoop that runs.
type pinging struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// end ends the loop and waits for its end.
func (p *pinging) end() {
	p.cancel()
	<-p.ended
}

// startAndEnd starts a pingLoop for each member that has none, and ends those of members that have
// gone. When the loop of a member has ended, nothing that is kept of the member is left.
func (l *Leader) startAndEnd(ctx context.Context, running map[*link]*pinging) {
	links := l.present()
	for m, p := range running {
		if links[m.id] == m {
			continue
		}
		p.end()
		delete(running, m)
		l.intake.drop(m.id, errGone)
		l.proofs.forget(m.id)
		l.compared.forget(m.id)
		l.clocks.forget(m.id)
	}
	for _, m := range links {
		if running[m] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		p := &pinging{cancel, make(chan struct{})}
		running[m] = p
		go func() {
			defer close(p.ended)
			l.pingLoop(ctx, m)
		}()
	}
}

// present returns the links to the members that this leader pings, by id. The caller must not change
// the map.
func (l *Leader) present() map[uint32]*link { return *l.links.Load() }

// renewLinks makes a link for each member that has come, and drops those of members that have gone.
// Only New and memberLoop call it.
func (l *Leader) renewLinks(now time.Time) {
	members := l.cfg.Members()
	links := make(map[uint32]*link, len(members))
	var old map[uint32]*link
	if p := l.links.Load(); p != nil {
		old = *p
	}
	for _, m := range members {
		if links[m.ID] = old[m.ID]; links[m.ID] == nil {
			links[m.ID] = &link{id: m.ID, wake: make(chan struct{}, 1), fineAt: now, patience: l.cfg.Tick, redial: now.Add(l.cfg.Tick)}
		}
	}
	l.links.Store(&links)
}

// isMember reports whether raft's configuration has the member.
func (l *Leader) isMember(id uint32) bool {
	return slices.ContainsFunc(l.cfg.Members(), func(m Member) bool { return m.ID == id })
}

// voters returns the members whose votes make a majority.
func (l *Leader) voters() (ids []uint32) {
	for _, m := range l.cfg.Members() {
		if m.Voter {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
