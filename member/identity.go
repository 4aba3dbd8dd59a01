package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A member may speak for itself only. Every connection of gRPC's is a *wire.Conn, whose Peer is the
// member at the other end; that of a member to itself is made so by loopback. identity passes the Peer
// on to gRPC, and speakers holds what comes on the connection against it.

// identity implements credentials.TransportCredentials. It encrypts nothing: what a connection proves
// has been proved before gRPC gets it.
type identity struct {
	dialed uint32 // of a client: the member that was dialed; 0: a server, which any member may reach
}

// known is the member at the other end of a connection. It implements credentials.AuthInfo.
type known struct {
	credentials.CommonAuthInfo
	member   uint32
	disk     disk.ID // 0: a command, which has none
	remote   string
	ensemble wire.EnsembleID // that it has named when it connected; zero: none
}

// AuthType implements credentials.AuthInfo.
func (known) AuthType() string { return "rollcall" }

var errNoMember = errors.New("member: a connection that belongs to no member")

// who returns the member at the other end of a connection.
func (identity) who(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*wire.Conn)
	if !ok || c.Peer == 0 {
		return nil, nil, errNoMember
	}
	return conn, known{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, c.Peer, c.Disk, conn.RemoteAddr().String(), c.Ensemble}, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (i identity) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return i.who(conn)
}

// ClientHandshake implements credentials.TransportCredentials. Answers are from the member that was
// dialed, and from no other.
func (i identity) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := i.who(conn)
	if err != nil {
		return nil, nil, err
	}
	if answers := info.(known).member; answers != i.dialed {
		return nil, nil, fmt.Errorf("member: member %d was dialed, and member %d has answered", i.dialed, answers)
	}
	return conn, info, nil
}

// Info implements credentials.TransportCredentials.
func (identity) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: known{}.AuthType()}
}

// Clone implements credentials.TransportCredentials.
func (i identity) Clone() credentials.TransportCredentials { return i }

// OverrideServerName implements credentials.TransportCredentials. Members have no names of servers.
func (identity) OverrideServerName(string) error { return nil }

// caller returns the member whose call ctx is of. It returns 0 if that is not known.
func caller(ctx context.Context) uint32 { return callerOf(ctx).member }

// callerOf returns the identity that the connection of a call has proved.
func callerOf(ctx context.Context) known {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return known{}
	}
	info, _ := p.AuthInfo.(known)
	return info
}

// senders has, for each method that members call, a function that returns the sender that a message names. nil:
// its messages name no sender, and every member may send them. A method that is not here is rejected.
var senders = map[string]func(message any) uint32{
	proto.Follower_Hello_FullMethodName:     func(m any) uint32 { return m.(*proto.HelloRequest).GetMember() },
	proto.Follower_Pings_FullMethodName:     func(m any) uint32 { return m.(*proto.Ping).GetLeader() },
	proto.Follower_View_FullMethodName:      nil,
	proto.Follower_Drain_FullMethodName:     nil,
	proto.Follower_Rebalance_FullMethodName: nil,
	proto.Leader_Forward_FullMethodName:     func(m any) uint32 { return m.(*proto.Forwarded).GetMember() }, // its transactions: leader.Forward
	proto.Leader_Sync_FullMethodName:        func(m any) uint32 { return m.(*proto.SyncRequest).GetMember() },
	proto.Leader_HandOver_FullMethodName:    nil,
}

// impostorInterval is the time between two log lines about messages in another member's name, for each member: it may send
// them for ever.
const impostorInterval = 10 * time.Second

// speakers rejects messages that a member sends in another's name, and most messages that a stranger to the server list or to the ensemble
// sends. It is safe for concurrent use. Ids are at most 255.
type speakers struct {
	log     *slog.Logger
	known   func(id uint32) bool  // which members the ensemble has
	outside func(from known) bool // who has not named this member's ensemble

	mu   sync.Mutex
	told map[uint32]time.Time // by member: when a message was last logged
}

func newSpeakers(log *slog.Logger, listed func(id uint32) bool, outside func(from known) bool) *speakers {
	return &speakers{log: log, known: listed, outside: outside, told: map[uint32]time.Time{}}
}

// check returns an error for a message of a method that its sender may not send.
func (s *speakers) check(ctx context.Context, method string, message any) error {
	from := caller(ctx)
	sender, ok := senders[method]
	switch {
	case !ok || from == 0:
		return s.refuse(ctx, from, fmt.Sprintf("%s is called by a member that is not known, or is no method of members", method))
	case method != proto.Follower_Hello_FullMethodName && !s.known(from):
		// Whoever is not in the server list may only ask whether there is an ensemble.
		return s.refuse(ctx, from, fmt.Sprintf("%s: it is not in the server list", method))
	case method != proto.Follower_Hello_FullMethodName && s.outside(callerOf(ctx)):
		return s.refuse(ctx, from, fmt.Sprintf("%s: its hello has not named the ensemble of this member, so it may only ask for that", method))
	case sender == nil || sender(message) == from:
		return nil
	}
	return s.refuse(ctx, from, fmt.Sprintf("%s: the message says that it is from member %d", method, sender(message)))
}

// refuse logs why a message is refused, and returns the error for its sender.
func (s *speakers) refuse(ctx context.Context, from uint32, why string) error {
	err := status.Errorf(codes.PermissionDenied, "a member may speak for itself only, and this connection is of member %d: %s", from, why)
	s.mu.Lock()
	last, now := s.told[from], time.Now()
	quiet := !last.IsZero() && now.Sub(last) < impostorInterval
	if !quiet {
		s.told[from] = now
	}
	s.mu.Unlock()
	if p, ok := peer.FromContext(ctx); ok && !quiet {
		s.log.Warn("refused a message of a member", "peer", from, "remote", p.Addr.String(), "reason", why)
	}
	return err
}

// unary implements grpc.UnaryServerInterceptor.
func (s *speakers) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.check(ctx, info.FullMethod, request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// stream implements grpc.StreamServerInterceptor.
func (s *speakers) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, &spoken{ServerStream: stream, speakers: s, method: info.FullMethod})
}

// spoken is a stream whose messages are checked. It ends at the first that is refused.
type spoken struct {
	grpc.ServerStream
	speakers *speakers
	method   string
}

// RecvMsg implements grpc.ServerStream.
func (s *spoken) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.speakers.check(s.Context(), s.method, m)
}
