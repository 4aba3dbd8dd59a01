package leader

import (
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errGone = status.Error(codes.FailedPrecondition, "leader: the member is not in the ensemble any more")

// Member is a server of raft's latest configuration.
type Member struct {
	ID    uint32
	Disk  uint64 // whose proofs count
	Voter bool   // otherwise an observer, or a member that is still joining: it counts in no majority
}

// MembersChanged says that raft's configuration may be another one. It does not block.
func (l *Leader) MembersChanged() { signal(l.changed) }

// memberLoop keeps a pingLoop running for each member of raft's configuration, and for those that have
// just left it. It looks at the configuration when it is told to and every half tick.
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
		l.renewLinks(l.cfg.Monotonic.Now())
	}
}

// pinging is a pingLoop that runs.
type pinging struct {
	cancel  context.CancelFunc
	ended   chan struct{}
	parting bool // the member has left
}

// end ends the loop and waits for its end.
func (p *pinging) end() {
	p.cancel()
	<-p.ended
}

// startAndEnd starts a pingLoop for each member that has none, and ends those of members that have
// gone. When a member has left, its stream of writes is closed at once. When its loop has ended, nothing
// that is kept of the member is left.
func (l *Leader) startAndEnd(ctx context.Context, running map[*link]*pinging) {
	links := l.links.Load()
	for m, p := range running {
		if links.members[m.id] == m {
			continue
		}
		if !p.parting {
			p.parting = true
			l.intake.drop(m.id, errGone)
			l.forget(m.id)
		}
		if links.parting[m.id] != m {
			p.end()
			delete(running, m)
			l.forget(m.id) // an answer may have been under way when it left
		}
	}
	for m := range links.all() {
		if running[m] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		p := &pinging{cancel: cancel, ended: make(chan struct{})}
		running[m] = p
		go func() {
			defer close(p.ended)
			l.pingLoop(ctx, m)
		}()
	}
}

// forget drops what is kept of a member's answers.
func (l *Leader) forget(id uint32) {
	l.proofs.forget(id)
	l.compared.forget(id)
	l.clocks.forget(id)
}

// links are the links to all members that a leader pings, by id. It does not change.
type links struct {
	members map[uint32]*link // those of raft's configuration
	// parting are those that have left it a short time ago (Config.Parting). Such a member has clients
	// until it closes their connections, and what it hears from them counts. It counts for nothing else.
	parting map[uint32]*link
}

// all yields all of them.
func (s *links) all() iter.Seq[*link] {
	return func(yield func(*link) bool) {
		for _, of := range []map[uint32]*link{s.members, s.parting} {
			for _, m := range of {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// present returns the links to the members of raft's configuration, by id. The caller must not change
// the map.
func (l *Leader) present() map[uint32]*link { return l.links.Load().members }

// renewLinks makes a link for each member that has come, and drops those of members that have been gone
// for Config.Parting. One that comes back before gets another link. Only New and memberLoop call it.
func (l *Leader) renewLinks(now time.Time) {
	old := l.links.Load()
	if old == nil {
		old = &links{}
	}
	next := &links{members: map[uint32]*link{}, parting: map[uint32]*link{}}
	for _, m := range l.cfg.Members() {
		if next.members[m.ID] = old.members[m.ID]; next.members[m.ID] == nil {
			next.members[m.ID] = &link{id: m.ID, wake: make(chan struct{}, 1), fineAt: now, patience: l.cfg.Tick, redial: now.Add(l.cfg.Tick)}
		}
	}
	for m := range old.all() {
		if next.members[m.id] == nil && now.Sub(m.leave(now)) < l.cfg.Parting {
			next.parting[m.id] = m
		}
	}
	l.links.Store(next)
}

// leave records that the member is not in raft's configuration any more, and returns since when.
func (m *link) leave(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left.IsZero() {
		m.left = now
	}
	return m.left
}

// parts reports whether the member has left raft's configuration.
func (m *link) parts() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.left.IsZero()
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
