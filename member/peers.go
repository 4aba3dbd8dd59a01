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

// maxMessage bounds one gRPC message. A Forwarded with one client frame (jute.maxbuffer is at most
// 8 MiB) and a Pong of 100,000 touches are well below it.
const maxMessage = 16 << 20

const (
	// maxStreams bounds the gRPC calls of one member to another at a time. There are four: a stream
	// of pings, a stream of writes, a sync and a hello. A connection or a term that is ending may
	// still have its own. The view of an operator takes up to eight more.
	maxStreams = 64
	// keepaliveTime is the time without a byte after which a connection is probed. gRPC allows no
	// less than 10 s.
	keepaliveTime = 10 * time.Second
)

// peers holds one gRPC connection to each member, opened when first used. The connection to this
// member itself runs in memory and carries its pings; its writes go directly to the leader
// (ownLeader). It is safe for concurrent use.
type peers struct {
	dial func(ctx context.Context, id uint32) (net.Conn, error)
	tick time.Duration

	mu    sync.Mutex
	conns map[uint32]*grpc.ClientConn
	live  map[uint32]net.Conn // newest connection to each member, which may have ended
	moves map[uint32]int      // how often each member has moved, or this member has entered an ensemble
	fails map[uint32]error    // why the last connection to a member was not opened; nil: it was. gRPC passes on its text alone
}

// errMoved is the error of a connection that is closed as soon as it is open.
var errMoved = errors.New("member: the member has moved while it was dialed, or this one has entered an ensemble")

func newPeers(tick time.Duration, dial func(ctx context.Context, id uint32) (net.Conn, error)) *peers {
	return &peers{dial: dial, tick: tick, conns: make(map[uint32]*grpc.ClientConn), live: make(map[uint32]net.Conn), moves: make(map[uint32]int), fails: make(map[uint32]error)}
}

// to returns the connection to a member. It does not wait until it is up.
func (p *peers) to(id uint32) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[id]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient(fmt.Sprintf("passthrough:///member-%d", id),
		grpc.WithTransportCredentials(identity{dialed: id}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.open(ctx, id) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage),
			// gRPC must not reopen a stream by itself. Its holder does that, and must see its end
			// at once, instead of waiting in Send until the member is back. See commit too.
			grpc.MaxRetryRPCBufferSize(0)),
		grpc.WithStreamInterceptor(commit),
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
	p.conns[id] = c
	return c, nil
}

// commit opens a stream and ties it to its connection. Without that, a Recv that comes before the
// first Send reopens the stream if the other side never saw it. Such a Recv waits for a new
// connection and holds the stream's lock meanwhile, so that Send waits too, whatever its context.
func commit(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	_ = s.Context() // gRPC does not retry on a stream whose context was asked for
	return s, nil
}

// open opens a connection to a member.
func (p *peers) open(ctx context.Context, id uint32) (net.Conn, error) {
	p.mu.Lock()
	moves := p.moves[id]
	p.mu.Unlock()
	conn, err := p.dial(ctx, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails[id] = err; err != nil {
		return nil, err
	}
	if p.moves[id] != moves {
		return nil, errors.Join(errMoved, conn.Close())
	}
	p.live[id] = conn
	return conn, nil
}

// explain returns the error of a call to a member with the reason why the last connection was not opened.
func (p *peers) explain(id uint32, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why := p.fails[id]; err != nil && why != nil {
		return why
	}
	return err
}

// newest returns the newest connection to a member, or nil if there was none.
func (p *peers) newest(id uint32) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live[id]
}

// giveUp closes a connection to a member, with all streams and calls on it, unless there is a newer
// one. The next call opens another.
func (p *peers) giveUp(id uint32, conn net.Conn) {
	p.mu.Lock()
	newest := conn != nil && p.live[id] == conn
	if newest {
		delete(p.live, id)
	}
	p.mu.Unlock()
	if newest {
		_ = conn.Close() // it may have ended already
	}
}

// redial closes the newest connection to a member, so that the next call opens another.
func (p *peers) redial(id uint32) { p.giveUp(id, p.newest(id)) }

// moved closes the connection to a member that another process may be by now, and those that are being opened.
func (p *peers) moved(id uint32) {
	p.mu.Lock()
	p.moves[id]++
	p.mu.Unlock()
	p.redial(id)
}

// renew closes the connections to all members, and those that are being opened. Their hellos have not named the ensemble of this
// member, so they are of use for Hello alone.
func (p *peers) renew() {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, id := range ids {
		p.moved(id)
	}
}

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

// close closes all connections. It may wait for some seconds, without the lock, if one of them
// takes no bytes.
func (p *peers) close() {
	p.mu.Lock()
	conns := p.conns
	p.conns = make(map[uint32]*grpc.ClientConn)
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // an error only means that it was closed already
	}
}

// marks implements follower.Config.Ask.
func (p *peers) marks(ctx context.Context, id uint32) (*proto.Marks, error) {
	reply, err := viewOver(p, id).View(ctx, &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}})
	return reply.GetStatus().GetMarks(), err
}
