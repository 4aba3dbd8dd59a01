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

	"rollcall/follower"
	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/trust"
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
	otherAddress   *otherAddress
	lastWords      *lastWords // of the others

	mu     sync.Mutex
	probes map[peerRoute]*probe // under way
}

// probe is a Hello under way over one route.
type probe struct {
	done chan struct{} // closed when err is final
	err  error
}

// spareLead divides a tick into the time by which the reply over the other route must be earlier for calls to change
// over to it.
const spareLead = 8

// probeMember implements follower.Config.ProbeMember.
func (c *helloClient) probeMember(ctx context.Context, id uint32) error {
	preferred := c.peers.preferredRoute(id)
	ours, spare := c.startProbe(preferred), c.startProbe(preferred.other())
	oursDone, spareDone, late := ours.done, spare.done, (<-chan time.Time)(nil)
	for oursDone != nil || spareDone != nil {
		select {
		case <-oursDone:
			if ours.err == nil {
				return nil
			}
			oursDone = nil
		case <-spareDone:
			if spareDone = nil; spare.err == nil {
				late = time.After(c.cfg.Tick / spareLead)
			}
		case <-late:
			return c.changeRoute(preferred.other())
		case <-ctx.Done():
			return fmt.Errorf("member: probe member %d: %w", id, ctx.Err())
		}
	}
	if spare.err == nil {
		return c.changeRoute(preferred.other())
	}
	return ours.err
}

func (c *helloClient) changeRoute(to peerRoute) error {
	c.peers.prefer(to)
	return follower.ErrStalled
}

// startProbe sends Hello over a route, unless one is under way. If no reply comes within a tick, the connection is
// replaced.
func (c *helloClient) startProbe(route peerRoute) *probe {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.probes[route]; p != nil {
		return p
	}
	p := &probe{done: make(chan struct{})}
	c.probes[route] = p
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Tick)
		defer cancel()
		_, err := c.sendHelloOver(ctx, route)
		if status.Code(err) == codes.Unavailable { // the connection may have ended just then. A second Hello opens another
			_, err = c.sendHelloOver(ctx, route)
		}
		if err != nil && ctx.Err() != nil {
			c.peers.replaceConn(route)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.probes, route)
		p.err = err
		close(p.done)
	}()
	return p
}

// sendHello implements quorum.Config.SendHello.
func (c *helloClient) sendHello(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error) {
	return c.sendHelloOver(ctx, c.peers.preferredRoute(peer.ID))
}

// sendHelloOver sends Hello to the member of a route.
func (c *helloClient) sendHelloOver(ctx context.Context, route peerRoute) (*proto.HelloReply, error) {
	to, err := c.peers.routeFollower(route)
	if err != nil {
		return nil, err
	}
	request := c.helloRequest()
	request.Rival = c.node.Reachability().DescribeRivals(route.member)
	reply, err := to.Hello(ctx, request)
	if err = c.peers.preferDialError(route.member, err); err == nil {
		c.digestWarnings.warnIfDifferent(route.member, reply.GetDigestAlg())
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
		Ensemble: ensemble[:], HasData: c.node.HasData(), Line: c.otherAddress.ownLine(),
	}
}

// sendJoin asks a member to let this one into the ensemble with a server line. Only a leader replies without an error.
func (c *helloClient) sendJoin(ctx context.Context, to uint32, line string) error {
	client, err := c.peers.followerClient(to)
	if err != nil {
		return err
	}
	request := c.helloRequest()
	request.Join, request.Line = true, line
	reply, err := client.Hello(ctx, request)
	if err = c.peers.preferDialError(to, err); err == nil {
		c.serverLists.learnFromHello(reply)
	}
	return err
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
	return c.sendRequestTo(ctx, s, c.helloRequest())
}

// sendRequestTo is sendHelloTo with another request.
func (c *helloClient) sendRequestTo(ctx context.Context, s serverlist.Server, request *proto.HelloRequest) (*proto.HelloReply, error) {
	there := newPeerConns(c.cfg.Tick, func(ctx context.Context, id uint32) (net.Conn, error) {
		return c.ports.hello.ForHost(s.Host).Dial(ctx, c.cfg.Network.Dial, s.QuorumAddr(), id)
	})
	defer there.closeAll()
	to, err := there.followerClient(s.ID)
	if err != nil {
		return nil, err
	}
	reply, err := to.Hello(ctx, request)
	return reply, there.preferDialError(s.ID, err)
}

// claimMember tells a member of another ensemble that this ensemble, which has its number and address in its list, serves
// clients: see health.claimReason. It waits for the reply for at most a tick. The next dial repeats what fails here.
func (c *helloClient) claimMember(ctx context.Context, s Server) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Tick)
	defer cancel()
	there := newPeerConns(c.cfg.Tick, func(ctx context.Context, id uint32) (net.Conn, error) {
		return c.ports.hello.OutsideEnsemble().Dial(ctx, c.cfg.Network.Dial, s.GrpcAddr, id)
	})
	defer there.closeAll()
	to, err := there.followerClient(s.ID)
	if err != nil {
		return
	}
	request := c.helloRequest()
	request.Serves = true
	_, _ = to.Hello(ctx, request)
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
			_ = c.ports.trustGuard.AwaitDial(ctx, trust.Dialed{Member: s.ID, Host: s.Host, NamedHost: s.Host}) // sendHelloTo has its error, too
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
	from := callerInfo(ctx)
	if !from.isNewcomer { // it has proved nothing yet, so it changes nothing here
		if err := s.recordHello(from, r); err != nil {
			return nil, err
		}
	}
	if r.GetJoin() {
		if err := s.m.terms.joinRequests.admit(ctx, r); err != nil {
			return nil, err
		}
	}
	return s.helloReply(from.member), nil
}

// recordHello records what the caller of a Hello says about itself and others. It returns an error if another process runs with the
// caller's disk.
func (s services) recordHello(from peerInfo, r *proto.HelloRequest) error {
	n := s.m.node
	peer := wire.Peer{ID: from.member, DiskID: from.disk, Addr: r.GetElection()}
	if from.member != s.m.cfg.ID && from.disk != 0 {
		if err := s.m.ports.hello.RecordClosingTwins(wire.Process{
			ID: from.member, DiskID: from.disk, RunID: r.GetStart(),
			Addr: from.remoteAddr,
		}); err != nil {
			return status.Error(codes.Aborted, err.Error())
		}
		if theirs := ensembleInHello(r); isOtherEnsemble(theirs, s.m.ports.addressBook.EnsembleID()) {
			s.m.health.recordClaim(peer, r.GetServes())
		} else {
			n.Reachability().RecordContact(quorum.PeerContact{Peer: peer, EnsembleID: theirs, HasData: r.GetHasData()})
			s.m.viewer.reportedAddresses.record(from.member, r.GetStart(), r.GetLine())
		}
	}
	if from.member != s.m.cfg.ID && from.disk != 0 {
		if text, isNew := s.m.helloClient.lastWords.record(from.member, r); isNew {
			s.m.log.Warn("a member has ended", "ended", from.member, "err", text)
		}
	}
	n.LogReportedRival(from.member, r.GetRival())
	return nil
}

// helloReply returns this member's reply to a Hello of another one.
func (s services) helloReply(to uint32) *proto.HelloReply {
	n := s.m.node
	hash, ensemble := s.m.ports.addressBook.ConfigHash(), s.m.ports.addressBook.EnsembleID()
	list, hearsay := s.m.serverLists.rosterMessage()
	return &proto.HelloReply{
		Member: s.m.cfg.ID, ConfigHash: hash[:], Incarnation: s.m.incarnation.number, Disk: uint64(n.DiskID()),
		Rival:    n.Reachability().DescribeRivals(to),
		Ensemble: ensemble[:], ServerList: list, Hearsay: hearsay, Removed: s.m.removalWatch.removedVersion() != 0,
		Configuration: configurationMessage(n.Status().Servers()),
		HasData:       n.HasData(), OnlyBeginning: n.IsOnlyBeginning(), Joining: n.IsJoining(), Format: znode.FormatLevel, Version: s.m.cfg.Version,
		LastIndex: n.Status().LastIndex(), LastTerm: n.Status().LastTerm(), DigestAlg: s.m.cfg.digestAlgorithm(),
	}
}

// isOtherEnsemble reports whether both ensembles are known, and differ.
func isOtherEnsemble(theirs, own wire.EnsembleID) bool {
	unknown := wire.EnsembleID{}
	return theirs != unknown && own != unknown && theirs != own
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
