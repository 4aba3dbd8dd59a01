package member

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/proto"
)

const (
	// rebalanceRound is the time for which members close connections before all are counted again.
	rebalanceRound = 5 * time.Second
	// returnTime is the time that clients have to come back, most of them on another member, before they are counted: ZooKeeper's
	// clients wait up to a second.
	returnTime = 2 * time.Second
	// vainRounds limits the rounds in a row that leave as many clients on the wrong members. Clients that know the address of one
	// member alone come back to it.
	vainRounds = 3
	// rebalanceSlack is the excess over its share that a member may have, in percent, and leastSlack the same in clients.
	rebalanceSlack = 5
	leastSlack     = 2

	// autoEvery is the time between two rounds of a leader with autoRebalance. It closes connections for most of it, so a client
	// loses its connection to it at most once in that time.
	autoEvery = time.Minute
	// autoSlack and leastAutoSlack replace rebalanceSlack and leastSlack then: no operator has requested it, so a difference that does no
	// harm is left alone.
	autoSlack      = 20
	leastAutoSlack = 10
	// autoProgress is the least decrease of the excess that counts as progress, in percent. It is small, because a slow rate moves
	// few of thousands of clients in a round, and not 0, because the excess changes a little by itself.
	autoProgress = 2
	// maxAutoPause is the longest time between two rounds that do not help.
	maxAutoPause = time.Hour
)

// rebalancer moves clients from the members that have more than their share to the others. It is safe for concurrent use.
type rebalancer struct {
	m       *Member
	look    func(context.Context) (api.List[api.Member], error)    // asks all members
	ask     func(context.Context, request) (closed int, err error) // has a member close connections
	leads   atomic.Bool                                            // a rebalance that this member directs is under way
	closing atomic.Bool                                            // this member closes connections for one
}

// request asks a member to close n connections over a time. by says for whom.
type request struct {
	member uint32
	n      int
	over   time.Duration
	by     string
}

// load is the number of a member's clients.
type load struct {
	member  uint32
	clients int
}

// loadsOf returns the clients of the members that take clients, by id. A member that is drained, that copies the log, or whose
// state or disk has a fault is left out.
func loadsOf(rows []api.Member) (loads []load) {
	for _, r := range rows {
		serves := r.Role != "" && r.Role != api.ReadOnly && r.Clients != ""
		if serves && !r.Drained && !r.Joining && !r.Removed && r.Stalled == "" && r.Damaged == "" {
			loads = append(loads, load{r.Member, r.Sessions})
		}
	}
	return loads
}

// excess returns the number of clients that each member has above its share, if they are more than slack, in percent, and least. Shares
// differ by one client at most.
func excess(loads []load, slack, least int) (over []load) {
	if len(loads) < 2 {
		return nil
	}
	share := (clientsOf(loads) + len(loads) - 1) / len(loads)
	for _, l := range loads {
		if above := l.clients - share; above > max(share*slack/100, least-1) {
			over = append(over, load{l.member, above})
		}
	}
	return over
}

// clientsOf returns the sum of the loads.
func clientsOf(loads []load) (n int) {
	for _, l := range loads {
		n += l.clients
	}
	return n
}

// Rebalance implements admin.Operations.
func (o operations) Rebalance(ctx context.Context, perSecond int, by string) (admin.Rebalanced, error) {
	r := &rebalance{perSecond: perSecond, by: by}
	err := o.m.rebalancer.run(ctx, r)
	return r.done, err
}

// rebalance is one that is under way.
type rebalance struct {
	perSecond int // connections that a member closes in a second
	by        string

	mu   sync.Mutex
	done admin.Rebalanced
}

// row returns the row of a member, which it adds if there is none. The caller holds the lock.
func (r *rebalance) row(member uint32) *admin.RebalancedMember {
	i, found := slices.BinarySearchFunc(r.done.Members, member, func(m admin.RebalancedMember, id uint32) int { return cmp.Compare(m.Member, id) })
	if !found {
		r.done.Members = slices.Insert(r.done.Members, i, admin.RebalancedMember{Member: member, Before: -1})
	}
	return &r.done.Members[i]
}

// count records the number of each member's clients, and returns the members that have too many. The members are balanced if all that
// take clients replied, there are at least two, and none has too many.
func (r *rebalance) count(a api.List[api.Member]) (over []load) {
	loads := loadsOf(a.Items)
	over = excess(loads, rebalanceSlack, leastSlack)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Silent = a.Silent
	r.done.Balanced = len(over) == 0 && len(a.Silent) == 0 && len(loads) >= 2
	for _, l := range loads {
		row := r.row(l.member)
		if row.After = l.clients; row.Before < 0 {
			row.Before = l.clients
		}
	}
	for i := range r.done.Members {
		row := &r.done.Members[i]
		if !slices.ContainsFunc(over, func(l load) bool { return l.member == row.Member }) {
			row.Failed = "" // nobody asks it to close connections any more
		}
	}
	return over
}

// add records the connections that a member has closed in a round.
func (r *rebalance) add(member uint32, closed int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.row(member)
	r.done.Closed += closed
	row.Closed += closed
	if row.Failed = ""; err != nil {
		row.Failed = status.Convert(err).Message()
	}
}

// run moves clients, in rounds, until no member has more than its share, or the rounds no longer help. A poll of the members that fails, or
// that misses members, is a round in vain. It returns an error if the first poll fails, or if ctx ends.
func (b *rebalancer) run(ctx context.Context, r *rebalance) error {
	if !b.leads.CompareAndSwap(false, true) {
		return &admin.Failure{Status: http.StatusConflict, Text: "this member rebalances the clients already; wait until that is done"}
	}
	defer b.leads.Store(false)
	for first, best, vain := true, 0, 0; ; first = false {
		var over []load
		a, err := b.look(ctx)
		switch {
		case err == nil:
			over = r.count(a)
		case first:
			return err
		default:
			b.m.log.Warn("clients not counted for a rebalance", "by", r.by, "err", err)
		}
		switch wrong := clientsOf(over); {
		case r.done.Balanced:
			return nil
		case wrong > 0 && (best == 0 || wrong < best):
			best, vain = wrong, 0
		default:
			vain++
		}
		if vain == vainRounds {
			return nil
		}
		b.round(ctx, over, rebalanceRound, r)
		select {
		case <-ctx.Done():
			return &admin.Failure{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("the request ended after %d connections were closed; ask again to go on", r.done.Closed)}
		case <-time.After(returnTime):
		}
	}
}

// round has the members close the connections that they have too many, as many as the rate allows in a time.
func (b *rebalancer) round(ctx context.Context, over []load, longest time.Duration, r *rebalance) {
	var all sync.WaitGroup
	for _, l := range over {
		n := min(l.clients, r.perSecond*int(longest/time.Second))
		all.Go(func() {
			closed, err := b.ask(ctx, request{l.member, n, time.Duration(n) * time.Second / time.Duration(r.perSecond), r.by})
			r.add(l.member, closed, err)
		})
	}
	all.Wait()
}

// send has a member carry out a request, and returns the number of connections that it closed.
func (b *rebalancer) send(ctx context.Context, r request) (closed int, err error) {
	if r.member == b.m.cfg.ID {
		return b.close(ctx, r.n, r.over)
	}
	c, err := b.m.peers.follower(r.member)
	if err != nil {
		return 0, err
	}
	reply, err := c.Rebalance(ctx, &proto.RebalanceRequest{Connections: uint64(r.n), OverMs: uint64(r.over.Milliseconds()), By: r.by})
	return int(reply.GetConnections()), err
}

// close closes connections of this member's clients. It returns an error while another call does so.
func (b *rebalancer) close(ctx context.Context, n int, over time.Duration) (closed int, err error) {
	if !b.closing.CompareAndSwap(false, true) {
		return 0, status.Error(codes.Aborted, "this member closes connections for another rebalance already")
	}
	defer b.closing.Store(false)
	return b.m.server.CloseOldest(ctx, n, over), nil
}

// Rebalance implements proto.FollowerServer.
func (s services) Rebalance(ctx context.Context, r *proto.RebalanceRequest) (*proto.RebalanceReply, error) {
	n, over := boundsOf(r)
	s.m.log.Info("closing client connections for a rebalance that another member directs", "peer", caller(ctx), "by", r.GetBy(), "connections", n, "over", over)
	closed, err := s.m.rebalancer.close(ctx, n, over)
	if err != nil {
		return nil, err
	}
	return &proto.RebalanceReply{Connections: uint64(closed)}, nil
}

// boundsOf returns the number of connections that a request has this member close, and the time for that, within the bounds of the message.
func boundsOf(r *proto.RebalanceRequest) (n int, over time.Duration) {
	over = time.Duration(min(r.GetOverMs(), uint64(autoEvery.Milliseconds()))) * time.Millisecond
	most := uint64(over) * admin.MaxRebalanceRate / uint64(time.Second)
	return int(min(r.GetConnections(), most)), over
}

// loop moves clients slowly while this member leads, if autoRebalance is set. It waits autoEvery after the beginning of a term, so
// that the clients that an election has moved are back.
func (b *rebalancer) loop(ctx context.Context) error {
	perSecond := b.m.cfg.AutoRebalance
	if perSecond == 0 {
		return nil
	}
	var p patience
	led := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(autoEvery):
		}
		leads := b.m.node.Status().IsLeader()
		if led && leads {
			b.auto(ctx, perSecond, &p)
		}
		led = leads
	}
}

// auto makes one round if that is due, unless an operator's rebalance is under way.
func (b *rebalancer) auto(ctx context.Context, perSecond int, p *patience) {
	if !b.leads.CompareAndSwap(false, true) {
		return
	}
	defer b.leads.Store(false)
	r := &rebalance{perSecond: perSecond, by: fmt.Sprintf("autoRebalance of member %d", b.m.cfg.ID)}
	a, err := b.look(ctx)
	if err != nil {
		b.m.log.Warn("clients not counted for a rebalance", "by", r.by, "err", err)
		return
	}
	loads := loadsOf(a.Items)
	if len(a.Silent) > 0 || len(loads) < len(a.Items) { // a member that restarts is about to get its clients back
		return
	}
	over := excess(loads, autoSlack, leastAutoSlack)
	if len(over) == 0 || !p.due(time.Now(), loads, clientsOf(over)) {
		return
	}
	if p.vain == vainRounds {
		b.m.log.Warn("autoRebalance does not help, and closes connections less often from now on", "excess", clientsOf(over), "rounds", vainRounds)
	}
	b.round(ctx, over, autoEvery-returnTime, r)
	for _, m := range r.done.Members {
		if m.Failed != "" {
			b.m.log.Warn("a member closed no connections for autoRebalance", "peer", m.Member, "reason", m.Failed)
		}
	}
	if r.done.Closed > 0 {
		b.m.log.Info("autoRebalance has moved clients", "excess", clientsOf(over), "connections", r.done.Closed)
	}
}

// patience spaces the rounds of autoRebalance. Rounds that do not help become rare, because clients that know the address of one
// member alone come back to it each time. The zero value is ready. It is not safe for concurrent use.
type patience struct {
	members []uint32      // that take clients
	clients int           // that the members had together when the fields below were set anew
	least   int           // excess at that time
	vain    int           // rounds in a row that have left clearly as many since then
	pause   time.Duration // between the beginnings of two rounds
	next    time.Time     // when the next round is due
}

// due reports whether a round is due, and notes it. above is the excess of the loads, and not 0. If the members, all clients or the
// excess have changed clearly, a round is due at once, and the next ones as often as at first.
func (p *patience) due(now time.Time, loads []load, above int) bool {
	var members []uint32
	for _, l := range loads {
		members = append(members, l.member)
	}
	clients := clientsOf(loads)
	switch {
	case !slices.Equal(members, p.members), differ(clients, p.clients, autoSlack, leastAutoSlack),
		above < p.least && differ(above, p.least, autoProgress, leastSlack), differ(above, p.least, autoSlack, leastAutoSlack):
		*p = patience{members: members, clients: clients, least: above, pause: autoEvery}
	case now.Before(p.next):
		return false
	default:
		if p.vain++; p.vain >= vainRounds {
			p.pause = min(2*p.pause, maxAutoPause)
		}
	}
	p.next = now.Add(p.pause)
	return true
}

// differ reports whether n differs from was by slack, in percent, and by least.
func differ(n, was, slack, least int) bool {
	return max(n-was, was-n) >= max(was*slack/100, least)
}
