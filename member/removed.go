package member

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/quorum/wire"
	"rollcall/server"
)

// RemovedGracePeriod is the time for which a removed member continues to serve. The client that requested the
// removal may be connected to it, and its reply takes at most a second (maxReconfigWait in package server).
const RemovedGracePeriod = 1500 * time.Millisecond

// removalCheckInterval is the time between two polls of the others by a member without a leader, which may have been
// removed: members send nothing to one that is not in the list.
const removalCheckInterval = 5 * time.Second

// removalWatch detects that this member was removed from the ensemble, and then closes its clients'
// connections. It is safe for concurrent use.
type removalWatch struct {
	self        uint32
	tick        time.Duration
	serverLists *serverLists
	helloClient *helloClient
	node        *quorum.Node
	server      *server.Server
	log         *slog.Logger

	// reportedVersion is the version of the list with which another member has reported the removal, or 0.
	reportedVersion atomic.Int64
}

// pollForRemoval sends Hello to all other members and records their replies. It takes at most a tick.
func (w *removalWatch) pollForRemoval(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.tick)
	defer cancel()
	var asking sync.WaitGroup
	for _, p := range w.serverLists.addressBook.OnePerMember() {
		if p.ID != w.self {
			asking.Go(func() {
				if reply, err := w.helloClient.sendHello(ctx, p); err == nil {
					w.recordIfRemoved(reply)
				}
			})
		}
	}
	asking.Wait()
}

// recordIfRemoved records the removal of this member if it is missing from the newest list and, in another member's
// reply, from raft's configuration. (A member that has left the list may still be a voter until another one
// replaces it.) It ignores a reply if raft does not run there yet, if the state there does not have the list,
// or if that member was removed itself.
func (w *removalWatch) recordIfRemoved(reply *proto.HelloReply) {
	version, servers := w.serverLists.newestServers()
	if version == 0 || reply.GetServerList().GetVersion() != version || reply.GetHearsay() || reply.GetRemoved() || slices.ContainsFunc(servers, w.isSelf) {
		return
	}
	configured := reply.GetConfiguration().GetServers()
	if len(configured) > 0 && !slices.ContainsFunc(configured,
		func(s *proto.ConfiguredServer) bool { return s.GetMember() == w.self }) {
		w.reportedVersion.Store(version)
	}
}

func (w *removalWatch) isSelf(s Server) bool { return s.ID == w.self }

// unlistedVersion returns the version of the newest list if this member is not in it, or else 0. It returns 0
// for a member without data, which waits to be added.
func (w *removalWatch) unlistedVersion() int64 {
	newest := w.serverLists.newestList()
	if newest == nil || slices.ContainsFunc(newest.Servers, func(s serverlist.Server) bool { return s.ID == w.self }) || !w.node.HasData() {
		return 0
	}
	return newest.Version
}

// removedVersion returns the version of the newest list if this member is neither in it nor in raft's
// configuration, or else 0. While this member knows no leader, the configuration in another member's reply counts, too.
func (w *removalWatch) removedVersion() int64 {
	version := w.unlistedVersion()
	if version == 0 {
		return 0
	}
	if (w.reportedVersion.Load() != version || w.node.Status().LeaderID() != 0) &&
		slices.ContainsFunc(w.node.Status().ConfiguredMembers(), func(p wire.Peer) bool { return p.ID == w.self }) {
		return 0
	}
	return version
}

// pollWithoutLeader polls the others while this member knows no leader.
func (w *removalWatch) pollWithoutLeader(ctx context.Context) error {
	return repeat(ctx, removalCheckInterval, func() error {
		if w.node.Status().LeaderID() == 0 {
			w.pollForRemoval(ctx)
		}
		return nil
	})
}

// suspendUnlistedLoop closes the clients' connections of a member that has left the list, so the clients move to other
// members while most of their sessions' timeouts is left. Otherwise the connections would end with their
// leases, much later, and until then writes would get no reply: the state accepts no writes from a member that
// is not in the list, even if that member still votes.
func (w *removalWatch) suspendUnlistedLoop(ctx context.Context) error {
	ticker := time.NewTicker(w.tick / 4)
	defer ticker.Stop()
	removed := false
	for since := (time.Time{}); ; {
		version := w.unlistedVersion()
		if version != 0 && !removed && w.removedVersion() != 0 {
			removed = true
			w.log.Warn("this member was removed from the ensemble and serves no clients; stop it, or add it again", "version",
				fmt.Sprintf("0x%x", uint64(version)))
		}
		switch {
		case version != 0 && since.IsZero():
			since = time.Now()
			w.log.Info("this member is no longer in the list of servers, and closes its clients' connections", "version",
				fmt.Sprintf("0x%x", uint64(version)))
		case version != 0 && time.Since(since) >= RemovedGracePeriod:
			w.server.Suspend(server.Unlisted)
		case version == 0 && !since.IsZero():
			since, removed = time.Time{}, false
			w.log.Info("this member was added to the ensemble again")
			w.server.Resume(server.Unlisted)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.serverLists.addressesUpdated:
		case <-ticker.C:
		}
	}
}
