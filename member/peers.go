package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
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

const (
	// maxConcurrentCalls limits the concurrent gRPC calls of one member to another. There are four: a stream of
	// pings, a stream of writes, a sync and a hello. A connection or a term that is ending may still have its own.
	// An operator's view takes up to eight more.
	maxConcurrentCalls = 64
	// keepaliveTime is the time without a byte after which a connection is probed. gRPC's minimum is 10 s.
	keepaliveTime = 10 * time.Second
)

// peerConns holds one gRPC connection to each member, opened when first used. The connection to this
// member itself runs in memory and carries its pings; its writes go directly to the leader
// (localLeader). It is safe for concurrent use.
type peerConns struct {
	dialMember func(ctx context.Context, id uint32) (net.Conn, error)
	tick       time.Duration

	mu          sync.Mutex
	clientConns map[uint32]*grpc.ClientConn
	newestConns map[uint32]net.Conn // by member; may have ended
	moveCounts  map[uint32]int      // by member: changes of its address and of this member's ensemble
	dialErrors  map[uint32]error    // by member: of the last dial. gRPC passes on only its text
}

var errPeerMoved = errors.New("member: the member has moved while it was dialed, or this one has entered an ensemble")

func newPeerConns(tick time.Duration, dial func(ctx context.Context, id uint32) (net.Conn, error)) *peerConns {
	return &peerConns{
		dialMember: dial, tick: tick, clientConns: make(map[uint32]*grpc.ClientConn),
		newestConns: make(map[uint32]net.Conn), moveCounts: make(map[uint32]int), dialErrors: make(map[uint32]error),
	}
}

// clientConn returns the connection to a member, which may not be up.
func (p *peerConns) clientConn(id uint32) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clientConns[id]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient(fmt.Sprintf("passthrough:///member-%d", id),
		grpc.WithTransportCredentials(peerCredentials{dialedMember: id}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dialPeer(ctx, id) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes),
			// gRPC must not reopen a stream by itself. Its holder does that, and must see its end
			// at once, instead of waiting in Send until the member is back.
			grpc.MaxRetryRPCBufferSize(0), grpc.ForceCodecV2(proto.Codec())),
		grpc.WithStreamInterceptor(tieToConnection),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A member that comes back must be found within half a tick.
			Backoff:           backoff.Config{BaseDelay: p.tick / 20, Multiplier: 1.6, Jitter: 0.2, MaxDelay: p.tick / 2},
			MinConnectTimeout: p.tick,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime / 2}),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("member: connection to member %d: %w", id, err)
	}
	p.clientConns[id] = c
	return c, nil
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

func (p *peerConns) dialPeer(ctx context.Context, id uint32) (net.Conn, error) {
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
	p.newestConns[id] = conn
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

// newestConn returns the newest connection to a member, or nil if there was none.
func (p *peerConns) newestConn(id uint32) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newestConns[id]
}

// closeIfNewest closes a connection to a member, with all streams and calls on it, unless there is a newer
// one. The next call opens another.
func (p *peerConns) closeIfNewest(id uint32, conn net.Conn) {
	p.mu.Lock()
	newest := conn != nil && p.newestConns[id] == conn
	if newest {
		delete(p.newestConns, id)
	}
	p.mu.Unlock()
	if newest {
		_ = conn.Close() // it may have ended already
	}
}

// closeNewestConn closes the newest connection to a member, so that the next call opens another.
func (p *peerConns) closeNewestConn(id uint32) { p.closeIfNewest(id, p.newestConn(id)) }

// discardConns closes the connection to a member and the ones being opened, because another process may have its
// id by now.
func (p *peerConns) discardConns(id uint32) {
	p.mu.Lock()
	p.moveCounts[id]++
	p.mu.Unlock()
	p.closeNewestConn(id)
}

// discardAllConns closes the connections to all members and the ones being opened. Their hellos have not named
// this member's ensemble, so they can only be used for Hello.
func (p *peerConns) discardAllConns() {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.clientConns))
	p.mu.Unlock()
	for _, id := range ids {
		p.discardConns(id)
	}
}

// followerClient returns a client of a member's Follower service.
func (p *peerConns) followerClient(id uint32) (proto.FollowerClient, error) {
	c, err := p.clientConn(id)
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

// closeAll closes all connections. It may block for some seconds, without the lock, if one of them accepts no bytes.
func (p *peerConns) closeAll() {
	p.mu.Lock()
	conns := p.clientConns
	p.clientConns = make(map[uint32]*grpc.ClientConn)
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // fails only if it is closed already
	}
}

// fetchStateHashes implements follower.Config.FetchStateHashes.
func (p *peerConns) fetchStateHashes(ctx context.Context, id uint32) (*proto.Marks, error) {
	reply, err := remoteView(p, id).View(ctx,
		&proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}})
	return reply.GetStatus().GetMarks(), err
}
