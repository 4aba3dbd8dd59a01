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
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
)

// A member may send messages in its own name only. Every gRPC connection is a *wire.Conn whose Peer is the
// member at the other end; loopback sets it for the connection of a member to itself. peerCredentials passes
// the Peer on to gRPC, and senderGuard compares the messages on the connection with it.

// peerCredentials implements credentials.TransportCredentials. It encrypts nothing: the peer of a connection is proved
// before gRPC gets it.
type peerCredentials struct {
	dialedMember uint32 // for a client; 0: for a server
}

// peerInfo is the member at the other end of a connection. It implements credentials.AuthInfo.
type peerInfo struct {
	credentials.CommonAuthInfo
	member     uint32
	disk       disk.ID // 0: a command, which has none
	remoteAddr string
	ensemble   wire.EnsembleID // in its hello; zero: none
	proved     bool            // the other end has proved a secret, a certificate or a ticket
	certified  *trust.Conn     // the connection, if the other end has shown a certificate; nil: it has shown none
	isNewcomer bool            // the other end has proved neither its number nor its host, and may only say Hello
}

// AuthType implements credentials.AuthInfo.
func (peerInfo) AuthType() string { return "rollcall" }

var errNotMemberConn = errors.New("member: a connection that belongs to no member")

func (peerCredentials) identifyPeer(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*wire.Conn)
	if !ok || c.PeerID == 0 {
		return nil, nil, errNotMemberConn
	}
	return conn, peerInfo{
		credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity},
		c.PeerID, c.PeerDisk,
		conn.RemoteAddr().String(), c.DialerEnsemble, trust.IsPrivate(c.Conn), trust.AsCertified(c.Conn), trust.IsOfNewcomer(c.Conn),
	}, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (i peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return i.identifyPeer(conn)
}

// ClientHandshake implements credentials.TransportCredentials. It rejects connections to another member than the dialed
// one.
func (i peerCredentials) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo,
	error,
) {
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

// callerID returns the member that made the call of ctx, or 0 if it is unknown.
func callerID(ctx context.Context) uint32 { return callerInfo(ctx).member }

// callerInfo returns the peer of a call's connection.
func callerInfo(ctx context.Context) peerInfo {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return peerInfo{}
	}
	info, _ := p.AuthInfo.(peerInfo)
	return info
}

// messageSenders has, for each method that members call, a function that returns the sender in a message. nil: messages
// have no sender, and every member may send them. Other methods are rejected.
var messageSenders = map[string]func(message any) uint32{
	proto.Follower_Hello_FullMethodName:     func(m any) uint32 { return m.(*proto.HelloRequest).GetMember() },
	proto.Follower_Pings_FullMethodName:     func(m any) uint32 { return m.(*proto.Ping).GetLeader() },
	proto.Follower_View_FullMethodName:      nil,
	proto.Follower_Drain_FullMethodName:     nil,
	proto.Follower_Rebalance_FullMethodName: nil,
	// its transactions: leader.Forward
	proto.Leader_Forward_FullMethodName:  func(m any) uint32 { return m.(*proto.Forwarded).GetMember() },
	proto.Leader_Sync_FullMethodName:     func(m any) uint32 { return m.(*proto.SyncRequest).GetMember() },
	proto.Leader_HandOver_FullMethodName: nil,
}

// impostorLogInterval is the time between two log lines about a member's rejected messages, which may never stop.
const impostorLogInterval = 10 * time.Second

// unlisted is the key of the share that all callers without a number in the server list have of a limit together. They may claim any
// number, so a share for each number would be one for each claim.
const unlisted = 0

// senderGuard rejects messages in another member's name, and all messages except Hello of processes that are not in the
// server list or are of another ensemble. It is safe for concurrent use. Ids are at most 255.
type senderGuard struct {
	log       *slog.Logger
	isListed  func(id uint32) bool     // reports whether the ensemble has the member
	isOutside func(from peerInfo) bool // reports whether the peer has not named this member's ensemble

	mu         sync.Mutex
	lastLogged map[uint32]time.Time // by listed member, or unlisted: when a message was last logged
}

func newSenderGuard(log *slog.Logger, listed func(id uint32) bool, outside func(from peerInfo) bool) *senderGuard {
	return &senderGuard{log: log, isListed: listed, isOutside: outside, lastLogged: map[uint32]time.Time{}}
}

// checkMessage returns an error for a message that its sender may not send.
func (s *senderGuard) checkMessage(ctx context.Context, method string, message any) error {
	from := callerID(ctx)
	sender, ok := messageSenders[method]
	switch {
	case !ok || from == 0:
		return s.rejectMessage(ctx, from,
			fmt.Sprintf("%s is called by an unknown member, or is no method of members", method))
	case method != proto.Follower_Hello_FullMethodName && !s.isListed(from):
		return s.rejectMessage(ctx, from, fmt.Sprintf("%s: it is not in the server list", method))
	case method != proto.Follower_Hello_FullMethodName && callerInfo(ctx).isNewcomer:
		return s.rejectMessage(ctx, from,
			fmt.Sprintf("%s: it was not in the server list when it connected, so it may only send Hello", method))
	case method != proto.Follower_Hello_FullMethodName && s.isOutside(callerInfo(ctx)):
		return s.rejectMessage(ctx, from,
			fmt.Sprintf("%s: its hello has not named the ensemble of this member, so it may only send Hello", method))
	case sender == nil || sender(message) == from:
		return nil
	}
	return s.rejectMessage(ctx, from,
		fmt.Sprintf("%s: the message says that it is from member %d", method, sender(message)))
}

// rejectMessage logs the reason of a rejection, and returns the error for the sender.
func (s *senderGuard) rejectMessage(ctx context.Context, from uint32, why string) error {
	err := status.Errorf(codes.PermissionDenied,
		"a member may speak for itself only, and this connection is of member %d: %s", from, why)
	share := from
	if callerInfo(ctx).isNewcomer || !s.isListed(from) {
		share = unlisted
	}
	s.mu.Lock()
	last, now := s.lastLogged[share], time.Now()
	quiet := !last.IsZero() && now.Sub(last) < impostorLogInterval
	if !quiet {
		s.lastLogged[share] = now
	}
	s.mu.Unlock()
	if p, ok := peer.FromContext(ctx); ok && !quiet {
		s.log.Warn("rejected a message of a member", "peer", from, "remote", p.Addr.String(), "reason", why)
	}
	return err
}

// interceptUnary implements grpc.UnaryServerInterceptor.
func (s *senderGuard) interceptUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	if err := s.checkMessage(ctx, info.FullMethod, request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// interceptStream implements grpc.StreamServerInterceptor.
func (s *senderGuard) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler,
) error {
	return handle(srv, &checkedStream{ServerStream: stream, guard: s, method: info.FullMethod})
}

// checkedStream is a stream whose messages are checked. It ends at the first rejected message.
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
