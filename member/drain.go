package member

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/server"
)

// maxYieldPause limits the time between two attempts of a drained leader to hand over. It takes no writes during an
// attempt.
const maxYieldPause = time.Minute

// drain moves clients and leadership away from this member until its next start. It is safe for concurrent use.
type drain struct {
	cfg    *Config
	node   *quorum.Node
	server *server.Server
	http   *admin.HTTP
	log    *slog.Logger

	returnReadLease func(context.Context) // see follower.Follower

	started   chan struct{} // closed by the first drain
	startOnce sync.Once
}

// Drain prepares this member for its stop, with little effect on its clients. From now on /readyz fails, new
// clients are rejected, and other members do not hand leadership over to this one. Drain hands leadership over,
// for at most over or api.MinHandOver, and then closes the clients' connections, evenly spread over the time
// over. It returns the number of closed connections, and reports whether this member still leads, because no
// other member took over.
//
// The member continues to store and vote, and may be elected again if no other member can lead. It hands over
// once another one can. If ctx ends, Drain returns early and leaves the remaining connections open; another
// call closes them. Only a new start ends the drain.
func (m *Member) Drain(ctx context.Context, over time.Duration) (closed int, leads bool) {
	return m.drain.yieldAndDrain(ctx, over)
}

func (d *drain) yieldAndDrain(ctx context.Context, over time.Duration) (closed int, leads bool) {
	err := d.startDrainAndYield(ctx, max(over, api.MinHandOver))
	closed = d.server.Drain(ctx, over)
	return closed, err != nil && d.node.Status().IsLeader()
}

// DrainMember implements admin.Operations.
func (o operations) DrainMember(ctx context.Context, member uint32, over time.Duration, by string) (closed int,
	leads bool, err error,
) {
	if member == o.m.cfg.ID {
		closed, leads = o.m.Drain(ctx, over)
		return closed, leads, nil
	}
	if _, known := o.m.serverLists.addressesOf(member); !known {
		return 0, false, &admin.Failure{
			Status: http.StatusNotFound,
			Text:   fmt.Sprintf("the ensemble has no member %d; rollcall members lists them", member),
		}
	}
	c, err := o.m.peerConns.followerClient(member)
	if err != nil {
		return 0, false, drainFailure(member, err)
	}
	reply, err := c.Drain(ctx, &proto.DrainRequest{OverMs: uint64(over.Milliseconds()), Operator: by})
	if err != nil {
		return 0, false, drainFailure(member, err)
	}
	return int(reply.GetConnections()), reply.GetLeads(), nil
}

// drainFailure converts the error of the drain of another member for an operator.
func drainFailure(member uint32, err error) error {
	text := status.Convert(err).Message()
	if status.Code(err) == codes.Unavailable {
		return &admin.Failure{
			Status: http.StatusServiceUnavailable,
			Text: fmt.Sprintf("member %d does not reply, or no longer: %s; look at /v1/members, and drain it again", member,
				text),
		}
	}
	return &admin.Failure{
		Status: http.StatusGatewayTimeout,
		Text:   fmt.Sprintf("it is not known how far the drain of member %d came: %s; drain it again", member, text),
	}
}

// Drain implements proto.FollowerServer.
func (s services) Drain(ctx context.Context, r *proto.DrainRequest) (*proto.DrainReply, error) {
	over := time.Duration(min(r.GetOverMs(), uint64(admin.MaxDrainTime.Milliseconds()))) * time.Millisecond
	s.m.log.Info("an operator of another member drains this one", "peer", callerID(ctx), "by", r.GetOperator(), "over", over)
	closed, leads := s.m.Drain(ctx, over)
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &proto.DrainReply{Connections: uint64(closed), Leads: leads}, nil
}

// drainForStop drains a member that stops. It hands over for handOverTime only, because the others elect a
// leader anyway.
func (d *drain) drainForStop(ctx context.Context) {
	_ = d.startDrainAndYield(ctx, d.cfg.handOverTime()) // it is logged
	d.server.Drain(ctx, d.cfg.DrainTime)
	ctx, cancel := context.WithTimeout(ctx, maxReturnTime)
	defer cancel()
	d.returnReadLease(ctx)
}

// maxReturnTime limits the time in which a member that stops gives its lease for reads back. The lease ends soon anyway.
const maxReturnTime = 100 * time.Millisecond

// minHandOverHeartbeats is the minimum time for handing over, in heartbeat timeouts. An attempt with one other
// member takes two of them.
const minHandOverHeartbeats = 4

// startDrainAndYield fails /readyz, rejects new clients and hands leadership over. If that fails within the time,
// yieldLoop tries again.
func (d *drain) startDrainAndYield(ctx context.Context, within time.Duration) error {
	d.http.FailReadyz()
	d.server.RejectNew() // a client that came now would be closed soon
	d.node.Transfer().DeclineIncoming()
	defer d.startOnce.Do(func() { close(d.started) })
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := d.node.Transfer().ToAny(ctx)
	if err != nil {
		d.log.Warn("leadership not handed over", "err", err)
	}
	return err
}

// yieldLoop hands over when a drained member leads because others could not. It tries each tick, and less often
// while no member takes over.
func (d *drain) yieldLoop(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.started:
	}
	for pause := d.cfg.Tick; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		if !d.node.Status().IsLeader() {
			pause = d.cfg.Tick
			continue
		}
		within, cancel := context.WithTimeout(ctx, d.cfg.handOverTime())
		err := d.node.Transfer().ToAny(within)
		cancel()
		switch {
		case err == nil && !d.node.Status().IsLeader():
			d.log.Info("this member is drained and was the leader; it has handed over", "leader", d.node.Status().LeaderID())
		case err != nil && pause == d.cfg.Tick:
			d.log.Warn("this member is drained and leads: no other member takes over; it will try again", "err", err)
		}
		pause = min(2*pause, max(maxYieldPause, d.cfg.Tick))
	}
}

// handOverTime limits the attempts of a stopping member to hand over.
func (c *Config) handOverTime() time.Duration {
	return max(c.Tick, minHandOverHeartbeats*c.HeartbeatTimeout)
}
