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
	// rebalanceRoundTime is the time for which members close connections before all are counted again.
	rebalanceRoundTime = 5 * time.Second
	// clientReturnTime is the time that clients have to come back, most of them on another member, before they are counted: ZooKeeper's
	// clients wait up to a second.
	clientReturnTime = 2 * time.Second
	// maxVainRounds limits the rounds in a row that leave as many clients on the wrong members. Clients that know the address of one
	// member alone come back to it.
	maxVainRounds = 3
	// slackPercent is the excess over its share that a member may have, in percent, and leastSlack the same in clients.
	slackPercent    = 5
	minSlackClients = 2

	// autoRebalanceInterval is the time between two rounds of a leader with autoRebalance. It closes connections for most of it, so a client
	// loses its connection to it at most once in that time.
	autoRebalanceInterval = time.Minute
	// autoSlackPercent and leastAutoSlack replace rebalanceSlack and leastSlack then: no operator has requested it, so a difference that does no
	// harm is left alone.
	autoSlackPercent    = 20
	minAutoSlackClients = 10
	// autoProgressPercent is the least decrease of the excess that counts as progress, in percent. It is small, because a slow rate moves
	// few of thousands of clients in a round, and not 0, because the excess changes a little by itself.
	autoProgressPercent = 2
	// maxAutoRebalanceInterval is the longest time between two rounds that do not help.
	maxAutoRebalanceInterval = time.Hour
)

// rebalancer moves clients from the members that have more than their share to the others. It is safe for concurrent use.
type rebalancer struct {
	m             *Member
	pollMembers   func(context.Context) (api.List[api.Member], error)         // asks all members
	requestCloses func(context.Context, closeRequest) (closed int, err error) // has a member close connections
	directing     atomic.Bool                                                 // a rebalance that this member directs is under way
	closingConns  atomic.Bool                                                 // this member closes connections for one
}

// closeRequest asks a member to close n connections over a time. by says for whom.
type closeRequest struct {
	member      uint32
	connections int
	period      time.Duration
	requestedBy string
}

// memberLoad is the number of a member's clients.
type memberLoad struct {
	member  uint32
	clients int
}

// memberLoads returns the clients of the members that take clients, by id. A member that is drained, that copies the log, or whose
// state or disk has a fault is left out.
func memberLoads(rows []api.Member) (loads []memberLoad) {
	for _, r := range rows {
		serves := r.Role != "" && r.Role != api.RoleReadOnly && r.ClientAddress != ""
		if serves && !r.IsDrained && !r.IsJoining && !r.WasRemoved && r.StallReason == "" && r.DamageReason == "" {
			loads = append(loads, memberLoad{r.MemberID, r.Sessions})
		}
	}
	return loads
}

// excessLoads returns the number of clients that each member has above its share, if they are more than slack, in percent, and least. Shares
// differ by one client at most.
func excessLoads(loads []memberLoad, slack, least int) (over []memberLoad) {
	if len(loads) < 2 {
		return nil
	}
	share := (totalClients(loads) + len(loads) - 1) / len(loads)
	for _, l := range loads {
		if above := l.clients - share; above > max(share*slack/100, least-1) {
			over = append(over, memberLoad{l.member, above})
		}
	}
	return over
}

// totalClients returns the sum of the loads.
func totalClients(loads []memberLoad) (n int) {
	for _, l := range loads {
		n += l.clients
	}
	return n
}

// Rebalance implements admin.Operations.
func (o operations) Rebalance(ctx context.Context, perSecond int, by string) (admin.RebalanceResult, error) {
	r := &rebalanceRun{perSecond: perSecond, requestedBy: by}
	err := o.m.rebalancer.rebalanceClients(ctx, r)
	return r.result, err
}

// rebalanceRun is one that is under way.
type rebalanceRun struct {
	perSecond   int // connections that a member closes in a second
	requestedBy string

	mu     sync.Mutex
	result admin.RebalanceResult
}

// memberRow returns the row of a member, which it adds if there is none. The caller holds the lock.
func (r *rebalanceRun) memberRow(member uint32) *admin.RebalancedMember {
	i, found := slices.BinarySearchFunc(r.result.Members, member, func(m admin.RebalancedMember, id uint32) int { return cmp.Compare(m.Member, id) })
	if !found {
		r.result.Members = slices.Insert(r.result.Members, i, admin.RebalancedMember{Member: member, ClientsBefore: -1})
	}
	return &r.result.Members[i]
}

// recordLoads records the number of each member's clients, and returns the members that have too many. The members are balanced if all that
// take clients replied, there are at least two, and none has too many.
func (r *rebalanceRun) recordLoads(a api.List[api.Member]) (over []memberLoad) {
	loads := memberLoads(a.Items)
	over = excessLoads(loads, slackPercent, minSlackClients)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Silent = a.Silent
	r.result.Balanced = len(over) == 0 && len(a.Silent) == 0 && len(loads) >= 2
	for _, l := range loads {
		row := r.memberRow(l.member)
		if row.ClientsAfter = l.clients; row.ClientsBefore < 0 {
			row.ClientsBefore = l.clients
		}
	}
	for i := range r.result.Members {
		row := &r.result.Members[i]
		if !slices.ContainsFunc(over, func(l memberLoad) bool { return l.member == row.Member }) {
			row.FailureReason = "" // nobody asks it to close connections any more
		}
	}
	return over
}

// recordClosed records the connections that a member has closed in a round.
func (r *rebalanceRun) recordClosed(member uint32, closed int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.memberRow(member)
	r.result.ClosedConnections += closed
	row.ClosedConnections += closed
	if row.FailureReason = ""; err != nil {
		row.FailureReason = status.Convert(err).Message()
	}
}

// rebalanceClients moves clients, in rounds, until no member has more than its share, or the rounds no longer help. A poll of the members that fails, or
// that misses members, is a round in vain. It returns an error if the first poll fails, or if ctx ends.
func (b *rebalancer) rebalanceClients(ctx context.Context, r *rebalanceRun) error {
	if !b.directing.CompareAndSwap(false, true) {
		return &admin.Failure{Status: http.StatusConflict, Text: "this member rebalances the clients already; wait until that is done"}
	}
	defer b.directing.Store(false)
	for first, best, vain := true, 0, 0; ; first = false {
		var over []memberLoad
		a, err := b.pollMembers(ctx)
		switch {
		case err == nil:
			over = r.recordLoads(a)
		case first:
			return err
		default:
			b.m.log.Warn("clients not counted for a rebalance", "by", r.requestedBy, "err", err)
		}
		switch wrong := totalClients(over); {
		case r.result.Balanced:
			return nil
		case wrong > 0 && (best == 0 || wrong < best):
			best, vain = wrong, 0
		default:
			vain++
		}
		if vain == maxVainRounds {
			return nil
		}
		b.closeExcess(ctx, over, rebalanceRoundTime, r)
		select {
		case <-ctx.Done():
			return &admin.Failure{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("the request ended after %d connections were closed; ask again to go on", r.result.ClosedConnections)}
		case <-time.After(clientReturnTime):
		}
	}
}

// closeExcess has the members close the connections that they have too many, as many as the rate allows in a time.
func (b *rebalancer) closeExcess(ctx context.Context, over []memberLoad, longest time.Duration, r *rebalanceRun) {
	var all sync.WaitGroup
	for _, l := range over {
		n := min(l.clients, r.perSecond*int(longest/time.Second))
		all.Go(func() {
			closed, err := b.requestCloses(ctx, closeRequest{l.member, n, time.Duration(n) * time.Second / time.Duration(r.perSecond), r.requestedBy})
			r.recordClosed(l.member, closed, err)
		})
	}
	all.Wait()
}

// sendCloseRequest has a member carry out a request, and returns the number of connections that it closed.
func (b *rebalancer) sendCloseRequest(ctx context.Context, r closeRequest) (closed int, err error) {
	if r.member == b.m.cfg.ID {
		return b.closeConnections(ctx, r.connections, r.period)
	}
	c, err := b.m.peerConns.followerClient(r.member)
	if err != nil {
		return 0, err
	}
	reply, err := c.Rebalance(ctx, &proto.RebalanceRequest{Connections: uint64(r.connections), OverMs: uint64(r.period.Milliseconds()), By: r.requestedBy})
	return int(reply.GetConnections()), err
}

// closeConnections closes connections of this member's clients. It returns an error while another call does so.
func (b *rebalancer) closeConnections(ctx context.Context, n int, over time.Duration) (closed int, err error) {
	if !b.closingConns.CompareAndSwap(false, true) {
		return 0, status.Error(codes.Aborted, "this member closes connections for another rebalance already")
	}
	defer b.closingConns.Store(false)
	return b.m.server.CloseOldest(ctx, n, over), nil
}

// Rebalance implements proto.FollowerServer.
func (s services) Rebalance(ctx context.Context, r *proto.RebalanceRequest) (*proto.RebalanceReply, error) {
	n, over := boundedRequest(r)
	s.m.log.Info("closing client connections for a rebalance that another member directs", "peer", callerID(ctx), "by", r.GetBy(), "connections", n, "over", over)
	closed, err := s.m.rebalancer.closeConnections(ctx, n, over)
	if err != nil {
		return nil, err
	}
	return &proto.RebalanceReply{Connections: uint64(closed)}, nil
}

// boundedRequest returns the number of connections that a request has this member close, and the time for that, within the bounds of the message.
func boundedRequest(r *proto.RebalanceRequest) (n int, over time.Duration) {
	over = time.Duration(min(r.GetOverMs(), uint64(autoRebalanceInterval.Milliseconds()))) * time.Millisecond
	most := uint64(over) * admin.MaxRebalanceRate / uint64(time.Second)
	return int(min(r.GetConnections(), most)), over
}

// autoRebalanceLoop moves clients slowly while this member leads, if autoRebalance is set. It waits autoEvery after the beginning of a term, so
// that the clients that an election has moved are back.
func (b *rebalancer) autoRebalanceLoop(ctx context.Context) error {
	perSecond := b.m.cfg.AutoRebalance
	if perSecond == 0 {
		return nil
	}
	var p rebalanceBackoff
	led := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(autoRebalanceInterval):
		}
		leads := b.m.node.Status().IsLeader()
		if led && leads {
			b.autoRebalanceRound(ctx, perSecond, &p)
		}
		led = leads
	}
}

// autoRebalanceRound makes one round if that is due, unless an operator's rebalance is under way.
func (b *rebalancer) autoRebalanceRound(ctx context.Context, perSecond int, p *rebalanceBackoff) {
	if !b.directing.CompareAndSwap(false, true) {
		return
	}
	defer b.directing.Store(false)
	r := &rebalanceRun{perSecond: perSecond, requestedBy: fmt.Sprintf("autoRebalance of member %d", b.m.cfg.ID)}
	a, err := b.pollMembers(ctx)
	if err != nil {
		b.m.log.Warn("clients not counted for a rebalance", "by", r.requestedBy, "err", err)
		return
	}
	loads := memberLoads(a.Items)
	if len(a.Silent) > 0 || len(loads) < len(a.Items) { // a member that restarts is about to get its clients back
		return
	}
	over := excessLoads(loads, autoSlackPercent, minAutoSlackClients)
	if len(over) == 0 || !p.roundDue(time.Now(), loads, totalClients(over)) {
		return
	}
	if p.vainRounds == maxVainRounds {
		b.m.log.Warn("autoRebalance does not help, and closes connections less often from now on", "excess", totalClients(over), "rounds", maxVainRounds)
	}
	b.closeExcess(ctx, over, autoRebalanceInterval-clientReturnTime, r)
	for _, m := range r.result.Members {
		if m.FailureReason != "" {
			b.m.log.Warn("a member closed no connections for autoRebalance", "peer", m.Member, "reason", m.FailureReason)
		}
	}
	if r.result.ClosedConnections > 0 {
		b.m.log.Info("autoRebalance has moved clients", "excess", totalClients(over), "connections", r.result.ClosedConnections)
	}
}

// rebalanceBackoff spaces the rounds of autoRebalance. Rounds that do not help become rare, because clients that know the address of one
// member alone come back to it each time. The zero value is ready. It is not safe for concurrent use.
type rebalanceBackoff struct {
	lastMembers   []uint32      // that take clients
	lastClients   int           // that the members had together when the fields below were set anew
	leastExcess   int           // excess at that time
	vainRounds    int           // rounds in a row that have left clearly as many since then
	roundInterval time.Duration // between the beginnings of two rounds
	nextRound     time.Time     // when the next round is due
}

// roundDue reports whether a round is due, and notes it. above is the excess of the loads, and not 0. If the members, all clients or the
// excess have changed clearly, a round is due at once, and the next ones as often as at first.
func (p *rebalanceBackoff) roundDue(now time.Time, loads []memberLoad, above int) bool {
	var members []uint32
	for _, l := range loads {
		members = append(members, l.member)
	}
	clients := totalClients(loads)
	switch {
	case !slices.Equal(members, p.lastMembers), differsBy(clients, p.lastClients, autoSlackPercent, minAutoSlackClients),
		above < p.leastExcess && differsBy(above, p.leastExcess, autoProgressPercent, minSlackClients), differsBy(above, p.leastExcess, autoSlackPercent, minAutoSlackClients):
		*p = rebalanceBackoff{lastMembers: members, lastClients: clients, leastExcess: above, roundInterval: autoRebalanceInterval}
	case now.Before(p.nextRound):
		return false
	default:
		if p.vainRounds++; p.vainRounds >= maxVainRounds {
			p.roundInterval = min(2*p.roundInterval, maxAutoRebalanceInterval)
		}
	}
	p.nextRound = now.Add(p.roundInterval)
	return true
}

// differsBy reports whether n differs from was by slack, in percent, and by least.
func differsBy(n, was, slack, least int) bool {
	return max(n-was, was-n) >= max(was*slack/100, least)
}
