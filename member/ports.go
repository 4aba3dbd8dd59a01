package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
)

// ports are the ports for other members. A standalone server has none: its log is not replicated, and only the member
// itself calls its gRPC services.
type ports struct {
	trustGuard   *trust.Guard // nil: members' connections are plain
	addressBook  *wire.AddressBook
	hello        wire.Hello
	loopback     *loopback      // for the member's calls of its own gRPC services
	grpcListener *wire.Listener // nil: there is none
	raftStream   *wire.Stream
}

// openPorts listens for members. If it returns an error, ports still holds what it opened before.
func openPorts(cfg *Config, book *wire.AddressBook, log *slog.Logger) (p ports, err error) {
	p.loopback = newLoopback(cfg.ID)
	p.addressBook = book
	if p.trustGuard, err = trust.New(trust.Config{
		Settings: cfg.Trust, MemberID: cfg.ID,
		ConfiguredHosts: hostsByMember(cfg.Servers), CurrentHosts: p.addressBook.HostsOf, CurrentMembers: p.addressBook.MemberIDs,
		HasLeft: p.addressBook.HasLeft, PartingTime: RemovedGracePeriod + 2*cfg.Tick, // the leader's, and a tick
		AdmitNewcomers: cfg.SelfJoin.Auto, Logger: log, Now: cfg.Now,
	}); err != nil {
		return p, fmt.Errorf("member: %w", err)
	}
	p.hello = wire.NewHello(p.addressBook).WithGuard(p.trustGuard).WithLogger(log)
	if cfg.isStandalone() {
		p.hello = p.hello.WithGuard(nil) // its log stays in memory
		p.raftStream = wire.NewStream(wire.NewListener(newLoopback(cfg.ID), p.hello, log), p.hello, cfg.Network.Dial)
		return p, nil
	}
	self := cfg.ownServer()
	l, err := cfg.Network.Listen(cfg.BindAddress(self.RaftAddr))
	if err != nil {
		return p, fmt.Errorf("member: listen for the log: %w", err)
	}
	p.raftStream = wire.NewStream(wire.NewListener(l, p.hello, log), p.hello, cfg.Network.Dial)
	if l, err = cfg.Network.Listen(cfg.BindAddress(self.GrpcAddr)); err != nil {
		return p, fmt.Errorf("member: listen for members: %w", err)
	}
	p.grpcListener = wire.NewListener(l, p.hello.AcceptingUnknown(), log)
	return p, nil
}

// closeAll closes the ports. It may be called more than once.
func (p *ports) closeAll() {
	if p.grpcListener != nil {
		_ = p.grpcListener.Close() // closing again is no failure
	}
	if p.raftStream != nil {
		_ = p.raftStream.Close()
	}
	_ = p.loopback.Close()
}

func raftPeers(servers []Server) []wire.Peer {
	peers := make([]wire.Peer, 0, len(servers))
	for _, s := range servers {
		peers = append(peers, wire.Peer{ID: s.ID, Addr: s.RaftAddr, GRPCAddr: s.GrpcAddr, Observer: s.Observer})
	}
	return peers
}

// hostsByMember returns the host in the server line of each member.
func hostsByMember(servers []Server) map[uint32]string {
	hosts := make(map[uint32]string, len(servers))
	for _, s := range servers {
		if host, _, err := net.SplitHostPort(s.GrpcAddr); err == nil {
			hosts[s.ID] = host
		}
	}
	return hosts
}

func (m *Member) quorumConfig() quorum.Config {
	cfg := quorum.Config{
		MemberID: m.cfg.ID, Peers: raftPeers(m.cfg.Servers), AddressBook: m.ports.addressBook,
		WantedServers: m.serverLists.followWantedPeers, ConfigurationChanged: m.terms.configurationChanged,
		EntryStored: m.entryStored, Stages: m.viewer.slow.recorder,
		LeaderDied: m.peerConns.closeConns, DataDir: m.cfg.Dir, LogDir: m.cfg.LogDir,
		StreamLayer: m.ports.raftStream,
		StateMachine: stateMachine{
			m.state, func(err error) { m.health.reportDamage(err.Error()) }, m.server.FlushApplied,
			&m.applyProgress.applyDurations, m.viewer.slow.recorder, time.Duration(m.cfg.Rules.ReadLeaseMs) * time.Millisecond,
		}, FoundByMajority: m.cfg.NewEnsemble, SelfJoin: m.cfg.SelfJoin.Auto,
		HeartbeatTimeout: m.cfg.HeartbeatTimeout, Monotonic: m.cfg.Monotonic, SnapshotEvery: m.cfg.SnapCount, History: m.cfg.History, StallLimit: m.cfg.StoreStallLimit,
		SlowSync: m.cfg.Slow.Sync, Logger: m.log,
	}
	if !m.cfg.isStandalone() {
		cfg.SendHello = func(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error) {
			return m.helloClient.sendHello(ctx, peer)
		}
	}
	cfg.Stores = storesOf(m.cfg.Stores)
	return cfg
}

// entryStored is called before this member stores an entry in its log.
func (m *Member) entryStored(index uint64, data []byte) {
	m.viewer.slow.recorder.Stored(index, data)
	m.follower.EntryStored(index, data)
}

func storesOf(s *disk.Stores) disk.Stores {
	if s == nil {
		return disk.Stores{}
	}
	return *s
}

// dialMember opens a connection for gRPC.
func (m *Member) dialMember(ctx context.Context, id uint32) (net.Conn, error) {
	if id == m.cfg.ID {
		return m.ports.loopback.dial(ctx)
	}
	s, known := m.serverLists.addressesOf(id)
	if !known {
		return nil, fmt.Errorf("member: no address of member %d is known", id)
	}
	conn, err := m.ports.hello.Dial(ctx, m.cfg.Network.Dial, s.GrpcAddr, id)
	if errors.Is(err, wire.ErrOtherEnsemble) && m.servesAllClients() {
		m.helloClient.claimMember(ctx, s)
	}
	return conn, err
}

// services are the gRPC services that members call on this one, itself included.
type services struct {
	proto.UnsafeFollowerServer
	proto.UnsafeLeaderServer
	m *Member
}

// Pings implements proto.FollowerServer.
func (s services) Pings(stream proto.Follower_PingsServer) error { return s.m.follower.Pings(stream) }

// View implements proto.FollowerServer.
func (s services) View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	return s.m.viewer.View(ctx, r)
}

// Forward implements proto.LeaderServer.
func (s services) Forward(stream proto.Leader_ForwardServer) error { return s.m.terms.Forward(stream) }

// Sync implements proto.LeaderServer.
func (s services) Sync(ctx context.Context, r *proto.SyncRequest) (*proto.SyncReply, error) {
	return s.m.terms.Sync(ctx, r)
}

// HandOver implements proto.LeaderServer.
func (s services) HandOver(ctx context.Context, r *proto.HandOverRequest) (*proto.HandOverReply, error) {
	return s.m.terms.HandOver(ctx, r)
}

// goodbyeTimeout limits the wait of a stopping member until the ends of its streams are sent. They are written
// at once, so only a member that does not read them takes longer.
const goodbyeTimeout = 200 * time.Millisecond

// handshakeTimeout limits the gRPC handshake of a member's connection.
const handshakeTimeout = 5 * time.Second

// memberServer returns a gRPC server for members, which rejects the messages that they may not send.
func memberServer(s *senderGuard) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(newPeerConnLimiter(s.isListed)), grpc.ConnectionTimeout(handshakeTimeout), grpc.UnaryInterceptor(s.interceptUnary),
		grpc.StreamInterceptor(s.interceptStream),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.MaxConcurrentStreams(maxConcurrentCalls), grpc.ForceServerCodecV2(proto.Codec()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2}),
	)
}

// mayBeOutsideEnsemble reports whether the peer of a connection may be in no ensemble or in another one. A member
// names its ensemble when it connects, and reconnects when it enters one (peerConns.discardAllConns). Before this
// member has an ensemble, it has nothing that another one's process could read or change, and mayBeOutsideEnsemble
// returns false.
func (m *Member) mayBeOutsideEnsemble(from peerInfo) bool {
	own := m.ports.addressBook.EnsembleID()
	return from.member != m.cfg.ID && own != wire.EnsembleID{} && from.ensemble != own
}

// serveMembers runs the gRPC services until ctx ends.
func (m *Member) serveMembers(ctx context.Context, g *errgroup.Group) {
	srv := memberServer(newSenderGuard(m.log, m.ports.addressBook.IsKnown, m.mayBeOutsideEnsemble))
	s := services{m: m}
	proto.RegisterFollowerServer(srv, s)
	proto.RegisterLeaderServer(srv, s)
	serve := func(l net.Listener) error {
		if err := srv.Serve(l); err != nil && ctx.Err() == nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("member: serve members: %w", err)
		}
		return nil
	}
	g.Go(func() error { return serve(m.ports.loopback) })
	if m.ports.grpcListener != nil {
		g.Go(func() error { return serve(m.ports.grpcListener) })
	}
	g.Go(func() error {
		<-ctx.Done()
		m.follower.EndPings()
		stop := time.AfterFunc(goodbyeTimeout, srv.Stop)
		srv.GracefulStop() // notifies the leader that this member stops
		stop.Stop()
		return nil
	})
}
