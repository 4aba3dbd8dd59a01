package member

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"rollcall/proto"
)

// maxMessage bounds one gRPC message: a Forwarded with one client frame (jute.maxbuffer
// has a ceiling of 8 MiB) and a Pong of 100,000 touches fit well below it.
const maxMessage = 16 << 20

const (
	// maxStreams bounds what one member asks of another at a time: a stream of pings, one
	// of writes, a sync, a hello, and those of a connection or a term that is ending.
	maxStreams = 64
	// keepaliveTime is after how long without a byte a connection is probed; gRPC takes no
	// less than 10 s.
	keepaliveTime = 10 * time.Second
)

// peers holds one lazy gRPC connection to each member, this one included, whose own
// runs over memory and carries its pings: writes take the short way (own). Safe for
// concurrent use.
type peers struct {
	dial func(ctx context.Context, id uint32) (net.Conn, error)
	tick time.Duration

	mu    sync.Mutex
	conns map[uint32]*grpc.ClientConn
	live  map[uint32]net.Conn // the newest connection to each member, which may have ended
}

func newPeers(tick time.Duration, dial func(ctx context.Context, id uint32) (net.Conn, error)) *peers {
	return &peers{dial: dial, tick: tick, conns: make(map[uint32]*grpc.ClientConn), live: make(map[uint32]net.Conn)}
}

// to returns the connection to a member. It does not wait for it to be up.
func (p *peers) to(id uint32) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[id]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient(fmt.Sprintf("passthrough:///member-%d", id),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.open(ctx, id) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage),
			// No stream is opened anew behind our back: whoever holds it does that, and must
			// hear of its end at once, not hang in Send until the member is back. See commit too.
			grpc.MaxRetryRPCBufferSize(0)),
		grpc.WithStreamInterceptor(commit),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A member that comes back is to be found within half a tick.
			Backoff:           backoff.Config{BaseDelay: p.tick / 20, Multiplier: 1.6, Jitter: 0.2, MaxDelay: p.tick / 2},
			MinConnectTimeout: p.tick,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime / 2}),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("member: connection to member %d: %w", id, err)
	}
	p.conns[id] = c
	return c, nil
}

// commit opens a stream and ties it to its connection. Else a Recv that comes before the first
// Send would open it anew if the other side never saw it: it would wait for a new connection, and
// hold the stream's lock meanwhile, so that Send would wait too, whatever its context.
func commit(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	_ = s.Context() // gRPC retries nothing on a stream whose context was asked for
	return s, nil
}

// open opens a connection to a member.
func (p *peers) open(ctx context.Context, id uint32) (net.Conn, error) {
	conn, err := p.dial(ctx, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[id] = conn
	return conn, nil
}

// newest returns the newest connection to a member, nil if there was none.
func (p *peers) newest(id uint32) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live[id]
}

// giveUp closes a connection to a member, with all streams and calls on it, unless there is
// a newer one: the next call opens another.
func (p *peers) giveUp(id uint32, conn net.Conn) {
	p.mu.Lock()
	newest := conn != nil && p.live[id] == conn
	if newest {
		delete(p.live, id)
	}
	p.mu.Unlock()
	if newest {
		_ = conn.Close() // it may have ended
	}
}

// redial gives up the newest connection to a member.
func (p *peers) redial(id uint32) { p.giveUp(id, p.newest(id)) }

// follower returns a client of a member's Follower service.
func (p *peers) follower(id uint32) (proto.FollowerClient, error) {
	c, err := p.to(id)
	if err != nil {
		return nil, err
	}
	return proto.NewFollowerClient(c), nil
}

// leader returns a client of a member's Leader service.
func (p *peers) leader(id uint32) (proto.LeaderClient, error) {
	c, err := p.to(id)
	if err != nil {
		return nil, err
	}
	return proto.NewLeaderClient(c), nil
}

// close ends all connections. It waits for some seconds, without the lock, if one takes no bytes.
func (p *peers) close() {
	p.mu.Lock()
	conns := p.conns
	p.conns = make(map[uint32]*grpc.ClientConn)
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // an error only says that it was closed already
	}
}
