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

// peerCredentials implements credentials.TransportCredentials. It encrypts nothing: what a connection proves
// has been proved before gRPC gets it.
type peerCredentials struct {
	dialedMember uint32 // of a client: the member that was dialed; 0: a server, which any member may reach
}

// peerInfo is the member at the other end of a connection. It implements credentials.AuthInfo.
type peerInfo struct {
	credentials.CommonAuthInfo
	member     uint32
	disk       disk.ID // 0: a command, which has none
	remoteAddr string
	ensemble   wire.EnsembleID // that it has named when it connected; zero: none
}

// AuthType implements credentials.AuthInfo.
func (peerInfo) AuthType() string { return "rollcall" }

var errNotMemberConn = errors.New("member: a connection that belongs to no member")

// identifyPeer returns the member at the other end of a connection.
func (peerCredentials) identifyPeer(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*wire.Conn)
	if !ok || c.PeerID == 0 {
		return nil, nil, errNotMemberConn
	}
	return conn, peerInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, c.PeerID, c.PeerDisk, conn.RemoteAddr().String(), c.DialerEnsemble}, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (i peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return i.identifyPeer(conn)
}

// ClientHandshake implements credentials.TransportCredentials. Answers are from the member that was
// dialed, and from no other.
func (i peerCredentials) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := i.identifyPeer(conn)
	if err != nil {
		return nil, nil, err
	}
	if answers := info.(peerInfo).member; answers != i.dialedMember {
		return nil, nil, fmt.Errorf("member: member %d was dialed, and member %d has answered", i.dialedMember, answers)
	}
	return conn, info, nil
}

// Info implements credentials.TransportCredentials.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: peerInfo{}.AuthType()}
}

// Clone implements credentials.TransportCredentials.
func (i peerCredentials) Clone() credentials.TransportCredentials { return i }

// OverrideServerName implements credentials.TransportCredentials. Members have no names of servers.
func (peerCredentials) OverrideServerName(string) error { return nil }

// callerID returns the member whose call ctx is of. It returns 0 if that is not known.
func callerID(ctx context.Context) uint32 { return callerInfo(ctx).member }

// callerInfo returns the identity that the connection of a call has proved.
func callerInfo(ctx context.Context) peerInfo {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return peerInfo{}
	}
	info, _ := p.AuthInfo.(peerInfo)
	return info
}

// messageSenders has, for each method that members call, a function that returns the sender that a message names. nil:
// its messages name no sender, and every member may send them. A method that is not here is rejected.
var messageSenders = map[string]func(message any) uint32{
	proto.Follower_Hello_FullMethodName:     func(m any) uint32 { return m.(*proto.HelloRequest).GetMember() },
	proto.Follower_Pings_FullMethodName:     func(m any) uint32 { return m.(*proto.Ping).GetLeader() },
	proto.Follower_View_FullMethodName:      nil,
	proto.Follower_Drain_FullMethodName:     nil,
	proto.Follower_Rebalance_FullMethodName: nil,
	proto.Leader_Forward_FullMethodName:     func(m any) uint32 { return m.(*proto.Forwarded).GetMember() }, // its transactions: leader.Forward
	proto.Leader_Sync_FullMethodName:        func(m any) uint32 { return m.(*proto.SyncRequest).GetMember() },
	proto.Leader_HandOver_FullMethodName:    nil,
}

// impostorLogInterval is the time between two log lines about messages in another member's name, for each member: it may send
// them for ever.
const impostorLogInterval = 10 * time.Second

// senderGuard rejects messages that a member sends in another's name, and most messages that a stranger to the server list or to the ensemble
// sends. It is safe for concurrent use. Ids are at most 255.
type senderGuard struct {
	log       *slog.Logger
	isListed  func(id uint32) bool     // which members the ensemble has
	isOutside func(from peerInfo) bool // who has not named this member's ensemble

	mu         sync.Mutex
	lastLogged map[uint32]time.Time // by member: when a message was last logged
}

func newSenderGuard(log *slog.Logger, listed func(id uint32) bool, outside func(from peerInfo) bool) *senderGuard {
	return &senderGuard{log: log, isListed: listed, isOutside: outside, lastLogged: map[uint32]time.Time{}}
}

// checkMessage returns an error for a message of a method that its sender may not send.
func (s *senderGuard) checkMessage(ctx context.Context, method string, message any) error {
	from := callerID(ctx)
	sender, ok := messageSenders[method]
	switch {
	case !ok || from == 0:
		return s.rejectMessage(ctx, from, fmt.Sprintf("%s is called by a member that is not known, or is no method of members", method))
	case method != proto.Follower_Hello_FullMethodName && !s.isListed(from):
		// Whoever is not in the server list may only ask whether there is an ensemble.
		return s.rejectMessage(ctx, from, fmt.Sprintf("%s: it is not in the server list", method))
	case method != proto.Follower_Hello_FullMethodName && s.isOutside(callerInfo(ctx)):
		return s.rejectMessage(ctx, from, fmt.Sprintf("%s: its hello has not named the ensemble of this member, so it may only ask for that", method))
	case sender == nil || sender(message) == from:
		return nil
	}
	return s.rejectMessage(ctx, from, fmt.Sprintf("%s: the message says that it is from member %d", method, sender(message)))
}

// rejectMessage logs why a message is refused, and returns the error for its sender.
func (s *senderGuard) rejectMessage(ctx context.Context, from uint32, why string) error {
	err := status.Errorf(codes.PermissionDenied, "a member may speak for itself only, and this connection is of member %d: %s", from, why)
	s.mu.Lock()
	last, now := s.lastLogged[from], time.Now()
	quiet := !last.IsZero() && now.Sub(last) < impostorLogInterval
	if !quiet {
		s.lastLogged[from] = now
	}
	s.mu.Unlock()
	if p, ok := peer.FromContext(ctx); ok && !quiet {
		s.log.Warn("refused a message of a member", "peer", from, "remote", p.Addr.String(), "reason", why)
	}
	return err
}

// interceptUnary implements grpc.UnaryServerInterceptor.
func (s *senderGuard) interceptUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.checkMessage(ctx, info.FullMethod, request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// interceptStream implements grpc.StreamServerInterceptor.
func (s *senderGuard) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, &checkedStream{ServerStream: stream, guard: s, method: info.FullMethod})
}

// checkedStream is a stream whose messages are checked. It ends at the first that is refused.
type checkedStream struct {
	grpc.ServerStream
	guard  *senderGuard
	method string
}

// RecvMsg implements grpc.ServerStream.
func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.guard.checkMessage(s.Context(), s.method, m)
}
