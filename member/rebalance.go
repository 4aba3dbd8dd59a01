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
	// rebalanceRoundTime is the time for which members close connections in one round.
	rebalanceRoundTime = 5 * time.Second
	// clientReturnTime is the time for clients to reconnect, mostly to other members, before they are counted: ZooKeeper's
	// clients wait up to a second.
	clientReturnTime = 2 * time.Second
	// maxVainRounds limits the consecutive rounds without progress. Clients that know only one member come back to it.
	maxVainRounds = 3
	// slackPercent and minSlackClients are the allowed excess of a member over its share, in percent and in clients.
	slackPercent    = 5
	minSlackClients = 2

	// autoRebalanceInterval is the time between two rounds of autoRebalance. A round takes most of it, so a client
	// loses its connection to autoRebalance at most once in that time.
	autoRebalanceInterval = time.Minute
	// autoSlackPercent and minAutoSlackClients replace slackPercent and minSlackClients for autoRebalance. They
	// are larger, because no operator waits for it.
	autoSlackPercent    = 20
	minAutoSlackClients = 10
	// autoProgressPercent is the minimum decrease of the excess that counts as progress, in percent. It is small,
	// because a slow rate moves few of thousands of clients in a round, and not 0, because the excess fluctuates.
	autoProgressPercent = 2
	// maxAutoRebalanceInterval limits the time between two rounds without progress.
	maxAutoRebalanceInterval = time.Hour
)

// rebalancer moves clients from the members that have more than their share to the others. It is safe for
// concurrent use.
type rebalancer struct {
	m             *Member
	pollMembers   func(context.Context) (api.List[api.Member], error)         // queries all members
	requestCloses func(context.Context, closeRequest) (closed int, err error) // makes a member close connections
	directing     atomic.Bool                                                 // this member directs a rebalance
	closingConns  atomic.Bool                                                 // this member closes connections for one
}

// closeRequest is a request to a member to close connections, spread over a period.
type closeRequest struct {
	member      uint32
	connections int
	period      time.Duration
	requestedBy string
}

type memberLoad struct {
	member  uint32
	clients int
}

// memberLoads returns the loads of the members that serve clients, by id. It omits members that are drained or
// joining, or that have a faulty state or disk.
func memberLoads(rows []api.Member) (loads []memberLoad) {
	for _, r := range rows {
		serves := r.Role != "" && r.Role != api.RoleReadOnly && r.ClientAddress != ""
		if serves && !r.IsDrained && !r.IsJoining && !r.WasRemoved && r.StallReason == "" && r.DamageReason == "" {
			loads = append(loads, memberLoad{r.MemberID, r.Sessions})
		}
	}
	return loads
}

// excessLoads returns the clients of each member above its share, if there are more than slack percent of the
// share and at least least. All shares are rounded up.
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

// rebalanceRun is a rebalance in progress.
type rebalanceRun struct {
	perSecond   int // connections that each member closes per second
	requestedBy string

	mu     sync.Mutex
	result admin.RebalanceResult
}

// ensureMemberRow returns the row of a member, and adds it if there is none. The caller holds the lock.
func (r *rebalanceRun) ensureMemberRow(member uint32) *admin.RebalancedMember {
	i, found := slices.BinarySearchFunc(r.result.Members, member,
		func(m admin.RebalancedMember, id uint32) int { return cmp.Compare(m.Member, id) })
	if !found {
		r.result.Members = slices.Insert(r.result.Members, i, admin.RebalancedMember{Member: member, ClientsBefore: -1})
	}
	return &r.result.Members[i]
}

// recordLoads records the loads of the members, and returns the excess ones. The members are balanced if all
// replied, at least two serve clients, and none has an excess.
func (r *rebalanceRun) recordLoads(a api.List[api.Member]) (over []memberLoad) {
	loads := memberLoads(a.Items)
	over = excessLoads(loads, slackPercent, minSlackClients)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Silent = a.Silent
	r.result.Balanced = len(over) == 0 && len(a.Silent) == 0 && len(loads) >= 2
	for _, l := range loads {
		row := r.ensureMemberRow(l.member)
		if row.ClientsAfter = l.clients; row.ClientsBefore < 0 {
			row.ClientsBefore = l.clients
		}
	}
	for i := range r.result.Members {
		row := &r.result.Members[i]
		if !slices.ContainsFunc(over, func(l memberLoad) bool { return l.member == row.Member }) {
			row.FailureReason = "" // it gets no more requests
		}
	}
	return over
}

// recordClosed records the connections that a member has closed in a round.
func (r *rebalanceRun) recordClosed(member uint32, closed int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.ensureMemberRow(member)
	r.result.ClosedConnections += closed
	row.ClosedConnections += closed
	if row.FailureReason = ""; err != nil {
		row.FailureReason = status.Convert(err).Message()
	}
}

// rebalanceClients moves clients, in rounds, until the members are balanced or maxVainRounds make no progress.
// A poll that fails or misses members makes no progress. It returns an error if the first poll fails or ctx
// ends.
func (b *rebalancer) rebalanceClients(ctx context.Context, r *rebalanceRun) error {
	if !b.directing.CompareAndSwap(false, true) {
		return &admin.Failure{
			Status: http.StatusConflict,
			Text:   "this member is rebalancing the clients already; wait until that is done",
		}
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
			return &admin.Failure{
				Status: http.StatusServiceUnavailable,
				Text: fmt.Sprintf("the request ended after %d connections were closed; repeat it to continue",
					r.result.ClosedConnections),
			}
		case <-time.After(clientReturnTime):
		}
	}
}

// closeExcess makes the members close their excess connections, as many as the rate allows in longest.
func (b *rebalancer) closeExcess(ctx context.Context, over []memberLoad, longest time.Duration, r *rebalanceRun) {
	var all sync.WaitGroup
	for _, l := range over {
		n := min(l.clients, r.perSecond*int(longest/time.Second))
		all.Go(func() {
			closed, err := b.requestCloses(ctx,
				closeRequest{l.member, n, time.Duration(n) * time.Second / time.Duration(r.perSecond), r.requestedBy})
			r.recordClosed(l.member, closed, err)
		})
	}
	all.Wait()
}

// sendCloseRequest sends a request to a member, and returns the number of connections that it closed.
func (b *rebalancer) sendCloseRequest(ctx context.Context, r closeRequest) (closed int, err error) {
	if r.member == b.m.cfg.ID {
		return b.closeConnections(ctx, r.connections, r.period)
	}
	c, err := b.m.peerConns.followerClient(r.member)
	if err != nil {
		return 0, err
	}
	reply, err := c.Rebalance(ctx,
		&proto.RebalanceRequest{
			Connections: uint64(r.connections), OverMs: uint64(r.period.Milliseconds()),
			Operator: r.requestedBy,
		})
	return int(reply.GetConnections()), err
}

// closeConnections closes connections of this member's clients. It returns an error during another call.
func (b *rebalancer) closeConnections(ctx context.Context, n int, over time.Duration) (closed int, err error) {
	if !b.closingConns.CompareAndSwap(false, true) {
		return 0, status.Error(codes.Aborted, "this member is closing connections already, for a rebalance or for shed_connections; repeat it later")
	}
	defer b.closingConns.Store(false)
	return b.m.server.CloseOldest(ctx, n, over), nil
}

// ShedConnections implements admin.Operations.
func (o operations) ShedConnections(ctx context.Context, percentage int) (closed int, err error) {
	n := (o.m.server.Stats().Sessions*percentage + 99) / 100
	closed, err = o.m.rebalancer.closeConnections(ctx, n, time.Duration(n)*time.Second/admin.MaxRebalanceRate)
	if err != nil {
		return 0, &admin.Failure{Status: http.StatusConflict, Text: status.Convert(err).Message() + "; try again later"}
	}
	return closed, nil
}

// Rebalance implements proto.FollowerServer.
func (s services) Rebalance(ctx context.Context, r *proto.RebalanceRequest) (*proto.RebalanceReply, error) {
	n, over := clampCloseRequest(r)
	s.m.log.Info("closing client connections for a rebalance that another member directs", "peer", callerID(ctx), "by",
		r.GetOperator(), "connections", n, "over", over)
	closed, err := s.m.rebalancer.closeConnections(ctx, n, over)
	if err != nil {
		return nil, err
	}
	return &proto.RebalanceReply{Connections: uint64(closed)}, nil
}

// clampCloseRequest returns the number of connections and the time in a request, within the limits of this member.
func clampCloseRequest(r *proto.RebalanceRequest) (n int, over time.Duration) {
	over = time.Duration(min(r.GetOverMs(), uint64(autoRebalanceInterval.Milliseconds()))) * time.Millisecond
	most := uint64(over) * admin.MaxRebalanceRate / uint64(time.Second)
	return int(min(r.GetConnections(), most)), over
}

// autoRebalanceLoop moves clients slowly while this member leads, if autoRebalance is set. It waits
// autoRebalanceInterval at the start of a term, until clients that an election has moved are back.
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

// autoRebalanceRound makes a round if one is due, unless an operator's rebalance is in progress.
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
	if len(a.Silent) > 0 || len(loads) < len(a.Items) { // a restarting member is about to get its clients back
		return
	}
	over := excessLoads(loads, autoSlackPercent, minAutoSlackClients)
	if len(over) == 0 || !p.startRoundIfDue(time.Now(), loads, totalClients(over)) {
		return
	}
	if p.vainRounds == maxVainRounds {
		b.m.log.Warn("autoRebalance does not help, and closes connections less often from now on", "excess",
			totalClients(over), "rounds", maxVainRounds)
	}
	b.closeExcess(ctx, over, autoRebalanceInterval-clientReturnTime, r)
	for _, m := range r.result.Members {
		if m.FailureReason != "" {
			b.m.log.Warn("a member closed no connections for autoRebalance", "peer", m.Member, "reason", m.FailureReason)
		}
	}
	if r.result.ClosedConnections > 0 {
		b.m.log.Info("autoRebalance has moved clients", "excess", totalClients(over), "connections",
			r.result.ClosedConnections)
	}
}

// rebalanceBackoff spaces the rounds of autoRebalance. Rounds without progress become rare, because clients
// that know only one member come back to it each time. The zero value is ready. It is not safe for concurrent
// use.
type rebalanceBackoff struct {
	lastMembers   []uint32      // that serve clients
	lastClients   int           // of all members, when the fields below were reset
	leastExcess   int           // at that time
	vainRounds    int           // consecutive rounds without progress since then
	roundInterval time.Duration // between the starts of two rounds
	nextRound     time.Time     // its time
}

// startRoundIfDue reports whether a round is due, and schedules the next one. above is the excess of the loads, and
// not 0. If the members, the number of clients or the excess have changed significantly, a round is due at once
// and the interval is reset.
func (p *rebalanceBackoff) startRoundIfDue(now time.Time, loads []memberLoad, above int) bool {
	var members []uint32
	for _, l := range loads {
		members = append(members, l.member)
	}
	clients := totalClients(loads)
	switch {
	case !slices.Equal(members, p.lastMembers), differsBy(clients, p.lastClients, autoSlackPercent, minAutoSlackClients),
		above < p.leastExcess && differsBy(above, p.leastExcess, autoProgressPercent, minSlackClients),
		differsBy(above, p.leastExcess, autoSlackPercent, minAutoSlackClients):
		*p = rebalanceBackoff{
			lastMembers: members, lastClients: clients, leastExcess: above,
			roundInterval: autoRebalanceInterval,
		}
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

// differsBy reports whether n differs from was by at least slack percent and by at least least.
func differsBy(n, was, slack, least int) bool {
	return max(n-was, was-n) >= max(was*slack/100, least)
}
