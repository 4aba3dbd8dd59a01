package leader

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errMemberLeft = status.Error(codes.FailedPrecondition, "leader: the member is not in the ensemble any more")

// pinger pings every member and keeps what the members reply. Its loops run until the term ends.
type pinger struct {
	cfg        *Config
	log        *slog.Logger
	termBegun  time.Time
	membership *membership
	proofs     *proofs
	lost       *lostMembers
	compared   *comparison
	clocks     *clocks
	intake     *intake

	membersChanged chan struct{} // capacity 1
	newestPing     atomic.Uint64 // its number
	replyArrived   chan struct{} // capacity 1
}

// memberLoop keeps a pingLoop running for each route of each member of raft's configuration, and for those that have
// just left it. It reads the configuration after RereadMembers and every half tick.
func (p *pinger) memberLoop(ctx context.Context) error {
	ticker := time.NewTicker(p.cfg.Tick / 2)
	defer ticker.Stop()
	running := map[*link]*pingTask{}
	defer func() {
		for _, loop := range running {
			loop.endAndWait() // ctx has ended for all of them, so this waits for the last one only
		}
	}()
	for {
		p.updatePingLoops(ctx, running)
		if p.proofs.completeIfNowProved(p.membership.countedMembers) {
			p.membership.wakeAll()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-p.membersChanged:
		}
		p.membership.renewLinks(p.cfg.Monotonic.Now())
	}
}

// pingTask is a member's loops (pingLoop), which run.
type pingTask struct {
	cancel  context.CancelFunc
	ended   chan struct{}
	parting bool // the member has left
}

func (p *pingTask) endAndWait() {
	p.cancel()
	<-p.ended
}

// updatePingLoops starts a pingLoop for each route of each member that has none, and ends those of members that have
// gone. When a member has left, its stream of writes is closed at once. When its loop has ended, nothing of the
// member is kept.
func (p *pinger) updatePingLoops(ctx context.Context, running map[*link]*pingTask) {
	links := p.membership.links.Load()
	for m, loop := range running {
		if links.members[m.id] == m {
			continue
		}
		if !loop.parting {
			loop.parting = true
			p.intake.endStream(m.id, errMemberLeft)
			p.forgetReplies(m.id)
		}
		if links.parting[m.id] != m {
			loop.endAndWait()
			delete(running, m)
			p.forgetReplies(m.id) // a reply may have been under way when it left
		}
	}
	for m := range links.all() {
		if running[m] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		loop := &pingTask{cancel: cancel, ended: make(chan struct{})}
		running[m] = loop
		go func() {
			defer close(loop.ended)
			var routes sync.WaitGroup
			for _, r := range m.routes {
				routes.Go(func() { p.pingLoop(ctx, m, r) })
			}
			routes.Wait()
		}()
	}
}

func (p *pinger) forgetReplies(id uint32) {
	p.proofs.forgetMember(id)
	p.compared.forgetMember(id)
	p.clocks.forgetMember(id)
}

// pingAll pings every member, and returns the number of the ping.
func (p *pinger) pingAll() uint64 {
	number := p.newestPing.Add(1)
	p.membership.wakeAll()
	return number
}

// allReplied reports whether every reachable member has replied to the ping. A member that has sent nothing for a
// tick, the time of two pings, is unreachable.
func (p *pinger) allReplied(number uint64, now time.Time) bool {
	for m := range p.membership.links.Load().all() {
		m.mu.Lock()
		replied := m.repliedPing >= number || !m.lastHeard.IsZero() && now.Sub(m.lastHeard) > p.cfg.Tick
		m.mu.Unlock()
		if !replied {
			return false
		}
	}
	return true
}

// closeSilentConns closes the connections to members that have sent nothing for a tick, the time of two
// pings. The network may have dropped such a connection, and everything sent on it is then lost
// without an error. If a member does not reply on the next connection either, its time doubles, up to the
// sync limit. If this process itself was paused, every member gets another tick.
func (p *pinger) closeSilentConns(now time.Time, late bool) {
	if p.cfg.CloseConnection == nil {
		return
	}
	for _, m := range p.membership.presentLinks() {
		if m.id == p.cfg.Self {
			continue
		}
		for _, r := range m.routes {
			if m.redialDue(r, now, p.cfg.Tick, p.cfg.SyncLimit, late) {
				p.cfg.CloseConnection(m.id, r.number)
			}
		}
	}
}

// endSilentStreams ends the streams of members that have sent nothing for the sync limit, because their
// connection may be dead. They are opened again. If this process was paused, every member gets the
// full time again.
func (p *pinger) endSilentStreams(now time.Time, late bool) {
	limit := time.Duration(p.cfg.SyncLimit) * p.cfg.Tick
	for _, m := range p.membership.presentLinks() {
		m.mu.Lock()
		silent := !m.lastHeard.IsZero() && now.Sub(m.lastHeard) >= limit && !late
		if silent || late {
			m.lastHeard = now
		}
		m.mu.Unlock()
		if !silent {
			continue
		}
		p.logUnreachable(m, errMemberSilent)
		m.closeStreams()
		p.intake.endStream(m.id, errMemberSilent)
	}
}
