package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"rollcall/proto"
)

// maxMessageBytes limits a gRPC message. A Forwarded with one client frame (jute.maxbuffer is at most 8 MiB)
// and a Pong of 100,000 touches are well below it.
const maxMessageBytes = 16 << 20

// streamWindow and connWindow limit the bytes that a member sends on a stream, and on a connection, before the other one has read
// them. They are fixed, because gRPC otherwise measures each connection with a ping for almost every message: two writes more for a
// write at a follower. A stream of writes fills the leader's queue with one window (maxWaitingBytes of package leader), and a link
// with a round trip of 50 ms still carries 80 MiB in a second.
const (
	streamWindow = 4 << 20
	connWindow   = 2 * streamWindow // one stream that is not read leaves room for the others
)

const (
	// maxConcurrentCalls limits the concurrent gRPC calls of one member to another. There are four: a stream of
	// pings, a stream of writes, a sync and a hello. A connection or a term that is ending may still have its own.
	// An operator's view takes up to eight more.
	maxConcurrentCalls = 64
	// keepaliveTime is the time without a byte after which a connection is probed. gRPC's minimum is 10 s.
	keepaliveTime = 10 * time.Second
)

// peerRoutes is the number of gRPC connections to each other member. If packets are lost, a connection delivers nothing
// until they were sent again, and each time TCP waits for longer. Meanwhile the other connection works.
const peerRoutes = 2

// connectTicks is the time that a connection may take to open, in ticks. If packets are lost, it takes some of the
// kernel's timeouts of 0.2 to 1 s.
const connectTicks = 4

// peerRoute names one of the connections to a member.
type peerRoute struct {
	member uint32
	number int // below peerRoutes
}

// other returns the member's other route.
func (r peerRoute) other() peerRoute { return peerRoute{r.member, (r.number + 1) % peerRoutes} }

// peerConns holds two gRPC connections to each member, opened when first used. All calls use the one that is preferred,
// except those that choose one. The connection to this member itself runs in memory and carries its pings; its writes go
// directly to the leader (localLeader). It is safe for concurrent use.
type peerConns struct {
	dialMember func(ctx context.Context, id uint32) (net.Conn, error)
	tick       time.Duration

	mu          sync.Mutex
	clientConns map[peerRoute]*grpc.ClientConn
	newestConns map[peerRoute]net.Conn  // may have ended
	closedAt    map[peerRoute]time.Time // when its newest connection was closed here
	preferred   map[uint32]int          // by member: the number of a route
	moveCounts  map[uint32]int          // by member: changes of its address and of this member's ensemble
	dialErrors  map[uint32]error        // by member: of the last dial. gRPC passes on only its text
	closed      bool                    // no connection is made any more
}

var errPeerMoved = errors.New("member: the member has moved while it was dialed, or this one has entered an ensemble")

var errPeersClosed = errors.New("member: the connections to other members are closed")

func newPeerConns(tick time.Duration, dial func(ctx context.Context, id uint32) (net.Conn, error)) *peerConns {
	return &peerConns{
		dialMember: dial, tick: tick, clientConns: make(map[peerRoute]*grpc.ClientConn),
		newestConns: make(map[peerRoute]net.Conn), closedAt: make(map[peerRoute]time.Time),
		preferred: make(map[uint32]int), moveCounts: make(map[uint32]int), dialErrors: make(map[uint32]error),
	}
}

// clientConn returns the preferred connection to a member, which may not be up.
func (p *peerConns) clientConn(id uint32) (*grpc.ClientConn, error) {
	return p.routeConn(p.preferredRoute(id))
}

// routeConn returns the connection of a route, which may not be up.
func (p *peerConns) routeConn(route peerRoute) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPeersClosed
	}
	if c := p.clientConns[route]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient(fmt.Sprintf("passthrough:///member-%d", route.member),
		grpc.WithTransportCredentials(peerCredentials{dialedMember: route.member}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dialPeer(ctx, route) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes),
			// gRPC must not reopen a stream by itself. Its holder does that, and must see its end
			// at once, instead of waiting in Send until the member is back.
			grpc.MaxRetryRPCBufferSize(0), grpc.ForceCodecV2(proto.Codec())),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithStreamInterceptor(tieToConnection),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A member that comes back must be found within half a tick.
			Backoff:           backoff.Config{BaseDelay: p.tick / 20, Multiplier: 1.6, Jitter: 0.2, MaxDelay: p.tick / 2},
			MinConnectTimeout: connectTicks * p.tick,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime / 2}),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("member: connection to member %d: %w", route.member, err)
	}
	p.clientConns[route] = c
	return c, nil
}

func (p *peerConns) preferredRoute(id uint32) peerRoute {
	p.mu.Lock()
	defer p.mu.Unlock()
	return peerRoute{id, p.preferred[id]}
}

// prefer makes new calls to the route's member use this route.
func (p *peerConns) prefer(route peerRoute) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.preferred[route.member] = route.number
}

// tieToConnection opens a stream and ties it to its connection. Otherwise a Recv before the first Send reopens
// the stream if the other side has not seen it: it waits for a new connection and holds the stream's lock, so
// Send waits, too, whatever its context.
func tieToConnection(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	_ = s.Context() // gRPC does not retry on a stream after this
	return s, nil
}

func (p *peerConns) dialPeer(ctx context.Context, route peerRoute) (net.Conn, error) {
	id := route.member
	p.mu.Lock()
	moves := p.moveCounts[id]
	p.mu.Unlock()
	conn, err := p.dialMember(ctx, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dialErrors[id] = err; err != nil {
		return nil, err
	}
	if p.moveCounts[id] != moves {
		return nil, errors.Join(errPeerMoved, conn.Close())
	}
	p.newestConns[route] = conn
	return conn, nil
}

// preferDialError returns the error of the last dial of a member in place of err, the error of a call, if both failed.
func (p *peerConns) preferDialError(id uint32, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := p.dialErrors[id]; err != nil && why != nil {
		return why
	}
	return err
}

// replaceConn closes a silent connection, with all streams and calls on it. The next call opens another. It does
// nothing while the member's other connection is being opened, because a connection that has stalled may deliver before
// that one does.
func (p *peerConns) replaceConn(route peerRoute) {
	p.mu.Lock()
	if other := route.other(); p.newestConns[other] == nil && time.Since(p.closedAt[other]) < connectTicks*p.tick {
		p.mu.Unlock()
		return
	}
	conn := p.takeConn(route)
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // it may have ended already
	}
}

// takeConn removes and returns a route's newest connection, which is about to be closed, or nil if there is none. The
// caller holds the lock.
func (p *peerConns) takeConn(route peerRoute) net.Conn {
	conn := p.newestConns[route]
	if conn != nil {
		delete(p.newestConns, route)
		p.closedAt[route] = time.Now()
	}
	return conn
}

// closeConns closes the connections to a member, so that the next call opens another.
func (p *peerConns) closeConns(id uint32) {
	for number := range peerRoutes {
		p.mu.Lock()
		conn := p.takeConn(peerRoute{id, number})
		p.mu.Unlock()
		if conn != nil {
			_ = conn.Close() // it may have ended already
		}
	}
}

// discardConns closes the connections to a member and the ones being opened, because another process may have its
// id by now.
func (p *peerConns) discardConns(id uint32) {
	p.mu.Lock()
	p.moveCounts[id]++
	p.mu.Unlock()
	p.closeConns(id)
}

// discardAllConns closes the connections to all members and the ones being opened. Their hellos have not named
// this member's ensemble, so they can only be used for Hello.
func (p *peerConns) discardAllConns() {
	p.mu.Lock()
	ids := map[uint32]bool{}
	for route := range p.clientConns {
		ids[route.member] = true
	}
	p.mu.Unlock()
	for id := range ids {
		p.discardConns(id)
	}
}

// followerClient returns a client of a member's Follower service.
func (p *peerConns) followerClient(id uint32) (proto.FollowerClient, error) {
	return p.routeFollower(p.preferredRoute(id))
}

// routeFollower returns a client of a member's Follower service, over a route.
func (p *peerConns) routeFollower(route peerRoute) (proto.FollowerClient, error) {
	c, err := p.routeConn(route)
	if err != nil {
		return nil, err
	}
	return proto.NewFollowerClient(c), nil
}

// leaderClient returns a client of a member's Leader service.
func (p *peerConns) leaderClient(id uint32) (proto.LeaderClient, error) {
	c, err := p.clientConn(id)
	if err != nil {
		return nil, err
	}
	return proto.NewLeaderClient(c), nil
}

// closeAll closes all connections, and no other one is made. It may block for some seconds, without the lock, if one of them
// accepts no bytes.
func (p *peerConns) closeAll() {
	p.mu.Lock()
	conns := p.clientConns
	p.clientConns, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // fails only if it is closed already
	}
}

// fetchStateHashes implements follower.Config.FetchStateHashes.
func (p *peerConns) fetchStateHashes(ctx context.Context, id uint32) (*proto.StateHashes, error) {
	reply, err := remoteView(p, id).View(ctx,
		&proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}})
	return reply.GetStatus().GetStateHashes(), err
}
