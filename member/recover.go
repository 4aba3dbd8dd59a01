package member

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// examineTimeout limits the time for the other members' replies.
const examineTimeout = 3 * time.Second

// RecoverConfig holds the parameters of Recover and CollectDataExtents.
type RecoverConfig struct {
	ID          uint32         // this member
	Servers     []Server       // the server list from now on, this member included
	Stores      *disk.Stores   // as in Config
	Dir, LogDir string         // as in Config
	Trust       trust.Settings // as in Config, for CollectDataExtents
	Logger      *slog.Logger
	// Dial opens a connection to another member, for CollectDataExtents; default: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Recover rewrites the data directory of a stopped member so that it can start without the other members. It is for the
// case that a majority has permanently lost its data. Data that only the lost members had are lost, even if they were
// acknowledged. The directory must not be in use.
func Recover(r RecoverConfig) error {
	return quorum.Recover(quorum.RecoverConfig{
		DataDir: r.Dir, LogDir: r.LogDir, Stores: storesOf(r.Stores), MemberID: r.ID, Peers: raftPeers(r.Servers),
		StateMachine: offlineMachine(znode.New(znode.Config{})), Logger: r.Logger,
	})
}

// DataServers returns the list of servers that this stopped member's data have for its ensemble, or nil if they have none:
// no client was served yet, or the data were recovered. It changes nothing.
func DataServers(r RecoverConfig) (serverlist.List, error) {
	stored, ensemble, err := quorum.ReadServerList(r.Dir, r.LogDir)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	var message proto.ServerList
	if err := protobuf.Unmarshal(stored, &message); err != nil {
		return nil, fmt.Errorf("member: the stored server list is %w: %w", disk.ErrDamaged, err)
	}
	list, err := znode.ServerListFromProto(&message)
	if err != nil {
		return nil, fmt.Errorf("member: the stored server list is %w: %w", disk.ErrDamaged, err)
	}
	if list.EnsembleID != ensemble {
		return nil, nil
	}
	return list.Servers, nil
}

// Finding is the result of CollectDataExtents for a member.
type Finding struct {
	Server
	disk.DataEnd       // zero: it has no data
	Err          error // the member did not reply
}

// CollectDataExtents returns the extent of the data of this stopped member, and of the other members that reply
// within a few seconds. Stopped members do not reply. CollectDataExtents changes nothing. The first finding is
// about this member.
func CollectDataExtents(ctx context.Context, r RecoverConfig) ([]Finding, error) {
	own, err := disk.ReadDataEnd(r.Dir, r.LogDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	if r.Dial == nil {
		r.Dial = wire.DialTCP
	}
	guard, err := trust.New(trust.Config{
		Settings: r.Trust, MemberID: r.ID, ConfiguredHosts: hostsByMember(r.Servers),
		Logger: r.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := guard.PrepareDials(ctx); err != nil {
		r.Logger.Warn("members that need a Kerberos ticket do not reply", "err", err)
	}
	hello := wire.NewHello(wire.NewAddressBook(r.ID, raftPeers(r.Servers))).WithGuard(guard)
	p := newPeerConns(examineTimeout, func(ctx context.Context, id uint32) (net.Conn, error) {
		for _, s := range r.Servers {
			if s.ID == id {
				return hello.Dial(ctx, r.Dial, s.GrpcAddr, id)
			}
		}
		return nil, fmt.Errorf("member: no member %d", id)
	})
	defer p.closeAll()
	findings := make([]Finding, 1, len(r.Servers))
	for _, s := range r.Servers {
		if s.ID == r.ID {
			findings[0] = Finding{Server: s, DataEnd: own}
		} else {
			findings = append(findings, Finding{Server: s})
		}
	}
	var wg sync.WaitGroup
	for i := range findings[1:] {
		f := &findings[i+1]
		wg.Go(func() { f.DataEnd, f.Err = r.requestExtent(ctx, p, f.ID) })
	}
	wg.Wait()
	return findings, nil
}

func (r RecoverConfig) requestExtent(ctx context.Context, p *peerConns, id uint32) (disk.DataEnd, error) {
	c, err := p.followerClient(id)
	if err != nil {
		return disk.DataEnd{}, err
	}
	reply, err := c.Hello(ctx, &proto.HelloRequest{Member: r.ID}) // without a disk
	switch {
	case err != nil:
		return disk.DataEnd{}, err
	case !reply.GetHasData():
		return disk.DataEnd{}, nil
	case reply.GetLastIndex() == 0:
		return disk.DataEnd{}, fmt.Errorf("member %d does not report the extent of its data: it is starting", id)
	}
	return disk.DataEnd{Index: reply.GetLastIndex(), Term: reply.GetLastTerm()}, nil
}
