package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// helloClient sends Hello to other members, and learns from their replies. It is safe for concurrent use.
type helloClient struct {
	cfg            *Config
	ports          *ports
	peers          *peerConns
	serverLists    *serverLists
	node           *quorum.Node
	digestWarnings *digestWarnings
}

// probeMember implements follower.Config.ProbeMember.
func (c *helloClient) probeMember(ctx context.Context, id uint32) error {
	conn := c.peers.newestConn(id)
	_, err := c.sendHello(ctx, wire.Peer{ID: id})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.peers.closeIfNewest(id, conn)
	}
	return err
}

// sendHello implements quorum.Config.SendHello.
func (c *helloClient) sendHello(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error) {
	to, err := c.peers.followerClient(peer.ID)
	if err != nil {
		return nil, err
	}
	request := c.helloRequest()
	request.Rival = c.node.Reachability().DescribeRivals(peer.ID)
	reply, err := to.Hello(ctx, request)
	if err = c.peers.preferDialError(peer.ID, err); err == nil {
		c.digestWarnings.warnIfDifferent(peer.ID, reply.GetDigestAlg())
		c.serverLists.learnFromHello(reply)
	}
	return reply, err
}

// helloRequest returns this member's description of itself.
func (c *helloClient) helloRequest() *proto.HelloRequest {
	hash, ensemble := c.ports.addressBook.ConfigHash(), c.ports.addressBook.EnsembleID()
	return &proto.HelloRequest{
		Member: c.cfg.ID, ConfigHash: hash[:], Election: c.cfg.ownServer().RaftAddr, Disk: uint64(c.node.DiskID()),
		Start:    c.ports.addressBook.RunID(),
		Ensemble: ensemble[:], HasData: c.node.HasData(),
	}
}

// sendHelloToAbsent sends Hello to the servers of a list that are not present, at the addresses in the list.
// They may be unknown: with certificates, such a server cannot connect to this member before the state's list
// has its host. The administrator's change names the host, so its certificate is accepted.
func (c *helloClient) sendHelloToAbsent(ctx context.Context, list serverlist.List) {
	c.node.Reachability().ProbeUntilMajority(ctx, raftPeers(serversFromList(list)),
		func(ctx context.Context, id uint32) (*proto.HelloReply, error) {
			s, _ := list.Find(id)
			return c.sendHelloTo(ctx, s)
		})
}

// sendHelloTo sends a Hello to a server at the addresses of its line, on a connection of its own.
func (c *helloClient) sendHelloTo(ctx context.Context, s serverlist.Server) (*proto.HelloReply, error) {
	there := newPeerConns(c.cfg.Tick, func(ctx context.Context, id uint32) (net.Conn, error) {
		return c.ports.hello.ForHost(s.Host).Dial(ctx, c.cfg.Network.Dial, s.QuorumAddr(), id)
	})
	defer there.closeAll()
	to, err := there.followerClient(s.ID)
	if err != nil {
		return nil, err
	}
	reply, err := to.Hello(ctx, c.helloRequest())
	return reply, there.preferDialError(s.ID, err)
}

// newcomerReplyTimeout limits the wait of an operator's change for replies of added servers, which take a few
// round trips.
const newcomerReplyTimeout = 2 * time.Second

// checkNewcomerEnsembles returns an error if a server that is added to or moved in next has data of another ensemble.
// Such a server would reject the members of this one forever, and only its own log would show it. An
// unreachable server may be started later.
func (c *helloClient) checkNewcomerEnsembles(ctx context.Context, list, next serverlist.List) error {
	ctx, cancel := context.WithTimeout(ctx, newcomerReplyTimeout)
	defer cancel()
	outcomes := make([]error, len(next))
	var all sync.WaitGroup
	for i, s := range next {
		known, listed := list.Find(s.ID)
		if s.ID == c.cfg.ID || listed && known.QuorumAddr() == s.QuorumAddr() {
			continue
		}
		all.Go(func() {
			if _, err := c.sendHelloTo(ctx, s); errors.Is(err, wire.ErrOtherEnsemble) {
				outcomes[i] = fmt.Errorf("member %d at %s has data of another ensemble (%w); if it must come into this one, "+
					"stop it, empty its data directory but for its number, and start it again", s.ID, s.QuorumAddr(), err)
			}
		})
	}
	all.Wait()
	return errors.Join(outcomes...)
}

// Hello implements proto.FollowerServer.
func (s services) Hello(ctx context.Context, r *proto.HelloRequest) (*proto.HelloReply, error) {
	n := s.m.node
	from := callerInfo(ctx)
	peer := wire.Peer{ID: from.member, DiskID: from.disk, Addr: r.GetElection()}
	if from.member != s.m.cfg.ID && from.disk != 0 {
		if err := s.m.ports.hello.RecordClosingTwins(wire.Process{
			ID: from.member, DiskID: from.disk, RunID: r.GetStart(),
			Addr: from.remoteAddr,
		}); err != nil {
			return nil, status.Error(codes.Aborted, err.Error())
		}
		n.Reachability().RecordContact(quorum.PeerContact{
			Peer: peer, EnsembleID: ensembleInHello(r),
			HasData: r.GetHasData(),
		})
	}
	n.LogReportedRival(from.member, r.GetRival())
	hash, ensemble := s.m.ports.addressBook.ConfigHash(), s.m.ports.addressBook.EnsembleID()
	list, hearsay := s.m.serverLists.rosterMessage()
	return &proto.HelloReply{
		Member: s.m.cfg.ID, ConfigHash: hash[:], Boot: s.m.incarnation.number, Disk: uint64(n.DiskID()),
		Rival:    n.Reachability().DescribeRivals(from.member),
		Ensemble: ensemble[:], Roster: list, Hearsay: hearsay, Removed: s.m.removalWatch.removedVersion() != 0,
		Configuration: configurationMessage(n.Status().Servers()),
		HasData:       n.HasData(), Joining: n.IsJoining(), Format: znode.FormatLevel, Version: s.m.cfg.Version,
		LastIndex: n.Status().LastIndex(), LastTerm: n.Status().LastTerm(), DigestAlg: s.m.cfg.digestAlgorithm(),
	}, nil
}

// ensembleInHello returns the ensemble in a Hello, or zero if there is none.
func ensembleInHello(r *proto.HelloRequest) (id wire.EnsembleID) {
	if len(r.GetEnsemble()) == len(id) {
		return wire.EnsembleID(r.GetEnsemble())
	}
	return id
}

func configurationMessage(servers []wire.Peer) *proto.Configuration {
	if len(servers) == 0 {
		return nil
	}
	message := &proto.Configuration{}
	for _, s := range servers {
		message.Servers = append(message.Servers,
			&proto.ConfiguredServer{Member: s.ID, Disk: uint64(s.DiskID), Address: s.Addr, Voter: !s.Observer})
	}
	return message
}
